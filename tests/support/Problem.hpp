// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_PROBLEM_HPP
#define KOKKOSXENT_TEST_PROBLEM_HPP

#include <KokkosXent_Options.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <utility>
#include <vector>

namespace KokkosXentTest {

using KokkosXent::Options;
using KokkosXent::Reduction;

enum class TargetKind { indices, probabilities };

/// One cross-entropy problem in plain numbers: what is computed, not how it lies in memory.
struct Problem {
  std::int64_t rows    = 0;
  std::int64_t classes = 0;
  std::vector<double> logits;  // rows x classes, row after row
  TargetKind target_kind = TargetKind::indices;
  std::vector<std::int64_t> indices;  // rows
  std::vector<double> probabilities;  // rows x classes, row after row
  std::vector<double> weights;        // classes; empty: none
  Options options;
  std::vector<double> grad_output = {1.0};  // one value, or one a row

  double logit(std::int64_t row, std::int64_t j) const { return logits[at(row, j)]; }
  double weight(std::int64_t j) const {
    return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(j)];
  }
  double upstream(std::int64_t row) const {
    return grad_output.size() == 1 ? grad_output[0] : grad_output[static_cast<std::size_t>(row)];
  }
  std::size_t at(std::int64_t row, std::int64_t j) const {
    return static_cast<std::size_t>(row * classes + j);
  }
};

using Rows = std::initializer_list<std::initializer_list<double>>;

inline std::vector<double> flatten(Rows rows) {
  std::vector<double> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

inline Problem make_problem(Rows logits, TargetKind kind, Options options) {
  Problem problem;
  problem.rows        = static_cast<std::int64_t>(logits.size());
  problem.classes     = logits.size() == 0 ? 0 : static_cast<std::int64_t>(logits.begin()->size());
  problem.logits      = flatten(logits);
  problem.target_kind = kind;
  problem.options     = options;
  return problem;
}

inline Problem index_problem(Rows logits, std::vector<std::int64_t> targets,
                             Options options = {.reduction = Reduction::none}) {
  Problem problem = make_problem(logits, TargetKind::indices, options);
  problem.indices = std::move(targets);
  return problem;
}

inline Problem probability_problem(Rows logits, Rows targets,
                                   Options options = {.reduction = Reduction::none}) {
  Problem problem       = make_problem(logits, TargetKind::probabilities, options);
  problem.probabilities = flatten(targets);
  return problem;
}

inline const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      return "none";
    case Reduction::mean:
      return "mean";
    default:
      return "sum";
  }
}

inline std::ostream& operator<<(std::ostream& out, const Problem& problem) {
  return out << problem.rows << " x " << problem.classes << ", "
             << (problem.weights.empty() ? "no weights" : "weights") << ", ignore_index "
             << problem.options.ignore_index << ", label_smoothing "
             << problem.options.label_smoothing << ", " << name_of(problem.options.reduction)
             << ", " << problem.grad_output.size() << " upstream";
}

}  // namespace KokkosXentTest

#endif
