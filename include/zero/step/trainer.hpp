// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trainer: parameters, gradients and optimizer state of one model, stepped together. It is
// built on the parts that a user's own loop may use without it, and on nothing else.

#include <zero/step/pass.hpp>

#include <ranges>
#include <span>
#include <string>
#include <vector>

namespace zero {

/// Trains a user's model over the ranks of a communicator. One a rank; every rank makes its own,
/// with equal model description, options and policies, and calls the same members in the same
/// order. Several may live at once. Nothing waits on the host but the members that say so.
/// @tparam M a Model that is callable with the passes below
/// @tparam C the Communicator, which brings the device
/// @tparam O the Optimizer
/// @tparam P the Policies
template <class M, class C, class O, class P>
class Trainer {
  static_assert(Model<M>,
                "Trainer: the model needs `using Batch = ...` and `zero::Units units() const`; see "
                "zero/model/model.hpp");
  static_assert(Communicator<C>,
                "Trainer: the communicator needs Device, rank(), size(), device(), channel(i) and "
                "abort(text) noexcept; see zero/comm/communicator.hpp");
  static_assert(Optimizer<O>,
                "Trainer: the optimizer needs num_states, learning_rate(t), constants(t) and "
                "direction(constants, weight, gradient, states, decay), and must be trivially "
                "copyable; see zero/optim/optimizer.hpp");

 public:
  using Context = zero::Context<C, P>;            ///< what the parts are made from
  using Device = typename C::Device;              ///< of this rank
  using Parameter = typename Context::Parameter;  ///< type on device and wire
  using Training = Pass<Context, true>;           ///< what step() hands the model
  using Evaluating = Pass<Context, false>;        ///< what evaluate() hands the model
  using Batch = typename M::Batch;                ///< one micro-batch
  static_assert(ModelFor<M, Training>,
                "Trainer: the model must be callable as model(pass, batch) with a training pass");
  static_assert(ModelFor<M, Evaluating>,
                "Trainer: the model must be callable as model(pass, batch) with a forward-only "
                "pass; put its backward "
                "under `if constexpr (Pass::trains)`");

  /// Last come policies: one Sharded<...>, one precision, in any order; defaults as in Policies.
  /// @throws InvalidArgument, OutOfMemory, CommunicationError, as Context
  template <Policy... Q>
  Trainer(M model, C communicator, O optimizer, Options const& options, Q...)
      : model_(std::move(model)),
        context_(model_, std::move(communicator), optimizer, options),
        parameters_(context_),
        gradients_(context_),
        state_(context_, optimizer) {}
  /// With default options; errors as above.
  template <Policy... Q>
  Trainer(M model, C communicator, O optimizer, Q... policies)
      : Trainer(std::move(model), std::move(communicator), optimizer, Options{}, policies...) {}
  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;

  /// One optimizer step over 1 to Options::accumulation micro-batches, the mean over those given;
  /// every rank gives as many. Enqueues and returns; batches must live until the work is done
  /// (synchronize, loss).
  /// @throws InvalidArgument for another number of micro-batches; what the model throws;
  /// CommunicationError
  template <class... B>
  requires(std::same_as<B, Batch>&&...) void step(Batch const& first, B const&... others) {
    Batch const* const all[] = {&first, &others...};
    step_over(all);
  }
  /// The same over a range of micro-batches that lie somewhere: one that makes its elements while
  /// it is walked would not keep them.
  template <class R>
  requires(std::ranges::forward_range<R const> &&
           (std::same_as<std::ranges::range_reference_t<R const>, Batch&> ||
            std::same_as<std::ranges::range_reference_t<R const>,
                         Batch const&>)) void step(R const& micro_batches) {
    batches_.clear();
    for (Batch const& batch : micro_batches) batches_.push_back(&batch);
    step_over(batches_);
  }

  /// Runs the model without its backward and returns this rank's loss; waits.
  double evaluate(Batch const& batch) {
    evaluate([&](Evaluating& pass) { run(pass, batch); });
    return loss();
  }
  /// Runs f(pass) with a forward-only pass, such as a generation step; every rank alike.
  template <class F>
  requires std::invocable<F&, Evaluating&>
  void evaluate(F f) {
    context_.guarded([&] {
      Evaluating pass{parameters_};
      f(pass);
      pass.end();
    });
    losses_ = 1;
  }

  /// This rank's mean loss over the micro-batches of the last step, or the loss of the last
  /// evaluation; waits.
  /// @throws Error before the first step or evaluation; as decision
  double loss() {
    if (losses_ == 0) throw Error("loss: there was no step and no evaluation yet");
    double sum = 0;
    Decision d;
    context_.guarded([&] {
      read(context_.loss(), sum);
      read(context_.decision(), d);
      context_.wait();
      context_.check_decision(d);
    });
    return sum / static_cast<double>(losses_);
  }
  /// The mean of loss() over ranks, added in rank order; waits, and every rank calls it.
  double mean_loss() {
    double sum = 0;
    context_.guarded([&] {
      std::uint64_t const mine = std::bit_cast<std::uint64_t>(loss());
      for (std::uint64_t word : context_.exchange(std::span(&mine, 1), "mean loss"))
        sum += std::bit_cast<double>(word);
    });
    return sum / static_cast<double>(context_.world());
  }
  /// What the last step decided: norm, clip factor, skip, counts; waits.
  /// @throws CommunicationError when the ranks' records show that they did not do the
  ///   same; NotFinite, as check_finite, when training cannot go on
  Decision decision() {
    Decision d;
    context_.guarded([&] {
      read(context_.decision(), d);
      context_.wait();
      context_.check_decision(d);
    });
    return d;
  }
  /// Waits for all work; rethrows what failed in it.
  /// @throws as decision
  void synchronize() {
    context_.guarded([&] {
      Decision d;
      read(context_.decision(), d);
      context_.synchronize();
      context_.check_decision(d);
    });
  }

  M& model() { return model_; }                              ///< its own copy
  Context& context() { return context_; }                    ///< plan, counters, seconds, streams
  Parameters<Context>& parameters() { return parameters_; }  ///< one of its parts
  Gradients<Context>& gradients() { return gradients_; }     ///< one of its parts
  OptimizerState<Context, O>& optimizer_state() { return state_; }  ///< one of its parts
  MemoryPlan const& plan() const { return context_.plan; }          ///< bytes of this rank

 private:
  void step_over(std::span<Batch const* const> micro_batches) {
    context_.guarded([&] {
      Index const count = static_cast<Index>(micro_batches.size());
      if (count < 1 || count > context_.options.accumulation) {
        throw InvalidArgument("step: " + std::to_string(count) +
                              " micro-batches; the trainer was made for 1 to " +
                              std::to_string(context_.options.accumulation));
      }
      state_.offloaded().begin(parameters_);
      for (Index i = 0; i < count; ++i) {
        Training pass{parameters_, gradients_, MicroBatch{i, count}};
        run(pass, *micro_batches[at(i)]);
        pass.end();
      }
      state_.decide(gradients_, count);
      state_.update(parameters_, gradients_);
      parameters_.publish();
      losses_ = count;
      context_.check();
    });
  }

  template <class AnyPass>
  void run(AnyPass& pass, Batch const& batch) {
    if constexpr (std::is_void_v<decltype(model_(pass, batch))>) {
      model_(pass, batch);
    } else {
      static_assert(
          Device::host_memory,
          "Trainer: a model that returns its loss needs a device whose memory the host may "
          "read; on others it adds it to pass.loss() on pass.stream()");
      std::span<double> const loss = pass.loss();
      loss[0] += static_cast<double>(model_(pass, batch));
    }
  }

  /// Enqueues; `to` is there once compute has been waited for.
  template <class T>
  void read(Slot<Device>& slot, T& to) {
    auto claim = slot.template on<T>(context_.compute);
    copy_out(context_.compute, &to, View<T const, Device>(claim.view(0, 1)));
  }

  M model_;
  Context context_;
  Parameters<Context> parameters_;
  Gradients<Context> gradients_;
  OptimizerState<Context, O> state_;
  Index losses_ = 0;                   // over which the loss is summed; 0: none yet
  std::vector<Batch const*> batches_;  // kept, so that a step allocates nothing
};

template <class M, class C, class O, class... Q>
Trainer(M, C, O, Q...) -> Trainer<M, C, O, Policies<Q...>>;  ///< with default options
template <class M, class C, class O, class... Q>
Trainer(M, C, O, Options, Q...) -> Trainer<M, C, O, Policies<Q...>>;  ///< with options

}  // namespace zero
