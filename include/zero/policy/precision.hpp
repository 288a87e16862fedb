// SPDX-License-Identifier: Apache-2.0
#pragma once
// The menu of precisions: the types of parameters and gradients, on the device and on the wire, and
// whether the optimizer keeps a float master copy. Optimizer state has a policy of its own
// (policy/state.hpp); sums are made in float.

#include <zero/core/dtype.hpp>
#include <zero/policy/kind.hpp>

namespace zero {

/// Everything in float; the parameters are their own master.
struct Fp32 {
  static constexpr PolicyKind kind = PolicyKind::precision;  ///< what it decides
  static constexpr char const* name = "fp32";                ///< in reports
  using Parameter = float;                                   ///< on the device and on the wire
  using Gradient = float;                                    ///< on the device and on the wire
  static constexpr bool has_master = false;                  ///< they are their own master
};

/// bfloat16 parameters and gradients, float master weights (Micikevicius et al., Mixed Precision
/// Training, ICLR 2018).
struct Bf16Mixed {
  static constexpr PolicyKind kind = PolicyKind::precision;  ///< what it decides
  static constexpr char const* name = "bf16";                ///< in reports
  using Parameter = bf16;                                    ///< on the device and on the wire
  using Gradient = bf16;                                     ///< on the device and on the wire
  static constexpr bool has_master = true;                   ///< float weights behind them
};

/// IEEE half precision parameters and gradients, float master weights; the loss is scaled, by
/// Options::loss_scale (Micikevicius et al., section 3).
struct Fp16Mixed {
  static constexpr PolicyKind kind = PolicyKind::precision;  ///< what it answers
  static constexpr char const* name = "fp16";                ///< as gpt2 and files call it
  using Parameter = fp16;                                    ///< on device and wire
  using Gradient = fp16;                                     ///< on device and wire
  static constexpr bool has_master = true;                   ///< float master weights
};

/// The bits of Bf16Mixed's master weights in 2 bytes less a parameter: the parameter is the upper
/// half of the float and the optimizer keeps the lower one (core/halves.hpp). A parameter differs
/// from Bf16Mixed's only where the master weight lies exactly between two bfloat16 numbers: there
/// it is the one further from 0.
struct Bf16Split {
  static constexpr PolicyKind kind = PolicyKind::precision;  ///< what it answers
  static constexpr char const* name = "bf16_split";          ///< as gpt2 and files call it
  using Parameter = bf16;                                    ///< on device and wire
  using Gradient = bf16;                                     ///< on device and wire
  static constexpr bool has_master = true;                   ///< float master weights
  static constexpr bool splits_master = true;  ///< of which a parameter is the upper half
};

/// Whether the master weights of a precision are parameter and remainder; a precision that does not
/// say so keeps them whole.
template <class P>
inline constexpr bool splits_master = false;
/// As the precision says.
template <class P>
requires requires {
  { P::splits_master } -> std::convertible_to<bool>;
}
inline constexpr bool splits_master<P> = P::splits_master;

/// What the library asks of a precision. Without a master copy the parameters themselves must be
/// float. Only a bf16 parameter is the half of a master weight.
template <class P>
concept PrecisionPolicy =
    Policy<P> && Scalar<typename P::Parameter> && Scalar<typename P::Gradient> && requires {
  requires P::kind == PolicyKind::precision;
  { P::has_master } -> std::convertible_to<bool>;
  requires P::has_master || std::same_as<typename P::Parameter, float>;
  requires !splits_master<P> || (P::has_master && std::same_as<typename P::Parameter, bf16>);
};

static_assert(PrecisionPolicy<Fp32> && PrecisionPolicy<Bf16Mixed> && PrecisionPolicy<Bf16Split> &&
              PrecisionPolicy<Fp16Mixed>);

}  // namespace zero
