// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/Configuration.hpp"
#include "support/RandomProblem.hpp"
#include "support/Tolerance.hpp"

// Same inputs, same build, same space: the same bits, run after run, and in place as out of place.
namespace KokkosXentTest {
namespace {

struct Size {
  std::int64_t rows, classes;
};

// One for each way of mapping rows to teams.
constexpr Size sizes[] = {{500, 7}, {40, 60}, {30, 1000}, {3, 9000}, {1, 40001}};

Recipe recipe_of(const Size& size, Reduction reduction) {
  Recipe recipe;
  recipe.rows            = size.rows;
  recipe.classes         = size.classes;
  recipe.weights         = true;
  recipe.label_smoothing = 0.1;
  recipe.ignore          = Ignore::outside;
  recipe.reduction       = reduction;
  recipe.special_logits  = true;
  return recipe;
}

void expect_same(const Result& a, const Result& b) {
  EXPECT_TRUE(all_same_bits(a.loss, b.loss));
  EXPECT_TRUE(all_same_bits(a.row_max, b.row_max));
  EXPECT_TRUE(all_same_bits(a.row_log_sum, b.row_log_sum));
  EXPECT_TRUE(all_same_bits(a.gradient, b.gradient));
  EXPECT_TRUE(all_same_bits(a.fused_loss, b.fused_loss));
  EXPECT_TRUE(all_same_bits(a.fused_gradient, b.fused_gradient));
}

/// Reductions take turns.
template <class F>
void for_each_case(const F& f) {
  std::size_t turn = 0;
  for (const auto& configuration : configurations()) {
    for (const Size& size : sizes) {
      const Reduction reduction = turn++ % 2 == 0 ? Reduction::mean : Reduction::none;
      const Problem problem     = random_problem(configuration, recipe_of(size, reduction), 17);
      SCOPED_TRACE(::testing::Message() << configuration.name << ": " << problem);
      f(configuration, problem);
    }
  }
}

TEST(Reproducibility, RepeatedRunsGiveTheSameBits) {
  for_each_case([](const Configuration& configuration, const Problem& problem) {
    const Result first = configuration.compute(problem, {});
    for (int repeat = 0; repeat < 2; ++repeat) {
      expect_same(configuration.compute(problem, {}), first);
    }
  });
}

TEST(Reproducibility, InPlaceGivesTheBitsOfOutOfPlace) {
  int compared = 0;
  for_each_case([&](const Configuration& configuration, const Problem& problem) {
    if (!configuration.can_be_in_place) return;
    for (const Placement placement : configuration.placements) {
      const Plan outside{.placement = placement};
      const Plan inside{.placement = placement, .in_place = true};
      expect_same(configuration.compute(problem, inside), configuration.compute(problem, outside));
      ++compared;
    }
  });
  EXPECT_GT(compared, 50);
}

}  // namespace
}  // namespace KokkosXentTest
