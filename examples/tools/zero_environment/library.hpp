// SPDX-License-Identifier: Apache-2.0
#pragma once
// A shared library that may be there or not: looked for when the program runs, so that it also
// starts, and says so, where one is missing.

#include <dlfcn.h>

#include <string>
#include <utility>

namespace zero_environment {

/// Owner of a library that was found as programs find theirs.
class Library {
 public:
  /// @param name such as "libcuda.so.1"
  explicit Library(std::string const& name) : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    char const* const reason = dlerror();
    missing_ = reason == nullptr ? name : reason;
  }
  Library(Library&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), missing_(std::move(other.missing_)) {}
  Library& operator=(Library&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(missing_, other.missing_);
    return *this;
  }
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }

  /// It was found.
  bool found() const { return handle_ != nullptr; }
  /// Why it was not, in the loader's words.
  std::string const& missing() const { return missing_; }
  /// The function of this name, or null.
  /// @tparam F its type, as int(int*)
  template <class F>
  F* function(char const* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(handle_, name));
  }

 private:
  void* handle_;
  std::string missing_;
};

}  // namespace zero_environment
