// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/Tolerance.hpp"

namespace KokkosXentTest {
namespace {

constexpr double nan      = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Within, PassesUpToTheBound) {
  EXPECT_TRUE(within(1.5, 1.0, 0.5));
  EXPECT_TRUE(within(0.5, 1.0, 0.5));
  EXPECT_TRUE(within(1.0, 1.0, 0.0));
  EXPECT_TRUE(within(-0.0, 0.0, 0.0));
}

TEST(Within, FailsBeyondTheBound) {
  EXPECT_FALSE(within(std::nextafter(1.5, 2.0), 1.0, 0.5));
  EXPECT_FALSE(within(std::nextafter(0.75, 0.0), 1.0, 0.25));
  EXPECT_FALSE(within(std::nextafter(1.0, 2.0), 1.0, 0.0));
}

TEST(Within, NaNFailsUnlessExpected) {
  EXPECT_FALSE(within(nan, 1.0, 0.5));
  EXPECT_FALSE(within(nan, 1.0, infinity));
  EXPECT_FALSE(within(1.0, nan, infinity));
  EXPECT_FALSE(within(1.0, 1.0, nan));
  EXPECT_TRUE(within(nan, nan, 0.0));
}

TEST(Within, InfinityPassesForItselfOnly) {
  EXPECT_TRUE(within(infinity, infinity, 0.0));
  EXPECT_FALSE(within(-infinity, infinity, infinity));
  EXPECT_FALSE(within(1e308, infinity, infinity));
  EXPECT_FALSE(within(infinity, 1e308, 1e300));
  EXPECT_FALSE(within(nan, infinity, infinity));
}

TEST(AllWithin, NamesTheFirstMismatch) {
  const auto tolerance = Tolerance::of<float, float>(4);
  const std::vector<Expected> expected{{1.0, 0.0}, {2.0, 0.0}, {3.0, 0.0}, {4.0, 0.0}};
  EXPECT_TRUE(all_within({1.0, 2.0, 3.0, 4.0}, expected, tolerance, 2));
  const auto outcome = all_within({1.0, 2.0, 3.5, nan}, expected, tolerance, 2);
  EXPECT_FALSE(outcome);
  EXPECT_NE(
      std::string(outcome.message()).find("2 of 4 values are wrong, the first at row 1, class 0"),
      std::string::npos)
      << outcome.message();
}

TEST(AllWithin, FailsForAnotherNumberOfValues) {
  EXPECT_FALSE(all_within({}, {{1.0, 0.0}}, Tolerance::of<float, float>(1)));
  EXPECT_FALSE(all_within({1.0, 1.0}, {{1.0, 0.0}}, Tolerance::of<float, float>(1)));
}

TEST(AllSameBits, TellsZerosApartAndMatchesNaN) {
  EXPECT_TRUE(all_same_bits({0.0, nan, 1.0}, {0.0, nan, 1.0}));
  EXPECT_FALSE(all_same_bits({0.0}, {-0.0}));
  EXPECT_FALSE(all_same_bits({nan}, {0.0}));
  EXPECT_FALSE(all_same_bits({1.0}, {std::nextafter(1.0, 2.0)}));
  EXPECT_FALSE(all_same_bits({1.0}, {}));
}

TEST(ToleranceTrait, GrowsWithTheRootOfClasses) {
  const Expected one{1.0, 1.0};
  const double u        = std::ldexp(1.0, -24);
  const double of_1     = Tolerance::of<float, float>(1).bound(one);
  const double of_10000 = Tolerance::of<float, float>(10000).bound(one);
  EXPECT_NEAR(of_1, 12.0 * u, 1e-3 * u);
  EXPECT_NEAR(of_10000, 210.0 * u, 1e-3 * u);
}

TEST(ToleranceTrait, AddsTheStoredTypesRounding) {
  const Expected one{1.0, 1.0};
  const double in_float    = Tolerance::of<float, float>(4).bound(one);
  const double in_bfloat16 = Tolerance::of<KokkosXent::bfloat16, float>(4).bound(one);
  const double in_float16  = Tolerance::of<KokkosXent::float16, float>(4).bound(one);
  EXPECT_NEAR(in_bfloat16 - in_float, std::ldexp(1.0, -8), 1e-12);
  EXPECT_NEAR(in_float16 - in_float, std::ldexp(1.0, -11), 1e-7);
}

TEST(ToleranceTrait, AllowsHalfASubnormalNearZero) {
  const Expected zero{0.0, 0.0};
  const double bound = Tolerance::of<KokkosXent::float16, float>(4).bound(zero);
  EXPECT_NEAR(bound, std::ldexp(1.0, -25), 1e-12);
  EXPECT_EQ((Tolerance::of<KokkosXent::float16, float>(4).bound(Expected::exactly(0.0))), 0.0);
}

TEST(PrecisionOfTypes, SpacingIsTheDistanceToTheNextNumber) {
  EXPECT_EQ(precision_of<double>().spacing(1.0), std::numeric_limits<double>::epsilon());
  EXPECT_EQ(precision_of<float>().spacing(1.5), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(precision_of<float>().spacing(0.0), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(precision_of<float>().smallest_normal(), std::numeric_limits<float>::min());
  EXPECT_EQ(precision_of<KokkosXent::bfloat16>().spacing(1.0), std::ldexp(1.0, -7));
  EXPECT_EQ(precision_of<KokkosXent::float16>().spacing(2.0), std::ldexp(1.0, -9));
  EXPECT_EQ(precision_of<KokkosXent::float16>().smallest_subnormal(), std::ldexp(1.0, -24));
}

}  // namespace
}  // namespace KokkosXentTest
