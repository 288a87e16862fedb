// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens from a file, in the format of llm.c: 256 numbers of 32 bits, of which the first three are
// 20240520, 1 and the count, then the tokens, 16 bits each; all little-endian.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace gpt2 {

using zero::at;
using zero::Index;

/// All tokens of a file.
/// @throws zero::InvalidArgument in one sentence: no such file, another format, a count that the
///   file does not hold, a token beyond the vocabulary
inline std::vector<std::uint16_t> load_tokens(std::string const& path, Index vocabulary) {
  auto const refuse = [&](std::string const& what) {
    throw zero::InvalidArgument("gpt2: the file '" + path + "' " + what);
  };
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) refuse("cannot be read");
  std::array<std::uint32_t, 256> header{};
  file.read(reinterpret_cast<char*>(header.data()), sizeof header);
  if (file.gcount() != sizeof header) refuse("is shorter than the header of a token file");
  if (header[0] != 20240520) {
    refuse("is no token file of llm.c: it starts with " + std::to_string(header[0]) +
           ", not 20240520");
  }
  if (header[1] != 1)
    refuse("is a token file of version " + std::to_string(header[1]) + "; expected 1");
  std::vector<std::uint16_t> tokens(header[2]);
  file.read(reinterpret_cast<char*>(tokens.data()),
            static_cast<std::streamsize>(tokens.size() * sizeof(std::uint16_t)));
  auto const found = static_cast<std::size_t>(file.gcount()) / sizeof(std::uint16_t);
  if (found != tokens.size()) {
    refuse("holds " + std::to_string(found) + " tokens, and its header says " +
           std::to_string(tokens.size()));
  }
  for (std::uint16_t token : tokens) {
    if (token < vocabulary) continue;
    refuse("holds token " + std::to_string(token) + ", and the vocabulary has " +
           std::to_string(vocabulary) + " (see --size)");
  }
  return tokens;
}

}  // namespace gpt2
