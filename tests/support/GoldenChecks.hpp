// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_GOLDENCHECKS_HPP
#define KOKKOSXENT_TEST_GOLDENCHECKS_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "Golden.hpp"
#include "Tolerance.hpp"

namespace KokkosXentTest {

/// The case with PyTorch's values replaced where this library's semantics differ on purpose.
inline GoldenCase as_this_library_defines(GoldenCase golden) {
  // An ignored row's logits are not read; PyTorch lets their NaN and inf through.
  if (golden.name == "ignored_row_holds_nan" || golden.name == "ignored_row_holds_inf") {
    golden.gradient[0] = golden.gradient[1] = 0.0;
  }
  // A probability of 0 contributes 0 on a -inf logit too; PyTorch has 0 * inf = NaN.
  if (golden.name == "prob_zero_on_masked") golden.loss[0] = 1.1269280110429727;
  // log(1 + 2 e^-40): a confident row keeps its loss and gradient, which PyTorch rounds to 0.
  if (golden.name == "confident") {
    golden.loss[0]     = 2.0 * std::exp(-40.0);
    golden.gradient[0] = -2.0 * std::exp(-40.0);
  }
  return golden;
}

/// Float64 values against golden ones: 1e-13 relative. Where A p - q cancels to less than a
/// thousandth, the golden value itself has lost as many digits: there 8 roundings of what was
/// subtracted.
inline ::testing::AssertionResult golden_match(const std::vector<double>& actual,
                                               const std::vector<double>& golden,
                                               const std::vector<Expected>& reference) {
  if (actual.size() != golden.size() || golden.size() != reference.size()) {
    return ::testing::AssertionFailure() << actual.size() << " values, golden " << golden.size()
                                         << ", reference " << reference.size();
  }
  const double u = precision_of<double>().unit_roundoff();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double bound = std::max(1e-13 * std::abs(golden[i]), 8.0 * u * reference[i].scale);
    if (!within(actual[i], golden[i], bound)) {
      return ::testing::AssertionFailure() << describe_mismatch(i, 0, actual[i], golden[i], bound);
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace KokkosXentTest

#endif
