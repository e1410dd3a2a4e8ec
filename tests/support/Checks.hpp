// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_CHECKS_HPP
#define KOKKOSXENT_TEST_CHECKS_HPP

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "Configuration.hpp"
#include "Problem.hpp"
#include "Reference.hpp"
#include "Tolerance.hpp"

namespace KokkosXentTest {

inline ::testing::AssertionResult statistics_are(const std::vector<RowStatistics>& expected,
                                                 const std::vector<double>& row_max,
                                                 const std::vector<double>& row_log_sum,
                                                 const Tolerance& tolerance) {
  if (row_max.size() != expected.size() || row_log_sum.size() != expected.size()) {
    return ::testing::AssertionFailure() << row_max.size() << " and " << row_log_sum.size()
                                         << " statistics of " << expected.size() << " rows";
  }
  for (std::size_t r = 0; r < expected.size(); ++r) {
    const RowStatistics& row = expected[r];
    const bool has_softmax   = !std::isnan(row.log_sum.value);
    const bool log_sum_is_right =
        within(row_log_sum[r], row.log_sum.value, tolerance.bound(row.log_sum));
    // Of a row that is read but has no softmax only log d is specified.
    const bool max_is_right =
        (row.is_read && !has_softmax) || within(row_max[r], row.max.value, 0.0);
    if (log_sum_is_right && max_is_right) continue;
    return ::testing::AssertionFailure()
           << "row " << r << ": got m = " << row_max[r] << ", log d = " << row_log_sum[r]
           << ", expected " << row.max.value << ", " << row.log_sum.value << " within "
           << tolerance.bound(row.log_sum);
  }
  return ::testing::AssertionSuccess();
}

/// Judges every output of all three entry points.
inline void expect_answer(const Configuration& configuration, const Problem& problem,
                          const Plan& plan, const Result& result, const Answer& answer) {
  const Tolerance of_scalar(configuration.scalar, configuration.scalar, problem.classes);
  const Tolerance of_gradient(configuration.gradient, configuration.scalar, problem.classes);

  EXPECT_TRUE(all_within(result.loss, answer.loss, of_scalar)) << "loss of forward";
  EXPECT_TRUE(statistics_are(answer.statistics, result.row_max, result.row_log_sum, of_scalar))
      << "statistics of forward";
  EXPECT_TRUE(all_within(result.gradient, answer.gradient, of_gradient, problem.classes))
      << "gradient of backward";
  EXPECT_TRUE(all_within(result.fused_loss, answer.loss, of_scalar)) << "loss of forward_backward";
  EXPECT_TRUE(
      statistics_are(answer.statistics, result.fused_row_max, result.fused_row_log_sum, of_scalar))
      << "statistics of forward_backward";
  EXPECT_TRUE(
      all_within(result.fused_gradient, answer.fused_gradient, of_gradient, problem.classes))
      << "gradient of forward_backward";
  EXPECT_TRUE(result.padding_is_intact) << "something outside the gradient's elements was written";
  if (plan.in_place) return;
  EXPECT_TRUE(all_same_bits(result.second_gradient, result.gradient)) << "second backward";
  EXPECT_TRUE(
      all_within(result.gradient_after_fused, answer.gradient, of_gradient, problem.classes))
      << "gradient of backward after forward_backward";
  EXPECT_TRUE(all_same_bits(result.logits_afterwards, problem.logits)) << "logits were changed";
}

/// Computes the problem and judges it by the reference. The problem's numbers must be ones that the
/// configuration's types hold.
inline Result expect_right(const Configuration& configuration, const Problem& problem,
                           const Plan& plan = {}) {
  SCOPED_TRACE(::testing::Message() << configuration.name << ": " << problem << "; " << plan);
  const Result result = configuration.compute(problem, plan);
  expect_answer(configuration, problem, plan, result, solve(problem));
  return result;
}

/// The problem with its numbers rounded to the configuration's types.
inline Problem rounded_to(const Configuration& configuration, Problem problem) {
  for (double& x : problem.logits) x = configuration.round_logit(x);
  for (double& w : problem.weights) w = configuration.round_scalar(w);
  for (double& g : problem.grad_output) g = configuration.round_scalar(g);
  for (double& t : problem.probabilities) t = configuration.round_probability(t);
  return problem;
}

/// How to hand over the problem's grad_output.
inline Upstream upstream_of(const Problem& problem) {
  const auto rows      = static_cast<std::size_t>(problem.rows);
  const bool is_by_row = problem.options.reduction == Reduction::none;
  return is_by_row && problem.grad_output.size() == rows ? Upstream::rank_1 : Upstream::scalar;
}

}  // namespace KokkosXentTest

#endif
