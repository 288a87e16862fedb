// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's file of a checkpoint: its slices, as tensors of one dimension. Their names are a kind
// and the model's name, "master/h.0.weight"; __metadata__ says under the same name where the slice
// begins and what it is a slice of, "4096 of 768x3072". Padding is never stored.

#include <zero/checkpoint/manifest.hpp>
#include <zero/core/dtype.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

namespace zero {

/// What of a tensor a slice holds.
namespace checkpoint_kind {
inline constexpr std::string_view master = "master";  ///< float weights, of trained tensors
inline constexpr std::string_view parameter =
    "parameter";                                     ///< as the device has it, of frozen ones
inline constexpr std::string_view state = "state.";  ///< and the optimizer's name for the number
}  // namespace checkpoint_kind

/// A slice as a file has it.
struct StoredSlice {
  std::string kind;          ///< "master", "parameter" or "state.exp_avg"
  std::string tensor;        ///< the model's name
  std::vector<Index> shape;  ///< of the whole tensor
  Index first = 0;           ///< its first element, counted in the tensor
  Index elements = 0;        ///< how many it holds
  std::string type;          ///< "F32", "BF16" or "F16"
  Index offset = 0;          ///< of its first byte in the file
};

namespace detail {

template <class T>
inline constexpr std::string_view stored_name = "F32";
template <>
inline constexpr std::string_view stored_name<bf16> = "BF16";
template <>
inline constexpr std::string_view stored_name<fp16> = "F16";

inline std::string rank_file_name(Index rank, Index world) {
  return "rank-" + std::to_string(rank) + "-of-" + std::to_string(world) + ".safetensors";
}

inline std::string slice_key(StoredSlice const& slice) { return slice.kind + "/" + slice.tensor; }

/// The header of a rank's file; gives the slices their offsets.
inline std::string write_rank_header(std::vector<StoredSlice>& slices, Index& file_bytes) {
  SafetensorsHeader header;
  header.metadata["format"] = "zero checkpoint slices";
  for (StoredSlice const& slice : slices) {
    header.metadata[slice_key(slice)] =
        std::to_string(slice.first) + " of " + shape_text(slice.shape);
    header.entries.push_back({slice_key(slice), slice.type, {slice.elements}, 0, 0});
  }
  std::string text = write_safetensors_header(header);
  for (std::size_t i = 0; i < slices.size(); ++i) slices[i].offset = header.entries[i].begin;
  file_bytes = header.file_bytes;
  return text;
}

/// Which slices a file holds.
/// @param header of the file
/// @param tensors of the manifest, by name
/// @param where the file's name, for errors
/// @throws CheckpointError for an entry that is no slice of a tensor of the manifest
template <class Tensors>
std::vector<StoredSlice> read_slices_of(SafetensorsHeader const& header, Tensors const& tensors,
                                        std::string const& where) {
  std::vector<StoredSlice> slices;
  for (SafetensorsEntry const& entry : header.entries) {
    auto const refuse = [&](std::string const& why) {
      throw CheckpointError("checkpoint: " + where + ": tensor '" + entry.name + "' " + why);
    };
    std::size_t const slash = entry.name.find('/');
    if (slash == std::string::npos) refuse("has no kind in front of its name");
    StoredSlice slice{entry.name.substr(0, slash),
                      entry.name.substr(slash + 1),
                      {},
                      0,
                      entry.shape.size() == 1 ? entry.shape[0] : -1,
                      entry.type,
                      entry.begin};
    auto const tensor = tensors.find(slice.tensor);
    if (tensor == tensors.end()) refuse("is of no tensor of the manifest");
    slice.shape = tensor->second->shape;
    Index const elements = *elements_of(slice.shape);
    bool const frozen = slice.kind == checkpoint_kind::parameter;
    bool const known = frozen || slice.kind == checkpoint_kind::master ||
                       slice.kind.starts_with(checkpoint_kind::state);
    if (!known || frozen == tensor->second->trainable)
      refuse("has a kind that a " + std::string(tensor->second->trainable ? "trained" : "frozen") +
             " tensor does not have");
    if (slice.elements < 0) refuse("has not one dimension");
    if (slice.type != "F32" && slice.type != "BF16" && slice.type != "F16")
      refuse("has elements of type " + slice.type + "; expected F32, BF16 or F16");
    if (slice.kind == checkpoint_kind::master && slice.type != "F32")
      refuse("has elements of type " + slice.type + "; expected F32");
    auto const place = header.metadata.find(entry.name);
    if (place == header.metadata.end()) refuse("has no place in __metadata__");
    std::string const& text = place->second;
    auto const read = std::from_chars(text.data(), text.data() + text.size(), slice.first);
    if (read.ec != std::errc() || std::string_view(read.ptr) != " of " + shape_text(slice.shape))
      refuse("says it is '" + text.substr(0, 80) + "'; expected a place in " +
             shape_text(slice.shape));
    if (slice.first < 0 || slice.first > elements || slice.elements > elements - slice.first)
      refuse("holds elements from " + std::to_string(slice.first) + " on, " +
             std::to_string(slice.elements) + " of them; the tensor has " +
             std::to_string(elements));
    slices.push_back(std::move(slice));
  }
  return slices;
}

/// Elements as floats.
/// @param from of the type's size times to.size() bytes
inline void to_floats(std::string_view type, std::byte const* from, std::span<float> to) {
  auto const convert = [&]<class T>(T value) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::memcpy(&value, from + i * sizeof(T), sizeof(T));
      to[i] = static_cast<float>(value);
    }
  };
  if (type == "BF16") return convert(bf16{});
  if (type == "F16") return convert(fp16{});
  if (!to.empty()) std::memcpy(to.data(), from, to.size_bytes());
}

/// Floats as bytes of a type, rounded to nearest.
inline void from_floats(std::string_view type, std::span<float const> from,
                        std::vector<std::byte>& to) {
  auto const convert = [&]<class T>(T value) {
    to.resize(from.size() * sizeof(T));
    for (std::size_t i = 0; i < from.size(); ++i) {
      value = static_cast<T>(from[i]);
      std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  if (type == "BF16") return convert(bf16{});
  if (type == "F16") return convert(fp16{});
  convert(float{});
}

inline Index bytes_of_type(std::string_view type) { return find_stored_type(type)->bytes; }
/// Of all stored types.
inline constexpr std::size_t most_bytes_of_type =
    at(std::ranges::max(stored_types, {}, &StoredType::bytes).bytes);

}  // namespace detail

}  // namespace zero
