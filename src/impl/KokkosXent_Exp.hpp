// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_EXP_HPP
#define KOKKOSXENT_IMPL_EXP_HPP

#include <impl/KokkosXent_Intrinsics.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace KokkosXent::Impl {

/// value where keep is true, else 0, without a branch: compilers move arithmetic into the branches
/// of a ?:, and then do not vectorise it.
KOKKOS_INLINE_FUNCTION float keep_if(bool keep, float value) {
  return Kokkos::bit_cast<float>(Kokkos::bit_cast<std::uint32_t>(value) &
                                 (keep ? ~std::uint32_t{0} : std::uint32_t{0}));
}
KOKKOS_INLINE_FUNCTION double keep_if(bool keep, double value) {
  return Kokkos::bit_cast<double>(Kokkos::bit_cast<std::uint64_t>(value) &
                                  (keep ? ~std::uint64_t{0} : std::uint64_t{0}));
}

/// The larger of x and lowest < 0, and a NaN as it is, by comparing bits: those of negative numbers
/// order the other way round, then come those of NaN. Also without a branch.
template <class Bits, class Scalar>
KOKKOS_INLINE_FUNCTION Scalar clamp_below(Scalar x, Scalar lowest) {
  const Bits minus_infinity = Kokkos::bit_cast<Bits>(-Kokkos::Experimental::infinity_v<Scalar>);
  const Bits lowest_bits    = Kokkos::bit_cast<Bits>(lowest);
  const Bits bits           = Kokkos::bit_cast<Bits>(x);
  const Bits clamped        = bits < lowest_bits ? bits : lowest_bits;
  return Kokkos::bit_cast<Scalar>(bits > minus_infinity ? bits : clamped);
}

/// e^x = 2^exponent (1 + tail)
template <class Scalar, class Bits>
struct SplitExponential {
  Scalar tail;
  Bits exponent;  // two's complement
};

/// For x <= 0 (or NaN), branch-free so that host compilers vectorise a loop over it.
///
/// x = k log 2 + r with |r| <= log(2)/2 (Cody and Waite's two-part log 2), e^r - 1 by a polynomial.
/// The exponent of a NaN is arbitrary, and harmless.
KOKKOS_INLINE_FUNCTION SplitExponential<float, std::uint32_t> split_exponential(float x) {
  constexpr float log2_e     = 1.44269504088896341f;
  constexpr float log_2_high = 0.693359375f;  // 9 bits: its product with k is exact
  constexpr float log_2_low  = -2.12194440e-4f;
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float underflow  = -104.0f;      // e^-104 rounds to 0

  const float clamped = clamp_below<std::int32_t>(x, underflow);
  const float shifted = clamped * log2_e + to_integer;
  const float k       = shifted - to_integer;
  const float r       = (clamped - k * log_2_high) - k * log_2_low;

  float p = 1.9875691500e-4f;  // minimax for (e^r - 1 - r) / r^2 (Cephes)
  p       = p * r + 1.3981999507e-3f;
  p       = p * r + 8.3334519073e-3f;
  p       = p * r + 4.1665795894e-2f;
  p       = p * r + 1.6666665459e-1f;
  p       = p * r + 5.0000001201e-1f;
  return {p * r * r + r,
          Kokkos::bit_cast<std::uint32_t>(shifted) - Kokkos::bit_cast<std::uint32_t>(to_integer)};
}

/// For x from -746 on.
KOKKOS_INLINE_FUNCTION SplitExponential<double, std::uint64_t> split_clamped(double x) {
  constexpr double log2_e     = 1.44269504088896340736;
  constexpr double log_2_high = 6.93147180369123816490e-01;  // 32 bits
  constexpr double log_2_low  = 1.90821492927058770002e-10;
  constexpr double to_integer = 6755399441055744.0;  // 1.5 * 2^52

  const double shifted = x * log2_e + to_integer;
  const double k       = shifted - to_integer;
  const double r       = (x - k * log_2_high) - k * log_2_low;

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
  return {p * r * r + r,
          Kokkos::bit_cast<std::uint64_t>(shifted) - Kokkos::bit_cast<std::uint64_t>(to_integer)};
}
KOKKOS_INLINE_FUNCTION SplitExponential<double, std::uint64_t> split_exponential(double x) {
  constexpr double underflow = -746.0;  // e^-746 rounds to 0
  return split_clamped(clamp_below<std::int64_t>(x, underflow));
}

KOKKOS_INLINE_FUNCTION float power_of_two(std::uint32_t exponent) {
  return Kokkos::bit_cast<float>((exponent + 127u) << 23);
}
KOKKOS_INLINE_FUNCTION double power_of_two(std::uint64_t exponent) {
  return Kokkos::bit_cast<double>((exponent + 1023u) << 52);
}

/// exp(x) for x <= 0 (or NaN) within 2 ulp, underflowing gradually: 2^k by two halves.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar vectorizable_exp(Scalar x) {
  const auto [tail, exponent] = split_exponential(x);
  constexpr auto bias = static_cast<decltype(exponent + 0)>(1024);  // makes halving a plain shift
  const auto half     = ((exponent + 2 * bias) >> 1) - bias;
  return (1 + tail) * power_of_two(half) * power_of_two(exponent - half);
}

/// exp(x) - 1 for x <= 0 (or NaN), without cancellation.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar vectorizable_expm1(Scalar x) {
  using Bits = std::conditional_t<std::is_same_v<Scalar, float>, std::int32_t, std::int64_t>;
  // e^-80 is nothing beside 1, and 2^-116 still a normal float.
  const auto [tail, exponent] = split_exponential(clamp_below<Bits>(x, Scalar(-80)));
  const Scalar power          = power_of_two(exponent);
  return power * tail + (power - 1);
}

/// exp(x) for x <= 0 (or NaN), as each kind of machine does it fastest. On a device float goes
/// through exp2, one hardware instruction: rounding x log2(e) costs |x| 2^-24 relative, no more
/// than rounding x itself did.
KOKKOS_INLINE_FUNCTION float exp_nonpositive(float x) {
  KOKKOS_IF_ON_HOST((return vectorizable_exp(x);))
  KOKKOS_IF_ON_DEVICE((return fast_exp2(x * 1.44269504088896341f);))
}

/// Results below the smallest normal double are 0.
KOKKOS_INLINE_FUNCTION double device_exp(double x) {
  constexpr double underflow  = -708.0;
  const auto [tail, exponent] = split_clamped(x);
  // 1 + tail is between 1/2 and 2: its exponent takes another.
  const auto power =
      Kokkos::bit_cast<double>(Kokkos::bit_cast<std::uint64_t>(1 + tail) + (exponent << 52));
  return x < underflow ? 0.0 : power;
}

KOKKOS_INLINE_FUNCTION double exp_nonpositive(double x) {
  KOKKOS_IF_ON_HOST((return vectorizable_exp(x);))
  KOKKOS_IF_ON_DEVICE((return device_exp(x);))
}

/// exp(z - shift) for many z <= shift (or NaN): factor() times what is called with z.
template <class Scalar>
class ShiftedExp {
 public:
  KOKKOS_FUNCTION explicit ShiftedExp(Scalar shift) : m_shift(shift) {}

  KOKKOS_FUNCTION Scalar operator()(Scalar z) const { return exp_nonpositive(z - m_shift); }
  KOKKOS_FUNCTION static constexpr Scalar factor() { return 1; }

 private:
  Scalar m_shift;
};

/// On a device exp2 is an instruction, whose argument is one multiply-add here. That shift log2(e)
/// is rounded changes all results by the same factor. Floats beyond 2^30 are at least 128 apart:
/// any slope does there, and 1 makes the argument exact.
template <>
class ShiftedExp<float> {
 public:
  KOKKOS_FUNCTION explicit ShiftedExp(float shift)
      : m_shift(shift),
        m_slope(Kokkos::abs(shift) < 1073741824.0f ? 1.44269504088896341f : 1.0f),
        m_offset(-shift * m_slope) {}

  KOKKOS_FUNCTION float operator()(float z) const {
    KOKKOS_IF_ON_HOST((return exp_nonpositive(z - m_shift);))
    KOKKOS_IF_ON_DEVICE((return fast_exp2(Kokkos::fma(z, m_slope, m_offset));))
  }
  KOKKOS_FUNCTION float factor() const {
    KOKKOS_IF_ON_HOST((return 1;))
    KOKKOS_IF_ON_DEVICE((return fast_exp2(-Kokkos::fma(m_shift, m_slope, m_offset));))
  }

 private:
  float m_shift;
  float m_slope;
  float m_offset;
};

/// exp(x) - 1 for x <= 0 (or NaN)
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar expm1_nonpositive(Scalar x) {
  KOKKOS_IF_ON_HOST((return vectorizable_expm1(x);))
  KOKKOS_IF_ON_DEVICE((return Kokkos::expm1(x);))
}

/// log(1 + x) for x >= 0 (or NaN). The host's log is several times faster than its log1p; what
/// 1 + x rounds away is added to first order.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar log1p_nonnegative(Scalar x) {
  KOKKOS_IF_ON_HOST((const Scalar sum = 1 + x; return Kokkos::log(sum) + (x - (sum - 1)) / sum;))
  KOKKOS_IF_ON_DEVICE((return Kokkos::log1p(x);))
}

}  // namespace KokkosXent::Impl

#endif
