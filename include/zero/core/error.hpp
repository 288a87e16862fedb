// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the library throws. A message names what was asked, where, what was found and what was
// expected.

#include <stdexcept>
#include <string>
#include <system_error>

namespace zero {

/// Base of everything the library throws.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A setting, a model or a call that cannot be met; thrown before anything has changed.
struct InvalidArgument : Error {
  using Error::Error;
};

/// Memory that is not there: the device has none left, or a limit forbids it.
struct OutOfMemory : Error {
  using Error::Error;
};

/// A file that could not be made, read or written: names the file, the place and the system's
/// reason.
struct StorageError : Error {
  using Error::Error;
};

/// Numbers that are not finite, and that no loss scale will make so. Every rank throws the same
/// text.
struct NotFinite : Error {
  using Error::Error;
};

/// A rank that is missing, has failed, or issued another collective. Every other rank throws one as
/// well: the same text among threads; among processes, two that time out together keep their own.
struct CommunicationError : Error {
  using Error::Error;
};

namespace detail {

/// The system's words for an errno.
inline std::string system_text(int code) { return std::generic_category().message(code); }

}  // namespace detail

}  // namespace zero
