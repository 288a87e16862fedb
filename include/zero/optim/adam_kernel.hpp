// SPDX-License-Identifier: Apache-2.0
#pragma once
// The update of Adam's family on the host, as wide as the machine: 16, 8 or 1 elements at a time,
// chosen when it runs, so that no compiler flag is asked of anybody. All widths make the same
// operations, each rounded once and never fused, so they give the same bits; element by element, as
// ElementUpdate has it, is the reference. Bytes an element: 16 read and 12 written of float
// weights, states and gradient; 2 less of a bf16 gradient, 2 more of a rounded parameter.
//
// Rows go through a range one behind the other: gradients first, then v, m and weights. In step,
// lines of several rows may drive each other out of the first-level cache between a load and its
// store, and little is fetched ahead. AMD's processors look for a line by its place in a page and 8
// bits folded from bits 12 to 27 of its address (Lipp et al.: Take A Way, ASIA CCS 2020), and hold
// one line of those: so it is with rows a multiple of 2^28 bytes apart, as weights and v of 2^25
// elements are, and with others whose bits fold to the same.

#include <zero/core/instruction_set.hpp>
#include <zero/optim/optimizer.hpp>

#if ZERO_HOST_VECTORS
#include <immintrin.h>
#endif

namespace zero {

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
  Index apart;  // elements by which each row goes behind the one before it
};

#if ZERO_HOST_VECTORS

inline constexpr Index adam_block = alignment_elements;  // of a row at a time
/// How far a row goes behind the one before it, where rows do not go in step. Measured on Zen 4:
/// from 28 lines on rows that collide run as others do. 36, since twice that is not a page: then
/// loads of one row would wait for stores of another with the same low 12 bits.
inline constexpr Index adam_distance = Index{36} * 16;
/// Another, where rows would collide at that one and in step.
inline constexpr Index adam_other_distance = Index{20} * 16;

/// What rows that are ahead leave for those behind them: scaled gradients for v and m; roots for m;
/// directions, in place of the roots, for the weights.
struct AdamStaging {
  static constexpr Index elements = 2 * adam_distance + adam_block;
  static_assert(adam_distance % adam_block == 0 && adam_other_distance % adam_block == 0 &&
                adam_other_distance <= adam_distance);
  /// Where elements from i of a range lie, a block of them.
  static Index slot(Index i) { return i % elements; }
  alignas(64) float gradients[elements];
  alignas(64) float steps[elements];
};

/// By how many elements rows go one behind the other in a range: what is best where it does not
/// bring rows together that collide, by their addresses. 0, block by block in step, is best where
/// the range is too short to gain by more, and where decay is within the gradient: weights are read
/// ahead of all and written behind all then, which costs a tenth.
template <bool Within, class O, class G, class P>
Index rows_apart(ElementUpdate<O, G, P> const& u, Index begin, Index end) {
  if (end - begin < 4096) return 0;
  auto const meet = [&](Index apart) {
    auto const at_once = [&](auto const* row, Index behind) {
      return reinterpret_cast<std::uintptr_t>(row + begin) -
             static_cast<std::uintptr_t>(behind) * sizeof(*row);
    };
    std::uintptr_t const rows[] = {at_once(u.gradients, 0), at_once(u.states + u.elements, apart),
                                   at_once(u.states, 2 * apart), at_once(u.weights, 3 * apart)};
    return collide(rows, 4);
  };
  constexpr Index best = Within ? 0 : adam_distance, next = adam_distance - best;
  for (Index apart : {best, next, adam_other_distance}) {
    if (!meet(apart)) return apart;
  }
  return best;
}

/// Two lines ahead of element k of a block, once a line: what is farther the processor fetches by
/// itself, and is disturbed if told to. Past the end of a row it does nothing.
template <int Write, class T>
__attribute__((always_inline)) inline void prefetch(T const* block, Index k) {
  constexpr Index line = 64 / Index{sizeof(T)};
  if (k % line == 0) __builtin_prefetch(block + k + 2 * line, Write);
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

// One block of a row each, in the order of rows.
template <class G, class P>
ZERO_AVX512 void gradients_avx512(AdamRange<G, P> const& r, Index i, float* gradients) {
  __m512 const factor = _mm512_set1_ps(r.factor);
  __m512 const decay = _mm512_set1_ps(r.decay);
  for (Index k = 0; k < adam_block; k += 16) {
    prefetch<0>(r.gradients + i, k);
    __m512 g = product_avx512(factor, load_avx512(r.gradients + i + k));
    if (r.within) g = _mm512_add_ps(g, product_avx512(decay, load_avx512(r.weights + i + k)));
    _mm512_store_ps(gradients + k, g);
  }
}
template <class G, class P>
ZERO_AVX512 void second_moments_avx512(AdamRange<G, P> const& r, Index i, float const* gradients,
                                       float* roots) {
  __m512 const beta = _mm512_set1_ps(r.beta2);
  __m512 const rest = _mm512_set1_ps(1.0f - r.beta2);
  __m512 const correction = _mm512_set1_ps(r.v_correction);
  __m512 const eps = _mm512_set1_ps(r.eps);
  for (Index k = 0; k < adam_block; k += 16) {
    prefetch<1>(r.v + i, k);
    __m512 const g = _mm512_load_ps(gradients + k);
    __m512 const v = _mm512_add_ps(product_avx512(beta, load_avx512(r.v + i + k)),
                                   product_avx512(product_avx512(rest, g), g));
    _mm512_storeu_ps(r.v + i + k, v);
    __m512 const root = _mm512_maskz_sqrt_ps(all_lanes, product_avx512(v, correction));
    _mm512_store_ps(roots + k, _mm512_add_ps(root, eps));
  }
}
template <class G, class P>
ZERO_AVX512 void first_moments_avx512(AdamRange<G, P> const& r, Index i, float const* gradients,
                                      float* steps) {
  __m512 const beta = _mm512_set1_ps(r.beta1);
  __m512 const rest = _mm512_set1_ps(1.0f - r.beta1);
  __m512 const correction = _mm512_set1_ps(r.m_correction);
  for (Index k = 0; k < adam_block; k += 16) {
    prefetch<1>(r.m + i, k);
    __m512 const g = _mm512_load_ps(gradients + k);
    __m512 const m =
        _mm512_add_ps(product_avx512(beta, load_avx512(r.m + i + k)), product_avx512(rest, g));
    _mm512_storeu_ps(r.m + i + k, m);
    __m512 const root = _mm512_load_ps(steps + k);
    _mm512_store_ps(steps + k, _mm512_div_ps(product_avx512(m, correction), root));
  }
}
template <class G, class P>
ZERO_AVX512 void weights_avx512(AdamRange<G, P> const& r, Index i, float const* steps) {
  __m512 const rate = _mm512_set1_ps(r.rate);
  __m512 const decay = _mm512_set1_ps(r.decay);
  for (Index k = 0; k < adam_block; k += 16) {
    prefetch<1>(r.weights + i, k);
    __m512 const w = load_avx512(r.weights + i + k);
    __m512 step = _mm512_load_ps(steps + k);
    if (!r.within) step = _mm512_add_ps(step, product_avx512(decay, w));
    __m512 const updated = _mm512_sub_ps(w, product_avx512(rate, step));
    _mm512_storeu_ps(r.weights + i + k, updated);
    if (r.rounded != nullptr) round_avx512(r.rounded + i + k, updated);
  }
}

template <class G, class P>
__attribute__((target("avx512f"))) void adam_avx512(AdamRange<G, P> const r, Index begin,
                                                    Index end) {
  AdamStaging staging;
  for (Index g = begin; g < end + 3 * r.apart; g += adam_block) {
    Index const v = g - r.apart, m = v - r.apart, w = m - r.apart;
    auto const gradients = [&](Index i) {
      return staging.gradients + AdamStaging::slot(i - begin);
    };
    auto const steps = [&](Index i) { return staging.steps + AdamStaging::slot(i - begin); };
    if (g < end) gradients_avx512(r, g, gradients(g));
    if (v >= begin && v < end) second_moments_avx512(r, v, gradients(v), steps(v));
    if (m >= begin && m < end) first_moments_avx512(r, m, gradients(m), steps(m));
    if (w >= begin) weights_avx512(r, w, steps(w));
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

// One block of a row each, in the order of rows.
template <class G, class P>
ZERO_AVX2 void gradients_avx2(AdamRange<G, P> const& r, Index i, float* gradients) {
  __m256 const factor = _mm256_set1_ps(r.factor);
  __m256 const decay = _mm256_set1_ps(r.decay);
  for (Index k = 0; k < adam_block; k += 8) {
    prefetch<0>(r.gradients + i, k);
    __m256 g = product_avx2(factor, load_avx2(r.gradients + i + k));
    if (r.within) g = _mm256_add_ps(g, product_avx2(decay, load_avx2(r.weights + i + k)));
    _mm256_store_ps(gradients + k, g);
  }
}
template <class G, class P>
ZERO_AVX2 void second_moments_avx2(AdamRange<G, P> const& r, Index i, float const* gradients,
                                   float* roots) {
  __m256 const beta = _mm256_set1_ps(r.beta2);
  __m256 const rest = _mm256_set1_ps(1.0f - r.beta2);
  __m256 const correction = _mm256_set1_ps(r.v_correction);
  __m256 const eps = _mm256_set1_ps(r.eps);
  for (Index k = 0; k < adam_block; k += 8) {
    prefetch<1>(r.v + i, k);
    __m256 const g = _mm256_load_ps(gradients + k);
    __m256 const v = _mm256_add_ps(product_avx2(beta, load_avx2(r.v + i + k)),
                                   product_avx2(product_avx2(rest, g), g));
    _mm256_storeu_ps(r.v + i + k, v);
    __m256 const root = _mm256_sqrt_ps(product_avx2(v, correction));
    _mm256_store_ps(roots + k, _mm256_add_ps(root, eps));
  }
}
template <class G, class P>
ZERO_AVX2 void first_moments_avx2(AdamRange<G, P> const& r, Index i, float const* gradients,
                                  float* steps) {
  __m256 const beta = _mm256_set1_ps(r.beta1);
  __m256 const rest = _mm256_set1_ps(1.0f - r.beta1);
  __m256 const correction = _mm256_set1_ps(r.m_correction);
  for (Index k = 0; k < adam_block; k += 8) {
    prefetch<1>(r.m + i, k);
    __m256 const g = _mm256_load_ps(gradients + k);
    __m256 const m =
        _mm256_add_ps(product_avx2(beta, load_avx2(r.m + i + k)), product_avx2(rest, g));
    _mm256_storeu_ps(r.m + i + k, m);
    __m256 const root = _mm256_load_ps(steps + k);
    _mm256_store_ps(steps + k, _mm256_div_ps(product_avx2(m, correction), root));
  }
}
template <class G, class P>
ZERO_AVX2 void weights_avx2(AdamRange<G, P> const& r, Index i, float const* steps) {
  __m256 const rate = _mm256_set1_ps(r.rate);
  __m256 const decay = _mm256_set1_ps(r.decay);
  for (Index k = 0; k < adam_block; k += 8) {
    prefetch<1>(r.weights + i, k);
    __m256 const w = load_avx2(r.weights + i + k);
    __m256 step = _mm256_load_ps(steps + k);
    if (!r.within) step = _mm256_add_ps(step, product_avx2(decay, w));
    __m256 const updated = _mm256_sub_ps(w, product_avx2(rate, step));
    _mm256_storeu_ps(r.weights + i + k, updated);
    if (r.rounded != nullptr) round_avx2(r.rounded + i + k, updated);
  }
}

template <class G, class P>
__attribute__((target("avx2"))) void adam_avx2(AdamRange<G, P> const r, Index begin, Index end) {
  AdamStaging staging;
  for (Index g = begin; g < end + 3 * r.apart; g += adam_block) {
    Index const v = g - r.apart, m = v - r.apart, w = m - r.apart;
    auto const gradients = [&](Index i) {
      return staging.gradients + AdamStaging::slot(i - begin);
    };
    auto const steps = [&](Index i) { return staging.steps + AdamStaging::slot(i - begin); };
    if (g < end) gradients_avx2(r, g, gradients(g));
    if (v >= begin && v < end) second_moments_avx2(r, v, gradients(v), steps(v));
    if (m >= begin && m < end) first_moments_avx2(r, m, gradients(m), steps(m));
    if (w >= begin) weights_avx2(r, w, steps(w));
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
                                                Within,
                                                detail::rows_apart<Within>(u, begin, end)};
    if (set == InstructionSet::avx512) return detail::adam_avx512(range, begin, end);
    if (set == InstructionSet::avx2) return detail::adam_avx2(range, begin, end);
  }
#endif
  detail::update_elements(u, begin, end);
}

}  // namespace zero
