// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPT-2 as a zero::Model on the host: forward, loss and backward by hand, unit by unit, each unit's
// parameters held only while they are needed.

#include <zero/device/host.hpp>
#include <zero/model/model.hpp>

#include <gpt2/activations.hpp>
#include <gpt2/block.hpp>
#include <gpt2/cross_entropy.hpp>
#include <gpt2/embedding.hpp>
#include <gpt2/staging.hpp>
#include <gpt2/units.hpp>

#include <concepts>
#include <span>
#include <string>
#include <vector>

namespace gpt2 {

/// Sequences of `length` tokens, one after the other, and for each token the one that follows it.
struct TokenBatch {
  Index length = 0;
  std::vector<Token> inputs;
  std::vector<Token> targets;

  Index sequences() const { return length > 0 ? std::ssize(inputs) / length : 0; }
};

/// A GPT-2 that computes in T. Copies share nothing; activations are allocated by the first pass.
/// The loss is the mean cross entropy over the tokens of a micro-batch.
template <Real T>
class BasicGpt2 {
 public:
  using Batch = TokenBatch;

  /// @throws zero::InvalidArgument when no model has these sizes
  explicit BasicGpt2(Configuration size) : size_(size) { size_.check(); }

  Configuration const& configuration() const { return size_; }
  zero::Units units() const { return units_of(size_); }
  zero::Schedule schedule() const { return schedule_of(size_); }
  /// What transformers builds it from.
  std::string config_json() const { return config_json_of(size_); }

  /// One micro-batch: forward, loss, and backward where the pass trains.
  /// @throws zero::InvalidArgument when the batch does not fit the model
  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) {
    check(batch.inputs, batch.length);
    check(batch.targets, batch.length);
    if (batch.targets.size() != batch.inputs.size()) {
      throw zero::InvalidArgument("gpt2: a batch has as many targets as inputs");
    }
    forward(pass, batch.inputs, batch.length);
    {
      auto const lease = pass.forward(embedding_unit);
      auto const w = weights<Pass, 2>(lease);
      project(read(a_.normed), w[wte], size_.width, a_.logits);
    }
    std::span<double>(pass.loss())[0] += cross_entropy(a_.logits, batch.targets);
    if constexpr (Pass::trains) backward(pass, batch);
  }

  /// Forward only: the logits of the token that follows `ids`, [vocabulary], valid until the next
  /// call.
  template <class Pass>
  std::span<T const> next_logits(Pass& pass, std::span<Token const> ids) {
    check(ids, std::ssize(ids));
    forward(pass, ids, std::ssize(ids));
    auto const lease = pass.forward(embedding_unit);
    auto const w = weights<Pass, 2>(lease);
    std::span<T> const logits = a_.logits.first(at(size_.vocabulary));
    project(read(a_.normed.last(at(size_.width))), w[wte], size_.width, logits);
    return logits;
  }

 private:
  static std::span<T const> read(std::span<T> values) { return values; }

  template <class Pass, std::size_t N, class Lease>
  std::array<std::span<T const>, N> weights(Lease const& lease) {
    return staging_.template weights<typename Pass::Parameter, N>(lease);
  }

  void check(std::span<Token const> ids, Index length) const {
    if (length < 1 || length > size_.context || ids.empty() || std::ssize(ids) % length != 0) {
      throw zero::InvalidArgument("gpt2: a batch is one or more sequences of 1 to " +
                                  std::to_string(size_.context) + " tokens of one length");
    }
    for (Token id : ids) {
      if (id < 0 || id >= size_.vocabulary) {
        throw zero::InvalidArgument("gpt2: token " + std::to_string(id) +
                                    " is not in the vocabulary of " +
                                    std::to_string(size_.vocabulary));
      }
    }
  }

  /// From tokens to the output of the final norm.
  template <class Pass>
  void forward(Pass& pass, std::span<Token const> ids, Index length) {
    static_assert(Pass::Device::host_memory,
                  "gpt2: this model computes where it is called, so it needs a device whose memory "
                  "the host may use");
    a_.prepare(size_, std::ssize(ids) / length, length, Pass::trains);
    {
      auto const lease = pass.forward(embedding_unit);
      auto const w = weights<Pass, 2>(lease);
      embed(ids, length, w[wte], w[wpe], size_.width,
            size_.layers > 0 ? a_.blocks[0].input : a_.stream);
    }
    for (Index layer = 0; layer < size_.layers; ++layer) {
      auto const lease = pass.forward(block_unit(layer));
      block_forward(weights<Pass, num_block_tensors>(lease), a_.shape, a_.blocks[at(layer)]);
    }
    auto const lease = pass.forward(final_norm_unit(size_));
    auto const w = weights<Pass, 2>(lease);
    layer_norm(read(a_.stream), w[ln_f_weight], w[ln_f_bias], a_.normed, a_.moments);
  }

  /// From the probabilities back to the embedding.
  template <class Pass>
  void backward(Pass& pass, Batch const& batch) {
    using Gradient = typename Pass::Gradient;
    ActivationGradients<T> const& d = a_.gradients;
    T const loss_scale = static_cast<T>(std::span<float const>(pass.loss_scale())[0]);
    {
      auto const [parameters, gradients] = pass.backward(embedding_unit);
      cross_entropy_backward(a_.logits, batch.targets, loss_scale);
      auto const w = weights<Pass, 2>(parameters);
      staging_.template gradients<Gradient, 2>(gradients, [&](auto const& g) {
        project_backward(read(a_.logits), a_.normed, w[wte], size_.width, d.narrow, g[wte]);
      });
    }
    {
      auto const [parameters, gradients] = pass.backward(final_norm_unit(size_));
      auto const w = weights<Pass, 2>(parameters);
      std::ranges::fill(d.stream, T(0));
      staging_.template gradients<Gradient, 2>(gradients, [&](auto const& g) {
        layer_norm_backward(read(d.narrow), a_.stream, w[ln_f_weight], a_.moments, d.stream,
                            g[ln_f_weight], g[ln_f_bias]);
      });
    }
    for (Index layer = size_.layers; layer-- > 0;) {
      auto const [parameters, gradients] = pass.backward(block_unit(layer));
      auto const w = weights<Pass, num_block_tensors>(parameters);
      staging_.template gradients<Gradient, num_block_tensors>(gradients, [&](auto const& g) {
        block_backward(w, a_.shape, a_.blocks[at(layer)], d, g);
      });
    }
    auto const [parameters, gradients] = pass.backward(embedding_unit);
    staging_.template gradients<Gradient, 2>(gradients, [&](auto const& g) {
      embed_backward(read(d.stream), batch.inputs, batch.length, size_.width, g[wte], g[wpe]);
    });
  }

  Configuration size_;
  Activations<T> a_;
  Staging<T> staging_;
};

/// The GPT-2 that is trained.
using Gpt2 = BasicGpt2<float>;

}  // namespace gpt2
