// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_RANDOMPROBLEM_HPP
#define KOKKOSXENT_TEST_RANDOMPROBLEM_HPP

#include <algorithm>
#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "Configuration.hpp"
#include "Problem.hpp"
#include "SplitMix.hpp"

namespace KokkosXentTest {

/// What the targets hold apart from valid classes.
enum class Ignore {
  nothing,
  outside,  // the default ignore_index, -100
  inside    // a valid class
};

/// What a random problem looks like.
struct Recipe {
  std::int64_t rows      = 1;
  std::int64_t classes   = 1;
  bool weights           = false;
  double label_smoothing = 0.0;
  Ignore ignore          = Ignore::nothing;
  Reduction reduction    = Reduction::mean;
  Upstream upstream      = Upstream::scalar;
  double spread          = 4.0;    // logits lie in [-spread, spread]
  bool special_logits    = false;  // here and there -inf, and a row with NaN or +inf
  bool invalid_targets   = false;  // here and there
};

class ProblemMaker {
 public:
  ProblemMaker(const Configuration& configuration, const Recipe& recipe, std::uint64_t seed)
      : m_configuration(configuration), m_recipe(recipe), m_random(seed) {}

  Problem make() {
    Problem problem;
    problem.rows                    = m_recipe.rows;
    problem.classes                 = m_recipe.classes;
    problem.target_kind             = m_configuration.target_kind;
    problem.options.reduction       = m_recipe.reduction;
    problem.options.label_smoothing = m_recipe.label_smoothing;
    if (m_recipe.ignore == Ignore::inside) problem.options.ignore_index = m_recipe.classes / 2;
    fill_logits(problem);
    if (problem.target_kind == TargetKind::indices) {
      fill_indices(problem);
    } else {
      fill_probabilities(problem);
    }
    if (m_recipe.weights) {
      for (std::int64_t j = 0; j < problem.classes; ++j) {
        problem.weights.push_back(scalar(m_random.one_in(8) ? 0.0 : m_random.uniform(0.25, 3.0)));
      }
    }
    fill_grad_output(problem);
    return problem;
  }

 private:
  double scalar(double value) const { return m_configuration.round_scalar(value); }

  void fill_logits(Problem& problem) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double nan      = std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t r = 0; r < problem.rows; ++r) {
      const bool is_confident  = m_random.one_in(8);
      const bool is_broken     = m_recipe.special_logits && m_random.one_in(16);
      const std::int64_t place = m_random.below(std::max<std::int64_t>(problem.classes, 1));
      for (std::int64_t j = 0; j < problem.classes; ++j) {
        double x = m_random.uniform(-m_recipe.spread, m_recipe.spread);
        if (is_confident && j == place) x += 20.0;
        if (m_recipe.special_logits && m_random.one_in(8)) x = -infinity;
        if (is_broken && j == place) x = m_random.one_in(2) ? nan : infinity;
        problem.logits.push_back(m_configuration.round_logit(x));
      }
    }
  }

  void fill_indices(Problem& problem) {
    for (std::int64_t r = 0; r < problem.rows; ++r) {
      std::int64_t target = m_random.below(problem.classes);
      if (m_recipe.ignore != Ignore::nothing && m_random.one_in(4)) {
        target = problem.options.ignore_index;
      }
      if (m_recipe.invalid_targets && m_random.one_in(8)) {
        target = m_random.one_in(2) ? problem.classes : -1;
      }
      problem.indices.push_back(target);
    }
  }

  /// Rows do not sum to 1 exactly, and some are one-hot.
  void fill_probabilities(Problem& problem) {
    for (std::int64_t r = 0; r < problem.rows; ++r) {
      const bool is_one_hot  = m_random.one_in(4);
      const std::int64_t hot = m_random.below(problem.classes);
      for (std::int64_t j = 0; j < problem.classes; ++j) {
        const double share = m_random.uniform(0.0, 2.0) / static_cast<double>(problem.classes);
        const double t     = is_one_hot ? (j == hot ? 1.0 : 0.0) : m_random.one_in(8) ? 0.0 : share;
        problem.probabilities.push_back(m_configuration.round_probability(t));
      }
    }
  }

  void fill_grad_output(Problem& problem) {
    const bool is_one_value =
        m_recipe.upstream != Upstream::rank_1 && m_recipe.upstream != Upstream::rank_1_strided;
    problem.grad_output.clear();
    for (std::int64_t i = 0; i < (is_one_value ? 1 : problem.rows); ++i) {
      problem.grad_output.push_back(scalar(m_random.uniform(-2.0, 2.0)));
    }
  }

  const Configuration& m_configuration;
  const Recipe& m_recipe;
  SplitMix m_random;
};

inline Problem random_problem(const Configuration& configuration, const Recipe& recipe,
                              std::uint64_t seed) {
  return ProblemMaker(configuration, recipe, seed).make();
}

}  // namespace KokkosXentTest

#endif
