// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_TOLERANCE_HPP
#define KOKKOSXENT_TEST_TOLERANCE_HPP

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "Precision.hpp"

namespace KokkosXentTest {

/// A right value, and by how much rounding may disturb it.
struct Expected {
  double value = 0.0;
  double scale = 0.0;  // first-order error of the formula for a relative error 1 of each operation
  bool exact   = false;  // no rounding at all is allowed

  static Expected exactly(double value) { return {value, 0.0, true}; }
};

/// The one tolerance: from the type a result is stored in, the type it is computed in (Scalar) and
/// the number of classes V.
///
/// With u the unit roundoff of Scalar, t_j = m - z_j and log d the formula's:
/// - t_j carries a relative error u, so exp(-t_j) carries (t_j + c) u, with c for exp itself;
/// - d - 1 is a sum of positive terms. Any order of summation has a relative error below V u, but
///   roundings are as often up as down: lambda sqrt(V) u holds with probability above
///   1 - 2 exp(-lambda^2 / 2) (Higham and Mary, 2019), and smoothing sums V more terms alike. Sums
///   that are not broken into many parts fail this for equal terms, as they should;
/// - log d = log1p(d - 1) has the error of d - 1 times 1 / d, and u log d of its own;
/// - loss and gradient are sums of products of the above, at most ten operations each.
/// The sum of all these terms, each with the relative error 1, is Expected::scale (Reference.hpp
/// forms it beside each value), so the error is at most (c + lambda sqrt(V)) u scale. c = 10: four
/// for an exp of 2 ulp, six for the roundings; lambda = 2.
/// - storing a gradient in a narrower type adds one rounding of that type, or half its smallest
///   subnormal number;
/// - what is below Scalar's normal numbers may be flushed to zero: an absolute error of the
///   smallest of them, times weights and upstream gradients (below 64 in all tests).
class Tolerance {
 public:
  Tolerance(const Precision& stored, const Precision& scalar, std::int64_t classes)
      : m_relative((10.0 + 2.0 * std::sqrt(static_cast<double>(classes))) * scalar.unit_roundoff()),
        m_storage(stored.digits < scalar.digits ? stored.unit_roundoff() : 0.0),
        m_absolute(64.0 * scalar.smallest_normal() + 0.5 * stored.smallest_subnormal()) {}

  template <class Stored, class Scalar>
  static Tolerance of(std::int64_t classes) {
    return {precision_of<Stored>(), precision_of<Scalar>(), classes};
  }

  double bound(const Expected& expected) const {
    if (expected.exact) return 0.0;
    return m_relative * expected.scale + m_storage * std::abs(expected.value) + m_absolute;
  }

 private:
  double m_relative;
  double m_storage;
  double m_absolute;
};

/// True if and only if the error is at most the bound: NaN never passes for a number, and NaN and
/// infinities are matched as such.
inline bool within(double actual, double expected, double bound) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= bound;
}

inline std::string describe_mismatch(std::size_t i, std::int64_t columns, double actual,
                                     double expected, double bound) {
  std::ostringstream text;
  text.precision(17);
  text << "at ";
  if (columns > 0) {
    text << "row " << static_cast<std::int64_t>(i) / columns << ", class "
         << static_cast<std::int64_t>(i) % columns;
  } else {
    text << i;
  }
  text << ": got " << actual << ", expected " << expected << ", error "
       << std::abs(actual - expected) << ", bound " << bound;
  return text.str();
}

/// columns: of a matrix, for the text; 0 for a list.
inline ::testing::AssertionResult all_within(const std::vector<double>& actual,
                                             const std::vector<Expected>& expected,
                                             const Tolerance& tolerance, std::int64_t columns = 0) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " values where " << expected.size() << " are expected";
  }
  std::size_t mismatches = 0;
  std::string first;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double bound = tolerance.bound(expected[i]);
    if (within(actual[i], expected[i].value, bound)) continue;
    if (mismatches++ == 0) {
      first = describe_mismatch(i, columns, actual[i], expected[i].value, bound);
    }
  }
  if (mismatches == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << mismatches << " of " << actual.size() << " values are wrong, the first " << first;
}

/// The same bits, sign of zero included; NaN equals NaN.
inline bool same_bits(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

inline ::testing::AssertionResult all_same_bits(const std::vector<double>& a,
                                                const std::vector<double>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " values and " << b.size();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return ::testing::AssertionFailure() << describe_mismatch(i, 0, a[i], b[i], 0.0);
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace KokkosXentTest

#endif
