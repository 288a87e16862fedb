// SPDX-License-Identifier: Apache-2.0
#pragma once
// The text to train on, as bytes: a file of the user's, or what the package `fortunes` installs. A
// tenth is held back for validation.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gpt2 {

using zero::at;
using zero::Index;

/// Where Debian and Ubuntu install the package `fortunes`.
inline constexpr char const* fortunes_folder = "/usr/share/games/fortunes";

/// Two parts of one text that share no byte.
struct Text {
  std::string training;
  std::string validation;
};

namespace detail {

inline std::string read_file(std::filesystem::path const& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw zero::InvalidArgument("gpt2: there is no file '" + path.string() + "'");
  }
  if (std::filesystem::is_directory(path, error)) {
    throw zero::InvalidArgument("gpt2: '" + path.string() + "' is a folder, not a text file");
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    throw zero::InvalidArgument("gpt2: the file '" + path.string() + "' cannot be read");
  }
  return bytes;
}

/// Sayings stand between lines of a single '%'; a blank line parts them here.
inline std::string without_percent_lines(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    std::size_t const end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view const line = text.substr(0, end);
    if (line == "%\n" || line == "%") {
      result += '\n';
    } else {
      result += line;
    }
    text.remove_prefix(end);
  }
  return result;
}

}  // namespace detail

/// The sayings of a folder of fortune files, in the order of the files' names. Indexes (.dat),
/// links to the same text (.u8) and files with zero bytes are passed over.
/// @throws zero::InvalidArgument when there are none
inline std::string read_fortunes(std::filesystem::path const& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(folder, error)) {
    bool const plain = entry.is_regular_file(error) && !entry.is_symlink(error);
    if (plain && !entry.path().has_extension()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::string text;
  for (auto const& file : files) {
    std::string const bytes = detail::read_file(file);
    if (bytes.find('\0') != std::string::npos) continue;
    text += detail::without_percent_lines(bytes);
    if (!text.ends_with('\n')) text += '\n';
    text += '\n';
  }
  if (text.empty()) {
    throw zero::InvalidArgument("gpt2: there is no text in " + folder.string() +
                                ": install the package 'fortunes', or name a file with --text");
  }
  return text;
}

/// Cuts a text into ten stretches and holds back the last tenth of each, so that both parts hold of
/// everything that the text consists of.
inline Text split(std::string_view text) {
  Text parts;
  auto const place = [&](std::size_t hundredth) {
    return text.size() / 100 * hundredth + text.size() % 100 * hundredth / 100;
  };
  for (std::size_t stretch = 0; stretch < 100; stretch += 10) {
    std::size_t const cut = place(stretch + 9);
    parts.training += text.substr(place(stretch), cut - place(stretch));
    parts.validation += text.substr(cut, place(stretch + 10) - cut);
  }
  return parts;
}

/// The text of `file`, or of the fortunes when it is empty.
/// @throws zero::InvalidArgument in one sentence when it cannot be read or is empty
inline Text load_text(std::string const& file,
                      std::filesystem::path const& fortunes = fortunes_folder) {
  if (file.empty()) return split(read_fortunes(fortunes));
  std::string const bytes = detail::read_file(file);
  if (bytes.empty()) throw zero::InvalidArgument("gpt2: the file '" + file + "' is empty");
  return split(bytes);
}

}  // namespace gpt2
