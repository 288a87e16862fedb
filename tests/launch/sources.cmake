# SPDX-License-Identifier: Apache-2.0
set(options -O0) # it waits more than it computes
