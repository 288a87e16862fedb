// SPDX-License-Identifier: Apache-2.0
// The main function of every test program.
#if ZERO_TESTS_SANITIZED
// A sanitizer's report of a crash says more than doctest's.
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#endif
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
