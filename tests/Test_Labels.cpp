// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a profiler sees: every label names this library and the algorithm, and between construction
// and results nothing is allocated and nothing waits.

#include <gtest/gtest.h>
#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/Space.hpp"
#include "support/ToolEvents.hpp"

namespace {

using KokkosXent::CrossEntropy;
using KokkosXent::Reduction;
using KokkosXentTest::Event;
using KokkosXentTest::EventKind;
using KokkosXentTest::EventRecorder;
using KokkosXentTest::ExecutionSpace;
using KokkosXentTest::MemorySpace;

template <class Layout>
struct Arguments {
  Kokkos::View<float**, Layout, MemorySpace> logits, grad_logits, probabilities;
  Kokkos::View<std::int64_t*, MemorySpace> targets;
  Kokkos::View<float*, MemorySpace> weights, row_losses;
  Kokkos::View<float, MemorySpace> loss, grad_output;

  Arguments(std::int64_t rows, std::int64_t classes)
      : logits("logits", rows, classes),
        grad_logits("grad_logits", rows, classes),
        probabilities("probabilities", rows, classes),
        targets("targets", rows),
        weights("weights", classes),
        row_losses("row_losses", rows),
        loss("loss"),
        grad_output("grad_output") {}
};

/// Every entry point, on arguments of one shape and layout.
template <class Layout>
void call_everything(CrossEntropy<ExecutionSpace>& cross_entropy, Arguments<Layout>& views,
                     Reduction reduction) {
  const auto forward_and_backward = [&](auto targets, auto loss) {
    cross_entropy.forward(views.logits, targets, loss);
    cross_entropy.backward(views.logits, targets, 1.0f, views.grad_logits);
    cross_entropy.backward(views.logits, targets, views.grad_output, views.grad_logits);
    cross_entropy.forward_backward(views.logits, targets, loss, views.grad_logits);
  };
  if (reduction == Reduction::none) {
    forward_and_backward(views.targets, views.row_losses);
    forward_and_backward(views.probabilities, views.row_losses);
  } else {
    forward_and_backward(views.targets, views.loss);
    forward_and_backward(views.probabilities, views.loss);
  }
}

struct Shape {
  std::int64_t rows, classes;
};
constexpr Shape shapes[]         = {{1000, 8}, {16, 4096}, {1, 65536}, {0, 8}};
constexpr Reduction reductions[] = {Reduction::none, Reduction::mean};

template <class Action>
void for_every_call(const Action& action) {
  for (const Shape shape : shapes) {
    for (const Reduction reduction : reductions) {
      const auto on_layout = [&](auto layout) {
        Arguments<decltype(layout)> views(shape.rows, shape.classes);
        action(shape, reduction, views);
      };
      on_layout(Kokkos::LayoutRight());
      on_layout(Kokkos::LayoutLeft());
    }
  }
}

/// Kokkos allocates scratch memory of its own when a kernel first needs it, and zeroes Views with
/// kernels that name the View.
bool is_kokkos_own(const Event& event) {
  return (event.kind == EventKind::allocation && event.has_prefix("Kokkos::")) ||
         event.has_prefix("Kokkos::View::initialization [KokkosXent::");
}

void expect_prefix(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == EventKind::fence || is_kokkos_own(event)) continue;
    EXPECT_TRUE(event.has_prefix("KokkosXent::")) << event;
  }
}

TEST(Labels, StartWithTheNameOfTheLibrary) {
  for_every_call([](Shape shape, Reduction reduction, auto& views) {
    const ExecutionSpace exec;
    const EventRecorder recorder;
    CrossEntropy<ExecutionSpace> cross_entropy(exec, shape.rows, shape.classes,
                                               {.reduction = reduction, .label_smoothing = 0.1});
    cross_entropy.class_weights(views.weights);
    call_everything(cross_entropy, views, reduction);
    KokkosXent::check_targets(exec, views.targets, shape.classes);
    if (reduction != Reduction::none)
      (void)KokkosXent::cross_entropy(exec, views.logits, views.targets, {.reduction = reduction});

    EXPECT_FALSE(recorder.events(EventKind::allocation).empty());
    EXPECT_FALSE(recorder.events(EventKind::kernel).empty());
    expect_prefix(recorder.events());
  });
}

TEST(Labels, NothingIsAllocatedAndNothingFencesAfterConstruction) {
  for_every_call([](Shape shape, Reduction reduction, auto& views) {
    CrossEntropy<ExecutionSpace> cross_entropy(ExecutionSpace(), shape.rows, shape.classes,
                                               {.reduction = reduction, .label_smoothing = 0.1});
    // Kokkos grows its own scratch memory in the first round.
    cross_entropy.class_weights(views.weights);
    call_everything(cross_entropy, views, reduction);

    const EventRecorder recorder;
    cross_entropy.class_weights(views.weights);
    call_everything(cross_entropy, views, reduction);
    for (const Event& event : recorder.events())
      EXPECT_TRUE(event.kind == EventKind::kernel || event.kind == EventKind::region) << event;
  });
}

TEST(Labels, KernelsRunOnTheInstanceGiven) {
  const ExecutionSpace exec;
  for_every_call([&](Shape shape, Reduction reduction, auto& views) {
    const EventRecorder recorder;
    CrossEntropy<ExecutionSpace> cross_entropy(exec, shape.rows, shape.classes,
                                               {.reduction = reduction});
    call_everything(cross_entropy, views, reduction);
    for (const Event& event : recorder.events(EventKind::kernel))
      EXPECT_EQ(event.device_id, Kokkos::Tools::Experimental::device_id(exec)) << event;
  });
}

/// The labels of the kernels that an action launches, in order.
template <class Action>
std::vector<std::string> kernel_labels(const Action& action) {
  const EventRecorder recorder;
  action();
  std::vector<std::string> labels;
  for (const Event& event : recorder.events(EventKind::kernel)) labels.push_back(event.label);
  return labels;
}

bool contains(const std::vector<std::string>& labels, const std::string& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// Exactly one kernel named function[...], and it is function[mapping].
void expect_mapping(const std::vector<std::string>& labels, const std::string& function,
                    const std::string& mapping) {
  std::vector<std::string> of_function;
  for (const std::string& label : labels)
    if (label.starts_with("KokkosXent::" + function + "[")) of_function.push_back(label);
  EXPECT_EQ(of_function, std::vector{"KokkosXent::" + function + "[" + mapping + "]"});
}

template <class Layout>
void expect_mapping_of_shape(std::int64_t rows, std::int64_t classes, const std::string& mapping) {
  SCOPED_TRACE(mapping);
  Arguments<Layout> views(rows, classes);
  CrossEntropy<ExecutionSpace> cross_entropy(ExecutionSpace(), rows, classes);
  const auto forward =
      kernel_labels([&] { cross_entropy.forward(views.logits, views.targets, views.loss); });
  expect_mapping(forward, "forward", mapping);
  EXPECT_EQ(forward.size(), 1u);  // the reduced loss included

  expect_mapping(kernel_labels([&] {
                   cross_entropy.backward(views.logits, views.targets, 1.0f, views.grad_logits);
                 }),
                 "backward", mapping);
}

TEST(Labels, NameTheMappingOfTheShape) {
  const std::string packed = KokkosXentTest::runs_on_host ? "" : "packed_";
  expect_mapping_of_shape<Kokkos::LayoutRight>(100000, 8, packed + "rows_per_team");
  expect_mapping_of_shape<Kokkos::LayoutRight>(1000, 8192, packed + "row_per_team");
  expect_mapping_of_shape<Kokkos::LayoutLeft>(1000, 50, "columns");
  expect_mapping_of_shape<Kokkos::LayoutLeft>(2, 4096, "row_per_team");  // too few for a tile
  // One thread gains nothing from splitting a row.
  const bool several_teams = ExecutionSpace().concurrency() > 1;
  expect_mapping_of_shape<Kokkos::LayoutRight>(1, 262144,
                                               several_teams ? "teams_per_row" : "row_per_team");
}

TEST(Labels, NameTheFusedKernel) {
  Arguments<Kokkos::LayoutRight> views(1000, 8192);
  CrossEntropy<ExecutionSpace> cross_entropy(ExecutionSpace(), 1000, 8192);
  expect_mapping(
      kernel_labels([&] {
        cross_entropy.forward_backward(views.logits, views.targets, views.loss, views.grad_logits);
      }),
      "forward_backward", KokkosXentTest::runs_on_host ? "row_per_team" : "packed_row_per_team");
}

TEST(Labels, NameTheSmallKernels) {
  const ExecutionSpace exec;
  Arguments<Kokkos::LayoutRight> views(64, 100);
  CrossEntropy<ExecutionSpace> cross_entropy(exec, 64, 100);
  EXPECT_EQ(kernel_labels([&] { cross_entropy.class_weights(views.weights); }),
            std::vector<std::string>{"KokkosXent::class_weight_sum"});
  EXPECT_EQ(kernel_labels([&] { KokkosXent::check_targets(exec, views.targets, 100); }),
            std::vector<std::string>{"KokkosXent::check_targets"});
  EXPECT_TRUE(contains(kernel_labels([&] {
                         cross_entropy.forward_backward(views.logits, views.targets, views.loss,
                                                        views.grad_logits);
                       }),
                       "KokkosXent::denominator"));
}

}  // namespace
