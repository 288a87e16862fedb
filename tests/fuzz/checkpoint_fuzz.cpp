// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file, as a manifest and as a model's index. What must hold: an error
// in words, or a header whose tensors lie within the file, one after the other, and a manifest that
// reads back as it is written.
#include <zero/checkpoint.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_file(std::string const& bytes) {
  try {
    zero::SafetensorsHeader const header = zero::read_safetensors_header(
        [&](zero::Index offset, std::span<std::byte> to) {
          require(offset >= 0 && offset + std::ssize(to) <= std::ssize(bytes));
          if (!to.empty()) std::memcpy(to.data(), bytes.data() + offset, to.size());
        },
        std::ssize(bytes), "fuzzed");
    zero::Index end = header.data_begin;
    for (zero::SafetensorsEntry const& e : header.entries) {
      require(e.begin == end && e.bytes >= 0);
      end += e.bytes;
    }
    require(end == std::ssize(bytes));
  } catch (zero::CheckpointError const& e) {
    require(std::string(e.what()).find("fuzzed") != std::string::npos);
  }
}

/// A manifest's text with the checksum that it needs, so that what stands before it is looked at.
std::string with_checksum(std::string text) {
  std::string const example = zero::manifest_text({});
  std::size_t const end = example.rfind("\"checksum\"");
  std::uint64_t const sum = XXH3_64bits(text.data(), text.size());
  std::string digits(16, '0');
  for (int i = 0; i < 16; ++i)
    digits[static_cast<std::size_t>(i)] = "0123456789abcdef"[sum >> (60 - 4 * i) & 15];
  return text + example.substr(end, 12) + digits + "\"}\n";
}

void read_manifest(std::string const& text) {
  try {
    zero::Manifest const m = zero::read_manifest(text, "fuzzed");
    std::string const written = zero::manifest_text(m);
    require(zero::manifest_text(zero::read_manifest(written, "again")) == written);
    for (zero::CheckpointFile const& file : m.files)
      require(file.name.find('/') == std::string::npos && file.name != "..");
  } catch (zero::CheckpointError const& e) {
    require(std::string(e.what()).find("fuzzed") != std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const bytes(reinterpret_cast<char const*>(data), size);
  read_file(bytes);
  // The same as the text of a header, whose length is right.
  std::string header(8, '\0');
  std::size_t const cut = bytes.find('\n');
  std::size_t const length = std::min(cut, bytes.size());
  for (std::size_t i = 0; i < 8; ++i) header[i] = static_cast<char>(length >> (8 * i) & 0xff);
  read_file(header + bytes.substr(0, length) +
            (length < bytes.size() ? bytes.substr(length + 1) : ""));
  read_manifest(bytes);
  read_manifest(with_checksum(bytes));
  return 0;
}
