# SPDX-License-Identifier: Apache-2.0
set(threads OFF)
