// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/Space.hpp"
#include "support/Storage.hpp"

// All 65536 patterns of both 16-bit types, on the host and in a kernel.
namespace KokkosXentTest {

using KokkosXent::bfloat16;
using KokkosXent::float16;

static_assert(sizeof(float16) == 2 && std::is_trivially_copyable_v<float16>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);
static_assert(std::is_trivially_default_constructible_v<float16>);
static_assert(std::is_trivially_default_constructible_v<bfloat16>);
static_assert(!std::is_convertible_v<float, float16> && !std::is_convertible_v<float16, float>);
static_assert(!std::is_convertible_v<double, bfloat16> && !std::is_convertible_v<bfloat16, double>);

/// What a format's bits mean: sign, exponent of exponent_bits, and the rest a fraction.
template <class T>
struct Format;
template <>
struct Format<float16> {
  static constexpr int exponent_bits = 5;
};
template <>
struct Format<bfloat16> {
  static constexpr int exponent_bits = 8;
};

/// The value of a pattern, from the definition of the IEEE 754 interchange formats.
template <class T>
double value_of(std::uint16_t bits) {
  constexpr int fraction_bits = 15 - Format<T>::exponent_bits;
  constexpr int bias          = (1 << (Format<T>::exponent_bits - 1)) - 1;
  constexpr int special       = (1 << Format<T>::exponent_bits) - 1;
  const double sign           = (bits >> 15) != 0 ? -1.0 : 1.0;
  const int exponent          = (bits >> fraction_bits) & special;
  const int fraction          = bits & ((1 << fraction_bits) - 1);
  if (exponent == special) {
    return sign * (fraction == 0 ? std::numeric_limits<double>::infinity()
                                 : std::numeric_limits<double>::quiet_NaN());
  }
  const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
}

template <class T>
bool is_nan(std::uint16_t bits) {
  return std::isnan(value_of<T>(bits));
}

/// The pattern of the largest finite value; the next one is infinity.
template <class T>
constexpr std::uint16_t largest() {
  return static_cast<std::uint16_t>(
      (((1 << Format<T>::exponent_bits) - 1) << (15 - Format<T>::exponent_bits)) - 1);
}

template <class T>
class ValueTypes : public ::testing::Test {};
using SixteenBitTypes = ::testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(ValueTypes, SixteenBitTypes);

template <class F>
void for_all_patterns(const F& f) {
  for (std::uint32_t bits = 0; bits < 65536u; ++bits) f(static_cast<std::uint16_t>(bits));
}

TYPED_TEST(ValueTypes, WidenExactly) {
  for_all_patterns([](std::uint16_t bits) {
    const double right       = value_of<TypeParam>(bits);
    const auto stored        = TypeParam::from_bits(bits);
    const double from_float  = static_cast<double>(static_cast<float>(stored));
    const double from_double = static_cast<double>(stored);
    if (std::isnan(right)) {
      ASSERT_TRUE(std::isnan(from_float) && std::isnan(from_double)) << bits;
    } else {
      ASSERT_EQ(from_float, right) << bits;
      ASSERT_EQ(from_double, right) << bits;
    }
    ASSERT_EQ(std::signbit(from_float), (bits >> 15) != 0) << bits;
  });
}

TYPED_TEST(ValueTypes, ComeBackWithTheirBits) {
  for_all_patterns([](std::uint16_t bits) {
    const auto stored                  = TypeParam::from_bits(bits);
    const std::uint16_t through_float  = TypeParam(static_cast<float>(stored)).bits;
    const std::uint16_t through_double = TypeParam(static_cast<double>(stored)).bits;
    if (is_nan<TypeParam>(bits)) {
      ASSERT_TRUE(is_nan<TypeParam>(through_float)) << bits;
      ASSERT_TRUE(is_nan<TypeParam>(through_double)) << bits;
      ASSERT_EQ(through_float >> 15, bits >> 15) << bits;
    } else {
      ASSERT_EQ(through_float, bits);
      ASSERT_EQ(through_double, bits);
    }
  });
}

/// Between each two neighbours, infinity as the neighbour of the largest: the midpoint goes to the
/// even one, and the nearest doubles and floats beside it to the nearer one. A double is rounded
/// once: by way of float the doubles beside a midpoint would become ties.
TYPED_TEST(ValueTypes, RoundToNearestTiesToEven) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const double end         = std::ldexp(1.0, Format<TypeParam>::exponent_bits == 5 ? 16 : 128);
  for (std::uint16_t bits = 0; bits <= largest<TypeParam>(); ++bits) {
    const auto next          = static_cast<std::uint16_t>(bits + 1);
    const double low         = value_of<TypeParam>(bits);
    const double high        = bits == largest<TypeParam>() ? end : value_of<TypeParam>(next);
    const double middle      = 0.5 * (low + high);
    const std::uint16_t even = bits % 2 == 0 ? bits : next;
    for (const std::uint16_t sign : {std::uint16_t{0x0000}, std::uint16_t{0x8000}}) {
      const double s       = sign == 0 ? 1.0 : -1.0;
      const auto with_sign = [&](std::uint16_t magnitude) {
        return static_cast<std::uint16_t>(magnitude | sign);
      };
      const auto middle_float = static_cast<float>(middle);
      ASSERT_EQ(TypeParam(s * middle).bits, with_sign(even)) << middle;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, 0.0)).bits, with_sign(bits)) << middle;
      ASSERT_EQ(TypeParam(s * std::nextafter(middle, 1e300)).bits, with_sign(next)) << middle;
      ASSERT_EQ(TypeParam(static_cast<float>(s) * middle_float).bits, with_sign(even)) << middle;
      ASSERT_EQ(TypeParam(static_cast<float>(s) * std::nextafter(middle_float, 0.0f)).bits,
                with_sign(bits))
          << middle;
      ASSERT_EQ(TypeParam(static_cast<float>(s) * std::nextafter(middle_float, infinity)).bits,
                with_sign(next))
          << middle;
    }
  }
}

TYPED_TEST(ValueTypes, Extremes) {
  const auto infinity = static_cast<std::uint16_t>(largest<TypeParam>() + 1);
  const auto negative = [](std::uint16_t bits) {
    return static_cast<std::uint16_t>(bits | 0x8000);
  };
  EXPECT_EQ(TypeParam(std::numeric_limits<double>::max()).bits, infinity);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, infinity);
  EXPECT_EQ(TypeParam(-std::numeric_limits<double>::max()).bits, negative(infinity));
  EXPECT_EQ(TypeParam(std::numeric_limits<double>::infinity()).bits, infinity);
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::infinity()).bits, negative(infinity));
  EXPECT_EQ(TypeParam(std::numeric_limits<double>::denorm_min()).bits, 0);
  EXPECT_EQ(TypeParam(-std::numeric_limits<double>::denorm_min()).bits, 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(TypeParam(-0.0).bits, 0x8000);
  EXPECT_TRUE(is_nan<TypeParam>(TypeParam(std::numeric_limits<double>::quiet_NaN()).bits));
  EXPECT_TRUE(is_nan<TypeParam>(TypeParam(std::numeric_limits<float>::signaling_NaN()).bits));
  // A NaN whose payload lies below the 16 bits that are kept must not become infinity.
  EXPECT_TRUE(is_nan<TypeParam>(TypeParam(std::bit_cast<float>(0x7f800001u)).bits));
  EXPECT_TRUE(is_nan<TypeParam>(TypeParam(std::bit_cast<float>(0xff800001u)).bits));
}

/// Widened and narrowed again in a kernel, by way of float and of double, and rounded from float
/// values between the patterns.
template <class T>
struct ConvertAllPatterns {
  Kokkos::View<float*, MemorySpace> widened;
  Kokkos::View<std::uint16_t*, MemorySpace> through_float, through_double, rounded;
  Kokkos::View<const double*, MemorySpace> inputs;

  KOKKOS_FUNCTION void operator()(int bits) const {
    const T stored       = T::from_bits(static_cast<std::uint16_t>(bits));
    widened(bits)        = static_cast<float>(stored);
    through_float(bits)  = T(static_cast<float>(stored)).bits;
    through_double(bits) = T(static_cast<double>(stored)).bits;
    rounded(bits)        = T(inputs(bits)).bits;
  }
};

/// Doubles at and beside the midpoint after each pattern.
template <class T>
std::vector<double> rounding_inputs() {
  std::vector<double> inputs;
  for_all_patterns([&](std::uint16_t bits) {
    const double value = value_of<T>(bits);
    const double next  = value_of<T>(static_cast<std::uint16_t>(bits + 1));
    const double middle =
        std::isfinite(value) && std::isfinite(next) ? 0.5 * (value + next) : value;
    inputs.push_back(bits % 3 == 0   ? middle
                     : bits % 3 == 1 ? std::nextafter(middle, 0.0)
                                     : std::nextafter(middle, 2.0 * middle));
  });
  return inputs;
}

template <class View>
auto on_host(const View& view) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
}

template <class T>
void expect_kernel_converts_like_host() {
  const List<double> inputs("inputs", rounding_inputs<T>());
  const ConvertAllPatterns<T> convert{Kokkos::View<float*, MemorySpace>("widened", 65536),
                                      Kokkos::View<std::uint16_t*, MemorySpace>("float", 65536),
                                      Kokkos::View<std::uint16_t*, MemorySpace>("double", 65536),
                                      Kokkos::View<std::uint16_t*, MemorySpace>("rounded", 65536),
                                      inputs.view()};
  Kokkos::parallel_for("KokkosXentTest::convert", Kokkos::RangePolicy<ExecutionSpace>(0, 65536),
                       convert);
  Kokkos::fence("KokkosXentTest::convert");
  const auto widened        = on_host(convert.widened);
  const auto through_float  = on_host(convert.through_float);
  const auto through_double = on_host(convert.through_double);
  const auto rounded        = on_host(convert.rounded);
  const auto input_values   = on_host(inputs.view());
  for_all_patterns([&](std::uint16_t bits) {
    const double right = value_of<T>(bits);
    if (std::isnan(right)) {
      ASSERT_TRUE(std::isnan(widened(bits))) << bits;
      ASSERT_TRUE(is_nan<T>(through_float(bits)) && is_nan<T>(through_double(bits))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(widened(bits)), right) << bits;
      ASSERT_EQ(through_float(bits), bits);
      ASSERT_EQ(through_double(bits), bits);
    }
    if (std::isnan(input_values(bits))) return;
    ASSERT_EQ(rounded(bits), T(input_values(bits)).bits) << input_values(bits);
  });
}

TYPED_TEST(ValueTypes, KernelsConvertLikeTheHost) { expect_kernel_converts_like_host<TypeParam>(); }

/// A storage type of the user's own: fixed point with 8 fractional bits.
struct FixedPoint {
  std::int16_t units;
};

}  // namespace KokkosXentTest

template <>
struct KokkosXent::ValueTypeTraits<KokkosXentTest::FixedPoint> {
  using arithmetic_type = float;
  static KOKKOS_FUNCTION float load(KokkosXentTest::FixedPoint stored) {
    return static_cast<float>(stored.units) / 256.0f;
  }
  static KOKKOS_FUNCTION KokkosXentTest::FixedPoint store(float value) {
    return {static_cast<std::int16_t>(Kokkos::round(value * 256.0f))};
  }
};

namespace KokkosXentTest {

TEST(UserValueType, LoadsAndStoresThroughItsTraits) {
  using View = Kokkos::View<FixedPoint**, Kokkos::LayoutRight, MemorySpace>;
  const View logits("logits", 1, 3);
  const auto host = Kokkos::create_mirror_view(logits);
  for (int j = 0; j < 3; ++j) host(0, j).units = static_cast<std::int16_t>(256 * (j + 1));
  Kokkos::deep_copy(logits, host);
  const List<std::int64_t> targets("targets", std::vector<std::int64_t>{2});
  const Kokkos::View<float, MemorySpace> loss("loss");
  const View gradient("gradient", 1, 3);

  KokkosXent::CrossEntropy<ExecutionSpace> cross_entropy(ExecutionSpace(), 1, 3);
  cross_entropy.forward(logits, targets.view(), loss);
  cross_entropy.backward(logits, targets.view(), 1.0f, gradient);
  Kokkos::fence("KokkosXentTest::user_value_type");
  EXPECT_NEAR(values_of(loss)[0], 0.407605964, 1e-6);
  const auto rounded = on_host(gradient);
  EXPECT_EQ(rounded(0, 0).units, 23);   // 0.090030573 * 256 = 23.05
  EXPECT_EQ(rounded(0, 1).units, 63);   // 0.244728471 * 256 = 62.65
  EXPECT_EQ(rounded(0, 2).units, -86);  // -0.334759044 * 256 = -85.70
}

}  // namespace KokkosXentTest
