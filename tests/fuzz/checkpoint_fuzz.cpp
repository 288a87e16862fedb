// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file, as a manifest, as a model's index, and as the folders that hold
// them, taken through verify, export, import and reshard. What must hold: an error in words, or a
// header whose tensors lie within the file, one after the other, a manifest that reads back as it
// is written, and of a folder that is taken, one that is verified again.
#include <zero/checkpoint.hpp>

#include <checkpoint/memory_files.hpp>

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

using checkpoints::MemoryFiles;

void put(MemoryFiles& files, std::string const& path, std::string const& bytes) {
  int const file = files.create(path);
  files.write(file, reinterpret_cast<std::byte const*>(bytes.data()), std::ssize(bytes), 0);
  files.close(file);
}
/// What reads whole folders: an error that names one of them, or nothing.
template <class F>
void attempt(F f) {
  try {
    f();
  } catch (zero::CheckpointError const& e) {
    require(std::string(e.what()).find("fuzzed") != std::string::npos);
  }
}
void verify(std::string const& dir, MemoryFiles& files) {
  zero::verify_checkpoint(zero::find_checkpoint(dir, files), files);
}

/// A model that is taken is a checkpoint that holds, and goes out again.
void read_model(MemoryFiles& files) {
  attempt([&] {
    zero::import_checkpoint("fuzzed", "fuzzed-run", files);
    verify("fuzzed-run", files);
    zero::export_checkpoint(zero::find_checkpoint("fuzzed-run", files), "fuzzed-out", "BF16",
                            files);
  });
}
void read_as_model(std::string const& file) {
  MemoryFiles files;
  files.make_folder("fuzzed");
  put(files, "fuzzed/model.safetensors", file);
  read_model(files);
}
/// With one file, of two tensors.
void read_as_index(std::string const& index) {
  MemoryFiles files;
  files.make_folder("fuzzed");
  put(files, "fuzzed/model.safetensors.index.json", index);
  zero::SafetensorsHeader header{{}, {{"a", "F32", {2}, 0, 0}, {"b", "BF16", {1}, 0, 0}}, 0, 0};
  std::string const text = zero::write_safetensors_header(header);
  put(files, "fuzzed/a", text + std::string(10, 'x'));
  read_model(files);
}
/// A manifest beside the file of the only rank.
void read_as_checkpoint(std::string const& manifest, std::string const& file) {
  MemoryFiles files;
  files.make_folder("fuzzed");
  put(files, "fuzzed/manifest.json", manifest);
  put(files, "fuzzed/rank-0-of-1.safetensors", file);
  attempt([&] { verify("fuzzed", files); });
  attempt([&] {
    zero::export_checkpoint(zero::find_checkpoint("fuzzed", files), "fuzzed-out", "", files);
  });
  attempt([&] {
    zero::reshard_checkpoint(zero::find_checkpoint("fuzzed", files), "fuzzed-run", 3, files);
    verify("fuzzed-run", files);
  });
}
/// The file that the seed `one_rank` names, with the checksum that stands there.
std::string one_rank_file() {
  std::vector<zero::SafetensorsEntry> const entries{{"master/w", "F32", {63}, 0, 0},
                                                    {"state.s/w", "F32", {63}, 0, 0},
                                                    {"parameter/f", "F32", {5}, 0, 0}};
  zero::SafetensorsHeader header{
      {{"master/w", "0 of 7x9"}, {"state.s/w", "0 of 7x9"}, {"parameter/f", "0 of 5"}},
      entries,
      0,
      0};
  std::string text = zero::write_safetensors_header(header);
  text.resize(static_cast<std::size_t>(header.file_bytes), 'x');
  return text;
}
/// A checkpoint of one rank whose file has these bytes, with right checksums.
void read_as_rank_file(std::string const& file) {
  if (file.empty()) return;
  zero::Manifest m;
  m.optimizer.name = "Fuzzed";
  m.optimizer.states = {"s"};
  m.units = {{"u", {{"a", {2}, true}, {"f", {3, 1}, false}}}};
  m.files = {
      {"rank-0-of-1.safetensors", std::ssize(file), {XXH3_64bits(file.data(), file.size())}}};
  read_as_checkpoint(zero::manifest_text(m), file);
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
  std::string const file =
      header + bytes.substr(0, length) + (length < bytes.size() ? bytes.substr(length + 1) : "");
  read_file(file);
  read_manifest(bytes);
  std::string const manifest = with_checksum(bytes);
  read_manifest(manifest);
  // One a run, since each takes as long as all of the above.
  switch (size % 4) {
    case 0:
      read_as_model(file);
      break;
    case 1:
      read_as_index(bytes);
      break;
    case 2:
      read_as_checkpoint(manifest, one_rank_file());
      break;
    default:
      read_as_rank_file(file);
  }
  return 0;
}
