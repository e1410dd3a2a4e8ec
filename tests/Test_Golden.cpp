// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/Checks.hpp"
#include "support/Golden.hpp"
#include "support/GoldenChecks.hpp"

namespace KokkosXentTest {
namespace {

std::vector<Plan> plans_for(const Configuration& configuration, const Problem& problem) {
  std::vector<Plan> plans;
  for (const auto placement : configuration.placements) {
    for (const bool in_place : {false, true}) {
      if (in_place && !configuration.can_be_in_place) continue;
      plans.push_back({placement, upstream_of(problem), in_place, 0});
    }
  }
  return plans;
}

void expect_golden_statistics(const Result& result, const GoldenCase& golden,
                              const Answer& answer) {
  for (std::size_t r = 0; r < answer.statistics.size(); ++r) {
    if (std::isnan(answer.statistics[r].log_sum.value)) continue;
    const double expected = golden.log_sum_exp[r];
    const double bound    = 1e-13 * std::abs(expected);
    EXPECT_TRUE(within(result.row_max[r] + result.row_log_sum[r], expected, bound)) << "row " << r;
    EXPECT_TRUE(within(result.fused_row_max[r] + result.fused_row_log_sum[r], expected, bound))
        << "row " << r;
  }
}

/// All three entry points in double against the file's own numbers.
void expect_golden(const Configuration& configuration, const GoldenCase& golden) {
  const Answer answer = solve(golden.problem);
  for (const Plan& plan : plans_for(configuration, golden.problem)) {
    SCOPED_TRACE(::testing::Message() << golden.name << ", " << configuration.name << ": " << plan);
    const Result result = configuration.compute(golden.problem, plan);
    EXPECT_TRUE(golden_match(result.loss, golden.loss, answer.loss));
    EXPECT_TRUE(golden_match(result.gradient, golden.gradient, answer.gradient));
    EXPECT_TRUE(golden_match(result.fused_loss, golden.loss, answer.loss));
    expect_golden_statistics(result, golden, answer);
    expect_answer(configuration, golden.problem, plan, result, answer);
  }
}

TEST(Golden, PyTorchCasesInDouble) {
  const auto cases = pytorch_cases();
  ASSERT_EQ(cases.size(), 166u);
  int compared = 0;
  for (const auto& configuration : configurations()) {
    if (!configuration.is_double()) continue;
    for (const auto& golden : cases) {
      if (golden.problem.target_kind != configuration.target_kind) continue;
      expect_golden(configuration, as_this_library_defines(golden));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 3 * 115 + 2 * 51);
}

TEST(Golden, PyTorchCasesInOtherTypes) {
  const auto cases = pytorch_cases();
  for (const auto& configuration : configurations()) {
    if (configuration.is_double()) continue;
    for (const auto& golden : cases) {
      if (golden.problem.target_kind != configuration.target_kind) continue;
      const Problem problem = rounded_to(configuration, golden.problem);
      SCOPED_TRACE(golden.name);
      for (const Plan& plan : plans_for(configuration, problem)) {
        expect_right(configuration, problem, plan);
      }
    }
  }
}

/// Gradients stored in 16 bits differ by at most one unit in the last place from the float64
/// gradient of the exactly widened logits, rounded once.
void expect_within_one_ulp(const Configuration& configuration, const std::vector<double>& actual,
                           const std::vector<Expected>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double rounded = configuration.round_gradient(expected[i].value);
    const double ulp     = std::isfinite(rounded) ? configuration.gradient.spacing(rounded) : 0.0;
    EXPECT_TRUE(within(actual[i], rounded, ulp))
        << "at " << i << ": got " << actual[i] << ", float64 gives " << expected[i].value
        << ", rounded " << rounded << ", ulp " << ulp;
  }
}

TEST(Golden, SixteenBitGradientsWithinOneUlp) {
  auto cases       = pytorch_cases();
  const auto exact = exact_cases();
  cases.insert(cases.end(), exact.begin(), exact.end());
  int compared = 0;
  for (const auto& configuration : configurations()) {
    if (configuration.gradient.digits > 11) continue;
    for (const auto& golden : cases) {
      if (golden.problem.target_kind != configuration.target_kind) continue;
      SCOPED_TRACE(golden.name + ", " + configuration.name);
      const Problem problem = rounded_to(configuration, golden.problem);
      const Answer answer   = solve(problem);
      const Plan plan{.upstream = upstream_of(problem)};
      const Result result = configuration.compute(problem, plan);
      expect_within_one_ulp(configuration, result.gradient, answer.gradient);
      expect_within_one_ulp(configuration, result.fused_gradient, answer.fused_gradient);
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

bool is_exact_in(const Configuration& configuration, const Problem& problem) {
  const Problem rounded = rounded_to(configuration, problem);
  return rounded.logits == problem.logits && rounded.weights == problem.weights &&
         rounded.grad_output == problem.grad_output &&
         rounded.probabilities == problem.probabilities;
}

/// The golden values with the reference's error scale.
std::vector<Expected> with_scale(const std::vector<double>& values,
                                 const std::vector<Expected>& reference) {
  std::vector<Expected> expected;
  for (std::size_t i = 0; i < values.size(); ++i) {
    expected.push_back({values[i], reference.at(i).scale});
  }
  return expected;
}

void expect_exact_values(const Configuration& configuration, const GoldenCase& golden) {
  const Answer answer = solve(golden.problem);
  const Tolerance of_scalar(configuration.scalar, configuration.scalar, golden.problem.classes);
  const Tolerance of_gradient(configuration.gradient, configuration.scalar, golden.problem.classes);
  for (const Plan& plan : plans_for(configuration, golden.problem)) {
    SCOPED_TRACE(::testing::Message() << golden.name << ", " << configuration.name << ": " << plan);
    const Result result = configuration.compute(golden.problem, plan);
    const auto loss     = with_scale(golden.loss, answer.loss);
    EXPECT_TRUE(all_within(result.loss, loss, of_scalar));
    EXPECT_TRUE(all_within(result.fused_loss, loss, of_scalar));
    expect_answer(configuration, golden.problem, plan, result, answer);
    if (golden.gradient.empty()) continue;
    EXPECT_TRUE(all_within(result.gradient, with_scale(golden.gradient, answer.gradient),
                           of_gradient, golden.problem.classes));
  }
}

/// The inputs of c01 to c12 are exact in every type, so that each type has the same right values.
TEST(Golden, ExactCasesInEveryType) {
  const auto cases = exact_cases();
  ASSERT_EQ(cases.size(), 36u);
  for (const auto& configuration : configurations()) {
    for (const auto& golden : cases) {
      if (golden.problem.target_kind != configuration.target_kind) continue;
      ASSERT_TRUE(is_exact_in(configuration, golden.problem)) << configuration.name;
      expect_exact_values(configuration, golden);
      if (configuration.is_double()) expect_golden(configuration, golden);
    }
  }
}

/// e01 to e06: confident rows, gaps and offsets that a careless log domain loses.
TEST(Golden, ExactAnchors) {
  const auto cases = exact_anchors();
  ASSERT_EQ(cases.size(), 8u);
  std::vector<std::string> compared;
  for (const auto& configuration : configurations()) {
    for (const auto& golden : cases) {
      if (golden.problem.target_kind != configuration.target_kind) continue;
      if (!is_exact_in(configuration, golden.problem)) continue;
      expect_exact_values(configuration, golden);
      compared.push_back(golden.name);
    }
  }
  for (const auto& golden : cases) {
    EXPECT_GE(std::count(compared.begin(), compared.end(), golden.name), 2) << golden.name;
  }
}

/// With smoothing PyTorch adds eps / V up V times, so that its own gradients are off by up to
/// 6e-13 at V = 262144: there they are compared at 1e-12.
void expect_large_rows(const LargeRowsCase& golden, const Result& result, const Answer& answer) {
  const auto V             = static_cast<std::size_t>(golden.problem.classes);
  const double u           = precision_of<double>().unit_roundoff();
  const double of_gradient = golden.problem.options.label_smoothing > 0.0 ? 1e-12 : 1e-13;
  for (std::size_t r = 0; r < golden.loss.size(); ++r) {
    const auto close = [](double actual, double expected) {
      return within(actual, expected, 1e-13 * std::abs(expected));
    };
    const auto close_gradient = [&](double actual, double expected, double scale) {
      return within(actual, expected, std::max(of_gradient * std::abs(expected), 16.0 * u * scale));
    };
    const auto close_element = [&](std::size_t j, double expected) {
      return close_gradient(result.gradient[r * V + j], expected, answer.gradient[r * V + j].scale);
    };
    double abs_sum = 0.0, scale_sum = 0.0;
    for (std::size_t j = 0; j < V; ++j) {
      abs_sum += std::abs(result.gradient[r * V + j]);
      scale_sum += answer.gradient[r * V + j].scale;
    }
    EXPECT_TRUE(close(result.loss[r], golden.loss[r])) << "row " << r;
    EXPECT_TRUE(close(result.row_max[r] + result.row_log_sum[r], golden.log_sum_exp[r]))
        << "row " << r;
    EXPECT_TRUE(close_gradient(abs_sum, golden.gradient_abs_sum[r], scale_sum)) << "row " << r;
    EXPECT_TRUE(close_element(static_cast<std::size_t>(golden.problem.indices[r]),
                              golden.gradient_at_target[r]))
        << "row " << r;
    EXPECT_TRUE(close_element(0, golden.gradient_first[r])) << "row " << r;
    EXPECT_TRUE(close_element(V - 1, golden.gradient_last[r])) << "row " << r;
  }
}

TEST(Golden, PyTorchLargeRows) {
  const auto cases = pytorch_large_rows();
  ASSERT_EQ(cases.size(), 14u);
  for (const auto& golden : cases) {
    const Answer answer = solve(golden.problem);
    for (const auto& configuration : configurations(TargetKind::indices)) {
      if (configuration.logit.digits < 24 || configuration.gradient.digits < 24) continue;
      SCOPED_TRACE(::testing::Message() << configuration.name << ": " << golden.problem);
      ASSERT_TRUE(is_exact_in(configuration, golden.problem));
      const Plan plan{.placement = configuration.placements.back()};
      const Result result = configuration.compute(golden.problem, plan);
      expect_answer(configuration, golden.problem, plan, result, answer);
      if (configuration.is_double()) expect_large_rows(golden, result, answer);
    }
  }
}

/// b01: rows of up to 262144 classes with closed forms.
Problem closed_form_problem(std::int64_t classes) {
  Problem problem;
  problem.rows    = 4;
  problem.classes = classes;
  for (std::int64_t j = 0; j < classes; ++j) problem.logits.push_back(0.0);
  for (int ramp = 0; ramp < 2; ++ramp) {
    for (std::int64_t j = 0; j < classes; ++j) {
      problem.logits.push_back(-static_cast<double>(j) / 1024.0);
    }
  }
  problem.logits.push_back(8.0);
  for (std::int64_t j = 1; j < classes; ++j) problem.logits.push_back(0.0);
  problem.indices           = {classes - 1, 0, 1024, 0};
  problem.options.reduction = Reduction::none;
  return problem;
}

void expect_closed_forms(const Configuration& configuration, const ClosedForms& form) {
  SCOPED_TRACE(::testing::Message() << configuration.name << ", V = " << form.classes);
  const Problem problem = closed_form_problem(form.classes);
  const Result result =
      configuration.compute(problem, {.placement = configuration.placements.back()});
  const Tolerance tolerance(configuration.gradient, configuration.scalar, form.classes);
  const auto close = [&](double actual, double expected) {
    // As in Reference: log d and the two exponents carry a few times the value's own error.
    return within(actual, expected, tolerance.bound({expected, 4.0 * std::abs(expected)}));
  };
  const auto V = static_cast<std::size_t>(form.classes);
  EXPECT_TRUE(close(result.loss[0], form.constant_loss)) << result.loss[0];
  EXPECT_TRUE(close(result.gradient[0], form.constant_grad_other)) << result.gradient[0];
  EXPECT_TRUE(close(result.loss[3], form.two_level_loss_0)) << result.loss[3];
  EXPECT_TRUE(close(result.row_max[3] + result.row_log_sum[3], form.two_level_log_sum_exp));
  if (!is_exact_in(configuration, problem)) return;
  EXPECT_TRUE(close(result.loss[1], form.ramp_loss_0)) << result.loss[1];
  EXPECT_TRUE(close(result.loss[2], form.ramp_loss_1024)) << result.loss[2];
  EXPECT_TRUE(close(result.row_max[1] + result.row_log_sum[1], form.ramp_log_sum_exp));
  EXPECT_TRUE(close(result.gradient[V], form.ramp_probability_0 - 1.0)) << result.gradient[V];
  EXPECT_TRUE(close(result.gradient[2 * V], form.ramp_probability_0)) << result.gradient[2 * V];
}

/// Each configuration takes every third size.
TEST(Golden, ClosedFormsOfLargeVocabularies) {
  const auto forms = closed_forms();
  ASSERT_EQ(forms.size(), 7u);
  std::size_t turn = 0;
  for (const auto& configuration : configurations(TargetKind::indices)) {
    for (std::size_t i = turn++ % 3; i < forms.size(); i += 3) {
      expect_closed_forms(configuration, forms[i]);
    }
  }
}

}  // namespace
}  // namespace KokkosXentTest
