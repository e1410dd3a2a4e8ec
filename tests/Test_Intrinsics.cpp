// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/Large.hpp"
#include "support/Precision.hpp"
#include "support/Space.hpp"
#include "support/Storage.hpp"
#include "support/Tolerance.hpp"

// What one machine instruction does on some devices, in a kernel, against plain code on the host.
namespace KokkosXentTest {
namespace {

using KokkosXent::bfloat16;
using KokkosXent::float16;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan      = std::numeric_limits<float>::quiet_NaN();

constexpr int pattern_count = 65536;

template <class T>
DeviceList<T> device_list(const std::vector<T>& values) {
  const DeviceList<T> list("list", values.size());
  Kokkos::deep_copy(list, Kokkos::View<const T*, Kokkos::HostSpace>(values.data(), values.size()));
  return list;
}

template <class View>
auto on_host(const View& view) {
  Kokkos::fence("KokkosXentTest::on_host");
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
}

/// f(i) for i below count, in a kernel; what it left in `results` on the host.
template <class View, class F>
auto computed(const View& results, const F& f) {
  Kokkos::parallel_for("KokkosXentTest::computed",
                       Range(0, static_cast<std::int64_t>(results.extent(0))), f);
  return on_host(results);
}

bool same_float(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

template <class T>
bool same_pattern(T a, T b) {
  return same_float(static_cast<float>(a), static_cast<float>(b));
}

template <class T>
class Pairs : public ::testing::Test {};

using SixteenBitTypes = ::testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(Pairs, SixteenBitTypes);

std::uint16_t other_pattern(int bits) { return static_cast<std::uint16_t>(~bits); }

/// Each pattern is once the first of its pair and once the second.
template <class T>
struct WidenPairs {
  DeviceMatrix<float> widened;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const auto bits  = static_cast<std::uint32_t>(i);
    const auto other = ~bits & 0xffffu;
    KokkosXent::Impl::widen_pair<T>(bits | (other << 16), widened(i, 0), widened(i, 1));
  }
};

TYPED_TEST(Pairs, AllPatternsWidenInAKernelAsOnTheHost) {
  using T = TypeParam;
  const DeviceMatrix<float> results("widened", pattern_count, 2);
  const auto widened = computed(results, WidenPairs<T>{results});
  for (int bits = 0; bits < pattern_count; ++bits) {
    const auto first  = T::from_bits(static_cast<std::uint16_t>(bits));
    const auto second = T::from_bits(other_pattern(bits));
    const auto i      = static_cast<std::size_t>(bits);
    ASSERT_TRUE(same_float(widened(i, 0), static_cast<float>(first))) << bits;
    ASSERT_TRUE(same_float(widened(i, 1), static_cast<float>(second))) << bits;
  }
}

/// Every number of T, the midpoint to the next one (for the largest, to where infinity would be),
/// and the floats beside that; then what is special among floats. With both signs.
template <class T>
std::vector<float> rounding_inputs() {
  std::vector<float> inputs{infinity,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min(),
                            3 * std::numeric_limits<float>::denorm_min(),
                            std::nextafter(std::numeric_limits<float>::min(), 0.0f),
                            nan,
                            std::bit_cast<float>(0x7f800001u),
                            std::bit_cast<float>(0x7fffffffu)};
  for (int bits = 0; bits < pattern_count / 2; ++bits) {
    const auto value = static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits)));
    if (!std::isfinite(value)) break;
    const double half_spacing = 0.5 * precision_of<T>().spacing(widen(value));
    const auto middle         = static_cast<float>(widen(value) + half_spacing);
    for (const float x :
         {value, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, infinity)})
      inputs.push_back(x);
  }
  const std::size_t positive = inputs.size();
  for (std::size_t i = 0; i < positive; ++i) inputs.push_back(-inputs[i]);
  return inputs;
}

/// Each input is once the first of its pair and once the second.
template <class T>
struct RoundPairs {
  DeviceList<float> inputs;
  DeviceList<std::uint32_t> words;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const auto last = static_cast<std::int64_t>(inputs.extent(0)) - 1;
    words(i)        = KokkosXent::Impl::round_pair<T>(inputs(i), inputs(last - i));
  }
};

TYPED_TEST(Pairs, FloatsRoundInAKernelAsOnTheHost) {
  using T                         = TypeParam;
  const std::vector<float> inputs = rounding_inputs<T>();
  const DeviceList<std::uint32_t> results("words", inputs.size());
  const auto words = computed(results, RoundPairs<T>{device_list(inputs), results});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const float second = inputs[inputs.size() - 1 - i];
    const auto low     = T::from_bits(static_cast<std::uint16_t>(words(i) & 0xffffu));
    const auto high    = T::from_bits(static_cast<std::uint16_t>(words(i) >> 16));
    ASSERT_TRUE(same_pattern(low, T(inputs[i]))) << inputs[i] << " gave " << low.bits;
    ASSERT_TRUE(same_pattern(high, T(second))) << second << " gave " << high.bits;
  }
}

/// A relative error bound of what an exponential in a kernel gives for the exact value; what is
/// below the smallest normal float may be 0.
::testing::AssertionResult is_near(float actual, double right, double relative) {
  const double bound = relative * right + precision_of<float>().smallest_normal();
  if (within(static_cast<double>(actual), right, bound)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << describe_mismatch(0, 0, static_cast<double>(actual), right, bound);
}

struct Exp2 {
  DeviceList<float> inputs, results;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    results(i) = KokkosXent::Impl::fast_exp2(inputs(i));
  }
};

/// NVIDIA documents 2^-22 as the relative error of ex2.approx; any libm is nearer.
TEST(Intrinsics, FastExp2) {
  std::vector<float> inputs{0.0f,    -0.0f,  1.0f,      -1.0f,    -126.0f,
                            -149.0f, -1e30f, -infinity, infinity, nan};
  for (int i = -4000; i <= 3400; ++i) inputs.push_back(static_cast<float>(i) * 0.0373f);
  const DeviceList<float> results("results", inputs.size());
  const auto powers = computed(results, Exp2{device_list(inputs), results});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(is_near(powers(i), std::exp2(widen(inputs[i])), std::ldexp(1.0, -22)))
        << "2^" << inputs[i];
  EXPECT_EQ(powers(0), 1.0f);
  EXPECT_EQ(powers(1), 1.0f);
}

/// What kernels sum up, and what they compute of a single one.
struct ExponentialBelowTop {
  DeviceList<float> tops, inputs;
  DeviceMatrix<float> results;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const KokkosXent::Impl::ShiftedExp<float> shifted(tops(i));
    results(i, 0) = KokkosXent::Impl::exp_nonpositive(inputs(i) - tops(i));
    results(i, 1) = shifted.factor() * shifted(inputs(i));
  }
};

/// z - top rounds, and so does its product with log2(e), which itself is rounded: three relative
/// errors 2^-24 of the exponent. The exponential itself is within 2^-22, and so is the factor that
/// takes back what the rounding of top log2(e), at most half its last place, has added to the
/// exponent.
TEST(Intrinsics, ExponentialBelowTop) {
  const float gaps[] = {0.0f,  1e-7f, 0.001f, 0.3f,   0.6931472f, 1.0f,    5.0f,    17.0f,   40.0f,
                        80.0f, 87.0f, 103.0f, 200.0f, 1e4f,       1.5e10f, 2.5e30f, infinity};
  std::vector<float> tops, inputs;
  for (const float magnitude :
       {0.0f,    1e-30f, 0.01f, 1.0f,         88.7f,        1000.0f, 65504.0f,
        1e6f,    1e7f,   1e8f,  1.0737418e9f, 1.0737419e9f, 4e9f,    1e10f,
        1.5e10f, 1e20f,  1e30f, 8e37f,        8.6e37f,      3e38f}) {
    for (const float top : {magnitude, -magnitude}) {
      for (const float gap : gaps) {
        tops.push_back(top);
        inputs.push_back(top - gap);
        tops.push_back(top);
        inputs.push_back(std::nextafter(top - gap, -infinity));
      }
    }
  }
  const DeviceMatrix<float> results("results", inputs.size(), 2);
  const auto exponentials =
      computed(results, ExponentialBelowTop{device_list(tops), device_list(inputs), results});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double gap     = widen(tops[i]) - widen(inputs[i]);
    const double rounded = std::min(std::abs(widen(tops[i])), 0x1p30) * std::ldexp(1.0, -24);
    const double relative =
        std::isinf(gap) ? 0.0
                        : std::min(gap, 200.0) * 3 * std::ldexp(1.0, -24) + std::ldexp(2.5, -22);
    EXPECT_TRUE(is_near(exponentials(i, 0), std::exp(-gap), relative))
        << "z = " << inputs[i] << ", top = " << tops[i];
    EXPECT_TRUE(is_near(exponentials(i, 1), std::exp(-gap),
                        relative + rounded * std::ldexp(1.0, -24) + std::ldexp(1.0, -22)))
        << "shifted: z = " << inputs[i] << ", top = " << tops[i];
  }
}

struct Order {
  DeviceMatrix<float> pairs, ordered;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    ordered(i, 0) = KokkosXent::Impl::larger_of(pairs(i, 0), pairs(i, 1));
    ordered(i, 1) = KokkosXent::Impl::smaller_of(pairs(i, 0), pairs(i, 1));
  }
};

/// A NaN must reach the smaller one unless it is the second of the two.
TEST(Intrinsics, LargerAndSmaller) {
  const float values[] = {0.0f, 1.0f, -1.0f, 3e38f, -3e38f, 1e-40f, infinity, -infinity, nan};
  const std::size_t n  = std::size(values);
  const DeviceMatrix<float> pairs("pairs", n * n, 2), results("ordered", n * n, 2);
  const auto host_pairs = Kokkos::create_mirror_view(pairs);
  for (std::size_t i = 0; i < n * n; ++i) {
    host_pairs(i, 0) = values[i / n];
    host_pairs(i, 1) = values[i % n];
  }
  Kokkos::deep_copy(pairs, host_pairs);
  const auto ordered = computed(results, Order{pairs, results});
  for (std::size_t i = 0; i < n * n; ++i) {
    const float a = values[i / n], b = values[i % n];
    const float larger = ordered(i, 0), smaller = ordered(i, 1);
    if (std::isnan(a)) {
      EXPECT_TRUE(std::isnan(smaller)) << "of NaN and " << b;
    } else if (!std::isnan(b)) {
      EXPECT_EQ(larger, std::max(a, b)) << a << ", " << b;
      EXPECT_EQ(smaller, std::min(a, b)) << a << ", " << b;
    }
    if (std::isnan(a) != std::isnan(b)) {
      EXPECT_TRUE(std::isnan(larger) || larger == (std::isnan(a) ? b : a)) << a << ", " << b;
    }
  }
}

template <class T>
struct OrderPairs {
  DeviceList<std::uint32_t> words;
  DeviceMatrix<std::uint32_t> ordered;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const auto n  = static_cast<std::int64_t>(words.size());
    const auto a  = words(i / n);
    const auto b  = words(i % n);
    ordered(i, 0) = KokkosXent::Impl::larger_of_pairs<T>(a, b);
    ordered(i, 1) = KokkosXent::Impl::smaller_of_pairs<T>(a, b);
  }
};

/// Each half as larger_of() and smaller_of() have it.
template <class T>
void check_pairs(const std::vector<std::uint32_t>& words) {
  const std::size_t n = words.size();
  const DeviceMatrix<std::uint32_t> results("ordered", n * n, 2);
  const auto ordered = computed(results, OrderPairs<T>{device_list(words), results});
  for (std::size_t i = 0; i < n * n; ++i) {
    float a[2], b[2], top[2], rest[2];
    KokkosXent::Impl::widen_pair<T>(words[i / n], a[0], a[1]);
    KokkosXent::Impl::widen_pair<T>(words[i % n], b[0], b[1]);
    KokkosXent::Impl::widen_pair<T>(ordered(i, 0), top[0], top[1]);
    KokkosXent::Impl::widen_pair<T>(ordered(i, 1), rest[0], rest[1]);
    for (int half = 0; half < 2; ++half) {
      if (std::isnan(a[half])) {
        EXPECT_TRUE(std::isnan(rest[half])) << "of NaN and " << b[half];
      } else if (!std::isnan(b[half])) {
        EXPECT_EQ(top[half], std::max(a[half], b[half])) << a[half] << ", " << b[half];
        EXPECT_EQ(rest[half], std::min(a[half], b[half])) << a[half] << ", " << b[half];
      }
    }
  }
}

/// Every word of two of them.
std::vector<std::uint32_t> pairs_of(const std::vector<std::uint32_t>& halves) {
  std::vector<std::uint32_t> words;
  for (const std::uint32_t low : halves)
    for (const std::uint32_t high : halves) words.push_back(low | high << 16);
  return words;
}

TEST(Intrinsics, LargerAndSmallerOfPairs) {
  check_pairs<KokkosXent::bfloat16>(
      pairs_of({0x3f80, 0xc000, 0x3c00, 0x8000, 0x7f7f, 0xff7f, 0x0001, 0xff80, 0x7f80, 0x7fc0}));
  check_pairs<KokkosXent::float16>(
      pairs_of({0x3c00, 0xc000, 0x2000, 0x8000, 0x7bff, 0xfbff, 0x0001, 0xfc00, 0x7c00, 0x7e00}));
}

// On the host, runs of 16-bit floats against one at a time.
TEST(Intrinsics, RunsOfFloat16) {
  constexpr int run = 64;
  for (std::uint32_t first = 0; first < pattern_count; first += run) {
    float16 halves[run];
    float values[run];
    for (int k = 0; k < run; ++k)
      halves[k] = float16::from_bits(static_cast<std::uint16_t>(first + static_cast<unsigned>(k)));
    KokkosXent::Impl::widen_run<run>(halves, values);
    for (int k = 0; k < run; ++k)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[k]),
                std::bit_cast<std::uint32_t>(static_cast<float>(halves[k])));

    // The neighbourhoods of what float16 stores, and of the midpoints between two of them.
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu}) {
      for (int k = 0; k < run; ++k)
        values[k] = std::bit_cast<float>((first + static_cast<unsigned>(k)) << 16 | low);
      KokkosXent::Impl::round_run<run>(values, halves);
      for (int k = 0; k < run; ++k) EXPECT_EQ(halves[k].bits, float16(values[k]).bits);
    }
  }
}

}  // namespace
}  // namespace KokkosXentTest
