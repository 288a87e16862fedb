// SPDX-License-Identifier: Apache-2.0
#pragma once
// The header of a safetensors file: 8 bytes of its length, little-endian, then JSON that says of
// each tensor its type, shape and place among the bytes that follow. A file cannot run code, and a
// header that lies is refused before anything of the size that it claims is allocated.

#include <zero/checkpoint/strict_json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace zero {

/// The type of a tensor's elements in a file.
struct StoredType {
  std::string_view name;  ///< "F32"
  Index bytes;            ///< of an element
};

/// Every type that safetensors names and that takes whole bytes.
inline constexpr std::array<StoredType, 16> stored_types{{{"F32", 4},
                                                          {"BF16", 2},
                                                          {"F16", 2},
                                                          {"F64", 8},
                                                          {"I64", 8},
                                                          {"I32", 4},
                                                          {"I16", 2},
                                                          {"I8", 1},
                                                          {"U64", 8},
                                                          {"U32", 4},
                                                          {"U16", 2},
                                                          {"U8", 1},
                                                          {"BOOL", 1},
                                                          {"F8_E4M3", 1},
                                                          {"F8_E5M2", 1},
                                                          {"C64", 8}}};

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;          ///< as the file calls it
  std::string type;          ///< one of stored_types
  std::vector<Index> shape;  ///< extents; empty: one element
  Index begin = 0;           ///< first byte, counted from the start of the file
  Index bytes = 0;           ///< of all elements
};

/// What stands in the header of a safetensors file.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;  ///< "__metadata__", text to text
  std::vector<SafetensorsEntry> entries;        ///< in the order of their bytes
  Index data_begin = 0;                         ///< where the tensors' bytes start
  Index file_bytes = 0;                         ///< of the whole file
};

/// The longest header that is read, as in the reference implementation.
inline constexpr Index max_safetensors_header_bytes = 100'000'000;

namespace detail {

inline StoredType const* find_stored_type(std::string_view name) {
  auto const type = std::ranges::find(stored_types, name, &StoredType::name);
  return type == stored_types.end() ? nullptr : &*type;
}

inline std::string shape_text(std::vector<Index> const& shape) {
  std::string text;
  for (Index extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "1" : text;
}

/// Product of the extents; nothing where it does not fit, or an extent is negative.
inline std::optional<Index> elements_of(std::vector<Index> const& shape) {
  if (std::ranges::any_of(shape, [](Index extent) { return extent < 0; })) return std::nullopt;
  if (std::ranges::find(shape, Index{0}) != shape.end()) return 0;
  Index n = 1;
  for (Index extent : shape) {
    if (extent > (Index{1} << 60) / n) return std::nullopt;
    n *= extent;
  }
  return n;
}

inline std::vector<Index> shape_of(JsonMembers const& members) {
  std::vector<Index> shape;
  for (boost::json::value const& extent : members.array("shape"))
    shape.push_back(members.count(extent, "shape"));
  return shape;
}

inline SafetensorsEntry safetensors_entry(std::string name, boost::json::value const& value,
                                          std::string const& where, Index data_bytes) {
  std::string const whose = where + ": tensor '" + name + "'";
  auto const* const object = value.if_object();
  if (object == nullptr) throw CheckpointError("checkpoint: " + whose + " is no object");
  JsonMembers const members(*object, whose);
  if (object->size() != 3) members.refuse("expected dtype, shape and data_offsets and no more");
  SafetensorsEntry entry{std::move(name), members.text("dtype"), shape_of(members), 0, 0};
  StoredType const* const type = find_stored_type(entry.type);
  if (type == nullptr) members.refuse("the dtype '" + entry.type + "' is unknown");
  std::optional<Index> const elements = elements_of(entry.shape);
  if (!elements) members.refuse("the shape has more than 2^60 elements");
  boost::json::array const& offsets = members.array("data_offsets");
  if (offsets.size() != 2) members.refuse("'data_offsets' has not two numbers");
  entry.begin = members.count(offsets[0], "data_offsets");
  Index const end = members.count(offsets[1], "data_offsets");
  std::string const range = "[" + std::to_string(entry.begin) + ", " + std::to_string(end) + ")";
  if (end < entry.begin) members.refuse("the offsets " + range + " end before they begin");
  if (end > data_bytes) {
    members.refuse("the offsets " + range + " lie beyond the " + std::to_string(data_bytes) +
                   " bytes that follow the header");
  }
  entry.bytes = end - entry.begin;
  if (*elements > (Index{1} << 60) / type->bytes || entry.bytes != *elements * type->bytes) {
    members.refuse("the offsets " + range + " hold " + std::to_string(entry.bytes) +
                   " bytes; expected " + std::to_string(*elements) + " elements of " + entry.type);
  }
  return entry;
}

/// The length of the header. @param first the first 8 bytes of the file
inline Index safetensors_header_bytes(std::array<std::byte, 8> const& first, Index file_bytes,
                                      std::string const& where) {
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(first[i]);
  if (length > static_cast<std::uint64_t>(max_safetensors_header_bytes)) {
    throw CheckpointError("checkpoint: " + where + ": a header of " + std::to_string(length) +
                          " bytes; expected at most " +
                          std::to_string(max_safetensors_header_bytes));
  }
  if (static_cast<Index>(length) > file_bytes - 8) {
    throw CheckpointError("checkpoint: " + where + ": cut short: the header ends at byte " +
                          std::to_string(length + 8) + ", and the file has " +
                          std::to_string(file_bytes) + " bytes");
  }
  return static_cast<Index>(length);
}

}  // namespace detail

/// Reads a header.
/// @param read (offset, std::span<std::byte> to): bytes of the file; throws what it cannot read
/// @param file_bytes of the whole file
/// @param where the file's name, for errors
/// @throws CheckpointError, before anything of a claimed size is allocated, for a length beyond the
/// file or 100 MB, for what is no JSON, a key that stands twice, an unknown type or member, a shape
/// beyond 2^60 elements, offsets that do not fit the shape, overlap, leave a hole, go beyond the
/// file or end before it
template <class Read>
SafetensorsHeader read_safetensors_header(Read read, Index file_bytes, std::string const& where) {
  if (file_bytes < 8) {
    throw CheckpointError("checkpoint: " + where + ": cut short: " + std::to_string(file_bytes) +
                          " bytes; expected at least 8");
  }
  std::array<std::byte, 8> first{};
  read(Index{0}, std::span<std::byte>(first));
  Index const length = detail::safetensors_header_bytes(first, file_bytes, where);
  std::string text(at(length), '\0');
  read(Index{8}, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{'))
    throw CheckpointError("checkpoint: " + where + ": the header does not begin with '{'");
  boost::json::object const object = detail::read_json_object(text, where);
  SafetensorsHeader header;
  header.data_begin = 8 + length;
  header.file_bytes = file_bytes;
  Index const data_bytes = file_bytes - header.data_begin;
  for (auto const& member : object) {
    std::string const name(member.key());
    if (name != "__metadata__") {
      header.entries.push_back(detail::safetensors_entry(name, member.value(), where, data_bytes));
      continue;
    }
    if (!member.value().is_object())
      throw CheckpointError("checkpoint: " + where + ": __metadata__ is no object");
    detail::JsonMembers const members(member.value().get_object(), where + ": __metadata__");
    for (auto const& pair : member.value().get_object())
      header.metadata.emplace(pair.key(), members.text(pair.key()));
  }
  std::ranges::sort(header.entries, [](SafetensorsEntry const& a, SafetensorsEntry const& b) {
    return std::pair(a.begin, a.begin + a.bytes) < std::pair(b.begin, b.begin + b.bytes);
  });
  Index end = 0;
  for (SafetensorsEntry& entry : header.entries) {
    if (entry.begin != end) {
      throw CheckpointError("checkpoint: " + where + ": tensor '" + entry.name + "' begins at " +
                            std::to_string(entry.begin) + " and the one before it ends at " +
                            std::to_string(end) + ": tensors overlap, or leave a hole");
    }
    end = entry.begin + entry.bytes;
    entry.begin += header.data_begin;
  }
  if (end != data_bytes) {
    throw CheckpointError("checkpoint: " + where + ": the tensors end after " +
                          std::to_string(end) + " bytes, and " + std::to_string(data_bytes) +
                          " follow the header");
  }
  return header;
}

/// The bytes of a header, its length in front, padded to a multiple of 8. Gives `header` its
/// offsets, in the order of its entries.
inline std::string write_safetensors_header(SafetensorsHeader& header) {
  boost::json::object object;
  if (!header.metadata.empty()) {
    boost::json::object& metadata = object["__metadata__"].emplace_object();
    for (auto const& [key, text] : header.metadata) metadata[key] = text;
  }
  Index end = 0;
  for (SafetensorsEntry& entry : header.entries) {
    StoredType const* const type = detail::find_stored_type(entry.type);
    std::optional<Index> const elements = detail::elements_of(entry.shape);
    if (type == nullptr || !elements)
      throw CheckpointError("checkpoint: tensor '" + entry.name + "' cannot be stored");
    if (entry.name == "__metadata__" || object.contains(entry.name)) {
      throw CheckpointError("checkpoint: tensor '" + entry.name +
                            "' cannot be stored: another member of the header has its name");
    }
    entry.begin = end;
    entry.bytes = *elements * type->bytes;
    end += entry.bytes;
    boost::json::object& to = object[entry.name].emplace_object();
    to["dtype"] = entry.type;
    to["shape"] = boost::json::array(entry.shape.begin(), entry.shape.end());
    to["data_offsets"] = {entry.begin, end};
  }
  std::string text = boost::json::serialize(object);
  text.resize(at(round_up(std::ssize(text), 8)), ' ');
  if (std::ssize(text) > max_safetensors_header_bytes)
    throw CheckpointError("checkpoint: a header of " + std::to_string(text.size()) + " bytes");
  header.data_begin = 8 + std::ssize(text);
  header.file_bytes = header.data_begin + end;
  for (SafetensorsEntry& entry : header.entries) entry.begin += header.data_begin;
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

}  // namespace zero
