// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_VALUETYPES_HPP
#define KOKKOSXENT_IMPL_VALUETYPES_HPP

#include <Kokkos_Core.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace KokkosXent {

namespace Impl {

/// Rounds to float with the last bit set whenever the result is inexact ("round to odd"), so that
/// a second rounding to 16 bits gives what one rounding of the double would have given.
KOKKOS_INLINE_FUNCTION float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back    = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  const auto bits = Kokkos::bit_cast<std::uint32_t>(nearest);
  if (bits & 1u) return nearest;
  const bool rounded_toward_zero = Kokkos::fabs(value) > Kokkos::fabs(back);
  return Kokkos::bit_cast<float>(rounded_toward_zero ? bits + 1u : bits - 1u);
}

/// bits where keep is true, else 0: a mask, since host compilers make branches of a ?: with
/// arithmetic in its arms, and do not vectorise those.
KOKKOS_INLINE_FUNCTION std::uint32_t bits_if(bool keep, std::uint32_t bits) {
  return bits & (0u - static_cast<std::uint32_t>(keep));
}

KOKKOS_INLINE_FUNCTION float float_from_float16_bits(std::uint16_t half) {
  constexpr std::uint32_t exponent_mask   = 0x7c00u << 13;
  constexpr std::uint32_t rebias          = (127u - 15u) << 23;
  constexpr std::uint32_t smallest_normal = (127u - 14u) << 23;  // 2^-14

  const std::uint32_t magnitude = (half & 0x7fffu) << 13;
  const std::uint32_t sign      = (half & 0x8000u) << 16;
  const std::uint32_t exponent  = magnitude & exponent_mask;
  const bool subnormal          = exponent == 0u;
  // Above 2^-14 as what is to be added to it; that is taken away again.
  const std::uint32_t anchored = magnitude + rebias + bits_if(exponent == exponent_mask, rebias) +
                                 bits_if(subnormal, smallest_normal - rebias);
  const float value = Kokkos::bit_cast<float>(anchored) -
                      Kokkos::bit_cast<float>(bits_if(subnormal, smallest_normal));
  return Kokkos::bit_cast<float>(Kokkos::bit_cast<std::uint32_t>(value) | sign);
}

KOKKOS_INLINE_FUNCTION std::uint16_t float16_bits_from_float(float value) {
  constexpr std::uint32_t infinity         = 0xffu << 23;
  constexpr std::uint32_t overflow         = (127u + 16u) << 23;  // 2^16, first power past float16
  constexpr std::uint32_t smallest_normal  = (127u - 14u) << 23;  // 2^-14
  constexpr std::uint32_t subnormal_anchor = (127u - 1u) << 23;   // 1/2: its last bit is 2^-24
  constexpr std::uint32_t rebias           = (127u - 15u) << 23;

  const auto bits               = Kokkos::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign      = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t special =
      0x7c00u | bits_if(magnitude > infinity, 0x200u | ((magnitude >> 13) & 0x3ffu));
  const std::uint32_t subnormal =
      Kokkos::bit_cast<std::uint32_t>(Kokkos::bit_cast<float>(magnitude) +
                                      Kokkos::bit_cast<float>(subnormal_anchor)) -
      subnormal_anchor;
  const std::uint32_t normal = (magnitude - rebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const bool is_subnormal    = magnitude < smallest_normal;
  const bool is_special      = magnitude >= overflow;
  return static_cast<std::uint16_t>(bits_if(is_subnormal, subnormal) |
                                    bits_if(is_special, special) |
                                    bits_if(!is_subnormal && !is_special, normal) | sign);
}

KOKKOS_INLINE_FUNCTION float float_from_bfloat16_bits(std::uint16_t bits) {
  return Kokkos::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The bits of a bfloat16 in the upper half of a word, whose lower half is anything.
KOKKOS_INLINE_FUNCTION std::uint32_t bfloat16_word_from_float(float value) {
  const auto bits               = Kokkos::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded   = bits + 0x7fffu + ((bits >> 16) & 1u);
  const std::uint32_t quiet_nan = bits | 0x00400000u;
  const bool is_nan             = (bits & 0x7fffffffu) > 0x7f800000u;
  return bits_if(is_nan, quiet_nan) | bits_if(!is_nan, rounded);
}
KOKKOS_INLINE_FUNCTION std::uint16_t bfloat16_bits_from_float(float value) {
  return static_cast<std::uint16_t>(bfloat16_word_from_float(value) >> 16);
}

}  // namespace Impl

/// IEEE 754 binary16 as storage: two bytes, the same on host and device in every Kokkos build, so
/// that a framework's buffer can be viewed as it is. Conversions round to nearest, ties to even,
/// and keep subnormals, infinities and NaN. Arithmetic is done in float.
struct float16 {
  std::uint16_t bits;

  float16() = default;
  KOKKOS_FUNCTION explicit float16(float value) : bits(Impl::float16_bits_from_float(value)) {}
  KOKKOS_FUNCTION explicit float16(double value) : float16(Impl::round_to_odd(value)) {}
  KOKKOS_FUNCTION explicit operator float() const { return Impl::float_from_float16_bits(bits); }
  KOKKOS_FUNCTION explicit operator double() const { return static_cast<float>(*this); }
  KOKKOS_FUNCTION static float16 from_bits(std::uint16_t bits) {
    float16 value;
    value.bits = bits;
    return value;
  }
};

/// bfloat16 (the upper half of an IEEE 754 binary32) as storage; see float16.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  KOKKOS_FUNCTION explicit bfloat16(float value) : bits(Impl::bfloat16_bits_from_float(value)) {}
  KOKKOS_FUNCTION explicit bfloat16(double value) : bfloat16(Impl::round_to_odd(value)) {}
  KOKKOS_FUNCTION explicit operator float() const { return Impl::float_from_bfloat16_bits(bits); }
  KOKKOS_FUNCTION explicit operator double() const { return static_cast<float>(*this); }
  KOKKOS_FUNCTION static bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 value;
    value.bits = bits;
    return value;
  }
};

/// The one mapping from the type in which logits, probabilities and gradients are stored to the
/// type in which they are computed. Specialise it for a storage type of your own:
///   using arithmetic_type = float;                       // or double
///   static KOKKOS_FUNCTION float load(MyType stored);    // exact
///   static KOKKOS_FUNCTION MyType store(float value);    // rounds
template <class T>
struct ValueTypeTraits;

namespace Impl {

template <class T>
concept KokkosHalf = !std::floating_point<T> && (std::same_as<T, Kokkos::Experimental::half_t> ||
                                                 std::same_as<T, Kokkos::Experimental::bhalf_t>);

template <class T>
concept SixteenBitFloat = std::same_as<T, float16> || std::same_as<T, bfloat16> || KokkosHalf<T>;

}  // namespace Impl

template <class T>
requires std::same_as<T, float> || std::same_as<T, double>
struct ValueTypeTraits<T> {
  using arithmetic_type = T;
  KOKKOS_FUNCTION static T load(T stored) { return stored; }
  KOKKOS_FUNCTION static T store(T value) { return value; }
};

template <Impl::SixteenBitFloat T>
struct ValueTypeTraits<T> {
  using arithmetic_type = float;
  KOKKOS_FUNCTION static float load(T stored) { return static_cast<float>(stored); }
  KOKKOS_FUNCTION static T store(float value) { return T(value); }
};

namespace Impl {

template <class T>
concept KnownValueType = requires {
  typename ValueTypeTraits<T>::arithmetic_type;
};

template <class T>
using arithmetic_type_t = typename ValueTypeTraits<T>::arithmetic_type;

template <class Scalar, class T>
KOKKOS_INLINE_FUNCTION Scalar load_value(T stored) {
  return static_cast<Scalar>(ValueTypeTraits<T>::load(stored));
}

template <class T, class Scalar>
KOKKOS_INLINE_FUNCTION T round_value(Scalar value) {
  using Arithmetic = arithmetic_type_t<T>;
  if constexpr (sizeof(T) < sizeof(Arithmetic) && sizeof(Arithmetic) < sizeof(Scalar)) {
    return ValueTypeTraits<T>::store(round_to_odd(value));
  } else {
    return ValueTypeTraits<T>::store(static_cast<Arithmetic>(value));
  }
}

}  // namespace Impl
}  // namespace KokkosXent

#endif
