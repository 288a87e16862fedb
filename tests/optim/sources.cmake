# SPDX-License-Identifier: Apache-2.0
set(options ${zero_computes}) # kernels and their references in double precision, element by element
