// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/Golden.hpp"
#include "support/GoldenChecks.hpp"
#include "support/Reference.hpp"

// The reference judges everything else, so it is judged by values that were not made with it.
namespace KokkosXentTest {
namespace {

std::vector<double> values(const std::vector<Expected>& expected) {
  std::vector<double> values;
  for (const Expected& e : expected) values.push_back(e.value);
  return values;
}

TEST(Reference, MatchesPyTorch) {
  const auto cases = pytorch_cases();
  ASSERT_EQ(cases.size(), 166u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.name);
    const Answer answer    = solve(golden.problem);
    const GoldenCase right = as_this_library_defines(golden);
    EXPECT_TRUE(golden_match(values(answer.loss), right.loss, answer.loss));
    EXPECT_TRUE(golden_match(values(answer.gradient), right.gradient, answer.gradient));
  }
}

TEST(Reference, MatchesLogSumExpOfPyTorch) {
  for (const auto& golden : pytorch_cases()) {
    SCOPED_TRACE(golden.name);
    const Answer answer = solve(golden.problem);
    for (std::size_t r = 0; r < answer.statistics.size(); ++r) {
      const RowStatistics& row = answer.statistics[r];
      if (std::isnan(row.log_sum.value)) continue;
      const double log_sum_exp = row.max.value + row.log_sum.value;
      EXPECT_TRUE(within(log_sum_exp, golden.log_sum_exp[r], 1e-13 * std::abs(log_sum_exp)));
    }
  }
}

TEST(Reference, MatchesExactCases) {
  const auto cases = exact_cases();
  ASSERT_EQ(cases.size(), 36u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.name);
    const Answer answer = solve(golden.problem);
    EXPECT_TRUE(golden_match(values(answer.loss), golden.loss, answer.loss));
    EXPECT_TRUE(golden_match(values(answer.gradient), golden.gradient, answer.gradient));
  }
}

TEST(Reference, MatchesAnchors) {
  const auto cases = exact_anchors();
  ASSERT_EQ(cases.size(), 8u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.name);
    const Answer answer = solve(golden.problem);
    EXPECT_TRUE(golden_match(values(answer.loss), golden.loss, answer.loss));
    if (!golden.gradient.empty()) {
      EXPECT_TRUE(golden_match(values(answer.gradient), golden.gradient, answer.gradient));
    }
  }
}

/// The scale of an error is what all tolerances hang on: it must be no larger than the terms that
/// the formula adds.
TEST(Reference, ScaleIsOfTheSizeOfTheTerms) {
  Problem problem     = index_problem({{0.0, 1.0, 2.0, -3.0}}, {1});
  const Answer answer = solve(problem);
  EXPECT_GE(answer.loss[0].scale, answer.loss[0].value);
  EXPECT_LE(answer.loss[0].scale, 4.0 * answer.loss[0].value);
  for (const Expected& g : answer.gradient) {
    EXPECT_GE(g.scale, std::abs(g.value));
    EXPECT_LE(g.scale, 8.0);
  }
  const Answer confident = solve(index_problem({{40.0, 0.0, 0.0}}, {0}));
  EXPECT_LE(confident.loss[0].scale, 1e-14);
  EXPECT_LE(confident.gradient[0].scale, 1e-14);
}

}  // namespace
}  // namespace KokkosXentTest
