// SPDX-License-Identifier: Apache-2.0
#pragma once
// A GPT-2 as units: the embedding (also the head, to which it is tied), one unit a block, the final
// norm. Names and shapes are those of Hugging Face's GPT2LMHeadModel, initial values those of its
// initialisation.

#include <zero/model/model.hpp>

#include <gpt2/configuration.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace gpt2 {

/// The place of each tensor in the embedding's unit.
enum EmbeddingTensor : int { wte, wpe };

/// The place of each tensor in a block's unit.
enum BlockTensor : int {
  ln_1_weight,
  ln_1_bias,
  attn_c_attn_weight,
  attn_c_attn_bias,
  attn_c_proj_weight,
  attn_c_proj_bias,
  ln_2_weight,
  ln_2_bias,
  mlp_c_fc_weight,
  mlp_c_fc_bias,
  mlp_c_proj_weight,
  mlp_c_proj_bias,
  num_block_tensors
};

/// The place of each tensor in the final norm's unit.
enum FinalNormTensor : int { ln_f_weight, ln_f_bias };

inline constexpr int embedding_unit = 0;
inline int block_unit(Index layer) { return static_cast<int>(1 + layer); }
inline int final_norm_unit(Configuration const& size) { return static_cast<int>(1 + size.layers); }

namespace detail {

/// A matrix: normal initial values and weight decay.
inline zero::Tensor matrix(std::string name, Index rows, Index columns, float deviation) {
  return {.name = std::move(name),
          .shape = {rows, columns},
          .initial = zero::Initial::normal(deviation)};
}

/// A bias, or a scale or shift of a norm: one value everywhere, and no weight decay.
inline zero::Tensor vector(std::string name, Index length, float value) {
  return {.name = std::move(name),
          .shape = {length},
          .initial = zero::Initial::constant(value),
          .decay = 0.0f};
}

inline zero::Unit block(Configuration const& size, Index layer) {
  std::string const name = "h." + std::to_string(layer);
  std::string const prefix = "transformer." + name + ".";
  float const deviation = 0.02f;
  // Each layer adds to the residual stream twice; so scaled, the sum keeps its size at any depth.
  float const residual = deviation / std::sqrt(2.0f * static_cast<float>(size.layers));
  Index const width = size.width;
  return {
      .name = name,
      .tensors = {vector(prefix + "ln_1.weight", width, 1), vector(prefix + "ln_1.bias", width, 0),
                  matrix(prefix + "attn.c_attn.weight", width, 3 * width, deviation),
                  vector(prefix + "attn.c_attn.bias", 3 * width, 0),
                  matrix(prefix + "attn.c_proj.weight", width, width, residual),
                  vector(prefix + "attn.c_proj.bias", width, 0),
                  vector(prefix + "ln_2.weight", width, 1), vector(prefix + "ln_2.bias", width, 0),
                  matrix(prefix + "mlp.c_fc.weight", width, 4 * width, deviation),
                  vector(prefix + "mlp.c_fc.bias", 4 * width, 0),
                  matrix(prefix + "mlp.c_proj.weight", 4 * width, width, residual),
                  vector(prefix + "mlp.c_proj.bias", width, 0)}};
}

}  // namespace detail

/// Every tensor of a GPT-2 of these sizes.
inline zero::Units units_of(Configuration const& size) {
  size.check();
  zero::Units units;
  units.push_back(
      {.name = "embedding",
       .tensors = {detail::matrix("transformer.wte.weight", size.vocabulary, size.width, 0.02f),
                   detail::matrix("transformer.wpe.weight", size.context, size.width, 0.02f)}});
  for (Index layer = 0; layer < size.layers; ++layer) units.push_back(detail::block(size, layer));
  units.push_back({.name = "ln_f",
                   .tensors = {detail::vector("transformer.ln_f.weight", size.width, 1),
                               detail::vector("transformer.ln_f.bias", size.width, 0)}});
  return units;
}

/// The config.json of transformers' GPT2LMHeadModel of these sizes. Dropout is 0 and the activation
/// gelu_new, as here; bytes are tokens, and none of them ends a text.
inline std::string config_json_of(Configuration const& size) {
  auto const n = [](Index value) { return std::to_string(value); };
  return "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n"
         "  \"activation_function\": \"gelu_new\",\n  \"attn_pdrop\": 0.0,\n"
         "  \"embd_pdrop\": 0.0,\n  \"resid_pdrop\": 0.0,\n"
         "  \"layer_norm_epsilon\": 1e-05,\n  \"bos_token_id\": null,\n"
         "  \"eos_token_id\": null,\n  \"tie_word_embeddings\": true,\n  \"n_ctx\": " +
         n(size.context) + ",\n  \"n_positions\": " + n(size.context) +
         ",\n  \"n_embd\": " + n(size.width) + ",\n  \"n_head\": " + n(size.heads) +
         ",\n  \"n_layer\": " + n(size.layers) + ",\n  \"vocab_size\": " + n(size.vocabulary) +
         "\n}\n";
}

/// The order of a training pass: through the units, to the embedding again as the head, and all the
/// way back.
inline zero::Schedule schedule_of(Configuration const& size) {
  zero::Schedule visits;
  int const last = final_norm_unit(size);
  for (int unit = 0; unit <= last; ++unit)
    visits.push_back({.unit = unit, .phase = zero::Phase::forward});
  visits.push_back({.unit = embedding_unit, .phase = zero::Phase::forward});
  visits.push_back({.unit = embedding_unit, .phase = zero::Phase::backward});
  for (int unit = last; unit >= 0; --unit)
    visits.push_back({.unit = unit, .phase = zero::Phase::backward});
  return visits;
}

}  // namespace gpt2
