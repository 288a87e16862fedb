// SPDX-License-Identifier: Apache-2.0
#pragma once
// The update of Adam's family on the host, as wide as the machine: 16, 8 or 1 elements at a time,
// chosen when it runs, so that no compiler flag is asked of anybody. All widths make the same
// operations, each rounded once and never fused, so they give the same bits; element by element, as
// ElementUpdate has it, is the reference. Bytes an element: 16 read and 12 written of float
// weights, states and gradient; 2 less of a bf16 gradient, 2 more of a rounded parameter.

#include <zero/optim/optimizer.hpp>

#if defined(__GNUC__) && defined(__x86_64__)
#define ZERO_HOST_VECTORS 1
#include <immintrin.h>
#else
#define ZERO_HOST_VECTORS 0
#endif

namespace zero {

/// What a kernel may use of a processor.
enum class InstructionSet {
  plain,  ///< what the compiler makes of the formula
  avx2,   ///< 8 floats at once
  avx512  ///< 16 floats at once
};

/// Whether this processor, and its system, can run `set`.
inline bool has(InstructionSet set) {
#if ZERO_HOST_VECTORS
  if (set == InstructionSet::avx512) return __builtin_cpu_supports("avx512f") != 0;
  if (set == InstructionSet::avx2) return __builtin_cpu_supports("avx2") != 0;
#endif
  return set == InstructionSet::plain;
}

/// The widest set that this processor has.
inline InstructionSet widest_instruction_set() {
  static InstructionSet const widest = has(InstructionSet::avx512) ? InstructionSet::avx512
                                       : has(InstructionSet::avx2) ? InstructionSet::avx2
                                                                   : InstructionSet::plain;
  return widest;
}

namespace detail {

/// An update of the family: all that it reads, writes and multiplies by. Decay is beside the
/// gradient, or within it.
template <class G, class P>
struct AdamRange {
  G const* gradients;
  float* weights;
  float* m;
  float* v;
  P* rounded;  // null: weights are the parameters
  float factor;
  float rate;
  float beta1;
  float beta2;
  float eps;
  float decay;
  float m_correction;
  float v_correction;
  bool within;
};

#if ZERO_HOST_VECTORS

// One thread alone does not ask for enough lines at once: measured, a kilobyte ahead is worth 10 to
// 15 percent. Past the end of a row it does nothing.
template <class G, class P>
__attribute__((always_inline)) inline void prefetch(AdamRange<G, P> const& r, Index i) {
  constexpr Index ahead = 256;
  __builtin_prefetch(r.weights + i + ahead, 1);
  __builtin_prefetch(r.m + i + ahead, 1);
  __builtin_prefetch(r.v + i + ahead, 1);
  __builtin_prefetch(r.gradients + i + ahead, 0);
}

// A product passes through an empty instruction, so that no compiler sees it as the term of a sum.
#define ZERO_AVX512 __attribute__((target("avx512f"), always_inline)) inline
#define ZERO_AVX2 __attribute__((target("avx2"), always_inline)) inline

// All lanes: the forms without a mask warn of uninitialised values with GCC 12 (its bug 105593).
inline constexpr __mmask16 all_lanes = 0xffff;

ZERO_AVX512 __m512 product_avx512(__m512 a, __m512 b) {
  __m512 p = _mm512_mul_ps(a, b);
  __asm__("" : "+v"(p));
  return p;
}
ZERO_AVX512 __m512 load_avx512(float const* from) { return _mm512_loadu_ps(from); }
ZERO_AVX512 __m512 load_avx512(bf16 const* from) {
  __m256i const bits = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));
  return _mm512_castsi512_ps(
      _mm512_maskz_slli_epi32(all_lanes, _mm512_maskz_cvtepu16_epi32(all_lanes, bits), 16));
}
ZERO_AVX512 void round_avx512(float* to, __m512 x) { _mm512_storeu_ps(to, x); }
// As bf16(float): to nearest, ties to even, a NaN to a quiet one.
ZERO_AVX512 void round_avx512(bf16* to, __m512 x) {
  __m512i const u = _mm512_castps_si512(x);
  __m512i const upper = _mm512_maskz_srli_epi32(all_lanes, u, 16);
  __m512i const odd = _mm512_and_epi32(upper, _mm512_set1_epi32(1));
  __m512i const near = _mm512_maskz_srli_epi32(
      all_lanes, _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  __m512i const quiet = _mm512_or_epi32(upper, _mm512_set1_epi32(0x40));
  __mmask16 const nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  __m256i const bits =
      _mm512_maskz_cvtepi32_epi16(all_lanes, _mm512_mask_blend_epi32(nan, near, quiet));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
}

template <class G, class P>
__attribute__((target("avx512f"))) void adam_avx512(AdamRange<G, P> const& r, Index begin,
                                                    Index end) {
  __m512 const factor = _mm512_set1_ps(r.factor);
  __m512 const rate = _mm512_set1_ps(r.rate);
  __m512 const beta1 = _mm512_set1_ps(r.beta1);
  __m512 const beta2 = _mm512_set1_ps(r.beta2);
  __m512 const rest1 = _mm512_set1_ps(1.0f - r.beta1);
  __m512 const rest2 = _mm512_set1_ps(1.0f - r.beta2);
  __m512 const eps = _mm512_set1_ps(r.eps);
  __m512 const decay = _mm512_set1_ps(r.decay);
  __m512 const m_correction = _mm512_set1_ps(r.m_correction);
  __m512 const v_correction = _mm512_set1_ps(r.v_correction);
  for (Index i = begin; i < end; i += 16) {
    prefetch(r, i);
    __m512 const w = load_avx512(r.weights + i);
    __m512 const decayed = product_avx512(decay, w);
    __m512 g = product_avx512(factor, load_avx512(r.gradients + i));
    if (r.within) g = _mm512_add_ps(g, decayed);
    __m512 const m =
        _mm512_add_ps(product_avx512(beta1, load_avx512(r.m + i)), product_avx512(rest1, g));
    __m512 const v = _mm512_add_ps(product_avx512(beta2, load_avx512(r.v + i)),
                                   product_avx512(product_avx512(rest2, g), g));
    __m512 const root = _mm512_maskz_sqrt_ps(all_lanes, product_avx512(v, v_correction));
    __m512 step = _mm512_div_ps(product_avx512(m, m_correction), _mm512_add_ps(root, eps));
    if (!r.within) step = _mm512_add_ps(step, decayed);
    __m512 const updated = _mm512_sub_ps(w, product_avx512(rate, step));
    _mm512_storeu_ps(r.weights + i, updated);
    _mm512_storeu_ps(r.m + i, m);
    _mm512_storeu_ps(r.v + i, v);
    if (r.rounded != nullptr) round_avx512(r.rounded + i, updated);
  }
}

ZERO_AVX2 __m256 product_avx2(__m256 a, __m256 b) {
  __m256 p = _mm256_mul_ps(a, b);
  __asm__("" : "+x"(p));
  return p;
}
ZERO_AVX2 __m256 load_avx2(float const* from) { return _mm256_loadu_ps(from); }
ZERO_AVX2 __m256 load_avx2(bf16 const* from) {
  __m128i const bits = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
ZERO_AVX2 void round_avx2(float* to, __m256 x) { _mm256_storeu_ps(to, x); }
ZERO_AVX2 void round_avx2(bf16* to, __m256 x) {
  __m256i const u = _mm256_castps_si256(x);
  __m256i const upper = _mm256_srli_epi32(u, 16);
  __m256i const odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  __m256i const near =
      _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  __m256i const quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  __m256i const nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  __m256i const wide = _mm256_blendv_epi8(near, quiet, nan);
  __m128i const bits =
      _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bits);
}

template <class G, class P>
__attribute__((target("avx2"))) void adam_avx2(AdamRange<G, P> const& r, Index begin, Index end) {
  __m256 const factor = _mm256_set1_ps(r.factor);
  __m256 const rate = _mm256_set1_ps(r.rate);
  __m256 const beta1 = _mm256_set1_ps(r.beta1);
  __m256 const beta2 = _mm256_set1_ps(r.beta2);
  __m256 const rest1 = _mm256_set1_ps(1.0f - r.beta1);
  __m256 const rest2 = _mm256_set1_ps(1.0f - r.beta2);
  __m256 const eps = _mm256_set1_ps(r.eps);
  __m256 const decay = _mm256_set1_ps(r.decay);
  __m256 const m_correction = _mm256_set1_ps(r.m_correction);
  __m256 const v_correction = _mm256_set1_ps(r.v_correction);
  for (Index i = begin; i < end; i += 8) {
    prefetch(r, i);
    __m256 const w = load_avx2(r.weights + i);
    __m256 const decayed = product_avx2(decay, w);
    __m256 g = product_avx2(factor, load_avx2(r.gradients + i));
    if (r.within) g = _mm256_add_ps(g, decayed);
    __m256 const m = _mm256_add_ps(product_avx2(beta1, load_avx2(r.m + i)), product_avx2(rest1, g));
    __m256 const v = _mm256_add_ps(product_avx2(beta2, load_avx2(r.v + i)),
                                   product_avx2(product_avx2(rest2, g), g));
    __m256 const root = _mm256_sqrt_ps(product_avx2(v, v_correction));
    __m256 step = _mm256_div_ps(product_avx2(m, m_correction), _mm256_add_ps(root, eps));
    if (!r.within) step = _mm256_add_ps(step, decayed);
    __m256 const updated = _mm256_sub_ps(w, product_avx2(rate, step));
    _mm256_storeu_ps(r.weights + i, updated);
    _mm256_storeu_ps(r.m + i, m);
    _mm256_storeu_ps(r.v + i, v);
    if (r.rounded != nullptr) round_avx2(r.rounded + i, updated);
  }
}

#undef ZERO_AVX512
#undef ZERO_AVX2

#endif  // ZERO_HOST_VECTORS

template <class T>
inline constexpr bool in_vectors = std::is_same_v<T, float> || std::is_same_v<T, bf16>;

}  // namespace detail

/// Updates elements [begin, end) of a segment of `u`, multiples of 64, with the instructions of
/// `set`: the same bits with each. Types that are neither float nor bf16, 16-bit states and halved
/// weights go element by element.
/// @tparam O AdamW, or an optimizer of its constants and rates; Within: decay is part of the
/// gradient
/// @throws InvalidArgument where the processor lacks the set, or a border is no multiple of 64
template <bool Within, class O, class G, class P>
void update_adam_range(ElementUpdate<O, G, P> const& u, Index begin, Index end,
                       InstructionSet set) {
  using Storage = StorageOf<P>;
  using Parameter = typename Storage::Parameter;
  require_multiples("update_adam_range", begin, end);
  if (!has(set)) {
    throw InvalidArgument("update_adam_range: this processor has no " +
                          std::string(set == InstructionSet::avx512 ? "AVX-512" : "AVX2") +
                          "; expected InstructionSet::plain or widest_instruction_set()");
  }
#if ZERO_HOST_VECTORS
  if constexpr (detail::in_vectors<G> && detail::in_vectors<Parameter> &&
                std::is_same_v<typename Storage::State, float> && !Storage::splits) {
    detail::AdamRange<G, Parameter> const range{u.gradients,
                                                u.weights,
                                                u.states,
                                                u.states + u.elements,
                                                u.rounded,
                                                u.factor,
                                                u.rate,
                                                u.optimizer.beta1,
                                                u.optimizer.beta2,
                                                u.optimizer.eps,
                                                u.optimizer.weight_decay * u.segment.decay,
                                                u.constants.m_correction,
                                                u.constants.v_correction,
                                                Within};
    if (set == InstructionSet::avx512) return detail::adam_avx512(range, begin, end);
    if (set == InstructionSet::avx2) return detail::adam_avx2(range, begin, end);
  }
#endif
  for (Index i = begin; i < end; ++i) u(i);
}

}  // namespace zero
