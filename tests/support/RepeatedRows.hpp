// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_REPEATEDROWS_HPP
#define KOKKOSXENT_TEST_REPEATEDROWS_HPP

#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "Checks.hpp"
#include "Configuration.hpp"
#include "Large.hpp"
#include "Problem.hpp"
#include "RandomProblem.hpp"
#include "Reference.hpp"
#include "Storage.hpp"
#include "Tolerance.hpp"

/// Problems of many rows made of a few, so that the reference need not solve all: row r is row
/// r % base.rows of a base problem. Filled and judged by kernels.
namespace KokkosXentTest {

struct RepeatedProblem {
  Problem base;  // Reduction::none; one upstream gradient, or, to be one a row, base.rows
  std::int64_t rows;
  Reduction reduction;

  std::int64_t classes() const { return base.classes; }
  std::size_t base_row(std::int64_t row) const { return static_cast<std::size_t>(row % base.rows); }
  /// A list of base.rows elements, or of one for all, as one of `rows`.
  template <class T>
  std::vector<T> repeated(const std::vector<T>& base_list) const {
    std::vector<T> list;
    for (std::int64_t r = 0; r < rows; ++r)
      list.push_back(base_list.size() == 1 ? base_list[0] : base_list[base_row(r)]);
    return list;
  }
  Options options() const {
    Options options   = base.options;
    options.reduction = reduction;
    return options;
  }
};

inline std::ostream& operator<<(std::ostream& out, const RepeatedProblem& problem) {
  return out << problem.rows << " rows (" << name_of(problem.reduction) << ") of " << problem.base;
}

/// For all rows, but the gradients: for those of the base.
inline Answer solve(const RepeatedProblem& problem) {
  Answer answer     = solve(problem.base);
  answer.loss       = problem.repeated(answer.loss);
  answer.statistics = problem.repeated(answer.statistics);
  if (problem.reduction == Reduction::none) return answer;

  Real factor = 1;
  if (problem.reduction == Reduction::mean) {
    Problem targets = problem.base;  // all that the denominator depends on
    targets.rows    = problem.rows;
    targets.indices = targets.indices.empty() ? targets.indices : problem.repeated(targets.indices);
    const Real D    = Reference::denominator(targets);
    factor          = D == 0 ? static_cast<Real>(Reference::nan) : 1 / D;
  }
  Real sum = 0, sum_scale = 0;
  for (const Expected& loss : answer.loss) {
    sum += loss.value;
    sum_scale += loss.scale;
  }
  answer.loss = {Reference::scaled(Reference::expected(sum, sum_scale + std::abs(sum)), factor)};
  for (Expected& g : answer.gradient) g = Reference::scaled(g, factor);
  for (Expected& g : answer.fused_gradient) g = Reference::scaled(g, factor);
  return answer;
}

/// Where a matrix lies, in elements: how far past an aligned address it begins, and what lies
/// between its rows, or, if those are adjacent (LayoutLeft), between its columns.
struct Position {
  std::int64_t offset  = 0;
  std::int64_t padding = 0;
  bool adjacent_rows   = false;

  bool operator==(const Position&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Position& position) {
  return out << "offset " << position.offset << " padding " << position.padding
             << (position.adjacent_rows ? ", adjacent rows" : "");
}

/// Where the elements of a matrix lie in its buffer, but for the offset.
struct ElementPlaces {
  std::int64_t rows, columns, row_stride, column_stride;

  KOKKOS_FUNCTION std::int64_t operator()(std::int64_t row, std::int64_t column) const {
    return row * row_stride + column * column_stride;
  }
  /// Whether an element lies there.
  KOKKOS_FUNCTION bool contain(std::int64_t place) const {
    const bool adjacent_rows  = row_stride == 1 && column_stride != 1;
    const std::int64_t stride = adjacent_rows ? column_stride : row_stride;
    const std::int64_t line = place / stride, in_line = place % stride;
    return place >= 0 && line < (adjacent_rows ? columns : rows) &&
           in_line < (adjacent_rows ? rows : columns);
  }
};

/// Calls f(row, column) for each element, in parallel.
template <class F>
struct ForEachElement {
  F f;
  std::int64_t columns;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const { f(i / columns, i % columns); }
};

/// element (row, column) = base[row % base_rows * columns + column]
template <class T>
struct RepeatRow {
  T* data;
  ElementPlaces places;
  const T* base;
  std::int64_t base_rows;

  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t column) const {
    data[places(row, column)] = base[row % base_rows * places.columns + column];
  }
};

/// Counts elements that are not what is expected of row % base_rows: within() of Tolerance.hpp in a
/// kernel.
template <class T>
struct CountUnexpected {
  const T* data;
  ElementPlaces places;
  const double* expected;
  const double* bounds;
  std::int64_t base_rows;

  KOKKOS_FUNCTION bool is_right(std::int64_t i) const {
    const std::int64_t row = i / places.columns, column = i % places.columns;
    const std::int64_t at = row % base_rows * places.columns + column;
    const auto actual     = KokkosXent::Impl::load_value<double>(data[places(row, column)]);
    const double right    = expected[at];
    if (right != right) return actual != actual;
    return actual == right || Kokkos::fabs(actual - right) <= bounds[at];
  }
  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& count) const {
    if (!is_right(i)) ++count;
  }
};

template <class T>
struct FirstUnexpected {
  CountUnexpected<T> check;

  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& first) const {
    if (i < first && !check.is_right(i)) first = i;
  }
};

/// Counts elements of a buffer that belong to no row and are not NaN any more.
template <class T>
struct CountOverwritten {
  const T* buffer;
  std::int64_t offset;
  ElementPlaces places;

  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& count) const {
    const auto value = KokkosXent::Impl::load_value<double>(buffer[i]);
    if (!places.contain(i - offset) && value == value) ++count;
  }
};

/// Expected values on the device, each with its bound.
class ExpectedValues {
 public:
  ExpectedValues(const std::vector<Expected>& expected, const Tolerance& tolerance)
      : m_values("expected", values_in(expected)),
        m_bounds("bounds", bounds_in(expected, tolerance)) {}

  const double* values() const { return m_values.view().data(); }
  const double* bounds() const { return m_bounds.view().data(); }

 private:
  static std::vector<double> values_in(const std::vector<Expected>& expected) {
    std::vector<double> values;
    for (const Expected& e : expected) values.push_back(e.value);
    return values;
  }
  static std::vector<double> bounds_in(const std::vector<Expected>& expected,
                                       const Tolerance& tolerance) {
    std::vector<double> bounds;
    for (const Expected& e : expected) bounds.push_back(tolerance.bound(e));
    return bounds;
  }

  List<double> m_values, m_bounds;
};

/// rows x columns of T in a buffer whose other elements are NaN.
template <class T>
class RepeatedMatrix {
 public:
  RepeatedMatrix(const std::string& label, std::int64_t rows, std::int64_t columns,
                 const Position& position)
      : m_places(position.adjacent_rows
                     ? ElementPlaces{rows, columns, 1, rows + position.padding}
                     : ElementPlaces{rows, columns, columns + position.padding, 1}),
        m_offset(position.offset),
        m_buffer(Kokkos::view_alloc(Kokkos::WithoutInitializing, label),
                 static_cast<std::size_t>(m_offset + extent() + margin)) {
    Kokkos::deep_copy(m_buffer, padding_value<T>());
  }

  StridedMatrix<T> view() const {
    return StridedMatrix<T>(data(),
                            Kokkos::LayoutStride(static_cast<std::size_t>(m_places.rows),
                                                 static_cast<std::size_t>(m_places.row_stride),
                                                 static_cast<std::size_t>(m_places.columns),
                                                 static_cast<std::size_t>(m_places.column_stride)));
  }

  /// Row r = row r % base_rows of base, which is packed.
  void repeat(const T* base, std::int64_t base_rows) const {
    using Repeat = RepeatRow<T>;
    Kokkos::parallel_for(
        "KokkosXentTest::repeat", Range(0, m_places.rows * m_places.columns),
        ForEachElement<Repeat>{Repeat{data(), m_places, base, base_rows}, m_places.columns});
  }
  void fill(double value) const {
    const List<T> row("row",
                      std::vector<double>(static_cast<std::size_t>(m_places.columns), value));
    repeat(row.view().data(), 1);
    Kokkos::fence("KokkosXentTest::fill");
  }

  ::testing::AssertionResult is(const ExpectedValues& expected, std::int64_t base_rows) const {
    const CountUnexpected<T> check{data(), m_places, expected.values(), expected.bounds(),
                                   base_rows};
    std::int64_t count = 0;
    Kokkos::parallel_reduce("KokkosXentTest::count_unexpected",
                            Range(0, m_places.rows * m_places.columns), check, count);
    if (count == 0) return ::testing::AssertionSuccess();
    std::int64_t first = 0;
    Kokkos::parallel_reduce("KokkosXentTest::first_unexpected",
                            Range(0, m_places.rows * m_places.columns), FirstUnexpected<T>{check},
                            Kokkos::Min<std::int64_t>(first));
    const std::int64_t at =
        first / m_places.columns % base_rows * m_places.columns + first % m_places.columns;
    return ::testing::AssertionFailure()
           << count << " of " << m_places.rows * m_places.columns << " values are wrong, the first "
           << describe_mismatch(static_cast<std::size_t>(first), m_places.columns, element(first),
                                number_at(expected.values(), at), number_at(expected.bounds(), at));
  }

  /// Whether everything around the elements still is what it was.
  bool padding_is_intact() const {
    std::int64_t count = 0;
    Kokkos::parallel_reduce("KokkosXentTest::count_overwritten",
                            Range(0, static_cast<std::int64_t>(m_buffer.size())),
                            CountOverwritten<T>{m_buffer.data(), m_offset, m_places}, count);
    return count == 0;
  }

  /// Elements, and padding, whose bits differ from those of another matrix of the same shape and
  /// position.
  std::int64_t count_different_from(const RepeatedMatrix& other) const {
    return count_different(words(), other.words());
  }

 private:
  T* data() const { return m_buffer.data() + m_offset; }
  std::int64_t extent() const {
    return std::max(m_places.rows * m_places.row_stride, m_places.columns * m_places.column_stride);
  }

  /// count_different() knows 2- and 4-byte types.
  auto words() const {
    if constexpr (sizeof(T) == 8) {
      return DeviceList<std::uint32_t>(reinterpret_cast<std::uint32_t*>(m_buffer.data()),
                                       2 * m_buffer.size());
    } else {
      return m_buffer;
    }
  }
  static double number_at(const double* numbers, std::int64_t at) {
    double number = 0;
    Kokkos::deep_copy(number, Kokkos::View<const double, MemorySpace>(numbers + at));
    return number;
  }
  double element(std::int64_t i) const {
    T value{};
    Kokkos::deep_copy(value, Kokkos::View<const T, MemorySpace>(
                                 data() + m_places(i / m_places.columns, i % m_places.columns)));
    return widen(value);
  }

  ElementPlaces m_places;
  std::int64_t m_offset;
  DeviceList<T> m_buffer;
};

/// The library and a repeated problem's operands in device memory. Target: an integer, or the type
/// of probabilities.
template <class Scalar, class T, class Target>
class RepeatedRows {
  static constexpr bool has_indices = std::is_integral_v<Target>;

 public:
  explicit RepeatedRows(const RepeatedProblem& problem)
      : m_problem(problem),
        m_answer(solve(problem)),
        m_of_scalar(Tolerance::of<Scalar, Scalar>(problem.classes())),
        m_of_loss(Tolerance::of<Scalar, Scalar>(terms_of_loss(problem))),
        m_gradient(m_answer.gradient, Tolerance::of<T, Scalar>(problem.classes())),
        m_fused_gradient(m_answer.fused_gradient, Tolerance::of<T, Scalar>(problem.classes())),
        m_base_logits("base", problem.base.logits),
        m_targets(make_targets()),
        m_weights("weights", problem.base.weights),
        m_upstream("upstream", problem.repeated(problem.base.grad_output)),
        m_cross_entropy(ExecutionSpace(), problem.rows, problem.classes(), problem.options()) {
    if (!problem.base.weights.empty()) m_cross_entropy.class_weights(m_weights.view());
  }

  /// All entry points; in place too, where gradient elements lie as those of the logits do.
  void expect_right(const Position& of_logits, const Position& of_gradient) {
    SCOPED_TRACE(::testing::Message()
                 << m_problem << "; logits: " << of_logits << ", gradient: " << of_gradient);
    const auto logits = make_matrix("logits", of_logits);
    assign_logits(logits);
    expect_forward_right(logits);
    const auto gradient = make_matrix("gradient", of_gradient);
    gradient.fill(poison);
    backward(logits, gradient);
    EXPECT_TRUE(gradient.is(m_gradient, m_problem.base.rows)) << "gradient of backward";
    EXPECT_TRUE(gradient.padding_is_intact()) << "by backward";

    std::optional<RepeatedMatrix<T>> in_place;
    if (of_logits == of_gradient)
      in_place.emplace("in place", m_problem.rows, m_problem.classes(), of_logits);
    if (in_place) {
      assign_logits(*in_place);
      backward(*in_place, *in_place);
      EXPECT_EQ(in_place->count_different_from(gradient), 0) << "backward in place";
    }
    gradient.fill(poison);
    const auto loss = forward_backward(logits, gradient);
    expect_results_right(loss, "forward_backward");
    EXPECT_TRUE(gradient.is(m_fused_gradient, m_problem.base.rows))
        << "gradient of forward_backward";
    EXPECT_TRUE(gradient.padding_is_intact()) << "by forward_backward";
    if (in_place) {
      assign_logits(*in_place);
      const auto loss_in_place = forward_backward(*in_place, *in_place);
      EXPECT_TRUE(all_same_bits(loss_in_place, loss)) << "loss of forward_backward in place";
      EXPECT_EQ(in_place->count_different_from(gradient), 0) << "forward_backward in place";
    }
    const auto untouched = make_matrix("untouched", of_logits);
    assign_logits(untouched);
    EXPECT_EQ(untouched.count_different_from(logits), 0) << "logits were changed";
  }

 private:
  /// What Tolerance says of a sum over classes holds of one over rows. That is done in double, so
  /// that its roundings are nothing beside those of float.
  static std::int64_t terms_of_loss(const RepeatedProblem& problem) {
    const bool adds_up_rows =
        std::is_same_v<Scalar, double> && problem.reduction != Reduction::none;
    return adds_up_rows ? std::max(problem.classes(), problem.rows) : problem.classes();
  }

  bool has_row_losses() const { return m_problem.reduction == Reduction::none; }

  auto make_targets() const {
    if constexpr (has_indices) {
      return List<Target>("targets", m_problem.repeated(m_problem.base.indices));
    } else {
      const List<Target> base("base targets", m_problem.base.probabilities);
      const RepeatedMatrix<Target> targets("targets", m_problem.rows, m_problem.classes(), {});
      targets.repeat(base.view().data(), m_problem.base.rows);
      Kokkos::fence("KokkosXentTest::make_targets");
      return targets;
    }
  }
  RepeatedMatrix<T> make_matrix(const char* label, const Position& position) const {
    return RepeatedMatrix<T>(label, m_problem.rows, m_problem.classes(), position);
  }
  void assign_logits(const RepeatedMatrix<T>& matrix) const {
    matrix.repeat(m_base_logits.view().data(), m_problem.base.rows);
  }
  List<Scalar> poisoned_loss() const {
    return List<Scalar>("loss", std::vector<double>(m_answer.loss.size(), poison));
  }

  /// call(a loss of the right rank); what that held then.
  template <class Call>
  std::vector<double> loss_of(const Call& call) {
    const auto loss = poisoned_loss();
    if (has_row_losses())
      call(loss.view());
    else
      call(loss.scalar_view());
    Kokkos::fence("KokkosXentTest::loss_of");
    return loss.values();
  }
  void expect_forward_right(const RepeatedMatrix<T>& logits) {
    const auto loss = loss_of(
        [&](const auto& view) { m_cross_entropy.forward(logits.view(), m_targets.view(), view); });
    expect_results_right(loss, "forward");
  }
  void backward(const RepeatedMatrix<T>& logits, const RepeatedMatrix<T>& gradient) {
    if (has_row_losses())
      m_cross_entropy.backward(logits.view(), m_targets.view(), m_upstream.view(), gradient.view());
    else
      m_cross_entropy.backward(logits.view(), m_targets.view(), m_upstream.scalar_view(),
                               gradient.view());
  }
  std::vector<double> forward_backward(const RepeatedMatrix<T>& logits,
                                       const RepeatedMatrix<T>& gradient) {
    return loss_of([&](const auto& view) {
      m_cross_entropy.forward_backward(logits.view(), m_targets.view(), view, gradient.view());
    });
  }
  void expect_results_right(const std::vector<double>& loss, const char* function) const {
    EXPECT_TRUE(all_within(loss, m_answer.loss, m_of_loss)) << "loss of " << function;
    EXPECT_TRUE(statistics_are(m_answer.statistics, values_of(m_cross_entropy.row_max()),
                               values_of(m_cross_entropy.row_log_sum()), m_of_scalar))
        << "statistics of " << function;
  }

  RepeatedProblem m_problem;
  Answer m_answer;
  Tolerance m_of_scalar, m_of_loss;
  ExpectedValues m_gradient, m_fused_gradient;
  List<T> m_base_logits;
  std::conditional_t<has_indices, List<Target>, RepeatedMatrix<Target>> m_targets;
  List<Scalar> m_weights;
  List<Scalar> m_upstream;
  KokkosXent::CrossEntropy<ExecutionSpace, Scalar> m_cross_entropy;
};

}  // namespace KokkosXentTest

#endif
