// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_EXP_HPP
#define KOKKOSXENT_IMPL_EXP_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace KokkosXent::Impl {

/// exp(x) for x <= 0 (or NaN), branch-free so that host compilers vectorise a loop over it.
///
/// x = k log 2 + r with |r| <= log(2)/2 (Cody and Waite's two-part log 2), e^r by a polynomial,
/// 2^k by two exponent shifts so that results underflow gradually. Error: below 2 ulp.
KOKKOS_INLINE_FUNCTION float vectorizable_exp(float x) {
  constexpr float log2_e     = 1.44269504088896341f;
  constexpr float log_2_high = 0.693359375f;  // 9 bits: its product with k is exact
  constexpr float log_2_low  = -2.12194440e-4f;
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float underflow  = -104.0f;      // e^-104 rounds to 0

  const float clamped = x < underflow ? underflow : x;
  const float shifted = clamped * log2_e + to_integer;
  const float k       = shifted - to_integer;
  const float r       = (clamped - k * log_2_high) - k * log_2_low;

  float p = 1.9875691500e-4f;  // minimax for (e^r - 1 - r) / r^2 (Cephes)
  p       = p * r + 1.3981999507e-3f;
  p       = p * r + 8.3334519073e-3f;
  p       = p * r + 4.1665795894e-2f;
  p       = p * r + 1.6666665459e-1f;
  p       = p * r + 5.0000001201e-1f;
  p       = p * r * r + r + 1.0f;

  // Unsigned, biased so that halving is a plain shift; a NaN's exponent is arbitrary and harmless.
  const std::uint32_t exponent =
      Kokkos::bit_cast<std::uint32_t>(shifted) - Kokkos::bit_cast<std::uint32_t>(to_integer);
  const std::uint32_t half = ((exponent + 256u) >> 1) - 128u;
  const auto power_of_two  = [](std::uint32_t e) {
    return Kokkos::bit_cast<float>((e + 127u) << 23);
  };
  return p * power_of_two(half) * power_of_two(exponent - half);
}

KOKKOS_INLINE_FUNCTION double vectorizable_exp(double x) {
  constexpr double log2_e     = 1.44269504088896340736;
  constexpr double log_2_high = 6.93147180369123816490e-01;  // 32 bits
  constexpr double log_2_low  = 1.90821492927058770002e-10;
  constexpr double to_integer = 6755399441055744.0;  // 1.5 * 2^52
  constexpr double underflow  = -746.0;

  const double clamped = x < underflow ? underflow : x;
  const double shifted = clamped * log2_e + to_integer;
  const double k       = shifted - to_integer;
  const double r       = (clamped - k * log_2_high) - k * log_2_low;

  double p = 1.0 / 6227020800.0;  // Taylor to r^13: the next term is below 2^-57
  p        = p * r + 1.0 / 479001600.0;
  p        = p * r + 1.0 / 39916800.0;
  p        = p * r + 1.0 / 3628800.0;
  p        = p * r + 1.0 / 362880.0;
  p        = p * r + 1.0 / 40320.0;
  p        = p * r + 1.0 / 5040.0;
  p        = p * r + 1.0 / 720.0;
  p        = p * r + 1.0 / 120.0;
  p        = p * r + 1.0 / 24.0;
  p        = p * r + 1.0 / 6.0;
  p        = p * r + 1.0 / 2.0;
  p        = p * r * r + r + 1.0;

  const std::uint64_t exponent =
      Kokkos::bit_cast<std::uint64_t>(shifted) - Kokkos::bit_cast<std::uint64_t>(to_integer);
  const std::uint64_t half = ((exponent + 2048u) >> 1) - 1024u;
  const auto power_of_two  = [](std::uint64_t e) {
    return Kokkos::bit_cast<double>((e + 1023u) << 52);
  };
  return p * power_of_two(half) * power_of_two(exponent - half);
}

template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar exp_nonpositive(Scalar x) {
  KOKKOS_IF_ON_HOST((return vectorizable_exp(x);))
  KOKKOS_IF_ON_DEVICE((return Kokkos::exp(x);))
}

}  // namespace KokkosXent::Impl

#endif
