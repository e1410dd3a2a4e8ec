// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/Large.hpp"
#include "support/Precision.hpp"
#include "support/Storage.hpp"
#include "support/Tolerance.hpp"

// Known failures that need large or many rows (Test_KnownFailures.cpp has the others): sums over
// millions of rows, vocabularies of a million classes, in place over long rows, many repeats.
namespace KokkosXentTest {
namespace {

using KokkosXent::float16;
using KokkosXent::Reduction;
using CrossEntropy = KokkosXent::CrossEntropy<ExecutionSpace>;
using Value        = Kokkos::View<float, MemorySpace>;

constexpr double log_2 = 0.693147180559945309;

/// What a sum of row losses in float32 may be off by: each loss is rounded, the sum once more.
double sum_bound(double value) { return 1.5e-7 * std::abs(value); }

TEST(Large, L1_SumOfHalfPrecisionLossesBeyondTheRangeOfHalf) {
  const std::int64_t rows = 10000, classes = 2048;
  const DeviceList<float16> zero_row("row", static_cast<std::size_t>(classes));
  const DeviceList<std::int32_t> target("target", 1);
  for (const auto& [reduction, right] : {std::pair(Reduction::mean, 7.624618986159398),
                                         std::pair(Reduction::sum, 76246.18986159398)}) {
    CrossEntropy cross_entropy(ExecutionSpace(), rows, classes, {.reduction = reduction});
    const Value loss("loss");
    cross_entropy.forward(expanded(zero_row, rows), repeated(target, rows), loss);
    EXPECT_NEAR(host_value(loss), right, sum_bound(right));
  }
}

TEST(Large, L4_TwentyMillionRowLosses) {
  const std::int64_t rows = 20000000;
  const DeviceList<float> zero_row("row", 2);
  const DeviceList<std::int32_t> target("target", 1);
  for (const auto& [reduction, right] :
       {std::pair(Reduction::mean, log_2), std::pair(Reduction::sum, 20000000.0 * log_2)}) {
    CrossEntropy cross_entropy(ExecutionSpace(), rows, 2, {.reduction = reduction});
    const Value loss("loss");
    cross_entropy.forward(expanded(zero_row, rows), repeated(target, rows), loss);
    EXPECT_NEAR(host_value(loss), right, sum_bound(right));
  }
}

/// Counts gradients of rows of two zeros that are not -1/2 and 1/2, times scale.
struct CountWrongHalves {
  const float* gradient;
  float scale;

  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t& count) const {
    const float first  = gradient[2 * row] + 0.5f * scale;
    const float second = gradient[2 * row + 1] - 0.5f * scale;
    const float bound  = 1e-6f * scale;
    if (!(first <= bound && first >= -bound && second <= bound && second >= -bound)) ++count;
  }
};

std::int64_t count_wrong_halves(const DeviceMatrix<float>& gradient, float scale) {
  std::int64_t count = 0;
  Kokkos::parallel_reduce("KokkosXentTest::count_wrong_halves",
                          Range(0, static_cast<std::int64_t>(gradient.extent(0))),
                          CountWrongHalves{gradient.data(), scale}, count);
  return count;
}

void expect_rows_of_two(std::int64_t rows) {
  SCOPED_TRACE(::testing::Message() << rows << " rows");
  const auto size = static_cast<std::size_t>(rows);
  const DeviceMatrix<float> logits("logits", size, 2);
  const DeviceMatrix<float> gradient("gradient", size, 2);
  const DeviceList<std::int32_t> targets("targets", size);
  const DeviceList<float> losses("losses", size);

  CrossEntropy none(ExecutionSpace(), rows, 2, {.reduction = Reduction::none});
  none.forward(logits, targets, losses);
  EXPECT_EQ(count_outside(losses, log_2, 1e-7), 0);
  EXPECT_EQ(count_outside(none.row_max(), 0.0, 0.0), 0);
  EXPECT_EQ(count_outside(none.row_log_sum(), log_2, 1e-7), 0);
  none.backward(logits, targets, 3.0f, gradient);
  EXPECT_EQ(count_wrong_halves(gradient, 3.0f), 0);

  CrossEntropy sum(ExecutionSpace(), rows, 2, {.reduction = Reduction::sum});
  const Value loss("loss");
  const double right = static_cast<double>(rows) * log_2;
  sum.forward_backward(logits, targets, loss, gradient);
  EXPECT_NEAR(host_value(loss), right, sum_bound(right));
  EXPECT_EQ(count_wrong_halves(gradient, 1.0f), 0);
  sum.forward_backward(logits, targets, loss, logits);
  EXPECT_EQ(count_different(logits, gradient), 0);
}

TEST(Large, X4_LaunchLimits) {
  for (const std::int64_t rows : {65535, 65536, 1 << 20, (1 << 24) + 1}) expect_rows_of_two(rows);
}

TEST(Large, X4_RowsBeyondInt) {
  if (!large_tests_run()) GTEST_SKIP() << "touches 16 GB; set KOKKOSXENT_TEST_LARGE=1 to run it";
  const std::int64_t rows = (std::int64_t{1} << 31) + 1;
  if (!try_allocate<DeviceList<float>>("probe", 3 * rows)) GTEST_SKIP() << "too little memory";
  const DeviceList<float> zero_row("row", 2);
  const DeviceList<std::int32_t> target("target", 1);
  CrossEntropy sum(ExecutionSpace(), rows, 2, {.reduction = Reduction::sum});
  const Value loss("loss");
  sum.forward(expanded(zero_row, rows), repeated(target, rows), loss);
  const double right = static_cast<double>(rows) * log_2;
  EXPECT_NEAR(host_value(loss), right, sum_bound(right));
  EXPECT_EQ(count_outside(sum.row_log_sum(), log_2, 1e-7), 0);
}

TEST(Large, D1_SumsOverAMillionRowsRepeatBitForBit) {
  const std::int64_t rows = 1 << 20;
  const DeviceMatrix<float> logits("logits", static_cast<std::size_t>(rows), 2);
  fill_uniform(logits, 4.0);
  const auto targets = spread_targets<std::int64_t>(rows, 2);
  for (const auto reduction : {Reduction::mean, Reduction::sum}) {
    CrossEntropy cross_entropy(ExecutionSpace(), rows, 2, {.reduction = reduction});
    const Value loss("loss");
    const DeviceMatrix<float> first("gradient", static_cast<std::size_t>(rows), 2);
    const DeviceMatrix<float> again("gradient", static_cast<std::size_t>(rows), 2);
    cross_entropy.forward(logits, targets, loss);
    const double once = host_value(loss);
    cross_entropy.backward(logits, targets, 1.0f, first);
    EXPECT_TRUE(std::isfinite(once));
    for (int repeat = 0; repeat < 10; ++repeat) {
      cross_entropy.forward(logits, targets, loss);
      ASSERT_EQ(host_value(loss), once);
      cross_entropy.backward(logits, targets, 1.0f, again);
      ASSERT_EQ(count_different(first, again), 0);
    }
  }
}

TEST(Large, D2_LongRowsOfZeros) {
  for (const std::int64_t rows : {1, 4}) {
    for (const std::int64_t classes : {262144, 1000003}) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << classes);
      const DeviceMatrix<float> logits("logits", static_cast<std::size_t>(rows),
                                       static_cast<std::size_t>(classes));
      const DeviceMatrix<float> gradient("gradient", static_cast<std::size_t>(rows),
                                         static_cast<std::size_t>(classes));
      const auto targets = spread_targets<std::int32_t>(rows, classes, classes - 1);
      const DeviceList<float> losses("losses", static_cast<std::size_t>(rows));
      const double V        = static_cast<double>(classes);
      const double log_V    = std::log(V);
      const double relative = Tolerance::of<float, float>(classes).bound({0.0, 1.0});

      CrossEntropy none(ExecutionSpace(), rows, classes, {.reduction = Reduction::none});
      none.forward(logits, targets, losses);
      EXPECT_EQ(count_outside(losses, log_V, relative * log_V), 0);
      none.backward(logits, targets, 1.0f, gradient);
      EXPECT_EQ(count_outside(gradient, 1.0 / V, 4.0 * relative / V), rows);  // all but the targets
      none.forward_backward(logits, targets, losses, logits);
      EXPECT_EQ(count_outside(losses, log_V, relative * log_V), 0);
      EXPECT_EQ(count_outside(logits, 1.0 / V, 4.0 * relative / V), rows);
    }
  }
}

/// The target's logit must be read before any thread overwrites it with its gradient.
TEST(Large, B3_InPlaceRepeatsAreTheOutOfPlaceBits) {
  const std::int64_t rows    = runs_on_host ? 48 : 4096;
  const int repeats          = runs_on_host ? 4 : 100;
  const std::int64_t classes = 50257;
  const DeviceMatrix<float> logits("logits", static_cast<std::size_t>(rows),
                                   static_cast<std::size_t>(classes));
  fill_uniform(logits, 8.0);
  const DeviceMatrix<float> gradient("gradient", static_cast<std::size_t>(rows),
                                     static_cast<std::size_t>(classes));
  const DeviceMatrix<float> in_place("in place", static_cast<std::size_t>(rows),
                                     static_cast<std::size_t>(classes));
  const auto targets = spread_targets<std::int64_t>(rows, classes, classes - 1);  // ends of rows
  const DeviceList<float> losses("losses", static_cast<std::size_t>(rows));
  const DeviceList<float> losses_in_place("losses", static_cast<std::size_t>(rows));

  CrossEntropy none(ExecutionSpace(), rows, classes, {.reduction = Reduction::none});
  none.forward_backward(logits, targets, losses, gradient);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    Kokkos::deep_copy(in_place, logits);
    none.forward_backward(in_place, targets, losses_in_place, in_place);
    ASSERT_EQ(count_different(losses_in_place, losses), 0) << "repeat " << repeat;
    ASSERT_EQ(count_different(in_place, gradient), 0) << "repeat " << repeat;
  }
  none.forward(logits, targets, losses);
  none.backward(logits, targets, 1.0f, gradient);
  Kokkos::deep_copy(in_place, logits);
  none.backward(in_place, targets, 1.0f, in_place);
  EXPECT_EQ(count_different(in_place, gradient), 0);
}

/// Two objects of the space's instances take turns without a fence between them.
TEST(Large, D6_TwoInstancesDoNotDisturbOneAnother) {
  const ExecutionSpace whole;
  std::vector<ExecutionSpace> instances{whole, whole};
  if (!runs_on_host || whole.concurrency() > 1) {
    instances = Kokkos::Experimental::partition_space(whole, std::vector<int>{1, 1});
  }
  const std::int64_t classes = 30000;
  const auto size            = static_cast<std::size_t>(classes);
  const DeviceMatrix<float> logits_a("a", 3, size), logits_b("b", 64, size);
  fill_uniform(logits_a, 4.0);
  fill_uniform(logits_b, 9.0);
  const auto targets   = spread_targets<std::int32_t>(64, classes, 77);
  const auto targets_a = Kokkos::subview(targets, std::pair(0, 3));
  const Value loss_a("a"), loss_b("b");
  CrossEntropy a(instances[0], 3, classes), b(instances[1], 64, classes);
  Kokkos::fence("KokkosXentTest::filled");

  a.forward(logits_a, targets_a, loss_a);
  const double alone_a = host_value(loss_a);
  b.forward(logits_b, targets, loss_b);
  const double alone_b = host_value(loss_b);
  for (int repeat = 0; repeat < 100; ++repeat) {
    a.forward(logits_a, targets_a, loss_a);
    b.forward(logits_b, targets, loss_b);
    ASSERT_EQ(host_value(loss_a), alone_a);
    ASSERT_EQ(host_value(loss_b), alone_b);
  }
}

}  // namespace
}  // namespace KokkosXentTest
