// SPDX-License-Identifier: Apache-2.0
// A model of one's own with all that a description can say: a tied tensor, a frozen one, weight
// decay and learning rate by tensor, its own order of visits. It learns a verse letter by letter at
// the stage that the command line names, and then writes it down.
//
//     3_own_model [stage, 0 to 3] [ranks, 1 to 16]
#include <zero/zero.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using zero::at;
using zero::Index;
using Row = std::vector<float>;

constexpr std::string_view verse =
    "four ranks sat down to learn a line, and each of them kept a quarter; "
    "they asked around for what they lacked, and gave it back in order.\n";
constexpr std::string_view alphabet = "abcdefghijklmnopqrstuvwxyz ,;.\n";

// Tensors may be stored in 16 bits: they are read into floats, sums are made in floats and added
// once.
template <class T>
Row floats(zero::View<T, zero::Host> tensor) {
  Row values;
  for (T const& value : std::span<T>(tensor)) values.push_back(static_cast<float>(value));
  return values;
}
template <class G>
void add(zero::View<G, zero::Host> gradient, Row const& sums) {
  std::span<G> const to = gradient;
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<G>(static_cast<float>(to[i]) + sums[i]);
}

// x = sum over the last letters of embedding[letter] * sign[place]; then, block after block,
// x += out tanh(in x + bias); the logits of the next letter are embedding x + shift.
class Speller {
 public:
  struct Batch {
    std::vector<std::string> before;  // `context` letters each
    std::string next;                 // the letter that follows each
  };

  static constexpr Index context = 8, letters = std::ssize(alphabet), width = 32, hidden = 64;
  static constexpr int blocks = 2;

  zero::Units units() const {
    auto const sign = [](Index i) { return zero::noise_bits(7, 0, i) % 2 == 0 ? 1.0f : -1.0f; };
    zero::Units all{{"embedding",
                     {{.name = "embedding",
                       .shape = {letters, width},
                       .initial = zero::Initial::normal(0.3),
                       .lr_scale = 0.5f},
                      {.name = "shift", .shape = {letters}, .decay = 0},
                      {.name = "sign",
                       .shape = {context, width},
                       .initial = zero::Initial::function(sign),
                       .trainable = false}}}};
    for (int k = 1; k <= blocks; ++k) {
      std::string const name = "block." + std::to_string(k);
      all.push_back({name,
                     {{name + ".in", {hidden, width}, zero::Initial::normal(0.2)},
                      {.name = name + ".bias", .shape = {hidden}, .decay = 0},
                      {name + ".out", {width, hidden}, zero::Initial::normal(0.1)}}});
    }
    return all;
  }

  // Without this member the order would be forward 0 to n - 1, backward n - 1 to 0. Here unit 0
  // comes again as the head: a tied tensor is one tensor that is visited twice.
  zero::Schedule schedule() const {
    zero::Schedule order;
    for (int unit = 0; unit <= blocks; ++unit) order.push_back({unit, zero::Phase::forward});
    order.push_back({0, zero::Phase::forward});
    order.push_back({0, zero::Phase::backward});
    for (int unit = blocks; unit >= 0; --unit) order.push_back({unit, zero::Phase::backward});
    return order;
  }

  template <class Pass>
  double operator()(Pass& pass, Batch const& batch) {
    std::vector<Row> p = logits(pass, batch.before);
    double loss = 0;
    for (std::size_t s = 0; s < p.size(); ++s) {
      float sum = 0;
      for (float& value : p[s]) {
        value = std::exp(value);
        sum += value;
      }
      for (float& value : p[s]) value /= sum;
      float& right = p[s][at(number(batch.next[s]))];
      loss -= std::log(right) / static_cast<float>(p.size());
      right -= 1;  // now p is the derivative of this letter's loss by its logits
    }
    if constexpr (Pass::trains) backward(pass, batch.before, p);
    return loss;
  }

  // Of the letter that follows each text; with any pass, so that it serves to write as well.
  template <class Pass>
  std::vector<Row> logits(Pass& pass, std::vector<std::string> const& before) {
    x_.assign(blocks + 1, std::vector<Row>(before.size(), Row(width)));
    h_.assign(blocks + 1, std::vector<Row>(before.size(), Row(hidden)));
    {
      auto const unit = pass.forward(0);
      Row const embedding = floats(unit[0]), sign = floats(unit[2]);
      for (std::size_t s = 0; s < before.size(); ++s) {
        for (Index n = 0; n < context * width; ++n)
          x_[0][s][at(n % width)] +=
              embedding[at(number(before[s][at(n / width)]) * width + n % width)] * sign[at(n)];
      }
    }
    for (int k = 1; k <= blocks; ++k) {
      auto const unit = pass.forward(k);
      Row const in = floats(unit[0]), bias = floats(unit[1]), out = floats(unit[2]);
      for (std::size_t s = 0; s < before.size(); ++s) {
        Row& h = h_[at(k)][s] = bias;
        multiply_add(in, x_[at(k - 1)][s], h);
        for (float& value : h) value = std::tanh(value);
        x_[at(k)][s] = x_[at(k - 1)][s];
        multiply_add(out, h, x_[at(k)][s]);
      }
    }
    auto const head = pass.forward(0);
    Row const embedding = floats(head[0]);
    std::vector<Row> result(before.size(), floats(head[1]));
    for (std::size_t s = 0; s < before.size(); ++s)
      multiply_add(embedding, x_[blocks][s], result[s]);
    return result;
  }

 private:
  static Index number(char letter) { return static_cast<Index>(alphabet.find(letter)); }

  // y += matrix x; dx += transposed matrix dy, d_matrix += dy x.
  static void multiply_add(Row const& matrix, Row const& x, Row& y) {
    for (std::size_t n = 0; n < matrix.size(); ++n) y[n / x.size()] += matrix[n] * x[n % x.size()];
  }
  static void multiply_backward(Row const& matrix, Row const& x, Row const& dy, Row& dx,
                                Row& d_matrix) {
    for (std::size_t n = 0; n < matrix.size(); ++n) {
      dx[n % x.size()] += matrix[n] * dy[n / x.size()];
      d_matrix[n] += dy[n / x.size()] * x[n % x.size()];
    }
  }

  template <class Pass>
  void backward(Pass& pass, std::vector<std::string> const& before, std::vector<Row> d_logits) {
    std::vector<Row> dx(before.size(), Row(width));
    float const scale =
        std::span<float const>(pass.loss_scale())[0] / static_cast<float>(before.size());
    {
      auto const [parameters, gradients] = pass.backward(0);
      Row const embedding = floats(parameters[0]);
      Row d_embedding(embedding.size()), d_shift(letters);
      for (std::size_t s = 0; s < before.size(); ++s) {
        for (float& value : d_logits[s]) value *= scale;
        multiply_backward(embedding, x_[blocks][s], d_logits[s], dx[s], d_embedding);
        for (std::size_t i = 0; i < d_shift.size(); ++i) d_shift[i] += d_logits[s][i];
      }
      add(gradients[0], d_embedding);
      add(gradients[1], d_shift);
    }
    for (int k = blocks; k >= 1; --k) {
      auto const [parameters, gradients] = pass.backward(k);
      Row const in = floats(parameters[0]), out = floats(parameters[2]);
      Row d_in(in.size()), d_bias(hidden), d_out(out.size());
      for (std::size_t s = 0; s < before.size(); ++s) {
        Row const& h = h_[at(k)][s];
        Row dh(hidden);
        multiply_backward(out, h, dx[s], dh, d_out);
        for (std::size_t i = 0; i < dh.size(); ++i) {
          dh[i] *= 1 - h[i] * h[i];
          d_bias[i] += dh[i];
        }
        multiply_backward(in, x_[at(k - 1)][s], dh, dx[s], d_in);
      }
      add(gradients[0], d_in);
      add(gradients[1], d_bias);
      add(gradients[2], d_out);
    }
    auto const [parameters, gradients] = pass.backward(0);
    Row const sign = floats(parameters[2]);
    Row d_embedding(at(letters * width));
    for (std::size_t s = 0; s < before.size(); ++s) {
      for (Index n = 0; n < context * width; ++n)
        d_embedding[at(number(before[s][at(n / width)]) * width + n % width)] +=
            dx[s][at(n % width)] * sign[at(n)];
    }
    add(gradients[0], d_embedding);  // `sign` is frozen: gradients[2] is empty
  }

  std::vector<std::vector<Row>> x_;  // after each block, of each sample
  std::vector<std::vector<Row>> h_;
};

// The letters before a place of the verse; it goes round.
std::string before(Index place) {
  std::string letters;
  for (Index i = place - Speller::context; i < place; ++i)
    letters += verse[at((i + std::ssize(verse)) % std::ssize(verse))];
  return letters;
}

// This rank's part of an epoch, in micro-batches of at most 8 letters.
std::vector<Speller::Batch> epoch_of(Index number, int rank, int world) {
  std::vector<Speller::Batch> batches;
  for (Index place : zero::sample_order(std::ssize(verse), rank, world, 1, number)) {
    if (batches.empty() || batches.back().next.size() == 8) batches.emplace_back();
    batches.back().before.push_back(before(place));
    batches.back().next += verse[at(place)];
  }
  return batches;
}

template <class Sharding>
void train(int ranks, Sharding sharding) {
  zero::launch<zero::Threads>(ranks, [&](auto communicator) {
    constexpr Index epochs = 30;
    zero::Options const options{.accumulation = 2, .clip = 1.0f, .seed = 3};
    zero::AdamW const adamw{.lr = 1e-2f};
    zero::Trainer trainer{Speller{}, communicator, adamw, options, sharding, zero::Bf16Mixed{}};
    bool const first = communicator.rank() == 0;
    if (first) std::printf("each rank keeps %s\n", trainer.plan().text().c_str());

    for (Index epoch = 1; epoch <= epochs; ++epoch) {
      auto const batches = epoch_of(epoch, communicator.rank(), communicator.size());
      std::span const all(batches);
      for (std::size_t i = 0; i < all.size(); i += 2)  // the last step may have one micro-batch
        trainer.step(all.subspan(i, std::min<std::size_t>(2, all.size() - i)));
      if (epoch % 5 > 0) continue;
      double const norm = trainer.decision().norm;
      trainer.evaluate(epoch_of(0, communicator.rank(), communicator.size())[0]);
      double const loss = trainer.mean_loss();
      if (first)
        std::printf("epoch %2d: loss %.4f, gradient norm %.3f\n", static_cast<int>(epoch), loss,
                    norm);
    }

    std::string text = before(0);
    for (Index i = 0; i < std::ssize(verse); ++i) {
      trainer.evaluate([&](auto& pass) {  // every rank makes the same pass
        auto const next = trainer.model().logits(pass, {text.substr(text.size() - 8)})[0];
        text += alphabet[at(std::max_element(next.begin(), next.end()) - next.begin())];
      });
    }
    if (first) std::printf("it writes: %s", text.c_str() + Speller::context);
  });
}

}  // namespace

int main(int argc, char** argv) {
  auto const number = [&](int i, int otherwise) {  // -1: not a number
    if (i >= argc) return otherwise;
    char* end = argv[i];
    long const value = std::strtol(argv[i], &end, 10);
    return end != argv[i] && *end == '\0' && value >= 0 && value <= 16 ? static_cast<int>(value)
                                                                       : -1;
  };
  int const stage = number(1, 3);
  int const ranks = number(2, 4);
  if (stage < 0 || stage > 3 || ranks < 1 || ranks > 16) {
    std::fprintf(stderr, "3_own_model takes a stage from 0 to 3 and 1 to 16 ranks\n");
    return 2;
  }
  // A stage is a type: what it does not use is not compiled. So a stage that is known only now is
  // chosen among four trainers.
  if (stage == 0) train(ranks, zero::Sharded<0>{});
  if (stage == 1) train(ranks, zero::Sharded<1>{});
  if (stage == 2) train(ranks, zero::Sharded<2>{});
  if (stage == 3) train(ranks, zero::Sharded<3>{});
}
