# SPDX-License-Identifier: Apache-2.0
set(options ${zero_computes}) # kernels over many elements
