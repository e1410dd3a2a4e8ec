// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/Space.hpp"
#include "support/Storage.hpp"

// The object over several calls: class weights, moves, statistics, memory; and the one-liner.
namespace KokkosXentTest {
namespace {

using KokkosXent::Options;
using KokkosXent::Reduction;
using CrossEntropy = KokkosXent::CrossEntropy<ExecutionSpace>;
using Logits       = Kokkos::View<float**, Kokkos::LayoutRight, MemorySpace>;
using Value        = Kokkos::View<float, MemorySpace>;

static_assert(!std::is_copy_constructible_v<CrossEntropy>);
static_assert(!std::is_copy_assignable_v<CrossEntropy>);
static_assert(std::is_move_constructible_v<CrossEntropy>);
static_assert(std::is_move_assignable_v<CrossEntropy>);

Logits make_logits(std::size_t rows, std::size_t classes, const std::vector<double>& values) {
  Matrix<float, Kokkos::LayoutRight> matrix("logits", Placement::packed,
                                            static_cast<std::int64_t>(rows),
                                            static_cast<std::int64_t>(classes));
  matrix.assign(values);
  const Logits logits("logits", rows, classes);
  Kokkos::deep_copy(logits, matrix.view());
  return logits;
}

/// Two rows of three classes with targets 0 and 1.
struct Example {
  Logits logits = make_logits(2, 3, {1.0, 2.0, 3.0, 0.0, 0.0, 0.0});
  List<std::int64_t> targets{"targets", std::vector<std::int64_t>{0, 1}};
  Value loss{"loss"};
  Logits gradient{"gradient", 2, 3};

  static constexpr double row_0 = 2.40760596444438;
  static constexpr double row_1 = 1.09861228866811;

  double forward(CrossEntropy& cross_entropy) const {
    cross_entropy.forward(logits, targets.view(), loss);
    return values_of(loss)[0];
  }
};

double weighted_mean(double w_0, double w_1) {
  return (w_0 * Example::row_0 + w_1 * Example::row_1) / (w_0 + w_1);
}

TEST(ClassWeights, OfAnyStride) {
  const Example example;
  for (const std::int64_t stride : {1, 2, 7}) {
    const List<float, Kokkos::LayoutStride> weights("weights", std::vector<double>{2.0, 0.5, 1.0},
                                                    stride);
    CrossEntropy cross_entropy(ExecutionSpace(), 2, 3);
    cross_entropy.class_weights(weights.view());
    EXPECT_NEAR(example.forward(cross_entropy), weighted_mean(2.0, 0.5), 1e-6) << stride;
  }
}

TEST(ClassWeights, StrideZeroGivesAllClassesOneWeight) {
  const Example example;
  const List<float> one("weights", std::vector<double>{3.0});
  const Kokkos::View<const float*, Kokkos::LayoutStride, MemorySpace> expanded(
      one.view().data(), Kokkos::LayoutStride(3, 0));
  CrossEntropy sum(ExecutionSpace(), 2, 3, {.reduction = Reduction::sum, .label_smoothing = 0.25});
  sum.class_weights(expanded);
  // Rows: 0.75 loss + 0.25 mean over classes of (lse - x_j), times 3.
  const double smoothed =
      3.0 * (0.75 * Example::row_0 + 0.25 * (Example::row_0 - 1.0) + Example::row_1);
  EXPECT_NEAR(example.forward(sum), smoothed, 1e-5);
}

TEST(ClassWeights, ConstAndMutableViews) {
  const Example example;
  const List<float> weights("weights", std::vector<double>{2.0, 0.5, 1.0});
  const Kokkos::View<const float*, MemorySpace> constant = weights.view();
  CrossEntropy cross_entropy(ExecutionSpace(), 2, 3);
  cross_entropy.class_weights(constant);
  EXPECT_NEAR(example.forward(cross_entropy), weighted_mean(2.0, 0.5), 1e-6);
  cross_entropy.class_weights(weights.view());
  EXPECT_NEAR(example.forward(cross_entropy), weighted_mean(2.0, 0.5), 1e-6);
}

TEST(ClassWeights, OthersReplaceThem) {
  const Example example;
  CrossEntropy cross_entropy(ExecutionSpace(), 2, 3);
  EXPECT_NEAR(example.forward(cross_entropy), weighted_mean(1.0, 1.0), 1e-6);
  const List<float> first("weights", std::vector<double>{2.0, 0.5, 1.0});
  const List<float> second("weights", std::vector<double>{0.25, 4.0, 1.0});
  cross_entropy.class_weights(first.view());
  EXPECT_NEAR(example.forward(cross_entropy), weighted_mean(2.0, 0.5), 1e-6);
  cross_entropy.class_weights(second.view());
  EXPECT_NEAR(example.forward(cross_entropy), weighted_mean(0.25, 4.0), 1e-6);
}

/// Smoothing needs the sum of the weights, which class_weights takes anew.
TEST(ClassWeights, CalledAgainAfterTheirValuesChanged) {
  const Example example;
  const Kokkos::View<float*, MemorySpace> weights("weights", 3);
  CrossEntropy sum(ExecutionSpace(), 2, 3, {.reduction = Reduction::sum, .label_smoothing = 1.0});
  const auto gradient_of_first_class = [&](float weight) {
    Kokkos::deep_copy(weights, weight);
    sum.class_weights(weights);
    sum.forward_backward(example.logits, example.targets.view(), example.loss, example.gradient);
    return values_of(example.gradient)[0];
  };
  const double once = 0.090030573 - 1.0 / 3.0;
  EXPECT_NEAR(gradient_of_first_class(1.0f), once, 1e-6);
  EXPECT_NEAR(gradient_of_first_class(5.0f), 5.0 * once, 1e-5);
}

TEST(ClassWeights, ExtentMustBeTheNumberOfClasses) {
  const Example example;
  CrossEntropy cross_entropy(ExecutionSpace(), 2, 3);
  for (const std::size_t size : {0u, 2u, 4u}) {
    try {
      cross_entropy.class_weights(Kokkos::View<const float*, MemorySpace>(
          Kokkos::View<float*, MemorySpace>("weights", size)));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("class_weights"), std::string::npos) << text;
      EXPECT_NE(text.find(std::to_string(size)), std::string::npos) << text;
      EXPECT_NE(text.find("3"), std::string::npos) << text;
    }
  }
  EXPECT_NEAR(example.forward(cross_entropy), weighted_mean(1.0, 1.0), 1e-6);
}

TEST(Object, MovesWithItsState) {
  const Example example;
  const List<float> weights("weights", std::vector<double>{2.0, 0.5, 1.0});
  CrossEntropy first(ExecutionSpace(), 2, 3, {.reduction = Reduction::sum});
  first.class_weights(weights.view());
  const double loss   = example.forward(first);
  CrossEntropy second = std::move(first);
  second.backward(example.logits, example.targets.view(), 1.0f, example.gradient);
  EXPECT_NEAR(values_of(example.gradient)[0], 2.0 * (0.090030573 - 1.0), 1e-6);
  EXPECT_EQ(example.forward(second), loss);
  CrossEntropy third(ExecutionSpace(), 1, 1);
  third = std::move(second);
  third.backward(example.logits, example.targets.view(), 1.0f, example.gradient);
  EXPECT_EQ(example.forward(third), loss);
}

TEST(Object, FewerRowsThanMaxRowsCallAfterCall) {
  CrossEntropy cross_entropy(ExecutionSpace(), 100, 3, {.reduction = Reduction::sum});
  for (const std::size_t rows : {100u, 1u, 0u, 37u}) {
    const Logits logits("logits", rows, 3);
    const Kokkos::View<std::int32_t*, MemorySpace> targets("targets", rows);
    const Value loss("loss");
    cross_entropy.forward(logits, targets, loss);
    EXPECT_NEAR(values_of(loss)[0], static_cast<double>(rows) * std::log(3.0), 1e-4);
    EXPECT_EQ(cross_entropy.row_max().extent(0), rows);
    EXPECT_EQ(cross_entropy.row_log_sum().extent(0), rows);
  }
}

TEST(Object, NoStatisticsBeforeTheFirstForward) {
  const CrossEntropy cross_entropy(ExecutionSpace(), 5, 3);
  EXPECT_EQ(cross_entropy.row_max().extent(0), 0u);
  EXPECT_EQ(cross_entropy.row_log_sum().extent(0), 0u);
}

// Memory

std::uint64_t allocated_bytes = 0;
std::int64_t allocations      = 0;

void count_allocation(Kokkos::Tools::SpaceHandle, const char*, const void*, std::uint64_t bytes) {
  if (bytes == 0) return;  // Kokkos 4's word for a team policy without level 1 scratch
  allocated_bytes += bytes;
  ++allocations;
}

/// Counts what Kokkos allocates during its lifetime.
class AllocationCounter {
 public:
  AllocationCounter() : m_previous(Kokkos::Tools::Experimental::get_callbacks()) {
    allocated_bytes = 0;
    allocations     = 0;
    Kokkos::Tools::Experimental::set_allocate_data_callback(count_allocation);
  }
  ~AllocationCounter() { Kokkos::Tools::Experimental::set_callbacks(m_previous); }
  AllocationCounter(const AllocationCounter&)            = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

 private:
  Kokkos::Tools::Experimental::EventSet m_previous;
};

TEST(Memory, TheCounterCounts) {
  const AllocationCounter counter;
  const Kokkos::View<float*, MemorySpace> view("view", 1000);
  EXPECT_EQ(allocations, 1);
  EXPECT_GE(allocated_bytes, 4000u);
}

TEST(Memory, KeptForBackward) {
  const CrossEntropy cross_entropy(ExecutionSpace(), 2048, 128000);
  EXPECT_LE(cross_entropy.saved_bytes(), 17000u);
  EXPECT_GE(cross_entropy.saved_bytes(), 2 * 2048 * sizeof(float));
}

TEST(Memory, KeptIsTwoScalarsARowAndAConstant) {
  const auto kept = [](std::int64_t rows, std::int64_t classes) {
    return CrossEntropy(ExecutionSpace(), rows, classes).saved_bytes();
  };
  const std::size_t constant = kept(0, 10);
  EXPECT_LE(constant, 256u);
  for (const std::int64_t rows : {1, 7, 100, 65536}) {
    for (const std::int64_t classes : {1, 10, 128000, 1000003}) {
      EXPECT_EQ(kept(rows, classes), constant + 2 * sizeof(float) * static_cast<std::size_t>(rows));
    }
  }
  const KokkosXent::CrossEntropy<ExecutionSpace, double> in_double(ExecutionSpace(), 1000, 5);
  EXPECT_EQ(in_double.saved_bytes(), constant + 2 * sizeof(double) * 1000);
}

TEST(Memory, WorkspaceIsConstant) {
  const auto workspace = [](std::int64_t rows, std::int64_t classes) {
    return CrossEntropy(ExecutionSpace(), rows, classes).workspace_bytes();
  };
  EXPECT_EQ(workspace(1, 1), workspace(100000, 1));
  EXPECT_EQ(workspace(1, 1), workspace(1, 1000003));
}

/// saved_bytes and workspace_bytes are all that is allocated; Kokkos adds a header to each View.
TEST(Memory, ConstructorAllocatesWhatIsReported) {
  const ExecutionSpace exec;
  for (const std::int64_t rows : {0, 3, 4096}) {
    for (const std::int64_t classes : {1, 128000}) {
      const AllocationCounter counter;
      const CrossEntropy cross_entropy(exec, rows, classes);
      const std::size_t reported = cross_entropy.saved_bytes() + cross_entropy.workspace_bytes();
      EXPECT_GE(allocated_bytes, reported);
      EXPECT_LE(allocated_bytes, reported + 512 * static_cast<std::size_t>(allocations));
      EXPECT_GT(allocations, 0);
      EXPECT_LE(allocations, 8);
    }
  }
}

template <class Targets>
void call_everything(CrossEntropy& cross_entropy, const Logits& logits, const Targets& targets,
                     const Logits& gradient) {
  const Value loss(Kokkos::ViewAllocateWithoutInitializing("loss"));
  const std::int64_t before = allocations;
  cross_entropy.forward(logits, targets, loss);
  cross_entropy.backward(logits, targets, 1.0f, gradient);
  cross_entropy.forward_backward(logits, targets, loss, gradient);
  cross_entropy.forward_backward(logits, targets, loss, logits);
  EXPECT_EQ(allocations, before);
}

/// D4, D2: nothing of the size of the logits, nothing of the size of a row, in no mapping.
TEST(Memory, CallsAllocateNothing) {
  for (const auto& [rows, classes] :
       {std::pair(1000, 8), std::pair(50, 3000), std::pair(1, 262144)}) {
    const Logits logits("logits", rows, classes), gradient("gradient", rows, classes);
    const Logits probabilities("probabilities", rows, classes);
    const Kokkos::View<std::int32_t*, MemorySpace> targets("targets", rows);
    CrossEntropy cross_entropy(ExecutionSpace(), rows, classes, {.label_smoothing = 0.1});
    // Kokkos may grow its scratch memory in the first calls.
    call_everything(cross_entropy, logits, probabilities, gradient);
    call_everything(cross_entropy, logits, targets, gradient);
    const AllocationCounter counter;
    call_everything(cross_entropy, logits, probabilities, gradient);
    call_everything(cross_entropy, logits, targets, gradient);
    EXPECT_EQ(allocations, 2);  // the two losses
  }
}

// The function cross_entropy

TEST(OneLiner, GivesMeanAndSumOnTheHost) {
  const Example example;
  const ExecutionSpace exec;
  const auto targets = example.targets.view();
  EXPECT_NEAR(KokkosXent::cross_entropy(exec, example.logits, targets), weighted_mean(1.0, 1.0),
              1e-6);
  EXPECT_NEAR(
      KokkosXent::cross_entropy(exec, example.logits, targets, {.reduction = Reduction::sum}),
      Example::row_0 + Example::row_1, 1e-6);
  EXPECT_NEAR(KokkosXent::cross_entropy(exec, example.logits, targets, {.ignore_index = 1}),
              Example::row_0, 1e-6);
}

TEST(OneLiner, TakesProbabilities) {
  const Example example;
  const Logits probabilities = make_logits(2, 3, {1.0, 0.0, 0.0, 0.0, 1.0, 0.0});
  EXPECT_NEAR(KokkosXent::cross_entropy(ExecutionSpace(), example.logits, probabilities),
              weighted_mean(1.0, 1.0), 1e-6);
}

TEST(OneLiner, ReturnsDoubleForDoubleLogitsAndFloatElse) {
  const Kokkos::View<double**, Kokkos::LayoutLeft, MemorySpace> in_double("logits", 1, 5);
  const Kokkos::View<KokkosXent::bfloat16**, Kokkos::LayoutRight, MemorySpace> in_bfloat16("logits",
                                                                                           1, 5);
  const Kokkos::View<std::int32_t*, MemorySpace> targets("targets", 1);
  const auto of_double   = KokkosXent::cross_entropy(ExecutionSpace(), in_double, targets);
  const auto of_bfloat16 = KokkosXent::cross_entropy(ExecutionSpace(), in_bfloat16, targets);
  static_assert(std::is_same_v<decltype(of_double), const double>);
  static_assert(std::is_same_v<decltype(of_bfloat16), const float>);
  EXPECT_NEAR(of_double, std::log(5.0), 1e-14);
  EXPECT_NEAR(of_bfloat16, std::log(5.0), 1e-6);
}

TEST(OneLiner, RefusesReductionNone) {
  const Example example;
  EXPECT_THROW(KokkosXent::cross_entropy(ExecutionSpace(), example.logits, example.targets.view(),
                                         {.reduction = Reduction::none}),
               std::invalid_argument);
}

TEST(OneLiner, NoRows) {
  const Logits logits("logits", 0, 3);
  const Kokkos::View<std::int32_t*, MemorySpace> targets("targets", 0);
  EXPECT_TRUE(std::isnan(KokkosXent::cross_entropy(ExecutionSpace(), logits, targets)));
  EXPECT_EQ(
      KokkosXent::cross_entropy(ExecutionSpace(), logits, targets, {.reduction = Reduction::sum}),
      0.0f);
}

}  // namespace
}  // namespace KokkosXentTest
