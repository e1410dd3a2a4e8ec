// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/Checks.hpp"
#include "support/RandomProblem.hpp"

// Shapes on both sides of every size at which rows are mapped to teams in another way: numbers of
// rows and of classes that a tile, a vector, a pack, a team or a part of a row divides, or nearly.
namespace KokkosXentTest {
namespace {

constexpr std::int64_t row_counts[]   = {1,  2,  3,  7,  8,   9,   15,  16,   17,  31,
                                         32, 33, 64, 65, 128, 129, 257, 1023, 4097};
constexpr std::int64_t class_counts[] = {
    1,    2,    3,    7,    8,    9,    15,    16,    17,    31,    32,    33,   63,   64,
    65,   127,  128,  129,  255,  257,  511,   512,   513,   1023,  1024,  1025, 2047, 2049,
    4095, 4096, 4097, 8191, 8192, 8193, 16383, 16384, 16385, 32767, 32769, 65537};
constexpr std::int64_t most_elements = 70000;

/// One configuration for each layout and width of logits, and one with probabilities.
bool is_stressed(const Configuration& configuration) {
  constexpr const char* names[] = {"floatRight_int64Right_scalar_float_gradient_floatRight",
                                   "floatLeft_int32Left_scalar_float_gradient_floatLeft",
                                   "floatStride_int32Stride_scalar_float_gradient_floatStride",
                                   "bfloat16Right_int64Right_scalar_float_gradient_bfloat16Right",
                                   "float16Left_int64Left_scalar_float_gradient_float16Left",
                                   "doubleRight_doubleRight_scalar_double_gradient_doubleRight"};
  return std::find(std::begin(names), std::end(names), configuration.name) != std::end(names);
}

std::vector<Configuration> stressed_configurations() {
  std::vector<Configuration> stressed;
  std::copy_if(configurations().begin(), configurations().end(), std::back_inserter(stressed),
               is_stressed);
  return stressed;
}

class Scheduling : public ::testing::TestWithParam<Configuration> {};

TEST(SchedulingConfigurations, AllExist) { EXPECT_EQ(stressed_configurations().size(), 6u); }

/// Every shape with few options, which take turns.
TEST_P(Scheduling, Boundaries) {
  const Configuration& configuration = GetParam();
  std::size_t turn                   = 0;
  for (const std::int64_t rows : row_counts) {
    for (const std::int64_t classes : class_counts) {
      if (rows * classes > most_elements) continue;
      Recipe recipe;
      recipe.rows            = rows;
      recipe.classes         = classes;
      recipe.weights         = turn % 2 == 1;
      recipe.label_smoothing = turn % 4 < 2 ? 0.0 : 0.1;
      recipe.ignore          = turn % 3 == 0 ? Ignore::outside : Ignore::nothing;
      recipe.reduction       = turn % 5 == 0 ? Reduction::none : Reduction::mean;
      Plan plan;
      plan.placement = configuration.placements[turn % configuration.placements.size()];
      plan.in_place  = configuration.can_be_in_place && turn % 7 < 3;
      SCOPED_TRACE(::testing::Message() << "seed " << turn);
      expect_right(configuration, random_problem(configuration, recipe, turn), plan);
      ++turn;
    }
  }
  EXPECT_GT(turn, 400u);
}

INSTANTIATE_TEST_SUITE_P(Types, Scheduling, ::testing::ValuesIn(stressed_configurations()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace KokkosXentTest
