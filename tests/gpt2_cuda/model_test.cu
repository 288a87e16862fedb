// SPDX-License-Identifier: Apache-2.0
// The whole GPT on a GPU against the host's: loss and every gradient.

#include <gpt2/cuda/model.cuh>
#include <gpt2/cuda/plain_pass.cuh>
#include <gpt2/model.hpp>
#include <gpt2/plain_pass.hpp>
#include <gpt2_cuda/numbers.hpp>

#include <array>

namespace gpt2_test {
namespace {

using gpt2::Recompute;

gpt2::Configuration const size{
    .vocabulary = 56, .context = 16, .width = 32, .heads = 4, .layers = 2};
constexpr Index sequences = 3;

gpt2::TokenBatch batch(Index length, Index count = sequences) {
  gpt2::TokenBatch b{.length = length, .inputs = {}, .targets = {}};
  for (Index i = 0; i < count * length; ++i) {
    b.inputs.push_back(static_cast<gpt2::Token>((i * i * 5 + 3 * i) % size.vocabulary));
    b.targets.push_back(static_cast<gpt2::Token>((i * 11 + 7) % size.vocabulary));
  }
  return b;
}

/// Parameters that make every part matter, and that bf16 holds exactly: the host's, in double.
gpt2::PlainMemory<double, double> lively() {
  gpt2::PlainMemory<double, double> memory(gpt2::units_of(size), 1);
  std::uint64_t seed = 10;
  for (auto& unit : memory.parameters) {
    for (auto& tensor : unit) {
      auto const noise = values<bf16>(std::ssize(tensor), ++seed, -0.5, 0.5);
      for (std::size_t i = 0; i < tensor.size(); ++i) {
        double const centre = tensor[i] == 1 ? 1 : 0;  // the scales of norms
        tensor[i] = static_cast<float>(bf16(static_cast<float>(centre + noise[i])));
      }
    }
  }
  return memory;
}

/// The model on a GPU with those parameters.
template <class T>
struct Rig {
  Device device;
  gpt2::cuda::PlainMemory<T> memory{device, gpt2::units_of(size)};
  gpt2::cuda::Gpt2<T> model;

  explicit Rig(Recompute recompute)
      : model(device, size, {.batch = sequences, .recompute = recompute}) {
    auto const from = lively();
    for (std::size_t u = 0; u < from.parameters.size(); ++u) {
      for (std::size_t t = 0; t < from.parameters[u].size(); ++t) {
        std::vector<T> rounded;
        for (double v : from.parameters[u][t])
          rounded.push_back(static_cast<T>(static_cast<float>(v)));
        zero::copy_in(memory.stream, memory.parameters[u][t], rounded.data());
        memory.stream.synchronize();
      }
    }
  }

  template <bool Trains>
  double run(gpt2::TokenBatch const& of, float scale = 1) {
    gpt2::cuda::PlainPass<T, Trains> pass(memory, scale);
    model(pass, of);
    double loss = 0;
    zero::copy_out(memory.stream, &loss, zero::View<double const, Device>(pass.loss()));
    memory.stream.synchronize();
    return loss;
  }
  std::vector<T> gradient(std::size_t unit, std::size_t tensor) {
    auto const view = memory.gradients[unit][tensor];
    std::vector<T> result(at(view.size()));
    zero::copy_out(memory.stream, result.data(), zero::View<T const, Device>(view));
    memory.stream.synchronize();
    return result;
  }
  std::vector<std::vector<T>> gradients() {
    std::vector<std::vector<T>> all;
    for (std::size_t u = 0; u < memory.gradients.size(); ++u) {
      for (std::size_t t = 0; t < memory.gradients[u].size(); ++t) all.push_back(gradient(u, t));
    }
    return all;
  }
};

template <class T>
void check_model(Recompute recompute, char const* how) {
  auto exact = lively();
  gpt2::BasicGpt2<double> host(size);
  gpt2::PlainPass<double, double, true> pass(exact);
  auto const of = batch(size.context);
  host(pass, of);
  Rig<T> rig(recompute);
  std::string const what = std::string(name<T>()) + " model, " + how;
  // Along the longest chain, two blocks forward and backward, some 4 x 16 results are rounded to T,
  // and sums of at most 32 x 4 terms are made in float; each may turn a value by its share of the
  // largest of its tensor.
  double const chain = 64 * rounding<T> + 2 * 2 * 8 * 32 * float_rounding;
  check_close(what + ", loss", {rig.template run<true>(of)}, {pass.loss()[0]}, {chain, 0});
  auto const units = gpt2::units_of(size);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t t = 0; t < units[u].tensors.size(); ++t) {
      auto const& expected = exact.gradients[u][t];
      std::vector<double> found;
      for (T v : rig.gradient(u, t)) found.push_back(static_cast<double>(static_cast<float>(v)));
      check_close(what + ", " + units[u].tensors[t].name, found, expected,
                  {0, chain * (largest(expected) + 0.01)});
    }
  }
}

TEST_CASE("every gradient of the model in fp32 is the host's in double up to rounding") {
  check_model<float>(Recompute::none, "nothing made again");
  check_model<float>(Recompute::cheap, "norms and gelu made again");
  check_model<float>(Recompute::block, "blocks made again");
}

TEST_CASE("every gradient of the model in bf16 is the host's in double up to rounding") {
  check_model<bf16>(Recompute::none, "nothing made again");
  check_model<bf16>(Recompute::cheap, "norms and gelu made again");
  check_model<bf16>(Recompute::block, "blocks made again");
}

template <class T>
void check_bits() {
  auto const of = batch(size.context);
  Rig<T> rig(Recompute::none);
  double const loss = rig.template run<true>(of);
  auto const gradients = rig.gradients();
  auto const same = [&](std::vector<std::vector<T>> const& other) {
    bool equal = true;
    for (std::size_t i = 0; i < other.size(); ++i)
      equal = equal && zero_test::same_bits(gradients[i], other[i]);
    return equal;
  };
  CHECK(rig.template run<false>(of) == loss);
  rig.template run<true>(batch(8));
  CHECK(rig.template run<true>(of) == loss);
  CHECK(same(rig.gradients()));
  Rig<T> blocks(Recompute::block);
  CHECK(blocks.template run<true>(of) == loss);
  CHECK(same(blocks.gradients()));
}

TEST_CASE("passes give the same bits again, after other shapes and with blocks made again") {
  check_bits<float>();
  check_bits<bf16>();
}

TEST_CASE("the loss scale multiplies every gradient and not the loss") {
  auto const of = batch(size.context);
  Rig<float> rig(Recompute::cheap);
  double const loss = rig.run<true>(of);
  auto const one = rig.gradients();
  CHECK(rig.run<true>(of, 4096) == loss);
  auto const scaled = rig.gradients();
  for (std::size_t i = 0; i < one.size(); ++i) {
    for (std::size_t k = 0; k < one[i].size(); ++k) CHECK(scaled[i][k] == 4096 * one[i][k]);
  }
}

TEST_CASE("the logits of the next token are the host's") {
  auto memory = lively();
  gpt2::BasicGpt2<double> host(size);
  gpt2::PlainPass<double, double, false> host_pass(memory);
  Rig<float> rig(Recompute::cheap);
  auto const whole = batch(size.context);
  for (Index n : {Index{1}, Index{5}, size.context}) {
    auto const ids = std::span<gpt2::Token const>(whole.inputs).first(at(n));
    auto const expected = host.next_logits(host_pass, ids);
    gpt2::cuda::PlainPass<float, false> pass(rig.memory);
    auto const found = rig.model.next_logits(pass, ids);
    check_close(
        "logits after " + std::to_string(n), {found.begin(), found.end()},
        {expected.begin(), expected.end()},
        {0, 2 * 8 * 32 * float_rounding * 10});  // as above, forward; the largest is below 10
  }
}

TEST_CASE("what the kernels do not take is refused in a sentence") {
  Device device;
  auto const refused = [&](gpt2::Configuration of, char const* sentence) {
    CHECK_THROWS_WITH_AS(gpt2::cuda::Gpt2<float>(device, of, {}), sentence, zero::InvalidArgument);
  };
  gpt2::Configuration of = size;
  of.heads = 8;
  refused(of, "gpt2: on GPUs the width of a head must be a multiple of 8, not 4");
  of = size;
  of.context = 12;
  refused(of, "gpt2: on GPUs the context must be a multiple of 8, not 12");
  of = size;
  of.vocabulary = 57;
  refused(of, "gpt2: on GPUs the vocabulary must be a multiple of 8, not 57");
  Rig<float> rig(Recompute::none);
  CHECK_THROWS_WITH_AS(rig.run<true>(batch(16, 4)),
                       "gpt2: a micro-batch of 4 sequences of 16 tokens; on this GPU at most 3 "
                       "sequences, whose length is a multiple of 8",
                       zero::InvalidArgument);
}

}  // namespace
}  // namespace gpt2_test
