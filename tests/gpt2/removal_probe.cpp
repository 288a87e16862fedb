// SPDX-License-Identifier: Apache-2.0
// Stands before the C library in a process (LD_PRELOAD), where nothing can then be removed.

#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace {

int refused() {
  errno = EPERM;
  return -1;
}

}  // namespace

extern "C" int remove(char const*) noexcept { return refused(); }
extern "C" int rmdir(char const*) noexcept { return refused(); }
extern "C" int unlink(char const*) noexcept { return refused(); }
extern "C" int unlinkat(int, char const*, int) noexcept { return refused(); }
