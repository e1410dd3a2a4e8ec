// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/Configuration.hpp"
#include "support/RandomProblem.hpp"

// The gradient against central differences of the library's own loss, in double: independent of the
// reference and of what it takes the formula to be.
namespace KokkosXentTest {
namespace {

constexpr std::int64_t rows    = 3;
constexpr std::int64_t classes = 6;

/// The scalar whose gradient backward gives: sum over losses of upstream times loss.
double objective(const Configuration& configuration, const Problem& problem, const Plan& plan) {
  const Result result = configuration.compute(problem, plan);
  double sum          = 0.0;
  for (std::size_t i = 0; i < result.loss.size(); ++i) {
    sum += problem.upstream(static_cast<std::int64_t>(i)) * result.loss[i];
  }
  return sum;
}

void expect_gradient_of_loss(const Configuration& configuration, const Recipe& recipe,
                             std::uint64_t seed) {
  // Truncation h^2 / 6 times the third derivative and rounding u / h are both below 1e-9.
  constexpr double h     = 3e-5;
  constexpr double bound = 2e-8;
  SCOPED_TRACE(::testing::Message() << configuration.name << ", seed " << seed);
  Plan plan;
  plan.upstream   = recipe.upstream;
  plan.placement  = configuration.placements.back();
  Problem problem = random_problem(configuration, recipe, seed);
  // Where nothing counts, a mean is NaN and has no differences.
  for (std::uint64_t more = 1; !std::isfinite(objective(configuration, problem, plan)); ++more) {
    problem = random_problem(configuration, recipe, seed + 1000 * more);
  }
  const Result result = configuration.compute(problem, plan);
  for (std::size_t i = 0; i < problem.logits.size(); ++i) {
    const double x     = problem.logits[i];
    problem.logits[i]  = x + h;
    const double above = objective(configuration, problem, plan);
    problem.logits[i]  = x - h;
    const double below = objective(configuration, problem, plan);
    problem.logits[i]  = x;
    EXPECT_NEAR(result.gradient[i], (above - below) / (2.0 * h), bound) << "element " << i;
  }
}

void expect_gradients_for_all_options(TargetKind kind) {
  std::uint64_t seed = 20260613;
  int checked        = 0;
  for (const auto& configuration : configurations(kind)) {
    if (!configuration.is_double()) continue;
    for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        for (const bool weights : {false, true}) {
          for (const Ignore ignore : {Ignore::nothing, Ignore::outside, Ignore::inside}) {
            Recipe recipe;
            recipe.rows            = rows;
            recipe.classes         = classes;
            recipe.reduction       = reduction;
            recipe.label_smoothing = smoothing;
            recipe.weights         = weights;
            recipe.ignore          = ignore;
            recipe.spread          = 2.0;
            recipe.upstream =
                reduction == Reduction::none ? Upstream::rank_1_strided : Upstream::rank_0;
            expect_gradient_of_loss(configuration, recipe, ++seed);
            ++checked;
          }
        }
      }
    }
  }
  EXPECT_GE(checked, 2 * 54);
}

TEST(FiniteDifferences, ClassIndices) { expect_gradients_for_all_options(TargetKind::indices); }

TEST(FiniteDifferences, ClassProbabilities) {
  expect_gradients_for_all_options(TargetKind::probabilities);
}

}  // namespace
}  // namespace KokkosXentTest
