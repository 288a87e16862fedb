// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two loops that make the same steps: the trainer's, and one over the parts alone.

#include <zero/zero.hpp>

#include <support/test_model.hpp>

#include <vector>

namespace zero_test {

/// The parts of a model that is trained, whoever made them.
/// @tparam X a Context
template <class X>
struct Parts {
  X& context;
  zero::Parameters<X>& parameters;
  zero::Gradients<X>& gradients;
  zero::OptimizerState<X, zero::AdamW>& state;
};

/// Elements [begin, begin + n) of a slot, on the host; waits.
template <class T, class X>
std::vector<T> read_slot(X& context, zero::Slot<typename X::Device>& slot, zero::Index begin,
                         zero::Index n) {
  std::vector<T> host(zero::at(n));
  auto claim = slot.template on<T>(context.compute);
  copy_out(context.compute, host.data(),
           zero::View<T const, typename X::Device>(claim.view(begin, n)));
  claim.end();
  context.compute.synchronize();
  return host;
}

/// @tparam X a Context
template <class X>
class TrainerLoop {
 public:
  template <class C>
  TrainerLoop(TestModel model, C communicator, zero::AdamW optimizer, zero::Options const& options)
      : trainer_(std::move(model), std::move(communicator), optimizer, options) {}

  Parts<X> parts() {
    return {trainer_.context(), trainer_.parameters(), trainer_.gradients(),
            trainer_.optimizer_state()};
  }
  void step(std::vector<Batch> const& batches) {
    switch (batches.size()) {
      case 1:
        return trainer_.step(batches[0]);
      case 2:
        return trainer_.step(batches[0], batches[1]);
      default:
        return trainer_.step(batches);
    }
  }
  double loss() { return trainer_.loss(); }
  double evaluate(Batch const& batch) { return trainer_.evaluate(batch); }
  template <class F>
  void look(F f) {
    trainer_.evaluate(f);
  }
  zero::Decision decision() { return trainer_.decision(); }
  TestModel& model() { return trainer_.model(); }
  auto& trainer() { return trainer_; }

 private:
  zero::Trainer<TestModel, typename X::Communicator, zero::AdamW, typename X::Policy> trainer_;
};

/// A loop that a user might write: it looks at each micro-batch without training on it, keeps its
/// own mean of those losses, and only then makes the training pass.
/// @tparam X a Context
template <class X>
class PartsLoop {
 public:
  template <class C>
  PartsLoop(TestModel model, C communicator, zero::AdamW optimizer, zero::Options const& options)
      : model_(std::move(model)),
        context_(model_, std::move(communicator), optimizer, options),
        parameters_(context_),
        gradients_(context_),
        state_(context_, optimizer) {}

  Parts<X> parts() { return {context_, parameters_, gradients_, state_}; }
  void step(std::vector<Batch> const& batches) {
    zero::Index const count = static_cast<zero::Index>(batches.size());
    double sum = 0;
    for (zero::Index i = 0; i < count; ++i) {
      sum += evaluate(batches[zero::at(i)]);
      zero::Pass pass{parameters_, gradients_, zero::MicroBatch{i, count}};
      model_(pass, batches[zero::at(i)]);
      pass.end();
    }
    state_.decide(gradients_, count);
    state_.update(parameters_, gradients_);
    parameters_.publish();
    loss_ = sum / static_cast<double>(count);
  }
  double loss() const { return loss_; }
  double evaluate(Batch const& batch) {
    look([&](auto& pass) { model_(pass, batch); });
    return read_slot<double>(context_, context_.loss(), 0, 1)[0];
  }
  template <class F>
  void look(F f) {
    zero::Pass pass{parameters_};
    f(pass);
    pass.end();
  }
  zero::Decision decision() {
    return read_slot<zero::Decision>(context_, context_.decision(), 0, 1)[0];
  }
  TestModel& model() { return model_; }

 private:
  TestModel model_;
  X context_;
  zero::Parameters<X> parameters_;
  zero::Gradients<X> gradients_;
  zero::OptimizerState<X, zero::AdamW> state_;
  double loss_ = 0;
};

}  // namespace zero_test
