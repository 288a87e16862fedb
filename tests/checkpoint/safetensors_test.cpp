// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files: what is written is read, and what lies is refused with the file's
// and the tensor's name. Case T05 and T08 of docs/cases.md.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <support/heap.hpp>

#include <cstring>

namespace {

using namespace checkpoints;

/// A file of this header and so many bytes behind it.
std::string file_of(std::string const& header, std::size_t data) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + header + std::string(data, 'x');
}

zero::SafetensorsHeader read(std::string const& file) {
  return zero::read_safetensors_header(
      [&](Index offset, std::span<std::byte> to) {
        REQUIRE(offset + std::ssize(to) <= std::ssize(file));
        std::memcpy(to.data(), file.data() + offset, to.size());
      },
      std::ssize(file), "'planted'");
}

void refused(std::string const& file, std::string const& because) {
  CAPTURE(file);
  Index const before = heap::requested_bytes();
  std::string const error = error_of([&] { read(file); });
  // All memory together: the files have less than 1 KiB, of which text and JSON take some times
  // that. What the headers claim is more, from the 4 MB of 1000 x 1000 floats on.
  CHECK(heap::requested_bytes() - before < (Index{1} << 16));
  CAPTURE(error);
  CHECK(error.find("'planted'") != std::string::npos);
  CHECK(error.find(because) != std::string::npos);
}

std::string tensor(std::string const& type, std::string const& shape, std::string const& offsets) {
  return R"({"w":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

}  // namespace

TEST_CASE("a header that is written reads back") {
  zero::SafetensorsHeader header;
  header.metadata = {{"format", "pt"}, {"odd \"name\"\n", "\xc3\xa4"}};
  header.entries = {{"a", "F32", {2, 3}, 0, 0},
                    {"b", "BF16", {0, 7}, 0, 0},
                    {"c", "F16", {}, 0, 0},
                    {"d \\ \"", "F64", {1}, 0, 0}};
  std::string const text = zero::write_safetensors_header(header);
  CHECK(text.size() % 8 == 0);
  CHECK(header.file_bytes == std::ssize(text) + 24 + 0 + 2 + 8);
  zero::SafetensorsHeader const found =
      read(text + std::string(at(header.file_bytes) - text.size(), '\0'));
  CHECK(found.metadata == header.metadata);
  CHECK(found.data_begin == header.data_begin);
  REQUIRE(found.entries.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(found.entries[i].name == header.entries[i].name);
    CHECK(found.entries[i].type == header.entries[i].type);
    CHECK(found.entries[i].shape == header.entries[i].shape);
    CHECK(found.entries[i].begin == header.entries[i].begin);
    CHECK(found.entries[i].bytes == header.entries[i].bytes);
  }
}

TEST_CASE("T05: each header that lies is refused before anything of its size is allocated") {
  refused(file_of(tensor("F32", "[1000,1000]", "[0,4]"), 4), "tensor 'w'");
  refused(file_of(tensor("F32", "[1]", "[4,0]"), 4), "end before they begin");
  refused(file_of(tensor("F32", "[1]", "[-4,0]"), 4), "data_offsets");
  refused(file_of(tensor("F32", "[-1]", "[0,4]"), 4), "shape");
  refused(file_of(tensor("F32", "[1]", "[0,4.0]"), 4), "data_offsets");
  refused(file_of(tensor("F32", "[2]", "[0,8]"), 4), "beyond the 4 bytes");
  refused(file_of(tensor("F32", "[1]", "[0,4]"), 5), "end after 4 bytes, and 5 follow");
  refused(file_of(tensor("F32", "[4294967296,4294967296]", "[0,4]"), 4), "2^60");
  refused(file_of(tensor("F32", "[9223372036854775807,4]", "[0,4]"), 4), "shape");
  refused(file_of(tensor("F32", "[18446744073709551615]", "[0,4]"), 4), "shape");
  refused(file_of(tensor("Q7", "[1]", "[0,4]"), 4), "the dtype 'Q7' is unknown");
  refused(file_of(tensor("F32", "[1]", "[0]"), 4), "two numbers");
  refused(file_of(tensor("F32", "1", "[0,4]"), 4), "no list");
  refused(file_of("[]", 0), "begin with '{'");
  refused(file_of(" {}", 0), "begin with '{'");
  refused(file_of("{", 0), "JSON");
  refused(file_of("{} x", 0), "JSON");
  refused(file_of(R"({"w":1})", 0), "is no object");
  refused(file_of(R"({"__metadata__":[]})", 0), "__metadata__");
  refused(file_of(R"({"__metadata__":{"a":1}})", 0), "no text");
  refused(file_of(R"({"w":{"dtype":"F32","shape":[1]}})", 4), "expected dtype");
  refused(file_of(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4),
          "expected dtype");
  std::string const w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  refused(file_of("{" + w + "," + w + "}", 4), "the key 'w' stands twice");
  refused(file_of("{" + w + R"(,"v":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6),
          "overlap");
  refused(file_of("{" + w + R"(,"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
          "overlap");
  refused(file_of("{" + w + R"(,"v":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})", 9),
          "hole");
  refused(file_of(std::string(200, '[') + std::string(200, ']'), 0), "'{'");
  refused(file_of(R"({"w":)" + std::string(200, '[') + std::string(200, ']') + "}", 0), "JSON");
  refused(std::string(7, '\xff') + "\x7f{}", "at most 100000000");
}

TEST_CASE("T08: a file that is cut short is refused with the wanted and the present size") {
  std::string const whole = file_of(tensor("F32", "[4]", "[0,16]"), 16);
  std::size_t const header = whole.size() - 24;
  CHECK(error_of([&] { read(whole); }).empty());
  refused(whole.substr(0, 4), "4 bytes; expected at least 8");
  refused(whole.substr(0, 8),
          "ends at byte " + std::to_string(header + 8) + ", and the file has 8");
  refused(whole.substr(0, 8 + header / 2), "and the file has " + std::to_string(8 + header / 2));
  refused(whole.substr(0, 8 + header + 7), "beyond the 7 bytes");
  refused(whole.substr(0, whole.size() - 1), "beyond the 15 bytes");
}
