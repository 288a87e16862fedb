// SPDX-License-Identifier: Apache-2.0
#pragma once
// The menu of precisions: the types of parameters and gradients, on the device and on the wire, and
// whether the optimizer keeps a float master copy. Optimizer state is float; sums are made in
// float.

#include <zero/core/dtype.hpp>
#include <zero/policy/kind.hpp>

namespace zero {

/// Everything in float; the parameters are their own master.
struct Fp32 {
  static constexpr PolicyKind kind = PolicyKind::precision;
  static constexpr char const* name = "fp32";
  using Parameter = float;
  using Gradient = float;
  static constexpr bool has_master = false;
};

/// bfloat16 parameters and gradients, float master weights (Micikevicius et al., Mixed Precision
/// Training, ICLR 2018).
struct Bf16Mixed {
  static constexpr PolicyKind kind = PolicyKind::precision;
  static constexpr char const* name = "bf16";
  using Parameter = bf16;
  using Gradient = bf16;
  static constexpr bool has_master = true;
};

/// IEEE half precision parameters and gradients, float master weights; the loss is scaled, by
/// Options::loss_scale (Micikevicius et al., section 3).
struct Fp16Mixed {
  static constexpr PolicyKind kind = PolicyKind::precision;
  static constexpr char const* name = "fp16";
  using Parameter = fp16;
  using Gradient = fp16;
  static constexpr bool has_master = true;
};

/// What the library asks of a precision. Without a master copy the parameters themselves must be
/// float.
template <class P>
concept PrecisionPolicy =
    Policy<P> && Scalar<typename P::Parameter> && Scalar<typename P::Gradient> && requires {
  requires P::kind == PolicyKind::precision;
  { P::has_master } -> std::convertible_to<bool>;
  requires P::has_master || std::same_as<typename P::Parameter, float>;
};

static_assert(PrecisionPolicy<Fp32> && PrecisionPolicy<Bf16Mixed> && PrecisionPolicy<Fp16Mixed>);

}  // namespace zero
