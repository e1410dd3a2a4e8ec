// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/Space.hpp"
#include "support/Storage.hpp"

// What is refused at run time, what the text says, and that nothing was written before.
namespace KokkosXentTest {
namespace {

using KokkosXent::Options;
using KokkosXent::Reduction;
using CrossEntropy  = KokkosXent::CrossEntropy<ExecutionSpace>;
using Logits        = Kokkos::View<float**, Kokkos::LayoutRight, MemorySpace>;
using StridedLogits = Kokkos::View<float**, Kokkos::LayoutStride, MemorySpace>;
using Targets       = Kokkos::View<std::int64_t*, MemorySpace>;
using RowValues     = Kokkos::View<float*, MemorySpace>;
using Value         = Kokkos::View<float, MemorySpace>;

/// The text of the exception of type E that the action throws.
template <class E, class Action>
std::string text_of(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another exception: " << other.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is missing in: " << text;
  }
}

template <class View>
View poisoned(View view) {
  Kokkos::deep_copy(view, static_cast<float>(poison));
  return view;
}

template <class View>
void expect_poisoned(const View& view) {
  for (const double value : values_of(view)) ASSERT_EQ(value, poison);
}

/// Everything a call takes, of any extents; outputs are poisoned.
struct Arguments {
  Logits logits;
  Targets targets;
  Logits probabilities;
  RowValues losses;
  Value loss;
  RowValues upstream;
  Logits gradient;

  Arguments(std::int64_t rows, std::int64_t classes)
      : logits("logits", rows, classes),
        targets("targets", rows),
        probabilities("probabilities", rows, classes),
        losses(poisoned(RowValues("losses", rows))),
        loss(poisoned(Value("loss"))),
        upstream("upstream", rows),
        gradient(poisoned(Logits("gradient", rows, classes))) {}

  void expect_outputs_untouched() const {
    expect_poisoned(losses);
    expect_poisoned(loss);
    expect_poisoned(gradient);
  }
};

CrossEntropy make(Reduction reduction) {
  return {ExecutionSpace(), 8, 4, {.reduction = reduction}};
}

const std::string limits = "(constructed for at most 8 rows of 4 classes)";

TEST(Errors, OptionsOutOfRange) {
  constexpr double nan      = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double smoothing :
       {-0.1, 1.1, -1e-300, 1.0000000000000002, nan, infinity, -infinity}) {
    const std::string text = text_of<std::invalid_argument>(
        [&] { CrossEntropy(ExecutionSpace(), 1, 1, {.label_smoothing = smoothing}); });
    expect_parts(text, {"label_smoothing"});
  }
  for (const double smoothing : {0.0, -0.0, 1.0, 5e-324}) {
    EXPECT_NO_THROW(CrossEntropy(ExecutionSpace(), 1, 1, {.label_smoothing = smoothing}));
  }
}

TEST(Errors, NegativeSizes) {
  expect_parts(text_of<std::invalid_argument>([] { CrossEntropy(ExecutionSpace(), -1, 4); }),
               {"max_rows", "-1"});
  expect_parts(text_of<std::invalid_argument>([] { CrossEntropy(ExecutionSpace(), 1, -4); }),
               {"num_classes", "-4"});
  EXPECT_NO_THROW(CrossEntropy(ExecutionSpace(), 0, 0));
}

TEST(Errors, ForwardExtents) {
  Arguments arguments(3, 4);
  CrossEntropy none = make(Reduction::none);
  const Targets five_targets("targets", 5);
  EXPECT_EQ(text_of<std::invalid_argument>(
                [&] { none.forward(arguments.logits, five_targets, arguments.losses); }),
            "KokkosXent::CrossEntropy::forward: extents do not match: logits: 3 x 4, targets: 5, "
            "loss: 3 " +
                limits);
  const RowValues two_losses = poisoned(RowValues("losses", 2));
  expect_parts(text_of<std::invalid_argument>(
                   [&] { none.forward(arguments.logits, arguments.targets, two_losses); }),
               {"CrossEntropy::forward", "logits: 3 x 4", "targets: 3", "loss: 2", limits});
  expect_poisoned(two_losses);

  const Logits wide("probabilities", 3, 5);
  expect_parts(text_of<std::invalid_argument>(
                   [&] { none.forward(arguments.logits, wide, arguments.losses); }),
               {"CrossEntropy::forward", "logits: 3 x 4", "targets: 3 x 5", "loss: 3", limits});
  expect_parts(text_of<std::invalid_argument>(
                   [&] { none.forward(wide, arguments.targets, arguments.losses); }),
               {"CrossEntropy::forward", "logits: 3 x 5", "targets: 3", "loss: 3", limits});
  arguments.expect_outputs_untouched();
}

TEST(Errors, MoreRowsThanMaxRows) {
  Arguments nine(9, 4), eight(8, 4);
  CrossEntropy none = make(Reduction::none);
  expect_parts(
      text_of<std::invalid_argument>([&] { none.forward(nine.logits, nine.targets, nine.losses); }),
      {"CrossEntropy::forward", "logits: 9 x 4", "targets: 9", "loss: 9", limits});
  expect_parts(text_of<std::invalid_argument>([&] {
                 none.forward_backward(nine.logits, nine.targets, nine.losses, nine.gradient);
               }),
               {"CrossEntropy::forward_backward", "logits: 9 x 4", "grad_logits: 9 x 4", limits});
  nine.expect_outputs_untouched();
  EXPECT_NO_THROW(none.forward(eight.logits, eight.targets, eight.losses));
}

TEST(Errors, BackwardExtents) {
  Arguments arguments(3, 4);
  CrossEntropy none = make(Reduction::none);
  none.forward(arguments.logits, arguments.targets, arguments.losses);
  poisoned(arguments.losses);

  const RowValues two("upstream", 2);
  expect_parts(text_of<std::invalid_argument>([&] {
                 none.backward(arguments.logits, arguments.targets, two, arguments.gradient);
               }),
               {"CrossEntropy::backward", "logits: 3 x 4", "targets: 3", "grad_output: 2",
                "grad_logits: 3 x 4", limits});
  for (const auto& [rows, classes] : {std::pair(2, 4), std::pair(3, 5), std::pair(4, 3)}) {
    const Logits gradient = poisoned(Logits("gradient", rows, classes));
    expect_parts(text_of<std::invalid_argument>([&] {
                   none.backward(arguments.logits, arguments.targets, arguments.upstream, gradient);
                 }),
                 {"CrossEntropy::backward", "logits: 3 x 4", "grad_output: 3",
                  "grad_logits: " + std::to_string(rows) + " x " + std::to_string(classes)});
    expect_poisoned(gradient);
  }
  const Targets five("targets", 5);
  expect_parts(text_of<std::invalid_argument>(
                   [&] { none.backward(arguments.logits, five, 1.0f, arguments.gradient); }),
               {"CrossEntropy::backward", "targets: 5", "grad_output: scalar"});
  arguments.expect_outputs_untouched();
}

TEST(Errors, ForwardBackwardExtents) {
  Arguments arguments(3, 4);
  CrossEntropy none = make(Reduction::none);
  const Logits wide = poisoned(Logits("gradient", 3, 5));
  expect_parts(text_of<std::invalid_argument>([&] {
                 none.forward_backward(arguments.logits, arguments.targets, arguments.losses, wide);
               }),
               {"CrossEntropy::forward_backward", "logits: 3 x 4", "targets: 3", "loss: 3",
                "grad_logits: 3 x 5", limits});
  const RowValues two = poisoned(RowValues("losses", 2));
  expect_parts(text_of<std::invalid_argument>([&] {
                 none.forward_backward(arguments.logits, arguments.targets, two,
                                       arguments.gradient);
               }),
               {"CrossEntropy::forward_backward", "loss: 2"});
  expect_poisoned(wide);
  expect_poisoned(two);
  arguments.expect_outputs_untouched();
}

TEST(Errors, RankOfLossMustFitTheReduction) {
  Arguments arguments(3, 4);
  CrossEntropy none = make(Reduction::none);
  expect_parts(text_of<std::invalid_argument>(
                   [&] { none.forward(arguments.logits, arguments.targets, arguments.loss); }),
               {"CrossEntropy::forward", "loss", "rank 1", "rank 0"});
  expect_parts(text_of<std::invalid_argument>([&] {
                 none.forward_backward(arguments.logits, arguments.targets, arguments.loss,
                                       arguments.gradient);
               }),
               {"CrossEntropy::forward_backward", "loss", "rank"});
  for (const auto reduction : {Reduction::mean, Reduction::sum}) {
    CrossEntropy reduced = make(reduction);
    expect_parts(text_of<std::invalid_argument>([&] {
                   reduced.forward(arguments.logits, arguments.targets, arguments.losses);
                 }),
                 {"CrossEntropy::forward", "loss", "rank 0", "rank 1"});
    expect_parts(text_of<std::invalid_argument>([&] {
                   reduced.forward_backward(arguments.logits, arguments.targets, arguments.losses,
                                            arguments.gradient);
                 }),
                 {"CrossEntropy::forward_backward", "loss", "rank"});
  }
  arguments.expect_outputs_untouched();
}

TEST(Errors, UpstreamOfEachRowIsForNoReductionOnly) {
  Arguments arguments(3, 4);
  for (const auto reduction : {Reduction::mean, Reduction::sum}) {
    CrossEntropy reduced = make(reduction);
    reduced.forward(arguments.logits, arguments.targets, arguments.loss);
    expect_parts(text_of<std::invalid_argument>([&] {
                   reduced.backward(arguments.logits, arguments.targets, arguments.upstream,
                                    arguments.gradient);
                 }),
                 {"CrossEntropy::backward", "grad_output", "rank"});
    expect_poisoned(arguments.gradient);
  }
}

TEST(Errors, BackwardNeedsAForwardPass) {
  Arguments arguments(3, 4), fewer(2, 4);
  CrossEntropy none   = make(Reduction::none);
  const auto backward = [&](const Arguments& of) {
    none.backward(of.logits, of.targets, 1.0f, of.gradient);
  };
  expect_parts(text_of<std::logic_error>([&] { backward(arguments); }),
               {"CrossEntropy::backward", "no forward"});
  arguments.expect_outputs_untouched();

  none.forward(arguments.logits, arguments.targets, arguments.losses);
  expect_parts(text_of<std::logic_error>([&] { backward(fewer); }),
               {"CrossEntropy::backward", "3", "2"});
  fewer.expect_outputs_untouched();
  EXPECT_NO_THROW(backward(arguments));

  none.forward_backward(fewer.logits, fewer.targets, fewer.losses, fewer.gradient);
  EXPECT_THROW(backward(arguments), std::logic_error);
  EXPECT_NO_THROW(backward(fewer));
}

/// A call that was refused leaves the forward pass before it as it was.
TEST(Errors, RefusedForwardKeepsTheState) {
  Arguments arguments(3, 4), fewer(2, 4);
  CrossEntropy none = make(Reduction::none);
  none.forward(arguments.logits, arguments.targets, arguments.losses);
  const auto statistics = values_of(none.row_log_sum());
  EXPECT_THROW(none.forward(fewer.logits, fewer.targets, arguments.losses), std::invalid_argument);
  EXPECT_EQ(values_of(none.row_log_sum()), statistics);
  EXPECT_NO_THROW(none.backward(arguments.logits, arguments.targets, 1.0f, arguments.gradient));
}

// Overlap: `elements` floats, seen as matrices of given strides.

class Overlap : public ::testing::Test {
 protected:
  static constexpr std::int64_t elements = 200;

  static StridedLogits matrix(std::int64_t offset, std::size_t rows, std::size_t row_stride,
                              std::size_t classes, std::size_t class_stride) {
    return StridedLogits(buffer().data() + offset,
                         Kokkos::LayoutStride(rows, row_stride, classes, class_stride));
  }

  /// backward and forward_backward refuse the pair, and write nothing.
  static void expect_refused(const StridedLogits& logits, const StridedLogits& gradient) {
    poisoned(buffer());
    const auto rows    = static_cast<std::int64_t>(logits.extent(0));
    const auto classes = static_cast<std::int64_t>(logits.extent(1));
    const Arguments arguments(rows, classes);
    CrossEntropy none(ExecutionSpace(), rows, classes, {.reduction = Reduction::none});
    none.forward(logits, arguments.targets, RowValues("losses", logits.extent(0)));
    expect_parts(text_of<std::invalid_argument>(
                     [&] { none.backward(logits, arguments.targets, 1.0f, gradient); }),
                 {"CrossEntropy::backward", "grad_logits", "overlap"});
    expect_parts(text_of<std::invalid_argument>([&] {
                   none.forward_backward(logits, arguments.targets, arguments.losses, gradient);
                 }),
                 {"CrossEntropy::forward_backward", "grad_logits", "overlap"});
    expect_poisoned(buffer());
    arguments.expect_outputs_untouched();
  }

  /// Both accept it; with all logits 0 each gradient is known.
  static void expect_accepted(const StridedLogits& logits, const StridedLogits& gradient) {
    Kokkos::deep_copy(buffer(), 0.0f);
    const auto rows    = static_cast<std::int64_t>(logits.extent(0));
    const auto classes = static_cast<std::int64_t>(logits.extent(1));
    const Arguments arguments(rows, classes);
    CrossEntropy none(ExecutionSpace(), rows, classes, {.reduction = Reduction::none});
    none.forward(logits, arguments.targets, arguments.losses);
    none.backward(logits, arguments.targets, 1.0f, gradient);
    const auto values = values_of(gradient);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double p = 1.0 / static_cast<double>(classes);
      EXPECT_NEAR(values[i], i % logits.extent(1) == 0 ? p - 1.0 : p, 1e-6) << i;
    }
  }

 private:
  static const RowValues& buffer() {
    static RowValues values;
    if (!values.is_allocated()) {
      values = RowValues("buffer", elements);
      Kokkos::push_finalize_hook([] { values = RowValues(); });
    }
    return values;
  }
};

TEST_F(Overlap, RowsThatOverlapAreRefused) {
  const auto elsewhere = matrix(100, 3, 4, 4, 1);
  expect_refused(elsewhere, matrix(0, 3, 0, 4, 1));  // one row, three times
  expect_refused(elsewhere, matrix(0, 3, 3, 4, 1));  // the last class is the next row's first
  expect_refused(elsewhere, matrix(0, 3, 4, 4, 0));  // one class, four times
  expect_refused(elsewhere, matrix(0, 3, 0, 4, 0));
  expect_refused(elsewhere, matrix(0, 3, 1, 4, 1));
  expect_refused(elsewhere, matrix(0, 3, 1, 4, 2));  // columns overlap
}

/// B2 d: one row expanded to several.
TEST_F(Overlap, ExpandedLogitsInPlaceAreRefused) {
  const auto expanded = matrix(0, 2, 0, 3, 1);
  expect_refused(expanded, expanded);
}

TEST_F(Overlap, GradientThatOverlapsOtherLogitsIsRefused) {
  const auto logits = matrix(20, 3, 4, 4, 1);
  expect_refused(logits, matrix(21, 3, 4, 4, 1));  // one element on
  expect_refused(logits, matrix(16, 3, 4, 4, 1));  // one row before
  expect_refused(logits, matrix(20, 3, 1, 4, 3));  // the same elements, transposed
  expect_refused(logits, matrix(20, 3, 5, 4, 1));  // another row stride
  expect_refused(logits, matrix(0, 3, 10, 4, 1));  // its last row is inside
}

TEST_F(Overlap, ApartOrTheSameIsAccepted) {
  const auto logits = matrix(20, 3, 4, 4, 1);
  expect_accepted(logits, matrix(32, 3, 4, 4, 1));   // right behind
  expect_accepted(logits, matrix(8, 3, 4, 4, 1));    // right before
  expect_accepted(logits, matrix(32, 3, 1, 4, 3));   // transposed
  expect_accepted(logits, matrix(32, 3, 12, 4, 3));  // strided
  expect_accepted(logits, logits);
}

/// Two blocks of columns of one buffer: spans overlap, elements do not.
TEST_F(Overlap, NeighbouringBlocksOfColumnsAreAccepted) {
  expect_accepted(matrix(0, 3, 8, 4, 1), matrix(4, 3, 8, 4, 1));
  expect_accepted(matrix(4, 3, 8, 4, 1), matrix(0, 3, 8, 4, 1));
  expect_accepted(matrix(0, 3, 10, 4, 1), matrix(5, 3, 10, 4, 1));
}

/// A stride that no element uses cannot overlap anything.
TEST_F(Overlap, StrideZeroOfOneRowOrOneClassIsAccepted) {
  expect_accepted(matrix(0, 1, 0, 4, 1), matrix(50, 1, 0, 4, 1));
  expect_accepted(matrix(0, 1, 0, 4, 1), matrix(0, 1, 0, 4, 1));
  expect_accepted(matrix(0, 3, 1, 1, 0), matrix(50, 3, 1, 1, 0));
}

/// The expanded logits themselves are fine out of place (B2 d).
TEST_F(Overlap, ExpandedLogitsOutOfPlaceAreAccepted) {
  expect_accepted(matrix(0, 3, 0, 4, 1), matrix(50, 3, 4, 4, 1));
}

TEST(TargetsOverlap, ClassIndicesInsideTheGradientAreRefused) {
  using MemorySpace = ExecutionSpace::memory_space;
  const Kokkos::View<std::int64_t*, MemorySpace> targets("targets", 4);
  const Kokkos::View<float**, Kokkos::LayoutRight, MemorySpace, Kokkos::MemoryUnmanaged> gradient(
      reinterpret_cast<float*>(targets.data()), 4, 2);
  const Logits logits("logits", 4, 2);
  CrossEntropy sum(ExecutionSpace(), 4, 2, {.reduction = Reduction::sum});
  const auto call = [&] { sum.forward_backward(logits, targets, Value("loss"), gradient); };
  expect_parts(text_of<std::invalid_argument>(call),
               {"CrossEntropy::forward_backward", "grad_logits", "overlap targets"});
}

TEST(ExpandedLogits, GradientsOfItsRowsAddUp) {
  const List<float> row("row", std::vector<double>{1.0, 0.0, 0.0});
  const StridedLogits expanded(row.view().data(), Kokkos::LayoutStride(2, 0, 3, 1));
  const List<std::int64_t> targets("targets", std::vector<std::int64_t>{0, 1});
  const Logits gradient("gradient", 2, 3);
  CrossEntropy sum(ExecutionSpace(), 2, 3, {.reduction = Reduction::sum});
  sum.forward_backward(expanded, targets.view(), Value("loss"), gradient);
  const auto g = values_of(gradient);
  EXPECT_NEAR(g[0] + g[3], 0.152233769, 1e-6);
  EXPECT_NEAR(g[1] + g[4], -0.576116885, 1e-6);
  EXPECT_NEAR(g[2] + g[5], 0.423883115, 1e-6);
}

}  // namespace
}  // namespace KokkosXentTest
