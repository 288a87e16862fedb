# SPDX-License-Identifier: Apache-2.0
set(libraries gpt2_parts)
set(sanitized OFF) # OpenBLAS is not instrumented
