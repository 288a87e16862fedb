# SPDX-License-Identifier: Apache-2.0
set(includes ../..) # bench/harness.hpp
set(sanitized OFF) # it is no part of the library
