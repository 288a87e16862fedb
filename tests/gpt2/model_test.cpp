// SPDX-License-Identifier: Apache-2.0
#include "finite_differences.hpp"
#include <zero/core/dtype.hpp>

#include <doctest/doctest.h>
#include <gpt2/model.hpp>
#include <gpt2/plain_pass.hpp>

namespace {

using test::at;
using test::Index;

gpt2::Configuration const size{.vocabulary = 7, .context = 6, .width = 8, .heads = 2, .layers = 2};
gpt2::TokenBatch const batch{.length = 5,
                             .inputs = {1, 4, 4, 0, 6, 2, 2, 5, 1, 1},
                             .targets = {4, 4, 0, 6, 3, 2, 5, 1, 1, 0}};

/// Parameters that make every part matter (those of training's start give attention almost equal
/// weights), and that bf16 holds exactly.
template <class P, class G>
gpt2::PlainMemory<P, G> lively(gpt2::Configuration const& of) {
  gpt2::PlainMemory<P, G> memory(gpt2::units_of(of), 1);
  std::uint64_t seed = 10;
  for (auto& unit : memory.parameters) {
    for (auto& tensor : unit) {
      auto const noise = test::values(std::ssize(tensor), ++seed, -0.5, 0.5);
      for (std::size_t i = 0; i < tensor.size(); ++i) {
        float const centre = static_cast<float>(tensor[i]) == 1 ? 1 : 0;  // the scales of norms
        tensor[i] =
            static_cast<P>(static_cast<float>(zero::bf16(centre + static_cast<float>(noise[i]))));
      }
    }
  }
  return memory;
}

template <class T, class P, class G>
double gradients(gpt2::PlainMemory<P, G>& memory, float scale = 1) {
  gpt2::BasicGpt2<T> model(size);
  gpt2::PlainPass<P, G, true> pass(memory, scale);
  model(pass, batch);
  return pass.loss()[0];
}

TEST_CASE("every parameter's gradient of the whole model is that of finite differences") {
  auto memory = lively<double, double>(size);
  gradients<double>(memory);
  gpt2::BasicGpt2<double> model(size);
  auto const f = [&] {
    gpt2::PlainPass<double, double, false> pass(memory);
    model(pass, batch);
    return pass.loss()[0];
  };
  auto const units = gpt2::units_of(size);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t t = 0; t < units[u].tensors.size(); ++t) {
      // The loss is about 2, its largest term a logit of about 10. The longest chain passes, for
      // each block, two norms, four products of at most 4 x width terms and a softmax; magnitudes
      // along it stay below 10.
      test::check_differences(units[u].tensors[t].name, f, memory.parameters[u][t],
                              memory.gradients[u][t], 10, 10 * 2 * 8 * 4 * 8);
    }
  }
}

TEST_CASE("a tied embedding's gradient is the sum of both of its uses") {
  // Token 3 stands in no input, so its row's gradient comes from the head alone; the head's
  // gradient of every row that is no target is p x: positive multiples. Token 5's row has both.
  auto memory = lively<double, double>(size);
  gradients<double>(memory);
  auto const& wte = memory.gradients[gpt2::embedding_unit][gpt2::wte];
  CHECK(test::largest(std::span<double const>(wte).subspan(at(3 * size.width), at(size.width))) >
        0);
  // The gradient of the logits sums to 0 in each row, so the head's part summed over the vocabulary
  // is 0, and what remains of the sum over rows of wte is the sum of the gradients of the embedded
  // tokens: that of wpe.
  auto const& wpe = memory.gradients[gpt2::embedding_unit][gpt2::wpe];
  for (Index i = 0; i < size.width; ++i) {
    double tokens = 0;
    double positions = 0;
    for (Index row = 0; row < size.vocabulary; ++row) tokens += wte[at(row * size.width + i)];
    for (Index row = 0; row < size.context; ++row) positions += wpe[at(row * size.width + i)];
    CHECK(tokens == doctest::Approx(positions).epsilon(1e-10));
  }
}

TEST_CASE("the model in float is the model in double up to rounding") {
  auto exact = lively<double, double>(size);
  auto memory = lively<float, float>(size);
  double const exact_loss = gradients<double>(exact);
  double const loss = gradients<float>(memory);
  CHECK(std::abs(loss - exact_loss) < 1e-5);
  for (std::size_t u = 0; u < exact.gradients.size(); ++u) {
    for (std::size_t t = 0; t < exact.gradients[u].size(); ++t) {
      // Each of two blocks forward and backward: about 2 x 8 operations in a row, sums of at most
      // 32 terms, each of which may double the relative error of the largest gradients; smaller
      // ones cancel within those.
      test::check_rounding("unit " + std::to_string(u) + " tensor " + std::to_string(t),
                           memory.gradients[u][t], exact.gradients[u][t],
                           test::largest(exact.gradients[u][t]) + 0.01, 2 * 2 * 8 * 32);
    }
  }
}

TEST_CASE("16-bit parameters are widened, and gradients in 16 bits are rounded once a visit") {
  auto wide = lively<float, float>(size);
  auto narrow = lively<zero::bf16, zero::bf16>(size);
  double const wide_loss = gradients<float>(wide);
  double const narrow_loss = gradients<float>(narrow);
  CHECK(narrow_loss == wide_loss);
  for (std::size_t u = 0; u < wide.gradients.size(); ++u) {
    for (std::size_t t = 0; t < wide.gradients[u].size(); ++t) {
      bool const tied = u == gpt2::embedding_unit && t == gpt2::wte;
      if (tied) continue;
      for (std::size_t i = 0; i < wide.gradients[u][t].size(); ++i) {
        INFO("unit " << u << " tensor " << t << " element " << i);
        CHECK(narrow.gradients[u][t][i].bits == zero::bf16(wide.gradients[u][t][i]).bits);
      }
    }
  }
  // The tied embedding is rounded after each of its two visits: half a unit of 2^-8 of either
  // partial sum.
  auto const& exact = wide.gradients[gpt2::embedding_unit][gpt2::wte];
  auto const& rounded = narrow.gradients[gpt2::embedding_unit][gpt2::wte];
  auto const exact_double = std::vector<double>(exact.begin(), exact.end());
  double const bound = 2 * 2 * test::largest(exact_double) / 256 / 2;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CHECK(std::abs(static_cast<float>(rounded[i]) - exact[i]) <= bound);
  }
}

TEST_CASE("the loss scale multiplies every gradient and not the loss") {
  auto one = lively<float, float>(size);
  auto scaled = lively<float, float>(size);
  CHECK(gradients<float>(one) == gradients<float>(scaled, 4096));
  for (std::size_t u = 0; u < one.gradients.size(); ++u) {
    for (std::size_t t = 0; t < one.gradients[u].size(); ++t) {
      for (std::size_t i = 0; i < one.gradients[u][t].size(); ++i) {
        CHECK(scaled.gradients[u][t][i] == 4096 * one.gradients[u][t][i]);
      }
    }
  }
}

TEST_CASE("gradients of a second micro-batch are added") {
  auto once = lively<double, double>(size);
  gradients<double>(once);
  auto twice = lively<double, double>(size);
  gradients<double>(twice);
  gradients<double>(twice);
  for (std::size_t u = 0; u < once.gradients.size(); ++u) {
    for (std::size_t t = 0; t < once.gradients[u].size(); ++t) {
      for (std::size_t i = 0; i < once.gradients[u][t].size(); ++i) {
        // The sums are ordered otherwise; where a true gradient is 0 (a key's bias) only rounding
        // remains.
        CHECK(std::abs(twice.gradients[u][t][i] - 2 * once.gradients[u][t][i]) < 1e-14);
      }
    }
  }
}

TEST_CASE("a model is used again for batches of other sizes, and gives what a fresh one gives") {
  gpt2::TokenBatch const small{.length = 2, .inputs = {3, 4}, .targets = {4, 5}};
  auto memory = lively<float, float>(size);
  gpt2::Gpt2 model(size);
  auto const run = [&](gpt2::Gpt2& with, gpt2::TokenBatch const& of) {
    memory.clear_gradients();
    gpt2::PlainPass<float, float, true> pass(memory);
    with(pass, of);
    return std::pair(pass.loss()[0], memory.gradients);
  };
  run(model, batch);
  auto const reused = run(model, small);
  gpt2::Gpt2 fresh(size);
  CHECK(run(fresh, small) == reused);
  CHECK(run(model, batch) == run(fresh, batch));
  gpt2::Gpt2 copy = model;
  CHECK(run(copy, small) == reused);
}

TEST_CASE("the logits of the next token are those whose softmax the loss is of") {
  auto memory = lively<double, double>(size);
  gpt2::BasicGpt2<double> model(size);
  gpt2::PlainPass<double, double, false> pass(memory);
  gpt2::TokenBatch const whole{.length = 4, .inputs = {1, 2, 3, 4}, .targets = {2, 3, 4, 6}};
  model(pass, whole);
  double expected = 0;
  for (Index n = 1; n <= 4; ++n) {
    gpt2::PlainPass<double, double, false> next(memory);
    auto const logits =
        model.next_logits(next, std::span<gpt2::Token const>(whole.inputs).first(at(n)));
    double sum = 0;
    for (double v : logits) sum += std::exp(v);
    expected += std::log(sum) - logits[at(whole.targets[at(n - 1)])];
  }
  CHECK(pass.loss()[0] == doctest::Approx(expected / 4).epsilon(1e-12));
}

TEST_CASE("batches that do not fit the model are refused in a sentence") {
  auto memory = lively<float, float>(size);
  gpt2::Gpt2 model(size);
  gpt2::PlainPass<float, float, true> pass(memory);
  auto const refused = [&](gpt2::TokenBatch const& of, char const* text) {
    CHECK_THROWS_WITH_AS(model(pass, of), text, zero::InvalidArgument);
  };
  char const* const shape = "gpt2: a batch is one or more sequences of 1 to 6 tokens of one length";
  refused({.length = 0, .inputs = {}, .targets = {}}, shape);
  refused({.length = 7, .inputs = {0, 0, 0, 0, 0, 0, 0}, .targets = {0, 0, 0, 0, 0, 0, 0}}, shape);
  refused({.length = 2, .inputs = {0, 0, 0}, .targets = {0, 0, 0}}, shape);
  refused({.length = 1, .inputs = {0, 0}, .targets = {0}},
          "gpt2: a batch has as many targets as inputs");
  refused({.length = 1, .inputs = {7}, .targets = {0}},
          "gpt2: token 7 is not in the vocabulary of 7");
  refused({.length = 1, .inputs = {0}, .targets = {-1}},
          "gpt2: token -1 is not in the vocabulary of 7");
}

}  // namespace
