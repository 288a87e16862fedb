// SPDX-License-Identifier: Apache-2.0
#pragma once
// A micro-batch's tokens on the GPU, and what the gradient of the embedding needs of them: the rows
// in the order of their tokens. They travel through pinned memory in turns, so that the host does
// not wait for the GPU unless it is several micro-batches ahead.

#include <zero/cuda/device.hpp>

#include <gpt2/cuda/status.hpp>
#include <gpt2/token.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace gpt2::cuda {

/// Where a micro-batch's tokens lie, in device memory.
struct DeviceTokens {
  std::int32_t const* inputs = nullptr;   ///< [rows]
  std::int32_t const* targets = nullptr;  ///< [rows]
  std::int32_t const* order = nullptr;    ///< [rows], sorted by input token
  std::int32_t const* begins = nullptr;   ///< [distinct + 1]
  Index distinct = 0;                     ///< tokens among the inputs
};

/// Sends micro-batches of at most `rows` tokens.
class TokenStore {
 public:
  TokenStore(zero::cuda::Device& device, Index rows, Index vocabulary)
      : rows_(rows), buffer_(device.allocate(bytes(rows), "tokens")), counts_(at(vocabulary + 1)) {
    for (Turn& turn : turns_) turn = {device.pinned(bytes(rows), "tokens"), device.event(), false};
  }

  static Index bytes(Index rows) { return (4 * rows + 1) * Index{sizeof(std::int32_t)}; }

  /// Enqueues the transfer; what earlier work on the stream uses is not disturbed.
  /// @param targets empty where only the inputs are used
  DeviceTokens send(zero::cuda::Stream& stream, std::span<Token const> inputs,
                    std::span<Token const> targets) {
    Turn& turn = turns_[next_];
    next_ = (next_ + 1) % turns_.size();
    if (turn.sent) stream.synchronize(turn.done);
    auto* const host = reinterpret_cast<std::int32_t*>(turn.memory.address());
    std::copy(inputs.begin(), inputs.end(), host);
    std::copy(targets.begin(), targets.end(), host + rows_);
    Index const distinct = sort(inputs, host + 2 * rows_, host + 3 * rows_);
    check(cudaMemcpyAsync(buffer_.address(), host, at(bytes(rows_)), cudaMemcpyHostToDevice,
                          stream.native()),
          "the tokens' cudaMemcpyAsync");
    stream.record(turn.done);
    turn.sent = true;
    auto const* const there = reinterpret_cast<std::int32_t const*>(buffer_.address());
    return {there, there + rows_, there + 2 * rows_, there + 3 * rows_, distinct};
  }

 private:
  struct Turn {
    zero::cuda::PinnedBuffer memory;
    zero::cuda::Event done;
    bool sent = false;
  };

  /// Counting sort: rows of equal tokens in ascending order. @return the number of distinct tokens
  Index sort(std::span<Token const> inputs, std::int32_t* order, std::int32_t* begins) {
    std::fill(counts_.begin(), counts_.end(), 0);
    for (Token token : inputs) ++counts_[at(token) + 1];
    Index distinct = 0;
    for (std::size_t t = 1; t < counts_.size(); ++t) {
      if (counts_[t] > 0) begins[distinct++] = counts_[t - 1];
      counts_[t] += counts_[t - 1];
    }
    begins[distinct] = static_cast<std::int32_t>(inputs.size());
    for (std::size_t row = 0; row < inputs.size(); ++row)
      order[counts_[at(inputs[row])]++] = static_cast<std::int32_t>(row);
    return distinct;
  }

  Index rows_;
  zero::cuda::Device::Buffer buffer_;
  std::array<Turn, 4> turns_;
  std::size_t next_ = 0;
  std::vector<std::int32_t> counts_;
};

}  // namespace gpt2::cuda
