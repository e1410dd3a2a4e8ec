// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_INTRINSICS_HPP
#define KOKKOSXENT_IMPL_INTRINSICS_HPP

#include <impl/KokkosXent_ValueTypes.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

// Where one machine instruction does what portable code needs several for. This file alone asks for
// the compiler's target; each function's other branch does the same on any.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define KOKKOSXENT_IMPL_PTX 1
#else
#define KOKKOSXENT_IMPL_PTX 0
#endif
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
#define KOKKOSXENT_IMPL_FMA 1
#else
#define KOKKOSXENT_IMPL_FMA 0
#endif
#if defined(__F16C__) && !defined(__CUDACC__)
#define KOKKOSXENT_IMPL_F16C 1
#include <immintrin.h>
#else
#define KOKKOSXENT_IMPL_F16C 0
#endif

// Before a function whose vectorised loops a host compiler spoils when it makes them part of a
// larger function; on a device all is inlined.
#if defined(__GNUC__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__) && \
    !defined(__SYCL_DEVICE_ONLY__)
#define KOKKOSXENT_IMPL_APART_ON_HOST [[gnu::noinline]]
#else
#define KOKKOSXENT_IMPL_APART_ON_HOST
#endif

namespace KokkosXent::Impl {

/// The larger and the smaller of a and b. A NaN among them becomes the smaller if it is not b, and
/// may become the larger too. On the host each select is one vector instruction.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar larger_of(Scalar a, Scalar b) {
#if KOKKOSXENT_IMPL_PTX
  if constexpr (std::is_same_v<Scalar, float>) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
  }
#endif
  return a > b ? a : b;
}
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar smaller_of(Scalar a, Scalar b) {
#if KOKKOSXENT_IMPL_PTX
  if constexpr (std::is_same_v<Scalar, float>) {
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    return smaller;
  }
#endif
  return a > b ? b : a;
}

/// Whether the host rounds a b + c once, which compilers make of a product and a sum unless they
/// are told not to (-ffp-contract=off).
inline constexpr bool fuses_multiply_add = KOKKOSXENT_IMPL_FMA != 0;

inline constexpr int host_line_bytes = 64;

/// Asks for the host's cache line at address, which need not exist.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void prefetch(const T* address) {
  (void)address;
#if defined(__GNUC__)
  KOKKOS_IF_ON_HOST((__builtin_prefetch(address);))
#endif
}

/// Asks for the host's cache lines of from[0, count), which need not exist, in caches after the
/// first, whose few places for lines on their way are left to the loads. Inlined, like whoever
/// calls it and does nothing else: GCC drops calls of functions that do nothing but this.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void prefetch_run(const T* from, int count) {
  (void)from;
  (void)count;
#if defined(__GNUC__)
  KOKKOS_IF_ON_HOST((const auto* const begin = reinterpret_cast<const char*>(from);
                     const int bytes         = count * static_cast<int>(sizeof(T));
                     for (int b = 0; b < bytes; b += host_line_bytes)
                         __builtin_prefetch(begin + b, 0, 2);))
#endif
}

/// 2^x; results below the smallest normal float may be 0.
KOKKOS_INLINE_FUNCTION float fast_exp2(float x) {
#if KOKKOSXENT_IMPL_PTX
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return Kokkos::exp2(x);
#endif
}

template <class T>
inline constexpr bool is_bfloat16_bits = std::is_same_v<T, bfloat16> ||
                                         (KokkosHalf<T> &&
                                          std::is_same_v<T, Kokkos::Experimental::bhalf_t>);

template <class T>
inline constexpr bool is_float16_bits = std::is_same_v<T, float16> ||
                                        (KokkosHalf<T> &&
                                         std::is_same_v<T, Kokkos::Experimental::half_t>);

/// The word at an address of any alignment.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t load_word(const T* address) {
  std::uint32_t word;
  std::memcpy(&word, address, sizeof(word));
  return word;
}

/// Two 16-bit floats of one word, the one at the lower address first.
template <class T>
KOKKOS_INLINE_FUNCTION void widen_pair(std::uint32_t word, float& first, float& second) {
  static_assert(is_bfloat16_bits<T> || is_float16_bits<T>);
  if constexpr (is_bfloat16_bits<T>) {
    first  = Kokkos::bit_cast<float>(word << 16);
    second = Kokkos::bit_cast<float>(word & 0xffff0000u);
  } else {
#if KOKKOSXENT_IMPL_PTX
    asm("{.reg .b16 low, high;\n"
        " mov.b32 {low, high}, %2;\n"
        " cvt.f32.f16 %0, low;\n"
        " cvt.f32.f16 %1, high;}"
        : "=f"(first), "=f"(second)
        : "r"(word));
#else
    first  = float_from_float16_bits(static_cast<std::uint16_t>(word & 0xffffu));
    second = float_from_float16_bits(static_cast<std::uint16_t>(word >> 16));
#endif
  }
}

/// The word of two 16-bit floats, the first at the lower address; to nearest, ties to even.
template <class T>
KOKKOS_INLINE_FUNCTION std::uint32_t round_pair(float first, float second) {
  static_assert(is_bfloat16_bits<T> || is_float16_bits<T>);
#if KOKKOSXENT_IMPL_PTX
  std::uint32_t word;
  if constexpr (is_bfloat16_bits<T>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
#else
  if constexpr (is_bfloat16_bits<T>)
    return (bfloat16_word_from_float(first) >> 16) |
           (bfloat16_word_from_float(second) & 0xffff0000u);
  else
    return float16_bits_from_float(first) |
           (static_cast<std::uint32_t>(float16_bits_from_float(second)) << 16);
#endif
}

/// to[k] = from[k], by whole vectors. Clang would unroll so short a loop and then vectorise the one
/// around it, which transposes; GCC would move a memcpy by halves of vectors.
template <int Count, class T>
KOKKOS_FORCEINLINE_FUNCTION void copy_run(const T* from, T* to) {
#if defined(__clang__)
  std::memcpy(to, from, Count * sizeof(T));
#else
  for (int k = 0; k < Count; ++k) to[k] = from[k];
#endif
}

/// values[k] = what from[k] stores
template <int Count, class T, class Scalar>
KOKKOS_FORCEINLINE_FUNCTION void widen_run(const T* from, Scalar* values) {
#if KOKKOSXENT_IMPL_F16C
  if constexpr (std::is_same_v<T, float16> && std::is_same_v<Scalar, float> && Count % 8 == 0) {
#if defined(__AVX512F__)
    if constexpr (Count % 16 == 0) {
      constexpr __mmask16 all = 0xffff;  // GCC warns of what the forms without a mask leave out
      for (int k = 0; k < Count; k += 16)
        _mm512_storeu_ps(values + k,
                         _mm512_maskz_cvtph_ps(
                             all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k))));
      return;
    }
#endif
    for (int k = 0; k < Count; k += 8)
      _mm256_storeu_ps(
          values + k, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k))));
    return;
  }
#endif
  if constexpr (std::is_same_v<T, Scalar>)
    copy_run<Count>(from, values);
  else
    for (int k = 0; k < Count; ++k) values[k] = load_value<Scalar>(from[k]);
}

/// to[k] = values[k], rounded
template <int Count, class T, class Scalar>
KOKKOS_FORCEINLINE_FUNCTION void round_run(const Scalar* values, T* to) {
#if KOKKOSXENT_IMPL_F16C
  if constexpr (std::is_same_v<T, float16> && std::is_same_v<Scalar, float> && Count % 8 == 0) {
#if defined(__AVX512F__)
    if constexpr (Count % 16 == 0) {
      constexpr __mmask16 all = 0xffff;  // GCC warns of what the forms without a mask leave out
      for (int k = 0; k < Count; k += 16)
        _mm256_storeu_si256(
            reinterpret_cast<__m256i*>(to + k),
            _mm512_maskz_cvtps_ph(all, _mm512_loadu_ps(values + k), _MM_FROUND_TO_NEAREST_INT));
      return;
    }
#endif
    for (int k = 0; k < Count; k += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + k),
                       _mm256_cvtps_ph(_mm256_loadu_ps(values + k), _MM_FROUND_TO_NEAREST_INT));
    return;
  }
#endif
  if constexpr (std::is_same_v<T, Scalar>)
    copy_run<Count>(values, to);
  else
    for (int k = 0; k < Count; ++k) to[k] = round_value<T>(values[k]);
}

/// Whether a host takes T and U by words of two numbers: then all vectors are of whole words, which
/// is faster than vectors of half as long elements and their conversions.
template <class Scalar, class T, class U>
inline constexpr bool pairs_words =
    is_bfloat16_bits<T>&& is_bfloat16_bits<U>&& std::is_same_v<Scalar, float>;

/// values[p] = value(from[2 p]), values[Size/2 + p] = value(from[2 p + 1])
template <class T, int Size, class Value>
KOKKOS_INLINE_FUNCTION void map_pairs(const T* from, float (&values)[Size], const Value& value) {
  for (int p = 0; p < Size / 2; ++p) {
    float first, second;
    widen_pair<T>(load_word(from + 2 * p), first, second);
    values[p]            = value(first);
    values[Size / 2 + p] = value(second);
  }
}
/// to[2 p] = value(values[p]), to[2 p + 1] = value(values[Size/2 + p]), rounded
template <class T, int Size, class Value>
KOKKOS_INLINE_FUNCTION void round_pairs(const float (&values)[Size], T* to, const Value& value) {
  std::uint32_t words[Size / 2];
  for (int p = 0; p < Size / 2; ++p)
    words[p] = round_pair<T>(value(values[p]), value(values[Size / 2 + p]));
  std::memcpy(to, words, sizeof(words));
}

/// Of each half of a word, a's where first(a, b) and else b's.
template <class T, class First>
KOKKOS_INLINE_FUNCTION std::uint32_t select_pairs(std::uint32_t a, std::uint32_t b,
                                                  const First& first) {
  float low_a, high_a, low_b, high_b;
  widen_pair<T>(a, low_a, high_a);
  widen_pair<T>(b, low_b, high_b);
  const std::uint32_t low  = 0x0000ffffu;
  const std::uint32_t mask = (first(low_a, low_b) ? low : 0u) | (first(high_a, high_b) ? ~low : 0u);
  return (a & mask) | (b & ~mask);
}

/// larger_of() and smaller_of() for the two 16-bit floats of a word.
template <class T>
KOKKOS_INLINE_FUNCTION std::uint32_t larger_of_pairs(std::uint32_t a, std::uint32_t b) {
#if KOKKOSXENT_IMPL_PTX
  std::uint32_t larger;
  if constexpr (is_bfloat16_bits<T>)
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  else
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
#else
  return select_pairs<T>(a, b, [](float x, float y) { return x > y; });
#endif
}
template <class T>
KOKKOS_INLINE_FUNCTION std::uint32_t smaller_of_pairs(std::uint32_t a, std::uint32_t b) {
#if KOKKOSXENT_IMPL_PTX
  std::uint32_t smaller;
  if constexpr (is_bfloat16_bits<T>)
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
  else
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
  return smaller;
#else
  return select_pairs<T>(a, b, [](float x, float y) { return !(x > y); });
#endif
}

/// Whether threads of consecutive rank run side by side as the lanes of a warp, and can read one
/// another's registers.
inline constexpr bool has_lane_exchange = KOKKOSXENT_IMPL_PTX != 0;
inline constexpr int warp_lanes         = 32;

/// Who runs join_lanes() together.
enum class Callers { neighbours, whole_warp };

/// The values of `lanes` (a power of two) neighbouring lanes merged, for each of them:
/// into.merge(from) is to be commutative. T is trivially copyable, of 4-byte words. Every one of
/// the callers must call it; what they have read and written in memory before is ordered before
/// what any of them does after. Only where has_lane_exchange.
template <Callers C, class T>
KOKKOS_INLINE_FUNCTION T join_lanes(T value, int lanes) {
#if KOKKOSXENT_IMPL_PTX
  struct Words {
    std::uint32_t word[sizeof(T) / 4];
  };
  std::uint32_t mask = ~0u;
  if constexpr (C == Callers::neighbours) {
    std::uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    if (lanes != warp_lanes)
      mask = ((1u << lanes) - 1u) << (lane & ~static_cast<std::uint32_t>(lanes - 1));
  }
  const auto join_at = [&](int distance) {
    Words words = Kokkos::bit_cast<Words>(value);
#pragma unroll
    for (auto& word : words.word) word = __shfl_xor_sync(mask, word, distance);
    value.merge(Kokkos::bit_cast<T>(words));
  };
  __syncwarp(mask);
  if (lanes == warp_lanes) {
#pragma unroll
    for (int distance = warp_lanes / 2; distance > 0; distance /= 2) join_at(distance);
  } else {
    for (int distance = lanes / 2; distance > 0; distance /= 2) join_at(distance);
  }
#else
  (void)lanes;
#endif
  return value;
}

/// Keeps the compiler from remembering, in registers, what it has computed from a pack: it is to
/// compute that again.
template <class Pack>
KOKKOS_INLINE_FUNCTION void forget_uses(Pack& pack) {
#if KOKKOSXENT_IMPL_PTX
  if constexpr (sizeof(Pack) == 16) {
    auto words = Kokkos::bit_cast<uint4>(pack);
    asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
    pack = Kokkos::bit_cast<Pack>(words);
  }
#else
  (void)pack;
#endif
}

/// Whether a cache line is accessed again after this access. Caches give up last what is certain to
/// be: an access with Reuse::none must follow, or the line may stay in others' way.
enum class Reuse { none, likely, certain };

/// A load or a store of sizeof(Pack) bytes that leaves the caches to others where nothing of it is
/// needed again.
template <Reuse R, class Pack>
KOKKOS_INLINE_FUNCTION Pack load_pack(const void* address) {
#if KOKKOSXENT_IMPL_PTX
  if constexpr (R == Reuse::none && alignof(Pack) == sizeof(Pack)) {
    if constexpr (sizeof(Pack) == 16)
      return Kokkos::bit_cast<Pack>(__ldcs(static_cast<const uint4*>(address)));
    if constexpr (sizeof(Pack) == 4)
      return Kokkos::bit_cast<Pack>(__ldcs(static_cast<const unsigned*>(address)));
  }
  if constexpr (R == Reuse::certain && alignof(Pack) == sizeof(Pack) && sizeof(Pack) == 16) {
    uint4 words;
    std::uint64_t evict_last;
    asm("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(evict_last));
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(address), "l"(evict_last)
                 : "memory");
    return Kokkos::bit_cast<Pack>(words);
  }
#endif
  return *static_cast<const Pack*>(address);
}
template <Reuse R, class Pack>
KOKKOS_INLINE_FUNCTION void store_pack(void* address, const Pack& pack) {
#if KOKKOSXENT_IMPL_PTX
  if constexpr (R == Reuse::none && alignof(Pack) == sizeof(Pack) && sizeof(Pack) == 16) {
    __stcs(static_cast<uint4*>(address), Kokkos::bit_cast<uint4>(pack));
    return;
  }
  if constexpr (R == Reuse::none && alignof(Pack) == sizeof(Pack) && sizeof(Pack) == 4) {
    __stcs(static_cast<unsigned*>(address), Kokkos::bit_cast<unsigned>(pack));
    return;
  }
#endif
  *static_cast<Pack*>(address) = pack;
}

}  // namespace KokkosXent::Impl

#undef KOKKOSXENT_IMPL_PTX
#undef KOKKOSXENT_IMPL_F16C
#undef KOKKOSXENT_IMPL_FMA

#endif
