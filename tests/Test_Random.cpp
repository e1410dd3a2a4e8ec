// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/Checks.hpp"
#include "support/RandomProblem.hpp"
#include "support/SplitMix.hpp"

// Random problems judged by the reference: every configuration of types and layouts with the full
// product of run-time options, and with shapes from the tiniest to 50257 classes.
namespace KokkosXentTest {
namespace {

constexpr std::uint64_t seed_of_options = 20260611;
constexpr std::uint64_t seed_of_shapes  = 20260612;

struct ReductionAndUpstream {
  Reduction reduction;
  Upstream upstream;
};

constexpr ReductionAndUpstream reductions_and_upstreams[] = {
    {Reduction::mean, Upstream::scalar},         {Reduction::mean, Upstream::rank_0},
    {Reduction::sum, Upstream::scalar},          {Reduction::sum, Upstream::rank_0},
    {Reduction::none, Upstream::scalar},         {Reduction::none, Upstream::rank_0},
    {Reduction::none, Upstream::rank_1},         {Reduction::none, Upstream::rank_1_strided},
    {Reduction::none, Upstream::rank_1_stride_0}};

constexpr double smoothings[] = {0.0, 0.1, 1.0};
constexpr Ignore ignores[]    = {Ignore::nothing, Ignore::outside, Ignore::inside};

/// All run-time options but shape and placement.
std::vector<Recipe> all_options(const Configuration& configuration) {
  std::vector<Recipe> recipes;
  for (const bool weights : {false, true}) {
    for (const double smoothing : smoothings) {
      for (const Ignore ignore : ignores) {
        if (configuration.target_kind == TargetKind::probabilities && ignore != Ignore::nothing) {
          continue;  // ignore_index is for class indices
        }
        for (const auto& [reduction, upstream] : reductions_and_upstreams) {
          Recipe recipe;
          recipe.weights         = weights;
          recipe.label_smoothing = smoothing;
          recipe.ignore          = ignore;
          recipe.reduction       = reduction;
          recipe.upstream        = upstream;
          recipes.push_back(recipe);
        }
      }
    }
  }
  return recipes;
}

void expect_random_right(const Configuration& configuration, const Recipe& recipe, const Plan& plan,
                         std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  expect_right(configuration, random_problem(configuration, recipe, seed), plan);
}

class Random : public ::testing::TestWithParam<Configuration> {
 protected:
  /// Placements and in place or not take turns.
  Plan next_plan(Upstream upstream) {
    const auto& placements = GetParam().placements;
    Plan plan;
    plan.placement  = placements[m_count % placements.size()];
    plan.upstream   = upstream;
    plan.in_place   = GetParam().can_be_in_place && (m_count / placements.size()) % 2 == 1;
    plan.spare_rows = m_count % 3 == 0 ? 5 : 0;
    ++m_count;
    return plan;
  }

  void expect_all_options_right(std::int64_t rows, std::int64_t classes) {
    std::uint64_t seed = seed_of_options;
    for (Recipe recipe : all_options(GetParam())) {
      recipe.rows    = rows;
      recipe.classes = classes;
      for (const bool in_place : {false, true}) {
        if (in_place && !GetParam().can_be_in_place) continue;
        Plan plan     = next_plan(recipe.upstream);
        plan.in_place = in_place;
        expect_random_right(GetParam(), recipe, plan, ++seed);
      }
    }
  }

 private:
  std::size_t m_count = 0;
};

TEST_P(Random, AllOptionsOnFewRows) { expect_all_options_right(5, 33); }

TEST_P(Random, AllOptionsOnManyShortRows) { expect_all_options_right(67, 6); }

/// 1 to 33, and the sizes where something changes or that models have.
std::vector<std::int64_t> class_counts() {
  std::vector<std::int64_t> counts{127,  128,  129,  191,  192,   1000,
                                   1023, 1024, 1025, 4096, 32000, 50257};
  for (std::int64_t V = 1; V <= 33; ++V) counts.push_back(V);
  return counts;
}

constexpr std::int64_t row_counts[]  = {0, 1, 2, 3, 7, 64, 65, 1000};
constexpr std::int64_t most_elements = 300000;

/// Options drawn at random.
Recipe random_recipe(SplitMix& random, std::int64_t rows, std::int64_t classes) {
  Recipe recipe;
  recipe.rows                       = rows;
  recipe.classes                    = classes;
  recipe.weights                    = random.one_in(2);
  recipe.label_smoothing            = smoothings[random.below(3)];
  recipe.ignore                     = ignores[random.below(3)];
  const auto& [reduction, upstream] = reductions_and_upstreams[random.below(9)];
  recipe.reduction                  = reduction;
  recipe.upstream                   = upstream;
  recipe.spread                     = random.one_in(4) ? 60.0 : 5.0;
  recipe.special_logits             = random.one_in(4);
  recipe.invalid_targets            = random.one_in(6);
  return recipe;
}

std::size_t position_of(const Configuration& configuration) {
  std::size_t position = 0;
  while (configurations()[position].name != configuration.name) ++position;
  return position;
}

/// Each configuration takes every third shape, so that every three neighbours cover all.
TEST_P(Random, Shapes) {
  SplitMix random(seed_of_shapes);
  std::uint64_t seed = seed_of_shapes;
  std::size_t turn   = position_of(GetParam());
  for (const std::int64_t classes : class_counts()) {
    for (const std::int64_t rows : row_counts) {
      if (rows * classes > most_elements || turn++ % 3 != 0) continue;
      const Recipe recipe = random_recipe(random, rows, classes);
      expect_random_right(GetParam(), recipe, next_plan(recipe.upstream), ++seed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Random, ::testing::ValuesIn(configurations()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace KokkosXentTest
