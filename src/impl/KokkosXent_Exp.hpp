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
KOKKOS_FORCEINLINE_FUNCTION float keep_if(bool keep, float value) {
  return Kokkos::bit_cast<float>(Kokkos::bit_cast<std::uint32_t>(value) &
                                 (keep ? ~std::uint32_t{0} : std::uint32_t{0}));
}
KOKKOS_FORCEINLINE_FUNCTION double keep_if(bool keep, double value) {
  return Kokkos::bit_cast<double>(Kokkos::bit_cast<std::uint64_t>(value) &
                                  (keep ? ~std::uint64_t{0} : std::uint64_t{0}));
}

/// What exponentials by polynomials depend on in a value type.
template <class Scalar>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Bits                         = std::uint32_t;
  using SignedBits                   = std::int32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr int bias          = 127;
  static constexpr float to_integer  = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float log_2_high = 0.693359375f;  // 9 bits: its product with an integer is exact
  static constexpr float log_2_low  = -2.12194440e-4f;
  static constexpr float lowest     = -150.0f;  // e^-150 rounds to 0
  static constexpr int headroom     = 96;       // e^-150 2^96 is a normal number
  static constexpr float descale    = 0x1p-96f;
};

template <>
struct ExpConstants<double> {
  using Bits                         = std::uint64_t;
  using SignedBits                   = std::int64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr int bias          = 1023;
  static constexpr double to_integer = 6755399441055744.0;          // 1.5 * 2^52
  static constexpr double log_2_high = 6.93147180369123816490e-01;  // 32 bits
  static constexpr double log_2_low  = 1.90821492927058770002e-10;
  static constexpr double lowest     = -800.0;
  static constexpr int headroom      = 256;
  static constexpr double descale    = 0x1p-256;
};

/// The larger of x and lowest < 0, and a NaN as it is, by comparing bits: those of negative numbers
/// order the other way round, then come those of NaN. Also without a branch.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar clamp_below(Scalar x, Scalar lowest) {
  using Bits                = typename ExpConstants<Scalar>::SignedBits;
  const Bits minus_infinity = Kokkos::bit_cast<Bits>(-Kokkos::Experimental::infinity_v<Scalar>);
  const Bits lowest_bits    = Kokkos::bit_cast<Bits>(lowest);
  const Bits bits           = Kokkos::bit_cast<Bits>(x);
  const Bits clamped        = bits < lowest_bits ? bits : lowest_bits;
  return Kokkos::bit_cast<Scalar>(bits > minus_infinity ? bits : clamped);
}

/// (e^r - 1) / r for |r| <= log(2)/2: 1 + r q(r), with the q for which the largest error relative
/// to e^r is least (Remez), 3e-9 and 4e-18.
KOKKOS_FORCEINLINE_FUNCTION float expm1_ratio(float r) {
  float q = 1.38145986e-3f;
  q       = q * r + 8.36871688e-3f;
  q       = q * r + 4.16683880e-2f;
  q       = q * r + 1.66665205e-1f;
  q       = q * r + 4.99999934e-1f;
  return q * r + 1;
}
KOKKOS_FORCEINLINE_FUNCTION double expm1_ratio(double r) {
  double q = 2.5000061602835666699e-8;
  q        = q * r + 2.7630248379211443975e-7;
  q        = q * r + 2.7557586373840163694e-6;
  q        = q * r + 2.4801493098906550659e-5;
  q        = q * r + 1.9841269506578687653e-4;
  q        = q * r + 1.3888888943630112946e-3;
  q        = q * r + 8.3333333334944616641e-3;
  q        = q * r + 4.1666666666530158590e-2;
  q        = q * r + 1.6666666666666412523e-1;
  q        = q * r + 5.0000000000000106271e-1;
  return q * r + 1;
}

/// The same where e^r is wanted, and not e^r - 1. For float one term less is enough then: the
/// polynomial for which 1 + r q(r) is nearest to e^r in units of the last place of a float there
/// (Remez, 1.05 of them; then its rounded coefficients by search, 1.8 for exp() as a whole). With
/// products that are rounded before they are added it would be more than 2.
KOKKOS_FORCEINLINE_FUNCTION float exp_ratio(float r) {
  if constexpr (!fuses_multiply_add) return expm1_ratio(r);
  float q = 8.26430041e-3f;
  q       = q * r + 4.190154e-2f;
  q       = q * r + 1.66681603e-1f;
  q       = q * r + 4.99991119e-1f;
  return q * r + 9.99999464e-1f;
}
KOKKOS_FORCEINLINE_FUNCTION double exp_ratio(double r) { return expm1_ratio(r); }

/// e^x = 2^k e^r
template <class Scalar>
struct SplitExponential {
  using Bits = typename ExpConstants<Scalar>::Bits;

  Scalar r;
  Bits k;  // plus an offset, in the low bits; two's complement

  /// e^r - 1, without cancellation, and e^r
  KOKKOS_FORCEINLINE_FUNCTION Scalar tail() const { return r * expm1_ratio(r); }
  KOKKOS_FORCEINLINE_FUNCTION Scalar mantissa() const { return r * exp_ratio(r) + 1; }
  /// 2^(k + offset) e^r, where that is a normal number: k joins the mantissa's exponent.
  KOKKOS_FORCEINLINE_FUNCTION Scalar mantissa_times_power() const {
    return Kokkos::bit_cast<Scalar>(Kokkos::bit_cast<Bits>(mantissa()) +
                                    (k << ExpConstants<Scalar>::mantissa_bits));
  }
  /// The power of two if the offset has made of k an exponent's bits.
  KOKKOS_FORCEINLINE_FUNCTION Scalar power() const {
    return Kokkos::bit_cast<Scalar>(k << ExpConstants<Scalar>::mantissa_bits);
  }
};

/// x = k log 2 + r (Cody and Waite's two-part log 2). For x from ExpConstants::lowest to somewhat
/// above 0, branch-free so that host compilers vectorise a loop over it. Of a NaN, r is NaN,
/// k is arbitrary.
template <int Offset, class Scalar>
KOKKOS_FORCEINLINE_FUNCTION SplitExponential<Scalar> split_exponential(Scalar x) {
  using Constants             = ExpConstants<Scalar>;
  constexpr Scalar log2_e     = Kokkos::numbers::log2e_v<Scalar>;
  constexpr Scalar to_integer = Constants::to_integer + Offset;
  const Scalar shifted        = x * log2_e + to_integer;
  const Scalar k              = shifted - to_integer;
  const Scalar r              = (x - k * Constants::log_2_high) - k * Constants::log_2_low;
  return {r, Kokkos::bit_cast<typename Constants::Bits>(shifted)};
}

/// exp(-gap) / ExpConstants::descale for a gap >= 0, or inf; of a NaN any number. The scale leaves
/// room for results that are subnormal, or nothing, without it: the fewest instructions for many
/// exponentials whose sum is scaled back.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar scaled_exp_of_gap(Scalar gap) {
  using Constants  = ExpConstants<Scalar>;
  using SignedBits = typename Constants::SignedBits;
  const auto most  = Kokkos::bit_cast<SignedBits>(-Constants::lowest);
  const auto bits  = smaller_of(Kokkos::bit_cast<SignedBits>(gap), most);
  return split_exponential<Constants::headroom>(-Kokkos::bit_cast<Scalar>(bits))
      .mantissa_times_power();
}

/// exp(x) for x <= 0 (or NaN) within 2 ulp, underflowing gradually.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar vectorizable_exp(Scalar x) {
  using Constants = ExpConstants<Scalar>;
  const auto split =
      split_exponential<Constants::bias + Constants::headroom>(clamp_below(x, Constants::lowest));
  return split.mantissa() * split.power() * Constants::descale;
}

/// exp(x) - 1 for x <= 0 (or NaN), without cancellation.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar vectorizable_expm1(Scalar x) {
  // e^-80 is nothing beside 1, and 2^-116 still a normal float.
  const auto split   = split_exponential<ExpConstants<Scalar>::bias>(clamp_below(x, Scalar(-80)));
  const Scalar power = split.power();
  return power * split.tail() + (power - 1);
}

/// exp(x) for x <= 0 (or NaN), as each kind of machine does it fastest. On a device float goes
/// through exp2, one hardware instruction: rounding x log2(e) costs |x| 2^-24 relative, no more
/// than rounding x itself did.
KOKKOS_FORCEINLINE_FUNCTION float exp_nonpositive(float x) {
  KOKKOS_IF_ON_HOST((return vectorizable_exp(x);))
  KOKKOS_IF_ON_DEVICE((return fast_exp2(x * Kokkos::numbers::log2e_v<float>);))
}

/// Results below the smallest normal double are 0.
KOKKOS_FORCEINLINE_FUNCTION double device_exp(double x) {
  constexpr double underflow = -708.0;
  const auto split           = split_exponential<0>(x);
  return keep_if(!(x < underflow), split.mantissa_times_power());
}

KOKKOS_FORCEINLINE_FUNCTION double exp_nonpositive(double x) {
  KOKKOS_IF_ON_HOST((return vectorizable_exp(x);))
  KOKKOS_IF_ON_DEVICE((return device_exp(x);))
}

/// exp(z - max) for z <= max < inf; any number where either is NaN.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar exp_below(Scalar z, Scalar max) {
  KOKKOS_IF_ON_HOST((return scaled_exp_of_gap(max - z) * ExpConstants<Scalar>::descale;))
  KOKKOS_IF_ON_DEVICE((return exp_nonpositive(z - max);))
}

/// exp(z - shift) for many z <= shift < inf: factor() times what is called with z; any number where
/// either is NaN, on the host.
template <class Scalar>
class ShiftedExp {
 public:
  KOKKOS_FUNCTION explicit ShiftedExp(Scalar shift) : m_shift(shift) {}

  KOKKOS_FUNCTION Scalar operator()(Scalar z) const {
    KOKKOS_IF_ON_HOST((return exp_below(z, m_shift);))
    KOKKOS_IF_ON_DEVICE((return exp_nonpositive(z - m_shift);))
  }
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
        m_slope(Kokkos::abs(shift) <= 1073741824.0f ? Kokkos::numbers::log2e_v<float> : 1.0f),
        m_offset(-shift * m_slope) {}

  KOKKOS_FUNCTION float operator()(float z) const {
    KOKKOS_IF_ON_HOST((return exp_below(z, m_shift);))
    KOKKOS_IF_ON_DEVICE((return fast_exp2(Kokkos::fma(z, m_slope, m_offset));))
  }
  KOKKOS_FUNCTION float factor() const {
    KOKKOS_IF_ON_HOST((return 1;))
    KOKKOS_IF_ON_DEVICE((return fast_exp2(-Kokkos::fma(m_shift, m_slope, m_offset));))
  }

 private:
  float m_shift;
  float m_slope;
  [[maybe_unused]] float m_offset;  // on a device
};

/// exp(x) - 1 for x <= 0 (or NaN)
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar expm1_nonpositive(Scalar x) {
  KOKKOS_IF_ON_HOST((return vectorizable_expm1(x);))
  KOKKOS_IF_ON_DEVICE((return Kokkos::expm1(x);))
}

/// (2 atanh(s) - 2 s) / s for w = s^2, |s| <= tan(pi/8)^2, with the polynomial in w for which the
/// largest error relative to 2 atanh(s) is least (Remez), 8e-10 and 1.3e-18.
KOKKOS_FORCEINLINE_FUNCTION float atanh_tail(float w) {
  float q = 0.29873073f;
  q       = q * w + 0.39977496f;
  q       = q * w + 0.66666777f;
  return q * w;
}
KOKKOS_FORCEINLINE_FUNCTION double atanh_tail(double w) {
  double q = 0.14797508410453424787;
  q        = q * w + 0.15313903169156026193;
  q        = q * w + 0.18183569743210729357;
  q        = q * w + 0.22222198475911116006;
  q        = q * w + 0.28571428743263543611;
  q        = q * w + 0.39999999999411087578;
  q        = q * w + 0.66666666666667348965;
  return q * w;
}

/// log(1 + x) for x >= 0 (or NaN), within 2 ulp, branch-free: 1 + x = 2^k (1 + f) with 1 + f
/// between sqrt(1/2) and sqrt(2), and log(1 + f) = 2 atanh(s) = 2 s + s tail, where
/// 2 s = f - f^2/2 + s f^2/2.
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar vectorizable_log1p(Scalar x) {
  using Constants             = ExpConstants<Scalar>;
  using Bits                  = typename Constants::Bits;
  constexpr int mantissa_bits = Constants::mantissa_bits;
  const Bits sqrt_half        = Kokkos::bit_cast<Bits>(Scalar(0.70710678118654752440));
  const Bits to_integer       = Kokkos::bit_cast<Bits>(Constants::to_integer);

  const Scalar sum     = 1 + x;
  const Scalar lost    = x - (sum - 1);  // what 1 + x rounds away
  const Bits bits      = Kokkos::bit_cast<Bits>(sum);
  const Bits power     = (bits - sqrt_half) >> mantissa_bits;
  const Scalar reduced = Kokkos::bit_cast<Scalar>(bits - (power << mantissa_bits));
  const Scalar k       = Kokkos::bit_cast<Scalar>(to_integer + power) - Constants::to_integer;
  const Scalar f       = (reduced - 1) + lost * (reduced / sum);
  const Scalar s       = f / (2 + f);
  const Scalar square  = Scalar(0.5) * f * f;
  const Scalar below_f = square - (s * (square + atanh_tail(s * s)) + k * Constants::log_2_low);
  return k * Constants::log_2_high - (below_f - f);
}

/// log(1 + x) for x >= 0 (or NaN)
template <class Scalar>
KOKKOS_FORCEINLINE_FUNCTION Scalar log1p_nonnegative(Scalar x) {
  KOKKOS_IF_ON_HOST((return vectorizable_log1p(x);))
  KOKKOS_IF_ON_DEVICE((return Kokkos::log1p(x);))
}

}  // namespace KokkosXent::Impl

#endif
