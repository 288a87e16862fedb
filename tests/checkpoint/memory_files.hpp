// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files in memory that know what has been brought to where it lasts: every call can fail, fall
// short, or be the last one, and after a loss of power only what was synced is sure to be there.

#include <zero/checkpoint/files.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace checkpoints {

using zero::at;
using zero::Index;

/// The process has been killed: no call after this one does anything.
struct Killed {};

class MemoryFiles final : public zero::Files {
 public:
  /// Called before each call with its number, from 0, and its name; returns an errno to fail with,
  /// or 0, or throws Killed.
  using Plan = std::function<int(Index number, std::string_view call)>;

  Plan plan{};
  /// Called with the offset before a write, which others may overtake meanwhile.
  std::function<void(Index offset)> before_write{};
  Index longest_write = 0;  ///< bytes that one write takes; 0: all
  Index longest_read = 0;   ///< bytes that one read gives; 0: all

  Index calls() const { return calls_; }
  /// Calls on a descriptor while another one on it was not over, which Files promises not to make.
  Index overlaps() const { return overlaps_; }
  /// Descriptors that were open at the same time, at most.
  Index most_open() const { return most_open_; }
  void forget_most_open() { most_open_ = 0; }
  Index bytes_read() const { return bytes_read_; }
  /// How often a file was read from its first byte on.
  Index beginnings(std::string const& path) const {
    auto const found = beginnings_.find(path);
    return found == beginnings_.end() ? 0 : found->second;
  }
  void forget_beginnings() { beginnings_.clear(); }

  int create(std::string const& path) override {
    return locked("create", [&] {
      auto const [folder, name] = above(path);
      if (!folder) return -ENOENT;
      if (folder->names.contains(name)) return -EEXIST;
      folder->names[name] = std::make_shared<Node>();
      return opened(folder->names[name]);
    });
  }
  int open_to_write(std::string const& path) override {
    return locked("open", [&] {
      auto const node = find(path);
      return !node ? -ENOENT : node->folder ? -EISDIR : opened(node);
    });
  }
  int open(std::string const& path) override {
    return locked("open", [&] {
      auto const node = find(path);
      if (!node) return -ENOENT;
      paths_[last_ + 1] = path;
      return opened(node);
    });
  }
  Index write(int file, std::byte const* from, Index bytes, Index offset) override {
    Use const use(*this, file);
    if (before_write) before_write(offset);
    return locked("write", [&]() -> Index {
      if (longest_write > 0) bytes = std::min(bytes, longest_write);
      std::vector<std::byte>& data = open_.at(file)->data;
      data.resize(std::max(data.size(), at(offset + bytes)));
      std::copy_n(from, bytes, data.begin() + offset);
      return bytes;
    });
  }
  Index read(int file, std::byte* to, Index bytes, Index offset) override {
    Use const use(*this, file);
    return locked("read", [&]() -> Index {
      std::vector<std::byte> const& data = open_.at(file)->data;
      if (longest_read > 0) bytes = std::min(bytes, longest_read);
      bytes = std::max<Index>(std::min(bytes, std::ssize(data) - offset), 0);
      std::copy_n(data.begin() + offset, bytes, to);
      bytes_read_ += bytes;
      if (offset == 0) ++beginnings_[paths_[file]];
      return bytes;
    });
  }
  int sync(int file) override {
    Use const use(*this, file);
    return locked("sync", [&] {
      Node& node = *open_.at(file);
      node.safe_data = node.data;
      node.safe_names = node.names;
      return 0;
    });
  }
  int close(int file) override {
    try {
      return locked("close", [&] {
        open_.erase(file);
        return 0;
      });
    } catch (Killed const&) {  // destructors call it as well
      return -EIO;
    }
  }
  int rename(std::string const& from, std::string const& to) override {
    return locked("rename", [&] {
      auto const [source, old_name] = above(from);
      auto const [target, new_name] = above(to);
      if (!source || !target || !source->names.contains(old_name)) return -ENOENT;
      auto const there = target->names.find(new_name);
      if (there != target->names.end() && there->second->folder && !there->second->names.empty())
        return -ENOTEMPTY;
      target->names[new_name] = source->names[old_name];
      source->names.erase(old_name);
      return 0;
    });
  }
  int remove(std::string const& path) override {
    return locked("remove", [&] {
      auto const [folder, name] = above(path);
      if (!folder || !folder->names.contains(name)) return -ENOENT;
      if (folder->names[name]->folder) return -EISDIR;
      folder->names.erase(name);
      return 0;
    });
  }
  int make_folder(std::string const& path) override {
    return locked("make_folder", [&] {
      auto const [folder, name] = above(path);
      if (!folder) return -ENOENT;
      if (folder->names.contains(name)) return -EEXIST;
      folder->names[name] = std::make_shared<Node>();
      folder->names[name]->folder = true;
      return 0;
    });
  }
  int remove_folder(std::string const& path) override {
    return locked("remove_folder", [&] {
      auto const [folder, name] = above(path);
      if (!folder || !folder->names.contains(name)) return -ENOENT;
      if (!folder->names[name]->names.empty()) return -ENOTEMPTY;
      folder->names.erase(name);
      return 0;
    });
  }
  Index size(std::string const& path) override {
    return locked("size", [&]() -> Index {
      auto const node = find(path);
      if (!node) return -ENOENT;
      return node->folder ? Index{-EISDIR} : std::ssize(node->data);
    });
  }
  int list(std::string const& path, std::vector<std::string>& names) override {
    return locked("list", [&] {
      auto const node = find(path);
      if (!node) return -ENOENT;
      names.clear();
      for (auto const& [name, below] : node->names) names.push_back(name);
      return 0;
    });
  }

  /// What is there after the process has ended: everything that was written.
  void restart() {
    open_.clear();
    plan = {};
  }
  /// What is there after a loss of power: what was synced, and of the rest whatever draw(n) < n
  /// decides: for each folder its old names or its new ones, for each file its old bytes or some of
  /// its new ones.
  void lose_power(std::function<int(int)> const& draw) {
    restart();
    lose(*root_, draw);
  }
  /// The bytes of a file, to damage them.
  std::vector<std::byte>& data(std::string const& path) { return find(path)->data; }

 private:
  /// A call that is not over.
  class Use {
   public:
    Use(MemoryFiles& files, int file) : files_(files), file_(file) {
      std::lock_guard const lock(files_.uses_mutex_);
      if (!files_.uses_.insert(file).second) ++files_.overlaps_;
    }
    Use(Use const&) = delete;
    Use& operator=(Use const&) = delete;
    ~Use() {
      std::lock_guard const lock(files_.uses_mutex_);
      files_.uses_.erase(file_);
    }

   private:
    MemoryFiles& files_;
    int file_;
  };
  struct Node {
    bool folder = false;
    std::vector<std::byte> data{};
    std::vector<std::byte> safe_data{};
    std::map<std::string, std::shared_ptr<Node>> names{};
    std::map<std::string, std::shared_ptr<Node>> safe_names{};
  };

  template <class F>
  auto locked(std::string_view call, F f) -> decltype(f()) {
    std::lock_guard const lock(mutex_);
    if (int const failure = plan ? plan(calls_, call) : 0; failure != 0) {
      ++calls_;
      return -failure;
    }
    ++calls_;
    return f();
  }
  std::shared_ptr<Node> find(std::string_view path) const {
    std::shared_ptr<Node> node = root_;
    while (!path.empty() && node) {
      std::size_t const slash = std::min(path.find('/'), path.size());
      std::string const name(path.substr(0, slash));
      path.remove_prefix(std::min(slash + 1, path.size()));
      if (name.empty() || name == ".") continue;
      auto const below = node->names.find(name);
      node = below == node->names.end() ? nullptr : below->second;
    }
    return node;
  }
  std::pair<std::shared_ptr<Node>, std::string> above(std::string const& path) const {
    std::size_t const slash = path.find_last_of('/');
    return {slash == std::string::npos ? root_ : find(std::string_view(path).substr(0, slash)),
            path.substr(slash == std::string::npos ? 0 : slash + 1)};
  }
  int opened(std::shared_ptr<Node> const& node) {
    open_[++last_] = node;
    most_open_ = std::max(most_open_, std::ssize(open_));
    return last_;
  }
  static void lose(Node& node, std::function<int(int)> const& draw) {
    if (draw(2) == 0) node.names = node.safe_names;
    if (node.data != node.safe_data) {
      std::size_t const kept =
          node.safe_data.size() > node.data.size()
              ? 0
              : at(draw(static_cast<int>(node.data.size() - node.safe_data.size()) + 1));
      std::vector<std::byte> torn = node.safe_data;
      torn.insert(torn.end(), node.data.begin() + std::ssize(node.safe_data),
                  node.data.begin() + std::ssize(node.safe_data) + static_cast<Index>(kept));
      if (draw(2) == 0) node.data = torn;
    }
    node.safe_data = node.data;
    for (auto const& [name, below] : node.names) lose(*below, draw);
    node.safe_names = node.names;
  }

  std::mutex mutex_;
  std::shared_ptr<Node> root_ = std::make_shared<Node>(Node{.folder = true});
  std::map<int, std::shared_ptr<Node>> open_;
  int last_ = 0;
  std::mutex uses_mutex_;
  std::set<int> uses_;
  Index overlaps_ = 0;
  Index most_open_ = 0;
  Index calls_ = 0;
  Index bytes_read_ = 0;
  std::map<int, std::string> paths_;  // of descriptors to read
  std::map<std::string, Index> beginnings_;
};

}  // namespace checkpoints
