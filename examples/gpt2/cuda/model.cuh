// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPT-2 as a zero::Model on a GPU: the units, names and schedule of the host's (gpt2/model.hpp),
// its layers in kernels. It computes in the type of its parameters and sums in
// float. Equal passes give equal bits on one kind of GPU.

#include <gpt2/cuda/block.cuh>
#include <gpt2/cuda/cross_entropy.cuh>
#include <gpt2/cuda/embedding.cuh>
#include <gpt2/cuda/token_store.hpp>
#include <gpt2/token.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpt2::cuda {

/// How a model is used; everything that it allocates follows.
struct Use {
  Index batch = 1;  ///< most sequences of a micro-batch
  Recompute recompute = Recompute::cheap;
};

/// @throws zero::InvalidArgument for sizes that the kernels do not take
inline void check_size(Configuration const& size) {
  size.check();
  auto const wants = [](char const* what, Index found) {
    if (found % 8 == 0) return;
    throw zero::InvalidArgument(std::string("gpt2: on GPUs the ") + what +
                                " must be a multiple of 8, not " + std::to_string(found));
  };
  wants("width of a head", size.width / size.heads);
  wants("context", size.context);
  wants("vocabulary", size.vocabulary);
}

/// A GPT-2 on one GPU. Everything is allocated by the constructor, but the plans of cuDNN for
/// shapes that passes bring later. The loss is the mean cross entropy over the tokens of a
/// micro-batch.
/// @tparam T type of the parameters: float, zero::bf16 or zero::fp16
template <class T>
class Gpt2 {
 public:
  using Batch = TokenBatch;

  /// @param device outlives the model
  /// @throws zero::InvalidArgument for sizes that no model has, or that the kernels do not take;
  ///   zero::OutOfMemory
  Gpt2(zero::cuda::Device& device, Configuration size, Use use)
      : m_(std::make_unique<Memory>(device, size, use)) {}

  Configuration const& configuration() const { return m_->size; }
  /// The text of the config.json with which transformers would build it.
  std::string config_json() const { return config_json_of(m_->size); }
  zero::Units units() const { return units_of(m_->size); }
  zero::Schedule schedule() const { return schedule_of(m_->size); }

  /// Bytes of device memory that a model allocates for its activations, before it is made.
  static Index activation_bytes(Configuration const& size, Use use) {
    return Activations<T>::bytes(training_shape(size, use));
  }

  /// One micro-batch: forward, loss, and backward where the pass trains.
  /// @throws zero::InvalidArgument when the batch does not fit the model
  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) {
    check_batch(m_->size, batch);
    run(pass, batch.inputs, batch.targets, batch.length);
  }

  /// Forward only: the logits of the token that follows `ids`, [vocabulary], in host memory, valid
  /// until the next call. Waits.
  template <class Pass>
  std::span<float const> next_logits(Pass& pass, std::span<Token const> ids) {
    Memory& m = *m_;
    check_tokens(m.size, ids, std::ssize(ids));
    // Rows do not see what follows: one shape serves texts of every length.
    std::vector<Token> padded(ids.begin(), ids.end());
    padded.resize(at(m.size.context), 0);
    ActivationShape const shape = begin(pass, padded, {}, m.size.context);
    forward(pass, shape);
    auto const row = static_cast<Index>(ids.size()) - 1;
    {
      auto const lease = pass.forward(embedding_unit);
      project(pass.stream().native(), lease[wte].address(), 1, m.a.normed + row * m.size.width);
    }
    std::vector<T> values(at(m.size.vocabulary));
    check(cudaMemcpyAsync(values.data(), m.a.logits, values.size() * sizeof(T),
                          cudaMemcpyDeviceToHost, pass.stream().native()),
          "the logits' cudaMemcpyAsync");
    pass.stream().synchronize();
    m.logits.clear();
    for (T value : values) m.logits.push_back(static_cast<float>(value));
    return m.logits;
  }

 private:
  /// What copies of a Trainer's argument must not copy.
  struct Memory {
    Memory(zero::cuda::Device& device, Configuration const& of, Use how)
        : size((check_size(of), of)),
          use(how),
          block(device, training_shape(of, how).attention()),
          activations(device.allocate(activation_bytes(of, how), "activations")),
          tokens(device, how.batch * of.context, of.vocabulary) {
      block.attention().prepare(training_shape(of, how).attention(), true);
    }

    Configuration size;
    Use use;
    Block<T> block;
    zero::cuda::Device::Buffer activations;
    TokenStore tokens;
    Activations<T> a;
    DeviceTokens sent;
    std::vector<float> logits;
  };

  static ActivationShape training_shape(Configuration const& size, Use use) {
    return {.size = size,
            .batch = use.batch,
            .length = size.context,
            .trains = true,
            .recompute = use.recompute};
  }

  /// Carves memory for the pass's shape and sends its tokens.
  template <class Pass>
  ActivationShape begin(Pass& pass, std::span<Token const> inputs, std::span<Token const> targets,
                        Index length) {
    static_assert(std::same_as<typename Pass::Parameter, T> &&
                      std::derived_from<typename Pass::Device, zero::cuda::Device>,
                  "gpt2: this model computes on a GPU in the type of its parameters");
    Memory& m = *m_;
    ActivationShape const shape{.size = m.size,
                                .batch = std::ssize(inputs) / length,
                                .length = length,
                                .trains = Pass::trains,
                                .recompute = m.use.recompute};
    if (shape.batch > m.use.batch || length % 8 != 0) {
      throw zero::InvalidArgument("gpt2: a micro-batch of " + std::to_string(shape.batch) +
                                  " sequences of " + std::to_string(length) +
                                  " tokens; on this GPU at most " + std::to_string(m.use.batch) +
                                  " sequences, whose length is a multiple of 8");
    }
    m.block.attention().prepare(shape.attention(), Pass::trains);
    m.a.carve(m.activations.address(), shape);
    m.sent = m.tokens.send(pass.stream(), inputs, targets);
    return shape;
  }

  template <class Pass>
  void run(Pass& pass, std::span<Token const> inputs, std::span<Token const> targets,
           Index length) {
    Memory& m = *m_;
    cudaStream_t const stream = pass.stream().native();
    ActivationShape const shape = begin(pass, inputs, targets, length);
    forward(pass, shape);
    {
      auto const lease = pass.forward(embedding_unit);
      project(stream, lease[wte].address(), shape.rows(), m.a.normed);
    }
    cross_entropy(stream, pass.loss().address(), m.a.logits, m.sent.targets,
                  pass.loss_scale().address(), Pass::trains, shape.rows(), m.size.vocabulary,
                  m.a.losses);
    if constexpr (Pass::trains) backward(pass, shape);
  }

  /// logits = x tokens^T
  void project(cudaStream_t stream, T const* tokens, Index rows, T const* x) {
    m_->block.products()(stream,
                         {.rows = rows,
                          .columns = m_->size.vocabulary,
                          .inner = m_->size.width,
                          .b_transposed = true},
                         {.a = x, .b = tokens, .out = m_->a.logits});
  }

  template <class Lease>
  static BlockWeights<T> weights(Lease const& lease) {
    BlockWeights<T> w;
    for (int i = 0; i < num_block_tensors; ++i) w[at(i)] = lease[i].address();
    return w;
  }

  /// From tokens to the output of the final norm.
  template <class Pass>
  void forward(Pass& pass, ActivationShape const& shape) {
    Memory& m = *m_;
    Activations<T>& a = m.a;
    cudaStream_t const stream = pass.stream().native();
    Index const rows = shape.rows();
    {
      auto const lease = pass.forward(embedding_unit);
      embed(stream, m.size.layers > 0 ? a.blocks[0].input : a.stream, m.sent.inputs,
            lease[wte].address(), lease[wpe].address(), rows, shape.length, m.size.width);
    }
    for (Index layer = 0; layer < m.size.layers; ++layer) {
      auto const lease = pass.forward(block_unit(layer));
      m.block.forward(stream, shape.attention(), weights(lease), a.blocks[at(layer)],
                      a.attention_scratch);
    }
    auto const lease = pass.forward(final_norm_unit(m.size));
    layer_norm(stream, a.normed, a.moments, static_cast<T const*>(a.stream),
               lease[ln_f_weight].address(), lease[ln_f_bias].address(), rows, m.size.width);
  }

  /// From the gradient of the logits back to the embedding. A unit's first visit writes its
  /// gradients, so that nobody need clear them.
  template <class Pass>
  void backward(Pass& pass, ActivationShape const& shape) {
    static_assert(std::same_as<typename Pass::Gradient, T>,
                  "gpt2: on GPUs gradients have the type of the parameters");
    using zero::Fill;
    Memory& m = *m_;
    Activations<T>& a = m.a;
    cudaStream_t const stream = pass.stream().native();
    Index const rows = shape.rows();
    Index const width = m.size.width;
    {
      auto const [w, g] = pass.backward(embedding_unit, Fill::overwrite);
      head_backward(stream, rows, w[wte].address(), g[wte].address(), !g.first());
      if (g.first() && g[wpe].size() > 0) {  // the head has no positions
        check(cudaMemsetAsync(g[wpe].address(), 0, at(g[wpe].size()) * sizeof(T), stream),
              "cudaMemsetAsync");
      }
    }
    {
      auto const [w, g] = pass.backward(final_norm_unit(m.size), Fill::overwrite);
      check(cudaMemsetAsync(a.grad_stream, 0, at(rows * width) * sizeof(T), stream),
            "cudaMemsetAsync");
      layer_norm_backward(stream, a.grad_stream, g[ln_f_weight].address(), g[ln_f_bias].address(),
                          !g.first(), static_cast<T const*>(a.grad_narrow),
                          static_cast<T const*>(a.stream), w[ln_f_weight].address(), a.moments,
                          rows, width, a.sums);
    }
    for (Index layer = m.size.layers; layer-- > 0;) {
      auto const [w, g] = pass.backward(block_unit(layer), Fill::overwrite);
      BlockGradients<T> gradients;
      for (int i = 0; i < num_block_tensors; ++i) gradients[at(i)] = g[i].address();
      BlockActivations<T> const& block = a.blocks[at(layer)];
      m.block.recompute(stream, shape.attention(), weights(w), block, a.attention_scratch,
                        shape.recompute);
      m.block.backward(stream, shape.attention(), weights(w), block, a, gradients, !g.first());
    }
    auto const [w, g] = pass.backward(embedding_unit, Fill::overwrite);
    embed_backward(stream, g[wte].address(), g[wpe].address(), static_cast<T const*>(a.grad_stream),
                   m.sent.inputs, m.sent.order, m.sent.begins, m.sent.distinct, rows, shape.length,
                   width);
  }

  /// grad_narrow = grad_logits tokens; grad_tokens = grad_logits^T normed, or added.
  void head_backward(cudaStream_t stream, Index rows, T const* tokens, T* grad_tokens, bool adds) {
    Activations<T>& a = m_->a;
    Products<T>& products = m_->block.products();
    Index const vocabulary = m_->size.vocabulary;
    Index const width = m_->size.width;
    products(stream, {.rows = rows, .columns = width, .inner = vocabulary},
             {.a = a.logits, .b = tokens, .out = a.grad_narrow});
    if (grad_tokens == nullptr) return;
    products(
        stream,
        {.rows = vocabulary, .columns = width, .inner = rows, .a_transposed = true, .adds = adds},
        {.a = a.logits, .b = a.normed, .out = grad_tokens});
  }

  std::unique_ptr<Memory> m_;
};

}  // namespace gpt2::cuda
