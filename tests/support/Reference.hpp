// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_REFERENCE_HPP
#define KOKKOSXENT_TEST_REFERENCE_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "Problem.hpp"
#include "Tolerance.hpp"

/// The formula, as slowly and as plainly as it can be written:
///
///     m = max z,   d = sum exp(z_j - m),   lse = m + log d,   p_j = exp((z_j - m) - log d)
///     indices y:        q_j = (1 - eps) w_y [j = y] + (eps / V) w_j
///     probabilities t:  q_j = w_j ((1 - eps) t_j + eps / V)
///     A = sum q_j
///     row loss = sum_j q_j ((m - z_j) + log d)        d loss/d z_j = A p_j - q_j
namespace KokkosXentTest {

using Real = long double;

struct RowStatistics {
  bool is_read;  // false: ignored or invalid, so that both are NaN
  Expected max;
  Expected log_sum;  // log d; NaN where the row has no softmax
};

struct Answer {
  std::vector<Expected> loss;             // one value, or, for Reduction::none, one a row
  std::vector<RowStatistics> statistics;  // one a row
  std::vector<Expected> gradient;         // rows x classes, for Problem::grad_output
  std::vector<Expected> fused_gradient;   // the same for the upstream gradient 1
};

namespace Reference {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

enum class RowKind { counts, ignored, invalid };

inline RowKind kind_of(const Problem& problem, std::int64_t row) {
  if (problem.target_kind == TargetKind::probabilities) return RowKind::counts;
  const std::int64_t target = problem.indices[static_cast<std::size_t>(row)];
  if (target == problem.options.ignore_index) return RowKind::ignored;
  return target >= 0 && target < problem.classes ? RowKind::counts : RowKind::invalid;
}

/// q
inline std::vector<Real> target_mass(const Problem& problem, std::int64_t row) {
  const Real eps   = problem.options.label_smoothing;
  const Real share = eps / static_cast<Real>(problem.classes);
  std::vector<Real> q(static_cast<std::size_t>(problem.classes));
  for (std::int64_t j = 0; j < problem.classes; ++j) {
    const Real w = problem.weight(j);
    Real& q_j    = q[static_cast<std::size_t>(j)];
    if (problem.target_kind == TargetKind::indices) {
      const bool is_target = j == problem.indices[static_cast<std::size_t>(row)];
      q_j                  = (is_target ? (1 - eps) * w : 0) + share * w;
    } else {
      q_j = w * ((1 - eps) * static_cast<Real>(problem.probabilities[problem.at(row, j)]) + share);
    }
  }
  return q;
}

struct RowAnswer {
  Expected loss;
  RowStatistics statistics;
  std::vector<Expected> gradient;
};

inline RowAnswer constant_row(const Problem& problem, bool is_read, Expected value) {
  return {value,
          {is_read, {nan}, {nan}},
          std::vector<Expected>(static_cast<std::size_t>(problem.classes), value)};
}

/// NaN, +inf, or nothing but -inf: there is no softmax.
inline bool has_no_softmax(const Problem& problem, std::int64_t row) {
  bool has_finite = false;
  for (std::int64_t j = 0; j < problem.classes; ++j) {
    const double z = problem.logit(row, j);
    if (std::isnan(z) || (std::isinf(z) && z > 0)) return true;
    has_finite = has_finite || std::isfinite(z);
  }
  return !has_finite;
}

struct Softmax {
  Real max, log_d, log_d_scale;
};

inline Softmax softmax_of(const Problem& problem, std::int64_t row) {
  std::int64_t top = 0;
  for (std::int64_t j = 1; j < problem.classes; ++j) {
    if (problem.logit(row, j) > problem.logit(row, top)) top = j;
  }
  const Real m      = problem.logit(row, top);
  Real others       = 0;  // d - 1: a confident row's whole information
  Real others_scale = 0;  // exp(-t) has the relative error 1 + t
  for (std::int64_t j = 0; j < problem.classes; ++j) {
    const Real t = m - problem.logit(row, j);
    if (j == top || std::isinf(t)) continue;
    others += std::exp(-t);
    others_scale += (1 + t) * std::exp(-t);
  }
  const Real log_d = std::log1p(others);
  return {m, log_d, log_d + others_scale / (1 + others)};
}

inline Expected expected(Real value, Real scale) {
  return {static_cast<double>(value), static_cast<double>(scale)};
}

/// A p_j - q_j, or A (p_j - 1) + (A - q_j) where p_j is near 1.
inline Expected gradient_of(const Softmax& softmax, Real z, Real A, Real A_scale, Real q,
                            bool is_target) {
  if (std::isinf(z)) return expected(-q, std::abs(q));
  const Real t       = softmax.max - z;
  const Real log_p   = -t - softmax.log_d;
  const Real p       = std::exp(log_p);
  const Real value   = p > 0.5L ? A * std::expm1(log_p) + (A - q) : A * p - q;
  const Real p_scale = p * (t + softmax.log_d_scale);
  if (is_target) return expected(value, A_scale * ((1 - p) + p_scale) + std::abs(A - q));
  return expected(value, A_scale * (p + p_scale) + std::abs(q));
}

inline RowAnswer solve_row(const Problem& problem, std::int64_t row) {
  switch (kind_of(problem, row)) {
    case RowKind::ignored:
      return constant_row(problem, false, Expected::exactly(0.0));
    case RowKind::invalid:
      return constant_row(problem, false, {nan});
    case RowKind::counts:
      break;
  }
  if (has_no_softmax(problem, row)) return constant_row(problem, true, {nan});

  const Softmax softmax     = softmax_of(problem, row);
  const std::vector<Real> q = target_mass(problem, row);
  Real A = 0, A_scale = 0, loss = 0, loss_scale = 0;
  for (std::int64_t j = 0; j < problem.classes; ++j) {
    const Real q_j = q[static_cast<std::size_t>(j)];
    if (q_j == 0) continue;  // contributes exactly 0, also where z_j = -inf
    const Real t = softmax.max - problem.logit(row, j);
    A += q_j;
    A_scale += std::abs(q_j);
    loss += q_j * (t + softmax.log_d);
    loss_scale += std::abs(q_j) * (t + softmax.log_d_scale);
  }

  RowAnswer answer{expected(loss, loss_scale),
                   {true, Expected::exactly(static_cast<double>(softmax.max)),
                    expected(softmax.log_d, softmax.log_d_scale)},
                   {}};
  answer.gradient.reserve(q.size());
  for (std::int64_t j = 0; j < problem.classes; ++j) {
    const bool is_target = problem.target_kind == TargetKind::indices &&
                           problem.indices[static_cast<std::size_t>(row)] == j;
    answer.gradient.push_back(gradient_of(softmax, problem.logit(row, j), A, A_scale,
                                          q[static_cast<std::size_t>(j)], is_target));
  }
  return answer;
}

/// D of Reduction::mean; 0 where nothing counts.
inline Real denominator(const Problem& problem) {
  if (problem.target_kind == TargetKind::probabilities) return static_cast<Real>(problem.rows);
  Real sum = 0;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    if (kind_of(problem, row) == RowKind::counts) {
      sum += problem.weight(problem.indices[static_cast<std::size_t>(row)]);
    }
  }
  return sum;
}

inline Expected scaled(const Expected& x, Real factor) {
  if (x.exact) return x;
  return expected(x.value * factor, x.scale * std::abs(factor));
}

}  // namespace Reference

inline Answer solve(const Problem& problem) {
  using namespace Reference;
  const bool is_mean          = problem.options.reduction == Reduction::mean;
  const Real D                = is_mean ? denominator(problem) : 1;
  const Real reduction_factor = D == 0 ? static_cast<Real>(nan) : 1 / D;

  Answer answer;
  Real sum = 0, sum_scale = 0;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const RowAnswer solved = solve_row(problem, row);
    sum += solved.loss.value;
    sum_scale += solved.loss.scale;
    if (problem.options.reduction == Reduction::none) answer.loss.push_back(solved.loss);
    answer.statistics.push_back(solved.statistics);
    for (const Expected& g : solved.gradient) {
      answer.gradient.push_back(scaled(g, problem.upstream(row) * reduction_factor));
      answer.fused_gradient.push_back(scaled(g, reduction_factor));
    }
  }
  if (problem.options.reduction != Reduction::none) {
    answer.loss.push_back(
        expected(sum * reduction_factor, (sum_scale + std::abs(sum)) * std::abs(reduction_factor)));
  }
  return answer;
}

}  // namespace KokkosXentTest

#endif
