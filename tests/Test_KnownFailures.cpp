// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/Checks.hpp"
#include "support/RandomProblem.hpp"

// Ways in which public cross-entropy kernels went wrong, each as a small input with its right
// value, in every configuration of types that holds the input. The letter and number before a
// test's name identify the failure; those that need large or many rows are in Test_Large.cpp and
// Test_IndexWidth.cpp.
namespace KokkosXentTest {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan      = std::numeric_limits<double>::quiet_NaN();
constexpr double log_2    = 0.693147180559945309;

bool holds(const Configuration& configuration, const Problem& problem) {
  const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits);
  };
  const Problem rounded = rounded_to(configuration, problem);
  return same(rounded.logits, problem.logits) && same(rounded.weights, problem.weights) &&
         same(rounded.grad_output, problem.grad_output) &&
         same(rounded.probabilities, problem.probabilities);
}

/// Literals have ten significant digits.
void expect_literals(const std::vector<double>& actual, const std::vector<double>& literals,
                     const std::vector<Expected>& reference, const Tolerance& tolerance) {
  ASSERT_EQ(actual.size(), literals.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double bound =
        tolerance.bound(reference[i]) + 1e-9 * std::max(1.0, std::abs(literals[i]));
    EXPECT_TRUE(within(actual[i], literals[i], bound))
        << "at " << i << ": got " << actual[i] << ", right is " << literals[i];
  }
}

/// All entry points against the literals, and against the reference.
void expect_known(const Problem& problem, const std::vector<double>& loss,
                  const std::vector<double>& gradient = {}) {
  const Answer answer = solve(problem);
  int tried           = 0;
  for (const auto& configuration : configurations(problem.target_kind)) {
    if (!holds(configuration, problem)) continue;
    ++tried;
    SCOPED_TRACE(configuration.name);
    const Result result = expect_right(configuration, problem, {.upstream = upstream_of(problem)});
    const Tolerance of_scalar(configuration.scalar, configuration.scalar, problem.classes);
    const Tolerance of_gradient(configuration.gradient, configuration.scalar, problem.classes);
    expect_literals(result.loss, loss, answer.loss, of_scalar);
    expect_literals(result.fused_loss, loss, answer.loss, of_scalar);
    if (!gradient.empty()) {
      expect_literals(result.gradient, gradient, answer.gradient, of_gradient);
    }
  }
  EXPECT_GE(tried, 2) << "too few configurations hold the input";
}

Problem zeros(std::int64_t rows, std::int64_t classes) {
  Problem problem;
  problem.rows    = rows;
  problem.classes = classes;
  problem.logits.assign(static_cast<std::size_t>(rows * classes), 0.0);
  problem.indices.assign(static_cast<std::size_t>(rows), classes / 2);
  problem.options.reduction = Reduction::none;
  return problem;
}

TEST(KnownFailures, N1_RowsShorterThanTheTeam) {
  expect_known(index_problem({{1.0, 2.0, 3.0}}, {2}), {0.407605964},
               {0.090030573, 0.244728471, -0.334759044});
  std::vector<std::int64_t> sizes(33);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {127, 128, 129, 1023, 1025});
  for (const std::int64_t classes : sizes) {
    expect_known(zeros(1, classes), {std::log(static_cast<double>(classes))});
  }
}

TEST(KnownFailures, N2_PhantomColumnsOfTheLastTile) {
  expect_known(index_problem({{-20.0, -21.0, -22.0, -23.0, -24.0}}, {0}), {0.451914396});
}

TEST(KnownFailures, N4_CommonOffsetsAndWideGaps) {
  for (const double c : {0.0, 1e4, 1e6}) {
    expect_known(index_problem({{2.0 + c, -1.0 + c}}, {0}), {0.048587352});
  }
  expect_known(index_problem({{1e8, 1e8}}, {0}), {log_2});
  expect_known(index_problem({{0.0, -200.0}}, {1}), {200.0}, {1.0, -1.0});
}

TEST(KnownFailures, N5_MaskedAndInfiniteRows) {
  expect_known(index_problem({{-infinity, 0.0}}, {1}), {0.0}, {0.0, 0.0});
  expect_known(index_problem({{-infinity, -infinity, 0.0, 1.0}}, {3}), {0.313261688},
               {0.0, 0.0, 0.268941421, -0.268941421});
  expect_known(index_problem({{-infinity, 0.0}}, {0}), {infinity}, {-1.0, 1.0});
  expect_known(index_problem({{-infinity, -infinity, -infinity}, {1.0, 2.0, 3.0}}, {0, 2}),
               {nan, 0.407605964}, {nan, nan, nan, 0.090030573, 0.244728471, -0.334759044});
  for (const std::int64_t target : {0, 1}) {
    expect_known(index_problem({{infinity, 0.0}}, {target}), {nan}, {nan, nan});
  }
}

TEST(KnownFailures, N6_MaximumThatDropsNaNOrStartsAtZero) {
  expect_known(
      index_problem({{nan, 0.0, 1.0}, {0.0, nan, 1.0}, {0.0, 1.0, nan}, {0.0, 1.0, 2.0}},
                    {1, 0, 0, 2}),
      {nan, nan, nan, 0.407605964},
      {nan, nan, nan, nan, nan, nan, nan, nan, nan, 0.090030573, 0.244728471, -0.334759044});
  expect_known(index_problem({{-200.0, -201.0}}, {0}), {0.313261688});
}

TEST(KnownFailures, I2_IgnoreIndexInsideOrFarOutside) {
  Problem problem = index_problem({{0.0, 1.0, 1.0}, {0.0, 1.0, 1.0}}, {1, 2});
  problem.options = {.reduction = Reduction::mean, .ignore_index = 0};
  expect_known(problem, {0.861994804});
  problem.indices = {1, 0};
  expect_known(problem, {0.861994804}, {0.155362403, -0.577681202, 0.422318798, 0.0, 0.0, 0.0});
  problem                      = index_problem({{1.0, 2.0, 3.0}, {1.0, 2.0, 3.0}}, {0, 255});
  problem.options.ignore_index = 255;
  expect_known(problem, {2.407605964, 0.0});
}

TEST(KnownFailures, I3_MeanOverRowsThatCount) {
  Problem problem =
      index_problem({{1.0, 0.0}, {0.0, 0.0}, {5.0, 0.0}, {0.0, 3.0}}, {0, 1, -100, -100});
  problem.options.reduction = Reduction::mean;
  expect_known(problem, {0.503204434},
               {-0.134470711, 0.134470711, 0.25, -0.25, 0.0, 0.0, 0.0, 0.0});
}

TEST(KnownFailures, B2_GradientOverTheLogits) {
  // Out of place, expect_right asserts that the logits keep their bits and that a second backward
  // gives what the first gave.
  for (const auto& configuration : configurations()) {
    Recipe recipe;
    recipe.rows           = 9;
    recipe.classes        = 70;
    const Problem problem = random_problem(configuration, recipe, 11);
    const Result outside  = expect_right(configuration, problem);
    if (!configuration.can_be_in_place) continue;
    const Result inside = expect_right(configuration, problem, {.in_place = true});
    EXPECT_TRUE(all_same_bits(inside.gradient, outside.gradient)) << configuration.name;
    EXPECT_TRUE(all_same_bits(inside.fused_gradient, outside.fused_gradient)) << configuration.name;
  }
}

TEST(KnownFailures, B4_BackwardOfEachReductionWithUpstreamThree) {
  Problem problem     = index_problem({{1.0, 0.0}, {0.0, 0.0}, {0.0, 2.0}}, {0, 1, 0});
  problem.grad_output = {3.0};
  const std::vector<double> sum{-0.806824264, 0.806824264, 1.5, -1.5, -2.642391234, 2.642391234};
  std::vector<double> mean;
  for (const double g : sum) mean.push_back(g / 3.0);
  const std::vector<double> rows{0.313261688, log_2, 2.126928011};
  const double total = rows[0] + rows[1] + rows[2];

  expect_known(problem, rows, sum);
  problem.options.reduction = Reduction::sum;
  expect_known(problem, {total}, sum);
  problem.options.reduction = Reduction::mean;
  expect_known(problem, {total / 3.0}, mean);
}

TEST(KnownFailures, B5_LossIsTheSameWhateverElseIsComputed) {
  const Problem problem = index_problem({{1.0, 2.0, 3.0}}, {2});
  for (const auto& configuration : configurations(TargetKind::indices)) {
    for (const bool in_place : {false, true}) {
      if (in_place && !configuration.can_be_in_place) continue;
      const Result result = expect_right(configuration, problem, {.in_place = in_place});
      EXPECT_NEAR(result.loss[0], 0.407605964, 1e-6);
      EXPECT_NEAR(result.fused_loss[0], 0.407605964, 1e-6);
    }
  }
}

TEST(KnownFailures, W1_DenominatorOfTheMean) {
  // 0.2, 0.3 and 0.5 are exact in double only.
  const Rows x{{0.2, 0.3, 0.5}, {0.5, 0.2, 0.3}};
  Problem hard = index_problem(x, {2, 1});
  Problem soft = probability_problem(x, {{0.0, 0.0, 1.0}, {0.0, 1.0, 0.0}});
  hard.weights = soft.weights = {2.0, 4.0, 6.0};
  for (Problem problem : {hard, soft}) {
    expect_known(problem, {5.638986365, 4.959324243});
    problem.options.reduction = Reduction::sum;
    expect_known(problem, {10.598310608});
  }
  hard.options.reduction = soft.options.reduction = Reduction::mean;
  expect_known(hard, {1.059831061});
  expect_known(soft, {5.299155304});
}

/// The gradient must belong to the same widened logits as the loss, at every scale.
TEST(KnownFailures, L5_GradientRowsSumToZeroAtEveryScale) {
  for (const auto& configuration : configurations(TargetKind::indices)) {
    for (const double scale : {1.0, 40.0, 160.0}) {
      Recipe recipe;
      recipe.rows           = 2;
      recipe.classes        = 4099;
      recipe.spread         = scale;
      recipe.reduction      = Reduction::sum;
      const Problem problem = random_problem(configuration, recipe, 5);
      const Result result   = expect_right(configuration, problem);
      const Tolerance tolerance(configuration.gradient, configuration.scalar, recipe.classes);
      for (std::int64_t r = 0; r < recipe.rows; ++r) {
        double sum = 0.0, bound = 0.0;
        const Answer answer = solve(problem);
        for (std::int64_t j = 0; j < recipe.classes; ++j) {
          sum += result.fused_gradient[problem.at(r, j)];
          bound += tolerance.bound(answer.fused_gradient[problem.at(r, j)]);
        }
        EXPECT_LE(std::abs(sum), bound) << configuration.name << " x " << scale;
        EXPECT_LT(bound, 0.1);
      }
    }
  }
}

TEST(KnownFailures, V2_SmoothingConvention) {
  Problem problem                 = index_problem({{1.0, 2.0, 3.0, 4.0}}, {1});
  problem.options.label_smoothing = 0.1;
  expect_known(problem, {2.390189699}, {0.007058603, -0.837855681, 0.211882818, 0.61891426});
  problem                         = index_problem({{1.0, 2.0, 3.0}}, {0});
  problem.options.label_smoothing = 0.1;
  expect_known(problem, {2.307605964});
}

TEST(KnownFailures, T1_InvalidTargets) {
  for (const std::int64_t target : {1000, 3, -4}) {
    const Problem problem = index_problem({{2.5, 0.0, 0.0}, {0.0, 0.0, 2.5}}, {0, target});
    expect_known(problem, {0.152008384, nan});
  }
  Problem problem              = index_problem({{2.5, 0.0, 0.0}, {0.0, 0.0, 2.5}}, {0, -100});
  problem.options.ignore_index = -1;
  expect_known(problem, {0.152008384, nan});
}

TEST(KnownFailures, P2_ProbabilityZeroOnMaskedClass) {
  expect_known(probability_problem({{-infinity, 0.0}}, {{0.0, 1.0}}), {0.0}, {0.0, 0.0});
}

TEST(KnownFailures, P3_AllZeroRowsHugeGapsAndUnnormalisedProbabilities) {
  expect_known(probability_problem({{0.0, 0.0, 1.0}}, {{0.0, 0.0, 0.0}}), {0.0}, {0.0, 0.0, 0.0});
  Problem problem                 = probability_problem({{1.0, 2.0, 3.0}}, {{1.0, 1.0, 0.0}});
  problem.options.label_smoothing = 0.3;
  expect_known(problem, {3.092930140}, {-0.646948026, -0.383961599, 1.030909625});
  for (const auto& configuration : configurations(TargetKind::probabilities)) {
    if (configuration.logit.digits < 24) continue;
    const Problem gap =
        rounded_to(configuration, probability_problem({{-4885.4614, 4878.027}}, {{0.2, 0.8}}));
    const Result result = expect_right(configuration, gap);
    EXPECT_NEAR(result.loss[0], 1952.69768, 0.5);
  }
}

TEST(KnownFailures, Z1_DisabledTermsAddNothing) {
  const Problem problem = index_problem({{1.0, 2.0, 3.0}}, {2});
  expect_known(problem, {0.4076059644443803});
  for (const auto& configuration : configurations(TargetKind::indices)) {
    const Result result = expect_right(configuration, problem);
    EXPECT_NEAR(result.row_max[0] + result.row_log_sum[0], 3.407605964, 1e-6)
        << "log-sum-exp is in base e";
  }
}

TEST(KnownFailures, F3_LossOfClassIndicesIsNeverNegative) {
  for (const auto& configuration : configurations(TargetKind::indices)) {
    Recipe recipe;
    recipe.rows           = 300;
    recipe.classes        = 17;
    recipe.reduction      = Reduction::none;
    recipe.spread         = 20.0;
    const Problem problem = random_problem(configuration, recipe, 3);
    for (const double loss : expect_right(configuration, problem).loss) EXPECT_GE(loss, 0.0);
  }
}

/// Sums of 16-bit values that a 16-bit accumulator would stop at 256 (bfloat16) or 2048 (float16).
TEST(KnownFailures, O1_SumsOfSixteenBitTypes) {
  for (const std::int64_t classes : {300, 2500, 5000}) {
    const double V        = static_cast<double>(classes);
    const Problem problem = zeros(2, classes);
    for (const auto& configuration : configurations(TargetKind::indices)) {
      if (configuration.logit.digits > 11) continue;
      const Result result = expect_right(configuration, problem);
      EXPECT_NEAR(result.loss[0], std::log(V), 1e-5) << configuration.name;
      EXPECT_NEAR(result.gradient[0], 1.0 / V, 0.005 / V) << configuration.name;
    }
  }
}

/// Each row's sums are its own, whatever shares its team.
TEST(KnownFailures, O2_RowsOfOneTeamDoNotMix) {
  for (const auto& configuration : configurations(TargetKind::indices)) {
    for (const std::int64_t classes : {1, 2, 3, 5, 16, 31, 33, 64}) {
      Problem problem = zeros(130, classes);
      for (std::int64_t r = 0; r < problem.rows; ++r) {
        for (std::int64_t j = 0; j < classes; ++j) {
          problem.logits[problem.at(r, j)] = static_cast<double>(r % 7 - (j + r) % 3);
        }
      }
      expect_right(configuration, problem);
    }
  }
}

}  // namespace
}  // namespace KokkosXentTest
