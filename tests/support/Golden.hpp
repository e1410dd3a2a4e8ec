// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_GOLDEN_HPP
#define KOKKOSXENT_TEST_GOLDEN_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "Problem.hpp"

/// The values kept in tests/data.
namespace KokkosXentTest {

struct GoldenCase {
  std::string name;
  Problem problem;
  std::vector<double> loss;
  std::vector<double> gradient;
  std::vector<double> log_sum_exp;
};

/// The cases of pytorch_cases.json without z-loss and softcap.
std::vector<GoldenCase> pytorch_cases();

/// A case of pytorch_large_rows.json: some numbers of each row of a gradient.
struct LargeRowsCase {
  Problem problem;
  std::vector<double> loss, log_sum_exp;
  std::vector<double> gradient_abs_sum, gradient_at_target, gradient_first, gradient_last;
};

std::vector<LargeRowsCase> pytorch_large_rows();

/// c01 to c12 of exact_cases.json, each with each reduction; grad_output is g for none and 1 else.
std::vector<GoldenCase> exact_cases();

/// b01 of exact_cases.json: three kinds of rows whose loss has a closed form.
struct ClosedForms {
  std::int64_t classes;
  double constant_loss;                // x_j = 0
  double constant_grad_other;          // of every class but the target
  double ramp_log_sum_exp;             // x_j = -j / 1024
  double ramp_loss_0, ramp_loss_1024;  // targets 0 and 1024
  double ramp_probability_0;
  double two_level_log_sum_exp;  // x_0 = 8, others 0
  double two_level_loss_0;
};

std::vector<ClosedForms> closed_forms();

/// e01 to e06 of exact_cases.json, Reduction::none, each a problem with its losses.
std::vector<GoldenCase> exact_anchors();

}  // namespace KokkosXentTest

#endif
