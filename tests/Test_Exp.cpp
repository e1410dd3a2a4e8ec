// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "support/Precision.hpp"
#include "support/SplitMix.hpp"

// The host's elementary functions against the C library's in a wider type.
namespace KokkosXentTest {
namespace {

/// What the expected value of a T is computed in: so wide that its own error does not count. (Where
/// long double is double, its error counts for half an ulp of the bounds.)
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
using BitsOf = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>;

struct Exp {
  template <class T>
  T operator()(T x) const {
    return KokkosXent::Impl::exp_nonpositive(x);
  }
};

struct Expm1 {
  template <class T>
  T operator()(T x) const {
    return KokkosXent::Impl::expm1_nonpositive(x);
  }
};

struct Log1p {
  template <class T>
  T operator()(T x) const {
    return KokkosXent::Impl::log1p_nonnegative(x);
  }
};

// What is expected of them. The C library would take long over billions of floats: most are so near
// to 0 or so far from it that less gives the same.

constexpr auto right_exp   = [](auto x) { return std::exp(x); };
constexpr auto right_expm1 = [](auto x) { return std::expm1(x); };
constexpr auto right_log1p = [](auto x) { return std::log1p(x); };
// Exact where |x| < 2^-30
constexpr auto exp_of_tiny   = [](auto x) { return 1 + x; };
constexpr auto expm1_of_tiny = [](auto x) { return x + x * x / 2; };
// Below -128
constexpr auto exp_of_huge   = [](auto x) { return decltype(x)(0); };
constexpr auto expm1_of_huge = [](auto x) { return decltype(x)(-1); };

/// Distance between neighbouring floats around a number, by the number's bits: billions of them are
/// asked.
double spacing_of(float, double number) {
  constexpr std::uint64_t lowest_normal = 1023 - 126;
  const std::uint64_t exponent          = (std::bit_cast<std::uint64_t>(number) >> 52) & 0x7ffu;
  return std::bit_cast<double>((std::max(exponent, lowest_normal) - 23) << 52);
}

long double spacing_of(double, long double number) {
  return static_cast<long double>(precision_of<double>().spacing(static_cast<double>(number)));
}

/// A NaN where none is expected, and an infinity where another number is, are infinitely wrong.
template <class T>
double error_in_ulp(T actual, Wide<T> expected) {
  if (std::isnan(actual) && std::isnan(expected)) return 0;
  const auto error = static_cast<double>(std::abs(static_cast<Wide<T>>(actual) - expected) /
                                         spacing_of(T{}, expected));
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

using Host  = Kokkos::DefaultHostExecutionSpace;
using Worst = Kokkos::MaxLoc<double, std::int64_t, Kokkos::HostSpace>;

/// The largest error of F over input(i), 0 <= i < count, and the i where it is. F is called in
/// loops like those of the kernels, which the compiler vectorises.
template <class F, class Right, class Input>
typename Worst::value_type worst_of(const Right& right, const Input& input, std::int64_t count) {
  using T = decltype(input(std::int64_t{}));
  using Policy =
      Kokkos::RangePolicy<Host, Kokkos::IndexType<std::int64_t>, Kokkos::Schedule<Kokkos::Dynamic>>;
  constexpr std::int64_t block = 1024;
  typename Worst::value_type worst{};
  Kokkos::parallel_reduce(
      "KokkosXentTest::worst_of", Policy(0, (count + block - 1) / block),
      [=](std::int64_t b, typename Worst::value_type& found) {
        const std::int64_t first = b * block;
        const auto size          = static_cast<std::size_t>(std::min(block, count - first));
        std::array<T, block> inputs{}, results{};
        std::array<double, block> errors{};
        for (std::size_t k = 0; k < size; ++k)
          inputs[k] = input(first + static_cast<std::int64_t>(k));
        for (std::size_t k = 0; k < block; ++k) results[k] = F{}(inputs[k]);
        for (std::size_t k = 0; k < size; ++k)
          errors[k] = error_in_ulp(results[k], right(Wide<T>{inputs[k]}));
        const auto largest = std::max_element(errors.begin(), errors.end());
        if (*largest > found.val) found = {*largest, first + (largest - errors.begin())};
      },
      Worst(worst));
  return worst;
}

template <class F, class Right, class Input>
void expect_within(double bound, const Right& right, const Input& input, std::int64_t count,
                   const std::string& what) {
  const auto worst = worst_of<F>(right, input, count);
  ::testing::Test::RecordProperty(what + "_numbers", std::to_string(count));
  ::testing::Test::RecordProperty(what + "_max_ulp", std::to_string(worst.val));
  if (worst.val <= bound) return;
  auto x = input(worst.loc);
  ADD_FAILURE() << worst.val << " ulp in " << what << ", " << std::hexfloat << x << " gives "
                << F{}(x) << ", not " << right(Wide<decltype(x)>{x});
}

/// One float of so many is tested where billions would take long: an odd number, so that all low
/// bits occur. Every single one only by optimised code that runs at full speed.
constexpr std::int64_t few = 61;
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t all = 1;
#else
constexpr std::int64_t all = few;
#endif

/// Floats by their bits, every stride-th of them.
struct FloatRange {
  std::uint32_t first;
  std::uint32_t last;
  std::int64_t stride;

  std::int64_t count() const { return (std::int64_t{last} - first) / stride + 1; }
  float operator()(std::int64_t i) const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(first + i * stride));
  }
};

// e^x rounds to 1 well inside the tiny ones, and to 0 well inside the huge ones.
constexpr FloatRange tiny_floats{0x80000000u, 0xb0800000u, few};    // -0 to -2^-30
constexpr FloatRange middle_floats{0xb0800000u, 0xc3000000u, all};  // to -128
constexpr FloatRange huge_floats{0xc3000000u, 0xff800000u, few};    // to -inf
constexpr FloatRange positive_floats{0u, 0x7f7fffffu, few};         // 0 to the largest
constexpr FloatRange negative_nans{0xff800001u, 0xffffffffu, all};
constexpr FloatRange positive_nans{0x7f800001u, 0x7fffffffu, all};

template <class F, class Right>
void expect_within_for_floats(double bound, const Right& right, const FloatRange& range,
                              const std::string& what) {
  expect_within<F>(bound, right, range, range.count(), what);
}

template <class F>
void expect_nan_for_every_nan() {
  const auto nan = [](double x) { return x; };
  expect_within_for_floats<F>(0, nan, negative_nans, "negative_nans");
  expect_within_for_floats<F>(0, nan, positive_nans, "positive_nans");
}

TEST(ExpOfFloat, EveryNumberThatMatters) {
  expect_within_for_floats<Exp>(2, exp_of_tiny, tiny_floats, "tiny");
  expect_within_for_floats<Exp>(2, right_exp, middle_floats, "middle");
  expect_within_for_floats<Exp>(0, exp_of_huge, huge_floats, "huge");
}

TEST(ExpOfFloat, EveryNaN) { expect_nan_for_every_nan<Exp>(); }

TEST(Expm1OfFloat, EveryNumberThatMatters) {
  expect_within_for_floats<Expm1>(2, expm1_of_tiny, tiny_floats, "tiny");
  expect_within_for_floats<Expm1>(2, right_expm1, middle_floats, "middle");
  expect_within_for_floats<Expm1>(0, expm1_of_huge, huge_floats, "huge");
}

TEST(Expm1OfFloat, EveryNaN) { expect_nan_for_every_nan<Expm1>(); }

TEST(Log1pOfFloat, ManyNumbers) {
  expect_within_for_floats<Log1p>(2, right_log1p, positive_floats, "positive");
}

TEST(Log1pOfFloat, EveryNaN) { expect_nan_for_every_nan<Log1p>(); }

constexpr std::int64_t double_stride = all == 1 ? 1 : 16;

/// Of every exponent, subnormal and not finite ones too, its first number, its last and random ones
/// between them.
struct EveryExponent {
  bool negative;

  static constexpr std::int64_t each      = 2048 / double_stride;
  static constexpr std::int64_t exponents = 2048;

  double operator()(std::int64_t i) const {
    constexpr std::uint64_t mantissas = (std::uint64_t{1} << 52) - 1;
    const auto exponent               = static_cast<std::uint64_t>(i / each);
    std::uint64_t mantissa            = splitmix64(static_cast<std::uint64_t>(i)) & mantissas;
    if (i % each == 0) mantissa = 0;
    if (i % each == 1) mantissa = mantissas;
    return std::bit_cast<double>((std::uint64_t{negative} << 63) | (exponent << 52) | mantissa);
  }
};

/// Between where exp(x) is 0 and where it is 1.
struct Uniform {
  static constexpr std::int64_t count = (std::int64_t{1} << 23) / double_stride;

  double operator()(std::int64_t i) const {
    return -750.0 *
           (static_cast<double>(splitmix64(static_cast<std::uint64_t>(i)) >> 11) * 0x1p-53);
  }
};

/// Neighbours of -(k + 1/2) log 2: where the argument is reduced by another multiple of log 2, and
/// the remainder is largest.
struct AroundReductions {
  static constexpr std::int64_t each       = 256;
  static constexpr std::int64_t reductions = 1080;

  double operator()(std::int64_t i) const {
    const double middle = -(static_cast<double>(i / each) + 0.5) * 0.69314718055994530942;
    const auto bits     = std::bit_cast<std::int64_t>(middle) + i % each - each / 2;
    return std::bit_cast<double>(bits);
  }
};

template <class F, class Right>
void expect_within_for_negative_doubles(double bound, const Right& right) {
  expect_within<F>(bound, right, EveryExponent{true},
                   EveryExponent::exponents * EveryExponent::each, "every_exponent");
  expect_within<F>(bound, right, Uniform{}, Uniform::count, "uniform");
  expect_within<F>(bound, right, AroundReductions{},
                   AroundReductions::reductions * AroundReductions::each, "around_reductions");
}

TEST(ExpOfDouble, NumbersOfEveryExponent) { expect_within_for_negative_doubles<Exp>(2, right_exp); }

TEST(Expm1OfDouble, NumbersOfEveryExponent) {
  expect_within_for_negative_doubles<Expm1>(2, right_expm1);
}

TEST(Log1pOfDouble, NumbersOfEveryExponent) {
  constexpr std::int64_t finite = EveryExponent::exponents - 1;
  expect_within<Log1p>(2, right_log1p, EveryExponent{false}, finite * EveryExponent::each,
                       "every_exponent");
}

template <class T>
class SpecialNumbers : public ::testing::Test {};

using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SpecialNumbers, Scalars);

TYPED_TEST(SpecialNumbers, AreExact) {
  using T              = TypeParam;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  constexpr T tiny     = std::numeric_limits<T>::denorm_min();
  for (const T zero : {T(0), -T(0)}) {
    EXPECT_EQ(Exp{}(zero), T(1));
    EXPECT_EQ(Expm1{}(zero), T(0));
    EXPECT_EQ(Log1p{}(zero), T(0));
  }
  EXPECT_EQ(Exp{}(-tiny), T(1));
  EXPECT_EQ(Expm1{}(-tiny), -tiny);
  EXPECT_EQ(Log1p{}(tiny), tiny);
  EXPECT_EQ(Exp{}(-infinity), T(0));
  EXPECT_FALSE(std::signbit(Exp{}(-infinity)));
  EXPECT_EQ(Expm1{}(-infinity), T(-1));
  EXPECT_EQ(Exp{}(std::numeric_limits<T>::lowest()), T(0));
}

/// The last number whose exponential rounds to the smallest subnormal number, not to 0.
TYPED_TEST(SpecialNumbers, UnderflowIsGradual) {
  using T           = TypeParam;
  constexpr T tiny  = std::numeric_limits<T>::denorm_min();
  const auto middle = static_cast<T>(std::log(static_cast<Wide<T>>(tiny) / 2));
  EXPECT_EQ(Exp{}(middle * T(1 - 1e-6)), tiny);
  EXPECT_EQ(Exp{}(middle * T(1 + 1e-6)), T(0));
}

TYPED_TEST(SpecialNumbers, DroppedValuesAreZero) {
  using T = TypeParam;
  for (const T value :
       {T(3), T(-0.5), -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
    const T kept    = KokkosXent::Impl::keep_if(true, value);
    const T dropped = KokkosXent::Impl::keep_if(false, value);
    EXPECT_EQ(std::bit_cast<BitsOf<T>>(kept), std::bit_cast<BitsOf<T>>(value));
    EXPECT_EQ(std::bit_cast<BitsOf<T>>(dropped), BitsOf<T>{0});
  }
}

}  // namespace
}  // namespace KokkosXentTest
