# SPDX-License-Identifier: Apache-2.0
set(options -O0) # many trainers, which run for moments
