// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "support/Checks.hpp"
#include "support/RandomProblem.hpp"

// The table "Semantics at the edges", row by row, in every configuration of types and layouts.
namespace KokkosXentTest {
namespace {

constexpr double infinity            = std::numeric_limits<double>::infinity();
constexpr double nan                 = std::numeric_limits<double>::quiet_NaN();
constexpr Reduction all_reductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

template <class F>
void for_each_index_configuration(const F& f) {
  for (const auto& configuration : configurations(TargetKind::indices)) f(configuration);
}

template <class F>
void for_each_probability_configuration(const F& f) {
  for (const auto& configuration : configurations(TargetKind::probabilities)) f(configuration);
}

Problem with(Problem problem, Reduction reduction) {
  problem.options.reduction = reduction;
  return problem;
}

void expect_all(const std::vector<double>& values, double expected) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(within(values[i], expected, 0.0)) << "at " << i << ": " << values[i];
  }
}

std::vector<double> row_of(const std::vector<double>& matrix, std::int64_t row,
                           std::int64_t classes) {
  const auto begin = matrix.begin() + row * classes;
  return {begin, begin + classes};
}

/// Row r of both gradients.
void expect_gradient_row(const Result& result, std::int64_t row, std::int64_t classes,
                         double expected) {
  expect_all(row_of(result.gradient, row, classes), expected);
  expect_all(row_of(result.fused_gradient, row, classes), expected);
}

TEST(Edges, IgnoredRowIsNotRead) {
  for (const double unread : {nan, infinity, -infinity}) {
    const Problem problem = index_problem(
        {{unread, 1.0, unread}, {1.0, 2.0, 3.0}, {unread, unread, unread}}, {-100, 2, -100});
    for_each_index_configuration([&](const Configuration& configuration) {
      for (const Reduction reduction : all_reductions) {
        const Result result = expect_right(configuration, with(problem, reduction));
        expect_gradient_row(result, 0, 3, 0.0);
        expect_gradient_row(result, 2, 3, 0.0);
        expect_all({result.row_max[0], result.row_log_sum[2]}, nan);
        if (reduction == Reduction::none) continue;
        EXPECT_NEAR(result.loss[0], 0.407605964, 1e-6);  // the one row that counts
      }
    });
  }
}

TEST(Edges, IgnoredRowHasGradientZeroForAnyUpstream) {
  Problem problem     = index_problem({{nan, 1.0}, {1.0, 2.0}}, {-100, 1});
  problem.grad_output = {nan, 1.0};
  for_each_index_configuration([&](const Configuration& configuration) {
    const Result result = expect_right(configuration, problem, {.upstream = Upstream::rank_1});
    expect_all(row_of(result.gradient, 0, 2), 0.0);
  });
}

TEST(Edges, IgnoreIndexMayBeAnyInteger) {
  for_each_index_configuration([](const Configuration& configuration) {
    std::vector<std::int64_t> values{0,
                                     1,
                                     2,
                                     3,
                                     -1,
                                     255,
                                     std::numeric_limits<std::int32_t>::max(),
                                     std::numeric_limits<std::int32_t>::min()};
    if (configuration.index_bits == 64) {
      values.insert(values.end(), {std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min()});
    }
    for (const std::int64_t ignore_index : values) {
      Problem problem =
          index_problem({{1.0, 2.0, 3.0}, {2.0, 0.0, 1.0}, {0.0, 1.0, 0.0}}, {1, ignore_index, 2});
      problem.options.ignore_index = ignore_index;
      for (const Reduction reduction : all_reductions) {
        const Result result = expect_right(configuration, with(problem, reduction));
        expect_gradient_row(result, 1, 3, 0.0);
      }
    }
  });
}

/// An ignore_index that int32 targets cannot hold matches none of them, whatever its low bits are.
TEST(Edges, IgnoreIndexIsNotNarrowed) {
  Problem problem = index_problem({{1.0, 2.0, 3.0}, {2.0, 0.0, 1.0}}, {0, 1});
  for (const std::int64_t high : {std::int64_t{1} << 32, -(std::int64_t{1} << 32)}) {
    problem.options.ignore_index = high;  // 0 in its low 32 bits
    for_each_index_configuration([&](const Configuration& configuration) {
      const Result result = expect_right(configuration, problem);
      EXPECT_NEAR(result.loss[0], 2.407605964, 1e-6);
    });
  }
}

TEST(Edges, IgnoreIndexDoesNotApplyToProbabilities) {
  Problem problem = probability_problem({{1.0, 2.0}, {2.0, 0.0}}, {{0.0, 1.0}, {1.0, 0.0}});
  for (const std::int64_t ignore_index : {0, 1, -100}) {
    problem.options.ignore_index = ignore_index;
    for_each_probability_configuration([&](const Configuration& configuration) {
      const Result result = expect_right(configuration, with(problem, Reduction::mean));
      EXPECT_NEAR(result.loss[0], (0.313261687518 + 0.126928011043) / 2.0, 1e-6);
    });
  }
}

TEST(Edges, AllRowsIgnored) {
  const Problem problem = index_problem({{1.0, nan}, {3.0, 4.0}}, {-100, -100});
  for_each_index_configuration([&](const Configuration& configuration) {
    for (const Reduction reduction : all_reductions) {
      const Result result = expect_right(configuration, with(problem, reduction));
      expect_all(result.gradient, 0.0);
      expect_all(result.fused_gradient, 0.0);
      expect_all(result.loss, reduction == Reduction::mean ? nan : 0.0);
      expect_all(result.fused_loss, reduction == Reduction::mean ? nan : 0.0);
    }
  });
}

/// Rows whose maximum rises from chunk to chunk, more often than a host keeps track of between the
/// passes of forward_backward; in all of the row, up to its middle, or not at all.
TEST(Edges, MaximaThatRiseAllAlongARow) {
  constexpr std::int64_t classes = 20011;
  for_each_index_configuration([&](const Configuration& configuration) {
    Problem problem;
    problem.rows    = 3;
    problem.classes = classes;
    problem.indices = {classes - 1, classes / 3, 0};
    for (std::int64_t r = 0; r < problem.rows; ++r)
      for (std::int64_t j = 0; j < classes; ++j) {
        const std::int64_t steps[] = {j, std::min(j, classes - j), classes - j};
        problem.logits.push_back(configuration.round_logit(0.002 * static_cast<double>(steps[r])));
      }
    for (const bool in_place : {false, true})
      if (!in_place || configuration.can_be_in_place)
        expect_right(configuration, with(problem, Reduction::mean), {.in_place = in_place});
  });
}

TEST(Edges, NoRows) {
  for (const auto& configuration : configurations()) {
    for (const std::int64_t spare_rows : {0, 4}) {
      for (const std::int64_t classes : {0, 1, 5, 70000}) {
        Problem problem;
        problem.classes     = classes;
        problem.target_kind = configuration.target_kind;
        for (const Reduction reduction : all_reductions) {
          const Result result =
              expect_right(configuration, with(problem, reduction), {.spare_rows = spare_rows});
          const std::vector<double> none;
          const std::vector<double> reduced{reduction == Reduction::mean ? nan : 0.0};
          const auto& expected = reduction == Reduction::none ? none : reduced;
          EXPECT_TRUE(all_same_bits(result.loss, expected));
          EXPECT_TRUE(all_same_bits(result.fused_loss, expected));
        }
      }
    }
  }
}

TEST(Edges, NoClassesWithRows) {
  for (const auto& configuration : configurations()) {
    Problem problem;
    problem.rows        = 2;
    problem.target_kind = configuration.target_kind;
    if (problem.target_kind == TargetKind::indices) problem.indices = {0, 0};
    EXPECT_THROW(configuration.compute(problem, {}), std::invalid_argument) << configuration.name;
  }
}

TEST(Edges, WeightsInTheDenominatorSumToZero) {
  Problem problem =
      index_problem({{1.0, 2.0, 0.0}, {3.0, 5.0, 1.0}, {1.0, 1.0, 1.0}}, {0, 1, -100});
  problem.weights = {0.0, 0.0, 2.0};
  for (const double smoothing : {0.0, 0.125}) {
    problem.options.label_smoothing = smoothing;
    for_each_index_configuration([&](const Configuration& configuration) {
      const Result result = expect_right(configuration, with(problem, Reduction::mean));
      expect_all(result.loss, nan);
      expect_gradient_row(result, 0, 3, nan);
      expect_gradient_row(result, 1, 3, nan);
      expect_gradient_row(result, 2, 3, 0.0);
      expect_right(configuration, with(problem, Reduction::sum));
      expect_right(configuration, with(problem, Reduction::none));
    });
  }
}

TEST(Edges, RowOfWeightZeroAmongOthers) {
  Problem problem = index_problem({{1.0, 2.0}, {3.0, 5.0}, {-infinity, 0.0}}, {0, 1, 0});
  problem.weights = {0.0, 2.0};
  for_each_index_configuration([&](const Configuration& configuration) {
    for (const Reduction reduction : all_reductions) {
      const Result result = expect_right(configuration, with(problem, reduction));
      expect_gradient_row(result, 0, 2, 0.0);
      expect_gradient_row(result, 2, 2, 0.0);
    }
  });
}

TEST(Edges, InvalidTargetPoisonsItsRowOnly) {
  for_each_index_configuration([](const Configuration& configuration) {
    std::vector<std::int64_t> invalid{-1,
                                      3,
                                      4,
                                      1000,
                                      -101,
                                      std::numeric_limits<std::int32_t>::max(),
                                      std::numeric_limits<std::int32_t>::min()};
    if (configuration.index_bits == 64) {
      // In 32 bits these would be the valid classes 0, 1 and 2.
      invalid.insert(invalid.end(),
                     {std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1, -(std::int64_t{1} << 32),
                      (std::int64_t{1} << 33) + 2, std::numeric_limits<std::int64_t>::max(),
                      std::numeric_limits<std::int64_t>::min()});
    }
    for (const std::int64_t target : invalid) {
      for (const bool weighted : {false, true}) {
        Problem problem =
            index_problem({{2.5, 0.0, 0.0}, {0.0, 0.0, 2.5}, {1.0, 2.0, 3.0}, {0.0, 1.0, 0.0}},
                          {0, target, 1, -100});
        if (weighted) problem.weights = {0.5, 2.0, 1.0};
        for (const Reduction reduction : all_reductions) {
          for (const double smoothing : {0.0, 0.125}) {
            problem.options.label_smoothing = smoothing;
            SCOPED_TRACE(::testing::Message() << "target " << target);
            const Result result = expect_right(configuration, with(problem, reduction));
            expect_gradient_row(result, 1, 3, nan);
            expect_gradient_row(result, 3, 3, 0.0);
            if (reduction != Reduction::none) expect_all(result.loss, nan);
          }
        }
      }
    }
  });
}

/// Without a row that counts the mean's D is 0; an ignored row's gradient stays 0.
TEST(Edges, InvalidAndIgnoredRowsOnly) {
  const Problem problem = index_problem({{1.0, 2.0}, {3.0, 4.0}}, {2, -100});
  for_each_index_configuration([&](const Configuration& configuration) {
    for (const Reduction reduction : all_reductions) {
      const Result result = expect_right(configuration, with(problem, reduction));
      expect_gradient_row(result, 0, 2, nan);
      expect_gradient_row(result, 1, 2, 0.0);
    }
  });
}

TEST(Edges, MinusInfLogitHasProbabilityZero) {
  const Problem problem = index_problem(
      {{1.0, -infinity, 2.0}, {0.0, 1.0, -infinity}, {-infinity, -infinity, 7.0}}, {0, 1, 2});
  for_each_index_configuration([&](const Configuration& configuration) {
    for (const Reduction reduction : all_reductions) {
      const Result result = expect_right(configuration, with(problem, reduction));
      expect_all({result.gradient[1], result.gradient[5], result.fused_gradient[6]}, 0.0);
    }
  });
}

TEST(Edges, MinusInfTargetHasInfiniteLossAndFiniteGradient) {
  const Problem problem = index_problem({{1.0, -infinity, 2.0}, {1.0, 2.0, 3.0}}, {1, 2});
  for_each_index_configuration([&](const Configuration& configuration) {
    const Result result = expect_right(configuration, problem);
    EXPECT_EQ(result.loss[0], infinity);
    EXPECT_EQ(result.gradient[1], -1.0);
    EXPECT_NEAR(result.gradient[0], 0.268941421, 2e-3);
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      EXPECT_EQ(expect_right(configuration, with(problem, reduction)).loss[0], infinity);
    }
  });
}

TEST(Edges, MinusInfWithSmoothingHasInfiniteLossAndFiniteGradient) {
  Problem by_index       = index_problem({{1.0, -infinity, 2.0}, {1.0, 2.0, 3.0}}, {0, 2});
  Problem by_probability = probability_problem({{1.0, -infinity, 2.0}, {1.0, 2.0, 3.0}},
                                               {{1.0, 0.0, 0.0}, {0.0, 0.0, 1.0}});
  for (Problem problem : {by_index, by_probability}) {
    problem.options.label_smoothing = 0.125;
    for (const auto& configuration : configurations(problem.target_kind)) {
      const Result result = expect_right(configuration, problem);
      EXPECT_EQ(result.loss[0], infinity);
      for (const double g : row_of(result.gradient, 0, 3)) EXPECT_TRUE(std::isfinite(g));
      for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
        expect_right(configuration, with(problem, reduction));
      }
    }
  }
}

/// Smoothing puts no mass on a class of weight 0, also where its logit is -inf.
TEST(Edges, MinusInfWithSmoothingAndWeightZero) {
  Problem problem                 = index_problem({{1.0, -infinity, 2.0}}, {0});
  problem.options.label_smoothing = 0.125;
  problem.weights                 = {1.0, 0.0, 2.0};
  for_each_index_configuration([&](const Configuration& configuration) {
    const Result result = expect_right(configuration, problem);
    EXPECT_TRUE(std::isfinite(result.loss[0])) << configuration.name;
  });
}

/// Each about half the probability, on both sides of where a class counts as dominant.
TEST(Edges, ClassesOfNearlyEqualProbabilityWithSmoothing) {
  for_each_index_configuration([](const Configuration& configuration) {
    const double z = configuration.round_logit(0.2);
    for (const double distance : {0.0, 0x1p-26, 3 * 0x1p-26, 0x1p-9, 0x1p-7, 0x1p-5}) {
      const double below              = configuration.round_logit(z - distance);
      Problem problem                 = index_problem({{z, below}, {below, z}}, {0, 0});
      problem.options.label_smoothing = 0.1;
      problem.weights                 = {0.5, 1.5};
      expect_right(configuration, problem);
    }
  });
}

TEST(Edges, SmoothingZeroIsNotEvaluated) {
  Problem problem                 = index_problem({{1.0, -infinity, 2.0}}, {0});
  problem.options.label_smoothing = 0.0;
  problem.weights                 = {1.0, 1.0, 1.0};
  for_each_index_configuration([&](const Configuration& configuration) {
    EXPECT_NEAR(expect_right(configuration, problem).loss[0], 1.313261688, 1e-6);
  });
}

TEST(Edges, RowsWithoutSoftmaxAreNaNAndTheirNeighboursAreNot) {
  for (const double broken : {nan, infinity}) {
    const Problem problem = index_problem({{1.0, 2.0, 3.0},
                                           {broken, 0.0, 1.0},
                                           {0.0, broken, 1.0},
                                           {0.0, 1.0, broken},
                                           {-infinity, -infinity, -infinity},
                                           {3.0, 2.0, 1.0}},
                                          {2, 1, 0, 2, 0, 1});
    for_each_index_configuration([&](const Configuration& configuration) {
      for (const double smoothing : {0.0, 0.125}) {
        Problem smoothed                 = problem;
        smoothed.options.label_smoothing = smoothing;
        const Result result              = expect_right(configuration, smoothed);
        for (const std::int64_t row : {1, 2, 3, 4}) {
          EXPECT_TRUE(std::isnan(result.loss[static_cast<std::size_t>(row)])) << row;
          expect_gradient_row(result, row, 3, nan);
        }
        EXPECT_TRUE(std::isfinite(result.loss[0]) && std::isfinite(result.loss[5]));
        expect_right(configuration, with(smoothed, Reduction::mean));
      }
    });
  }
}

TEST(Edges, RowsWithoutSoftmaxForProbabilities) {
  for (const double broken : {nan, infinity}) {
    const Problem problem =
        probability_problem({{1.0, 2.0, 3.0},
                             {broken, 0.0, 1.0},
                             {0.0, 1.0, broken},
                             {-infinity, -infinity, -infinity}},
                            {{0.0, 0.5, 0.5}, {0.0, 0.5, 0.5}, {0.0, 0.5, 0.5}, {0.0, 0.0, 0.0}});
    for_each_probability_configuration([&](const Configuration& configuration) {
      const Result result = expect_right(configuration, problem);
      for (const std::int64_t row : {1, 2, 3}) expect_gradient_row(result, row, 3, nan);
    });
  }
}

/// Row r has its one NaN or +inf in class r, so that each thread, lane and tail meets it.
Problem one_broken_class_a_row(std::int64_t classes, double broken) {
  Problem problem;
  problem.rows    = classes;
  problem.classes = classes;
  for (std::int64_t r = 0; r < classes; ++r) {
    for (std::int64_t j = 0; j < classes; ++j) {
      problem.logits.push_back(j == r ? broken : static_cast<double>((r + j) % 5));
    }
    problem.indices.push_back((r + 1) % classes);
  }
  problem.options.reduction = Reduction::none;
  return problem;
}

TEST(Edges, NaNIsSeenInEveryPosition) {
  for (const std::int64_t classes : {2, 17, 70, 150}) {
    for (const double broken : {nan, infinity}) {
      const Problem problem = one_broken_class_a_row(classes, broken);
      for_each_index_configuration([&](const Configuration& configuration) {
        const Result result = expect_right(configuration, problem);
        expect_all(result.loss, nan);
        expect_all(result.gradient, nan);
        expect_all(result.fused_gradient, nan);
      });
    }
  }
}

/// A long row, so that a part of it is -inf only, or holds the NaN alone.
TEST(Edges, LongRowsWithSpecialParts) {
  const std::int64_t classes = 40000;
  Problem problem;
  problem.rows    = 3;
  problem.classes = classes;
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    for (std::int64_t j = 0; j < classes; ++j) {
      problem.logits.push_back(j < classes - 10 ? -infinity : static_cast<double>(j % 10));
    }
  }
  problem.logits[problem.at(1, 17)]          = nan;
  problem.logits[problem.at(2, classes - 2)] = infinity;
  problem.indices                            = {classes - 1, classes - 1, 0};
  problem.options.reduction                  = Reduction::none;
  for_each_index_configuration([&](const Configuration& configuration) {
    const Result result = expect_right(configuration, problem);
    EXPECT_TRUE(std::isfinite(result.loss[0]));
    EXPECT_TRUE(std::isnan(result.loss[1]) && std::isnan(result.loss[2]));
  });
}

/// Every row has these logits, and a target of its own.
Problem repeated_row(const std::vector<double>& row, std::int64_t rows) {
  Problem problem;
  problem.rows              = rows;
  problem.classes           = static_cast<std::int64_t>(row.size());
  problem.options.reduction = Reduction::none;
  for (std::int64_t r = 0; r < rows; ++r) {
    problem.logits.insert(problem.logits.end(), row.begin(), row.end());
    problem.indices.push_back(r % problem.classes);
  }
  return problem;
}

/// Zeros of both signs are equal: neither is above the other, wherever each comes first.
TEST(Edges, ZerosOfBothSignsAreEqual) {
  for (const std::int64_t rows : {1, 40}) {
    for (const std::size_t classes : {9, 70, 2000}) {
      for (const bool minus_first : {true, false}) {
        std::vector<double> row(classes, minus_first ? -0.0 : 0.0);
        for (std::size_t j = classes * 2 / 3; j < classes; ++j) row[j] = minus_first ? 0.0 : -0.0;
        const Problem problem = repeated_row(row, rows);
        for_each_index_configuration([&](const Configuration& configuration) {
          const Result result = expect_right(configuration, problem);
          for (const auto& losses : {result.loss, result.fused_loss})
            for (const double loss : losses)
              EXPECT_NEAR(loss, std::log(static_cast<double>(classes)), 1e-5);
        });
      }
    }
  }
}

/// Only the rounding of a gradient's value is allowed to lose it, and a class without probability
/// has none, whatever multiplies it.
TEST(Edges, GradientsScaleWithTheUpstream) {
  for (const std::int64_t rows : {1, 40}) {
    for (const double upstream : {1e-30, 1e-17, 1e-10, 1.0}) {
      Problem problem     = repeated_row({0.0, 0.0, 1.0}, rows);
      problem.grad_output = {upstream};
      for_each_index_configuration(
          [&](const Configuration& configuration) { expect_right(configuration, problem); });
    }
    Problem certain     = repeated_row({0.0, -infinity}, rows);
    certain.grad_output = {1e25};
    for (auto& target : certain.indices) target = 0;
    for_each_index_configuration([&](const Configuration& configuration) {
      expect_all(expect_right(configuration, certain).gradient, 0.0);
    });
  }
}

TEST(Edges, ProbabilityZeroOnMinusInfContributesZero) {
  const Problem problem =
      probability_problem({{-infinity, 0.0}, {1.0, -infinity}}, {{0.0, 1.0}, {1.0, 0.0}});
  for_each_probability_configuration([&](const Configuration& configuration) {
    const Result result = expect_right(configuration, problem);
    expect_all(result.loss, 0.0);
    expect_all(result.gradient, 0.0);
    expect_all(result.fused_gradient, 0.0);
  });
}

TEST(Edges, ProbabilityOnMinusInfHasInfiniteLoss) {
  const Problem problem = probability_problem({{-infinity, 0.0}}, {{0.5, 0.5}});
  for_each_probability_configuration([&](const Configuration& configuration) {
    const Result result = expect_right(configuration, problem);
    EXPECT_EQ(result.loss[0], infinity);
    EXPECT_EQ(result.gradient[0], -0.5);
    EXPECT_EQ(result.gradient[1], 0.5);
  });
}

TEST(Edges, ProbabilitiesThatDoNotSumToOneAreUsedAsTheyAre) {
  const Problem problem = probability_problem({{1.0, 2.0, 3.0}, {0.0, 0.0, 1.0}, {1.0, 2.0, 3.0}},
                                              {{1.0, 1.0, 0.0}, {0.0, 0.0, 0.0}, {2.5, 0.0, 0.25}});
  for_each_probability_configuration([&](const Configuration& configuration) {
    for (const Reduction reduction : all_reductions) {
      const Result result = expect_right(configuration, with(problem, reduction));
      expect_gradient_row(result, 1, 3, 0.0);
    }
    const Result result = expect_right(configuration, problem);
    EXPECT_NEAR(result.loss[0], 2.0 * 3.407605964 - 3.0, 1e-5);
    EXPECT_EQ(result.loss[1], 0.0);
  });
}

TEST(Edges, OneClass) {
  Problem by_index       = index_problem({{3.0}, {-5.0}, {0.0}}, {0, 0, 0});
  Problem by_probability = probability_problem({{3.0}, {-5.0}, {0.0}}, {{1.0}, {0.5}, {0.0}});
  for (const Problem& problem : {by_index, by_probability}) {
    for (const auto& configuration : configurations(problem.target_kind)) {
      for (const Reduction reduction : all_reductions) {
        for (const double smoothing : {0.0, 0.1, 0.125, 1.0}) {
          for (const bool weighted : {false, true}) {
            Problem variant                 = with(problem, reduction);
            variant.options.label_smoothing = smoothing;
            if (weighted) variant.weights = {0.75};
            const Result result = expect_right(configuration, variant);
            expect_all(result.loss, 0.0);
            expect_all(result.gradient, 0.0);
            expect_all(result.fused_loss, 0.0);
            expect_all(result.fused_gradient, 0.0);
          }
        }
      }
    }
  }
}

TEST(Edges, ZeroUpstreamGivesZeroGradients) {
  for (const auto& configuration : configurations()) {
    Recipe recipe;
    recipe.rows         = 4;
    recipe.classes      = 9;
    Problem problem     = random_problem(configuration, recipe, 7);
    problem.grad_output = {0.0};
    expect_all(expect_right(configuration, problem).gradient, 0.0);
  }
}

}  // namespace
}  // namespace KokkosXentTest
