// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "support/Large.hpp"
#include "support/Precision.hpp"
#include "support/Storage.hpp"

// Offsets and element counts beyond 2^31. On a host, memory that is allocated and not touched costs
// nothing, so that huge strides and huge matrices whose rows are ignored can be tested anywhere.
namespace KokkosXentTest {
namespace {

using KokkosXent::bfloat16;
using KokkosXent::Reduction;
using CrossEntropy = KokkosXent::CrossEntropy<ExecutionSpace>;
using Value        = Kokkos::View<float, MemorySpace>;

constexpr std::int64_t huge_stride = (std::int64_t{1} << 30) + 8;

struct Placed {
  std::int64_t row_stride, class_stride;
};

/// A matrix of 3 x 8 somewhere in a buffer.
StridedMatrix<bfloat16> place(const DeviceList<bfloat16>& buffer, const Placed& placed,
                              std::size_t rows, std::size_t classes) {
  return StridedMatrix<bfloat16>(
      buffer.data(), Kokkos::LayoutStride(rows, static_cast<std::size_t>(placed.row_stride),
                                          classes, static_cast<std::size_t>(placed.class_stride)));
}

/// Loss and gradient of a few far-apart elements against those of the packed matrix.
void expect_packed_result(const Placed& placed, std::size_t rows, std::size_t classes) {
  const auto last = static_cast<std::int64_t>(rows - 1) * placed.row_stride +
                    static_cast<std::int64_t>(classes - 1) * placed.class_stride;
  ASSERT_GT(last, std::int64_t{1} << 31);
  const auto buffer = try_allocate<DeviceList<bfloat16>>("buffer", last + 1);
  if (!buffer) GTEST_SKIP() << "too little memory";

  const DeviceMatrix<bfloat16> packed("packed", rows, classes);
  const DeviceMatrix<bfloat16> packed_gradient("gradient", rows, classes);
  fill_uniform(packed, 4.0);
  const auto far = place(*buffer, placed, rows, classes);
  Kokkos::deep_copy(far, packed);
  const auto targets = spread_targets<std::int64_t>(static_cast<std::int64_t>(rows),
                                                    static_cast<std::int64_t>(classes), 5);
  const DeviceList<float> losses("losses", rows), packed_losses("losses", rows);
  CrossEntropy none(ExecutionSpace(), static_cast<std::int64_t>(rows),
                    static_cast<std::int64_t>(classes), {.reduction = Reduction::none});

  none.forward(packed, targets, packed_losses);
  none.backward(packed, targets, 1.0f, packed_gradient);
  none.forward(far, targets, losses);
  const auto right_losses   = values_of(packed_losses);
  const auto right_gradient = values_of(packed_gradient);
  for (std::size_t r = 0; r < rows; ++r) EXPECT_NEAR(values_of(losses)[r], right_losses[r], 1e-6);

  const auto expect_gradient = [&](const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(gradient[i], right_gradient[i], 0.005);
    }
  };
  const DeviceMatrix<bfloat16> from_far("gradient", rows, classes);
  none.backward(far, targets, 1.0f, from_far);  // far logits
  expect_gradient(values_of(from_far));
  none.backward(far, targets, 1.0f, far);  // far logits and gradient, in place
  expect_gradient(values_of(far));
  none.forward_backward(packed, targets, losses, far);  // far gradient
  expect_gradient(values_of(far));
  Kokkos::deep_copy(far, packed);
  none.forward_backward(far, targets, losses, far);
  expect_gradient(values_of(far));
  for (std::size_t r = 0; r < rows; ++r) EXPECT_NEAR(values_of(losses)[r], right_losses[r], 1e-6);
}

TEST(IndexWidth, X3_RowStrideBeyond30Bits) { expect_packed_result({huge_stride, 1}, 3, 8); }

TEST(IndexWidth, X3_ClassStrideBeyond30Bits) { expect_packed_result({1, huge_stride}, 8, 3); }

TEST(IndexWidth, X3_RowStrideOfStridedClasses) { expect_packed_result({huge_stride, 4}, 3, 100); }

/// Probabilities, targets and upstream gradients have strides of their own.
TEST(IndexWidth, X3_OtherOperandsWithHugeStrides) {
  const std::size_t rows = 3, classes = 4;
  const auto buffer = try_allocate<DeviceList<bfloat16>>("buffer", 2 * huge_stride + 8);
  const auto floats = try_allocate<DeviceList<float>>("floats", 2 * huge_stride + 1);
  if (!buffer || !floats) GTEST_SKIP() << "too little memory";
  const auto stride = static_cast<std::size_t>(huge_stride);
  const StridedList<float> losses(floats->data(), Kokkos::LayoutStride(rows, stride));
  const auto probabilities = place(*buffer, {huge_stride, 1}, rows, classes);
  Kokkos::deep_copy(probabilities, bfloat16(0.25f));
  const DeviceMatrix<float> logits("logits", rows, classes), gradient("gradient", rows, classes);

  CrossEntropy none(ExecutionSpace(), 3, 4, {.reduction = Reduction::none});
  none.forward(logits, probabilities, losses);
  for (const double loss : values_of(losses)) EXPECT_NEAR(loss, 1.386294361, 1e-6);
  Kokkos::deep_copy(losses, 2.0f);  // now the upstream gradient
  const DeviceList<std::int32_t> targets("targets", rows);
  none.forward(logits, targets, DeviceList<float>("losses", rows));
  none.backward(logits, targets, losses, gradient);
  const auto g = values_of(gradient);
  for (std::size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], i % 4 == 0 ? -1.5 : 0.5, 1e-6);
}

/// More than 2^31 elements of which two rows are read.
TEST(IndexWidth, X1_MatrixBeyond31BitsWithFewRowsThatCount) {
  const std::int64_t rows = 65537, classes = 32768;
  const auto logits = try_allocate<DeviceMatrix<bfloat16>>("logits", rows, classes);
  if (!logits) GTEST_SKIP() << "too little memory";
  for (const std::int64_t row : {std::int64_t{0}, rows - 1}) {
    Kokkos::deep_copy(Kokkos::subview(*logits, row, Kokkos::ALL), bfloat16(0.0f));
  }
  const DeviceList<std::int64_t> targets("targets", static_cast<std::size_t>(rows));
  Kokkos::deep_copy(targets, -100);
  Kokkos::deep_copy(Kokkos::subview(targets, 0), 0);
  Kokkos::deep_copy(Kokkos::subview(targets, rows - 1), classes - 1);

  CrossEntropy sum(ExecutionSpace(), rows, classes, {.reduction = Reduction::sum});
  const Value loss("loss");
  sum.forward(*logits, targets, loss);
  EXPECT_NEAR(host_value(loss), 2.0 * 10.397207708399179, 1e-4);
}

/// Fewer elements than 2^31 in memory, more in the matrix.
TEST(IndexWidth, X1_ExpandedMatrixBeyond31Bits) {
  if (!large_tests_run()) GTEST_SKIP() << "reads 2^31 elements; set KOKKOSXENT_TEST_LARGE=1";
  const std::int64_t rows = 42731, classes = 50257;
  const DeviceList<float> zero_row("row", static_cast<std::size_t>(classes));
  const auto targets = spread_targets<std::int32_t>(rows, classes, classes - 1);
  CrossEntropy none(ExecutionSpace(), rows, classes, {.reduction = Reduction::none});
  const DeviceList<float> losses("losses", static_cast<std::size_t>(rows));
  none.forward(expanded(zero_row, rows), targets, losses);
  EXPECT_EQ(count_outside(losses, 10.824905119702080, 1e-4), 0);
}

/// Counts elements that are not p off the target and p - 1 at it.
struct CountWrongGradients {
  const bfloat16* gradient;
  const std::int64_t* targets;
  std::int64_t classes;

  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& count) const {
    const std::int64_t row = i / classes;
    const float p          = 1.0f / static_cast<float>(classes);
    const float right      = i - row * classes == targets[row] ? p - 1.0f : p;
    const float error      = static_cast<float>(gradient[i]) - right;
    const float bound      = right < 0.0f ? 0.004f : 0.004f * p;
    if (!(error <= bound && error >= -bound)) ++count;
  }
};

void expect_large_gradients(const DeviceMatrix<bfloat16>& gradient,
                            const DeviceList<std::int64_t>& targets) {
  const auto classes = static_cast<std::int64_t>(gradient.extent(1));
  std::int64_t wrong = 0;
  Kokkos::parallel_reduce("KokkosXentTest::count_wrong_gradients",
                          Range(0, static_cast<std::int64_t>(gradient.extent(0)) * classes),
                          CountWrongGradients{gradient.data(), targets.data(), classes}, wrong);
  EXPECT_EQ(wrong, 0);
}

TEST(IndexWidth, X1_ForwardAndBackwardBeyond31Bits) {
  if (!large_tests_run()) GTEST_SKIP() << "touches 9 GB; set KOKKOSXENT_TEST_LARGE=1 to run it";
  const std::int64_t rows = 65537, classes = 32768;
  const auto logits   = try_allocate<DeviceMatrix<bfloat16>>("logits", rows, classes);
  const auto gradient = try_allocate<DeviceMatrix<bfloat16>>("gradient", rows, classes);
  if (!logits || !gradient) GTEST_SKIP() << "too little memory";
  Kokkos::deep_copy(*logits, bfloat16(0.0f));
  const auto targets = spread_targets<std::int64_t>(rows, classes, classes - 1);
  CrossEntropy sum(ExecutionSpace(), rows, classes, {.reduction = Reduction::sum});
  const Value loss("loss");
  const double right = static_cast<double>(rows) * 10.397207708399179;

  sum.forward(*logits, targets, loss);
  EXPECT_NEAR(host_value(loss), right, 1e-5 * right);
  sum.backward(*logits, targets, 1.0f, *gradient);
  expect_large_gradients(*gradient, targets);
  Kokkos::deep_copy(*gradient, bfloat16(7.0f));
  sum.forward_backward(*logits, targets, loss, *gradient);
  EXPECT_NEAR(host_value(loss), right, 1e-5 * right);
  expect_large_gradients(*gradient, targets);
  sum.forward_backward(*logits, targets, loss, *logits);
  EXPECT_EQ(count_different(*logits, *gradient), 0);
}

/// Beyond 2^32 elements, and the zeros that ignored rows get.
TEST(IndexWidth, X5_ZeroGradientsBeyond32Bits) {
  if (!large_tests_run()) GTEST_SKIP() << "touches 9 GB; set KOKKOSXENT_TEST_LARGE=1 to run it";
  const std::int64_t rows = 131073, classes = 32768;
  const auto gradient = try_allocate<DeviceMatrix<bfloat16>>("gradient", rows, classes);
  if (!gradient) GTEST_SKIP() << "too little memory";
  Kokkos::deep_copy(*gradient, bfloat16(7.0f));
  const DeviceList<bfloat16> zero_row("row", static_cast<std::size_t>(classes));
  const DeviceList<std::int32_t> ignored("targets", 1);
  Kokkos::deep_copy(ignored, -100);
  CrossEntropy sum(ExecutionSpace(), rows, classes, {.reduction = Reduction::sum});
  const Value loss("loss");
  sum.forward_backward(expanded(zero_row, rows), repeated(ignored, rows), loss, *gradient);
  EXPECT_EQ(host_value(loss), 0.0);
  EXPECT_EQ(count_outside(*gradient, 0.0, 0.0), 0);
}

}  // namespace
}  // namespace KokkosXentTest
