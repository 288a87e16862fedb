// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <gpt2/model.hpp>
#include <gpt2/plain_pass.hpp>

#include <map>
#include <string>
#include <vector>

namespace {

using gpt2::Index;

gpt2::Configuration const size{.vocabulary = 11, .context = 6, .width = 8, .heads = 2, .layers = 2};

std::map<std::string, zero::Tensor> tensors_by_name(gpt2::Configuration const& of) {
  std::map<std::string, zero::Tensor> tensors;
  for (auto const& unit : gpt2::units_of(of)) {
    for (auto const& tensor : unit.tensors) tensors.emplace(tensor.name, tensor);
  }
  return tensors;
}

TEST_CASE("names and shapes are those of Hugging Face's GPT2LMHeadModel") {
  std::map<std::string, std::vector<Index>> expected{{"transformer.wte.weight", {11, 8}},
                                                     {"transformer.wpe.weight", {6, 8}},
                                                     {"transformer.ln_f.weight", {8}},
                                                     {"transformer.ln_f.bias", {8}}};
  for (std::string const layer : {"transformer.h.0.", "transformer.h.1."}) {
    expected[layer + "ln_1.weight"] = expected[layer + "ln_1.bias"] = {8};
    expected[layer + "attn.c_attn.weight"] = {8, 24};
    expected[layer + "attn.c_attn.bias"] = {24};
    expected[layer + "attn.c_proj.weight"] = {8, 8};
    expected[layer + "attn.c_proj.bias"] = {8};
    expected[layer + "ln_2.weight"] = expected[layer + "ln_2.bias"] = {8};
    expected[layer + "mlp.c_fc.weight"] = {8, 32};
    expected[layer + "mlp.c_fc.bias"] = {32};
    expected[layer + "mlp.c_proj.weight"] = {32, 8};
    expected[layer + "mlp.c_proj.bias"] = {8};
  }
  std::map<std::string, std::vector<Index>> found;
  for (auto const& [name, tensor] : tensors_by_name(size)) found[name] = tensor.shape;
  CHECK(found == expected);
}

TEST_CASE("GPT-2 small has its 124,439,808 parameters, the head tied") {
  gpt2::Configuration const small{
      .vocabulary = 50257, .context = 1024, .width = 768, .heads = 12, .layers = 12};
  Index total = 0;
  for (auto const& [name, tensor] : tensors_by_name(small)) total += tensor.elements();
  CHECK(total == 124439808);
}

TEST_CASE("biases and norms have no weight decay, matrices have") {
  for (auto const& [name, tensor] : tensors_by_name(size)) {
    INFO(name);
    CHECK(tensor.decay == (tensor.shape.size() == 1 ? 0.0f : 1.0f));
    CHECK(tensor.trainable);
  }
}

TEST_CASE("initial values have GPT-2's deviations, and residual projections less with depth") {
  gpt2::Configuration const wide{
      .vocabulary = 64, .context = 64, .width = 64, .heads = 4, .layers = 8};
  auto const tensors = tensors_by_name(wide);
  auto const deviation = [&](std::string const& name) {
    auto const& tensor = tensors.at(name);
    double squares = 0;
    for (Index i = 0; i < tensor.elements(); ++i) {
      double const v = tensor.initial.value(1, 0, i);
      squares += v * v;
    }
    return std::sqrt(squares / static_cast<double>(tensor.elements()));
  };
  // 4096 samples or more: the deviation is known within 1 / sqrt(2 x 4096) = 1.1 %; allowed are
  // four times that.
  CHECK(deviation("transformer.wte.weight") == doctest::Approx(0.02).epsilon(0.045));
  CHECK(deviation("transformer.wpe.weight") == doctest::Approx(0.02).epsilon(0.045));
  CHECK(deviation("transformer.h.3.attn.c_attn.weight") == doctest::Approx(0.02).epsilon(0.045));
  CHECK(deviation("transformer.h.3.mlp.c_fc.weight") == doctest::Approx(0.02).epsilon(0.045));
  CHECK(deviation("transformer.h.3.attn.c_proj.weight") ==
        doctest::Approx(0.02 / 4).epsilon(0.045));
  CHECK(deviation("transformer.h.3.mlp.c_proj.weight") == doctest::Approx(0.02 / 4).epsilon(0.045));
  CHECK(tensors.at("transformer.ln_f.weight").initial.value(1, 0, 3) == 1);
  CHECK(tensors.at("transformer.ln_f.bias").initial.value(1, 0, 3) == 0);
  CHECK(tensors.at("transformer.h.0.ln_2.weight").initial.value(1, 0, 3) == 1);
  CHECK(tensors.at("transformer.h.0.mlp.c_fc.bias").initial.value(1, 0, 3) == 0);
}

/// Notes which units a model visits, and hands out plain memory.
template <bool Trains>
struct RecordingPass {
  using Plain = gpt2::PlainPass<float, float, Trains>;
  static constexpr bool trains = Trains;
  using Parameter = float;
  using Gradient = float;
  using Device = zero::Host;

  Plain plain;
  zero::Schedule visits{};

  auto forward(int unit) {
    visits.push_back({unit, zero::Phase::forward});
    return plain.forward(unit);
  }
  auto backward(int unit) {
    visits.push_back({unit, zero::Phase::backward});
    return plain.backward(unit);
  }
  auto loss() { return plain.loss(); }
  auto loss_scale() { return plain.loss_scale(); }
};

void check_same(zero::Schedule const& made, zero::Schedule const& stated) {
  REQUIRE(made.size() == stated.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    INFO("visit " << i);
    CHECK(made[i].unit == stated[i].unit);
    CHECK(made[i].phase == stated[i].phase);
    CHECK(stated[i].held == 0);
  }
}

TEST_CASE(
    "the model makes the visits of its schedule, and only the forward ones when it does not "
    "train") {
  for (Index layers : {0, 1, 3}) {
    gpt2::Configuration of = size;
    of.layers = layers;
    gpt2::Gpt2 model(of);
    zero::validate(model.units());
    zero::validate(model.schedule(), model.units());
    gpt2::PlainMemory<float> memory(model.units(), 1);
    gpt2::TokenBatch const batch{.length = 3, .inputs = {1, 2, 3}, .targets = {2, 3, 4}};

    RecordingPass<true> training{.plain = RecordingPass<true>::Plain(memory)};
    model(training, batch);
    check_same(training.visits, model.schedule());

    RecordingPass<false> evaluation{.plain = RecordingPass<false>::Plain(memory)};
    model(evaluation, batch);
    zero::Schedule forward = model.schedule();
    std::erase_if(forward, [](zero::Visit const& v) { return v.phase == zero::Phase::backward; });
    check_same(evaluation.visits, forward);
  }
}

TEST_CASE("sizes that no model has are refused in a sentence") {
  gpt2::Configuration bad = size;
  bad.heads = 3;
  CHECK_THROWS_WITH_AS(gpt2::Gpt2{bad}, "gpt2: 3 heads do not divide a width of 8",
                       zero::InvalidArgument);
  bad = size;
  bad.context = 0;
  CHECK_THROWS_WITH_AS(gpt2::Gpt2{bad},
                       "gpt2: vocabulary, context, width and heads must be at least 1",
                       zero::InvalidArgument);
  bad = size;
  bad.layers = -1;
  CHECK_THROWS_WITH_AS(gpt2::Gpt2{bad}, "gpt2: the number of layers must not be negative",
                       zero::InvalidArgument);
}

}  // namespace
