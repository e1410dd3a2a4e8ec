// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "support/Large.hpp"
#include "support/Space.hpp"
#include "support/SplitMix.hpp"
#include "support/Storage.hpp"

// Logits of types that are not the library's, in every way in which rows map to threads: a device
// moves 16 bytes at a time, which are 16, 2 or 1 of them, or moves single ones.
namespace KokkosXentTest {

/// A byte: eighths, from -16 on.
struct Eighths {
  std::int8_t count;
};

/// Eight bytes.
struct Boxed {
  double value;
};

/// Sixteen bytes, of which half say nothing.
struct alignas(16) Padded {
  double value;
  double padding;
};

/// Three bytes: no number of them is a power of two.
struct Triple {
  std::int8_t count[3];
};

}  // namespace KokkosXentTest

template <>
struct KokkosXent::ValueTypeTraits<KokkosXentTest::Eighths> {
  using arithmetic_type = float;
  KOKKOS_FUNCTION static float load(KokkosXentTest::Eighths stored) {
    return static_cast<float>(stored.count) / 8;
  }
  KOKKOS_FUNCTION static KokkosXentTest::Eighths store(float value) {
    return {static_cast<std::int8_t>(value * 8)};
  }
};

template <>
struct KokkosXent::ValueTypeTraits<KokkosXentTest::Boxed> {
  using arithmetic_type = double;
  KOKKOS_FUNCTION static double load(KokkosXentTest::Boxed stored) { return stored.value; }
  KOKKOS_FUNCTION static KokkosXentTest::Boxed store(double value) { return {value}; }
};

template <>
struct KokkosXent::ValueTypeTraits<KokkosXentTest::Padded> {
  using arithmetic_type = double;
  KOKKOS_FUNCTION static double load(KokkosXentTest::Padded stored) { return stored.value; }
  KOKKOS_FUNCTION static KokkosXentTest::Padded store(double value) { return {value, 0}; }
};

template <>
struct KokkosXent::ValueTypeTraits<KokkosXentTest::Triple> {
  using arithmetic_type = float;
  KOKKOS_FUNCTION static float load(KokkosXentTest::Triple stored) {
    return static_cast<float>(stored.count[0]) / 8;
  }
  KOKKOS_FUNCTION static KokkosXentTest::Triple store(float value) {
    return {{static_cast<std::int8_t>(value * 8), 0, 0}};
  }
};

namespace KokkosXentTest {
namespace {

/// Eighths, which every type here stores exactly.
KOKKOS_FUNCTION double logit_of(std::int64_t row, std::int64_t cls) {
  const auto bits = splitmix64(static_cast<std::uint64_t>(row * 1000003 + cls));
  return static_cast<double>(static_cast<std::int64_t>(bits % 128) - 64) / 8;
}

template <class T>
struct FillLogits {
  StridedMatrix<T> matrix;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    using Traits = KokkosXent::ValueTypeTraits<T>;
    using Scalar = typename Traits::arithmetic_type;
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(matrix.extent(1)); ++j)
      matrix(row, j) = Traits::store(static_cast<Scalar>(logit_of(row, j)));
  }
};

/// A NaN is worse than any number.
template <class T, class Scalar>
struct LargestDifference {
  StridedMatrix<T> actual;
  StridedMatrix<Scalar> expected;

  KOKKOS_FUNCTION void operator()(std::int64_t row, double& worst) const {
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(actual.extent(1)); ++j) {
      const auto got = KokkosXent::ValueTypeTraits<T>::load(actual(row, j));
      const double error =
          Kokkos::abs(static_cast<double>(got) - static_cast<double>(expected(row, j)));
      if (!(error <= worst)) worst = error <= 1e300 ? error : 1e300;
    }
  }
};

template <class T>
StridedMatrix<T> make_matrix(std::int64_t rows, std::int64_t classes, bool left) {
  const auto n = static_cast<std::size_t>(rows), m = static_cast<std::size_t>(classes);
  return StridedMatrix<T>(
      "matrix", left ? Kokkos::LayoutStride(n, 1, m, n) : Kokkos::LayoutStride(n, m, m, 1));
}

template <class T>
StridedMatrix<T> make_logits(std::int64_t rows, std::int64_t classes, bool left) {
  const auto logits = make_matrix<T>(rows, classes, left);
  Kokkos::parallel_for("KokkosXentTest::fill_logits", Range(0, rows), FillLogits<T>{logits});
  return logits;
}

template <class T, class Scalar>
double largest_difference(const StridedMatrix<T>& actual, const StridedMatrix<Scalar>& expected) {
  double worst = 0;
  Kokkos::parallel_reduce(
      "KokkosXentTest::largest_difference", Range(0, static_cast<std::int64_t>(actual.extent(0))),
      LargestDifference<T, Scalar>{actual, expected}, Kokkos::Max<double>(worst));
  return worst;
}

template <class Scalar>
double value_of(const Kokkos::View<Scalar, MemorySpace>& view) {
  Scalar value = 0;
  Kokkos::deep_copy(value, view);
  return static_cast<double>(value);
}

template <class T>
class UserTypes : public ::testing::Test {
 protected:
  using Scalar = typename KokkosXent::ValueTypeTraits<T>::arithmetic_type;

  /// The same as with logits of type Scalar, which other tests judge.
  void expect_same(std::int64_t rows, std::int64_t classes, bool left = false,
                   double label_smoothing = 0) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << classes << (left ? ", left" : "")
                                      << ", smoothing " << label_smoothing);
    const auto targets  = spread_targets<std::int64_t>(rows, classes);
    const auto plain    = make_logits<Scalar>(rows, classes, left);
    const auto own      = make_logits<T>(rows, classes, left);
    const auto expected = make_matrix<Scalar>(rows, classes, left);
    const auto gradient = make_matrix<Scalar>(rows, classes, left);
    const Kokkos::View<Scalar, MemorySpace> expected_loss("expected_loss"), loss("loss");

    KokkosXent::Options options;
    options.label_smoothing = label_smoothing;
    KokkosXent::CrossEntropy<ExecutionSpace, Scalar> cross_entropy(ExecutionSpace(), rows, classes,
                                                                   options);
    cross_entropy.forward(plain, targets, expected_loss);
    cross_entropy.backward(plain, targets, Scalar(1), expected);
    const double right = value_of(expected_loss);
    const double bound = std::is_same_v<Scalar, float> ? 1e-5 : 1e-13;

    cross_entropy.forward(own, targets, loss);
    EXPECT_NEAR(value_of(loss), right, bound * right);
    cross_entropy.backward(own, targets, Scalar(1), gradient);
    EXPECT_LE(largest_difference(gradient, expected), bound / static_cast<double>(rows));

    Kokkos::deep_copy(loss, Scalar(0));
    Kokkos::deep_copy(gradient, Scalar(0));
    cross_entropy.forward_backward(own, targets, loss, gradient);
    EXPECT_NEAR(value_of(loss), right, bound * right);
    EXPECT_LE(largest_difference(gradient, expected), bound / static_cast<double>(rows));

    const double last_place = sizeof(T) < sizeof(Scalar) ? 0.125 : 0.0;
    cross_entropy.forward_backward(own, targets, loss, own);
    EXPECT_LE(largest_difference(own, expected), bound / static_cast<double>(rows) + last_place);
  }
};

using Types = ::testing::Types<Eighths, Boxed, Padded, Triple>;

struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return std::is_same_v<T, Eighths>  ? "OneByte"
           : std::is_same_v<T, Boxed>  ? "EightBytes"
           : std::is_same_v<T, Padded> ? "SixteenBytes"
                                       : "ThreeBytes";
  }
};

TYPED_TEST_SUITE(UserTypes, Types, TypeNames);

TYPED_TEST(UserTypes, ShortRows) {
  for (const std::int64_t classes : {1, 7, 16, 33, 128, 1000, 1024, 4099})
    this->expect_same(300, classes);
}

TYPED_TEST(UserTypes, LongRows) {
  for (const std::int64_t classes : {16384, 20011}) this->expect_same(160, classes);
}

TYPED_TEST(UserTypes, FewRows) {
  for (const std::int64_t rows : {1, 3}) this->expect_same(rows, 50257);
}

TYPED_TEST(UserTypes, AdjacentRows) {
  for (const std::int64_t rows : {64, 300, 301}) this->expect_same(rows, 100, true);
}

TYPED_TEST(UserTypes, LabelSmoothing) {
  this->expect_same(300, 1000, false, 0.1);
  this->expect_same(160, 16384, false, 0.1);
  this->expect_same(300, 100, true, 0.1);
}

}  // namespace
}  // namespace KokkosXentTest
