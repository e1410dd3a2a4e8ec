// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_ROWMAPPINGS_HPP
#define KOKKOSXENT_TEST_ROWMAPPINGS_HPP

#include <gtest/gtest.h>

#include <KokkosXent.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "RandomProblem.hpp"
#include "RepeatedRows.hpp"
#include "Space.hpp"

// Every way in which a device maps rows to threads, with rows enough to be chosen: lanes of a warp,
// a warp, teams that hold a row in registers or visit it in two and more chunks, teams that share a
// row, and threads that run along adjacent rows, whose classes teams share or not. Neighbouring
// shapes take turns with reductions and kinds of rows. A host maps rows in other ways, so fewer of
// them do there. Each value type is compiled in a file of its own.
namespace KokkosXentTest {

/// Odd, so that groups which take every n-th row see all of them.
inline constexpr std::int64_t most_base_rows = 7;

struct Positions {
  Position logits, gradient;
};

/// Aligned rows; rows each aligned in another way; the same from an odd element on; packs of the
/// logits that are not packs of the gradient, in the first row or from the second on; and rows that
/// begin with a pack, but not with a cache line, in the first row or from the second on.
inline constexpr Positions positions[] = {{{0, 0}, {0, 0}}, {{0, 3}, {0, 3}}, {{1, 1}, {1, 1}},
                                          {{1, 0}, {0, 0}}, {{0, 1}, {0, 0}}, {{8, 0}, {0, 0}},
                                          {{0, 8}, {0, 24}}};

/// The same of adjacent rows: threads' rows are packs of the logits and of the gradient, of one of
/// them, or of neither; and only the logits have adjacent rows.
inline constexpr Positions adjacent_positions[] = {{{0, 0, true}, {0, 0, true}},
                                                   {{0, 3, true}, {0, 3, true}},
                                                   {{1, 0, true}, {0, 0, true}},
                                                   {{0, 0, true}, {0, 1, true}},
                                                   {{0, 0, true}, {0, 0, false}}};

/// What random_problem() needs to know of the types.
template <class Scalar, class T, class Target>
Configuration rounding_configuration() {
  Configuration configuration{};
  configuration.target_kind =
      std::is_integral_v<Target> ? TargetKind::indices : TargetKind::probabilities;
  configuration.round_logit  = rounded_to<T>;
  configuration.round_scalar = rounded_to<Scalar>;
  if constexpr (!std::is_integral_v<Target>) configuration.round_probability = rounded_to<Target>;
  return configuration;
}

/// Targets where a row's packs and its classes outside of them meet, an ignored one, where asked
/// for one that is invalid, and one within a row's first cache line or the next.
inline void place_targets(Problem& problem, bool invalid) {
  const std::int64_t last    = problem.classes - 1;
  const std::int64_t cases[] = {0,
                                last,
                                problem.options.ignore_index,
                                std::min<std::int64_t>(1, last),
                                std::max<std::int64_t>(last - 1, 0),
                                invalid ? problem.classes : problem.indices.back(),
                                std::min<std::int64_t>(40, last)};
  for (std::size_t r = 0; r < std::min(problem.indices.size(), std::size(cases)); ++r)
    problem.indices[r] = cases[r];
}

template <class Types>
class RowMappings : public ::testing::Test {
 protected:
  using Scalar = typename Types::Scalar;
  using T      = typename Types::Logit;
  using Index  = std::int64_t;

  /// A host takes fewer rows. background: label smoothing, and class weights.
  template <class Target = Index>
  void expect_right(std::int64_t device_rows, std::int64_t classes, bool background = false) {
    expect_right<Target>(next_problem<Target>(device_rows, classes, background), positions);
  }
  /// The same of adjacent rows.
  template <class Target = Index>
  void expect_adjacent_right(std::int64_t device_rows, std::int64_t classes,
                             bool background = false) {
    expect_right<Target>(next_problem<Target>(device_rows, classes, background),
                         adjacent_positions);
  }

  /// Logits of up to `magnitude`, their maximum twice in some rows.
  void expect_huge_right(std::int64_t device_rows, std::int64_t classes, double magnitude) {
    ++m_turn;
    Recipe recipe  = recipe_of(classes, Reduction::none);
    recipe.spread  = magnitude;
    auto problem   = make_problem<Index>(rows_of(device_rows, classes), recipe);
    const double m = rounded_to<T>(magnitude);
    for (std::int64_t r = 0; r < problem.base.rows; r += 2)
      for (const std::int64_t j : {classes / 3, classes - 1})
        problem.base.logits[problem.base.at(r, j)] = m;
    expect_right<Index>(problem, positions);
  }

 private:
  template <class Target>
  RepeatedProblem next_problem(std::int64_t device_rows, std::int64_t classes, bool background) {
    Recipe recipe          = recipe_of(classes, next_reduction());
    recipe.weights         = background || m_turn % 4 == 1;
    recipe.label_smoothing = background ? 0.1 : 0.0;
    recipe.special_logits  = recipe.reduction == Reduction::none && m_turn % 2 == 0;
    return make_problem<Target>(rows_of(device_rows, classes), recipe);
  }

  static std::int64_t rows_of(std::int64_t device_rows, std::int64_t classes) {
    if (!runs_on_host) return device_rows;
    return std::clamp<std::int64_t>(30000 / classes, std::min<std::int64_t>(device_rows, 3),
                                    device_rows);
  }

  Reduction next_reduction() {
    constexpr Reduction reductions[] = {Reduction::mean, Reduction::none, Reduction::sum};
    return reductions[++m_turn % 3];
  }

  static Recipe recipe_of(std::int64_t classes, Reduction reduction) {
    Recipe recipe;
    recipe.classes   = classes;
    recipe.reduction = reduction;
    recipe.upstream  = reduction == Reduction::none ? Upstream::rank_1 : Upstream::scalar;
    return recipe;
  }

  template <class Target>
  RepeatedProblem make_problem(std::int64_t rows, Recipe recipe) {
    recipe.rows = std::min(rows, most_base_rows);
    RepeatedProblem problem{
        random_problem(rounding_configuration<Scalar, T, Target>(), recipe, ++m_seed), rows,
        recipe.reduction};
    problem.base.options.reduction = Reduction::none;
    if constexpr (std::is_integral_v<Target>)
      place_targets(problem.base, recipe.reduction == Reduction::none);
    return problem;
  }

  /// On a host alignment chooses nothing, and one of the positions a shape is enough.
  template <class Target, std::size_t Count>
  void expect_right(const RepeatedProblem& problem, const Positions (&all)[Count]) {
    RepeatedRows<Scalar, T, Target> rows(problem);
    for (std::size_t p = 0; p < Count; ++p)
      if (!runs_on_host || p == m_turn % Count) rows.expect_right(all[p].logits, all[p].gradient);
  }

  std::uint64_t m_seed = 20261130;
  std::size_t m_turn   = 0;
};

template <class ScalarType, class LogitType>
struct ScalarAndLogit {
  using Scalar = ScalarType;
  using Logit  = LogitType;
};

struct TypeNames {
  template <class Types>
  static std::string GetName(int) {
    return type_name<typename Types::Logit>();
  }
};

TYPED_TEST_SUITE_P(RowMappings);

inline constexpr std::int64_t short_rows[] = {1,    2,    7,    8,    9,    31,   32,
                                              33,   64,   127,  128,  129,  255,  257,
                                              1000, 1024, 2047, 2048, 4096, 4099, 8192};

/// Fewer rows than a device takes at a time.
TYPED_TEST_P(RowMappings, ShortRows) {
  for (const std::int64_t classes : short_rows) this->expect_right(300, classes);
}

/// Each group of lanes takes several rows.
TYPED_TEST_P(RowMappings, ManyShortRows) {
  for (const std::int64_t classes : {1, 2, 7, 8, 9, 31, 33, 64, 129})
    this->expect_right(200003, classes);
  for (const std::int64_t classes : {257, 1000, 1024, 2047, 4096, 4099})
    this->expect_right(6007, classes);
}

/// More than a device's multiprocessors of rows that are longer than one warp's: a team a row,
/// whose registers hold it, or a part of it.
TYPED_TEST_P(RowMappings, LongRows) {
  for (const std::int64_t classes : {16384, 20011, 33333, 40000, 65536, 70001, 131080})
    this->expect_right(160, classes);
}

/// Each team takes several long rows.
TYPED_TEST_P(RowMappings, ManyLongRows) {
  for (const std::int64_t classes : {8200, 16384, 20011, 40000}) this->expect_right(1009, classes);
}

/// Fewer than a device's multiprocessors.
TYPED_TEST_P(RowMappings, FewLongRows) {
  for (const std::int64_t rows : {1, 3, 64, 131})
    for (const std::int64_t classes : {8192, 50257, 100003}) this->expect_right(rows, classes);
}

TYPED_TEST_P(RowMappings, LabelSmoothingAndClassWeights) {
  for (const std::int64_t classes : {1, 7, 64, 129, 1000, 4099, 8192})
    this->expect_right(300, classes, true);
  for (const std::int64_t classes : {129, 1000, 9001}) this->expect_right(3001, classes, true);
  for (const std::int64_t classes : {20011, 65536, 131080}) this->expect_right(160, classes, true);
  for (const std::int64_t rows : {1, 64}) this->expect_right(rows, 50257, true);
}

/// Tiles of adjacent rows: fewer than a device's multiprocessors, so that teams share their
/// classes, where those are many; and more.
TYPED_TEST_P(RowMappings, AdjacentRows) {
  for (const std::int64_t rows : {8, 31, 67, 300})
    for (const std::int64_t classes : {1, 15, 17, 400, 2047, 2048, 5003, 20011})
      this->expect_adjacent_right(rows, classes);
  this->expect_adjacent_right(5000, 6007);
  this->expect_adjacent_right(9001, 1000);  // 16-bit tiles are twice as wide
  for (const std::int64_t rows : {8, 300}) this->expect_adjacent_right(rows, 9001, true);
}

/// Logits so large that their distances are huge, or nothing.
TYPED_TEST_P(RowMappings, HugeLogits) {
  for (const double magnitude : {1e4, 1e8, 4e9, 1e10, 1.5e10, 1e20, 1e30, 8e37, 1.5e38}) {
    if (magnitude > precision_of<typename TypeParam::Logit>().largest) continue;
    SCOPED_TRACE(::testing::Message() << "logits of up to " << magnitude);
    for (const std::int64_t classes : {9, 1000, 9001})
      this->expect_huge_right(160, classes, magnitude);
    for (const std::int64_t rows : {1, 64}) this->expect_huge_right(rows, 9001, magnitude);
  }
}

REGISTER_TYPED_TEST_SUITE_P(RowMappings, ShortRows, ManyShortRows, LongRows, ManyLongRows,
                            FewLongRows, LabelSmoothingAndClassWeights, AdjacentRows, HugeLogits);

/// Probabilities are a second operand of the logits' size; mappings do not depend on their type.
template <class Types>
class RowMappingsOfProbabilities : public RowMappings<Types> {};

TYPED_TEST_SUITE_P(RowMappingsOfProbabilities);

TYPED_TEST_P(RowMappingsOfProbabilities, AllLengths) {
  using Target = typename TypeParam::Logit;
  for (const std::int64_t classes : {1, 7, 64, 129, 1000, 4099, 8192})
    this->template expect_right<Target>(300, classes, classes % 2 == 0);
  for (const std::int64_t classes : {20011, 65536})
    this->template expect_right<Target>(160, classes, classes % 2 == 0);
  for (const std::int64_t rows : {1, 64}) this->template expect_right<Target>(rows, 50257);
  for (const std::int64_t rows : {8, 300}) this->template expect_adjacent_right<Target>(rows, 5003);
}

REGISTER_TYPED_TEST_SUITE_P(RowMappingsOfProbabilities, AllLengths);

}  // namespace KokkosXentTest

#endif
