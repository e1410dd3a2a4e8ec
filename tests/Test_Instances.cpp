// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Everything runs on the execution space instance that the caller gave, and two instances do not
// disturb one another.

#include <gtest/gtest.h>
#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "support/Space.hpp"
#include "support/ToolEvents.hpp"

namespace {

using KokkosXent::CrossEntropy;
using KokkosXentTest::Event;
using KokkosXentTest::EventKind;
using KokkosXentTest::EventRecorder;
using KokkosXentTest::ExecutionSpace;
using KokkosXentTest::MemorySpace;

/// Two instances that share the space's resources, or the whole space twice where they cannot be
/// split: OpenMP gives each instance at least one thread of its own.
std::vector<ExecutionSpace> two_instances() {
  const ExecutionSpace whole;
  const bool is_serial = std::string_view(ExecutionSpace::name()) == "Serial";
  if (!is_serial && whole.concurrency() < 2) return {whole, whole};
#ifdef _OPENMP
  omp_set_max_active_levels(2);  // Kokkos 5.2 splits OpenMP only where parallel regions may nest
#endif
  return Kokkos::Experimental::partition_space(whole, std::vector{1, 1});
}

/// Arguments of a call, filled from a seed, and its results.
struct Batch {
  std::int64_t rows, classes;
  Kokkos::View<float**, Kokkos::LayoutRight, MemorySpace> logits, grad_logits;
  Kokkos::View<std::int64_t*, MemorySpace> targets;
  Kokkos::View<float*, MemorySpace> weights;
  Kokkos::View<float, MemorySpace> loss;

  Batch(std::int64_t rows_, std::int64_t classes_, std::uint32_t seed)
      : rows(rows_),
        classes(classes_),
        logits("logits", rows, classes),
        grad_logits("grad_logits", rows, classes),
        targets("targets", rows),
        weights("weights", classes),
        loss("loss") {
    const auto next = [&seed] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
    fill(logits, [&] { return static_cast<float>(next() % 4096u) / 512.0f; });
    fill(targets, [&] { return static_cast<std::int64_t>(next()) % classes; });
    fill(weights, [&] { return 0.5f + static_cast<float>(next() % 16u); });
    Kokkos::fence();
  }

  void compute(CrossEntropy<ExecutionSpace>& cross_entropy) const {
    cross_entropy.class_weights(weights);
    cross_entropy.forward(logits, targets, loss);
    cross_entropy.backward(logits, targets, 1.0f, grad_logits);
    cross_entropy.forward_backward(logits, targets, loss, grad_logits);
  }

  /// The loss and the gradient, bit for bit.
  std::vector<std::uint32_t> results(const ExecutionSpace& exec) const {
    const auto host_loss = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), loss);
    const auto host_grad = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), grad_logits);
    exec.fence();
    std::vector<std::uint32_t> bits(host_grad.size() + 1);
    std::memcpy(bits.data(), host_loss.data(), sizeof(float));
    std::memcpy(bits.data() + 1, host_grad.data(), host_grad.size() * sizeof(float));
    return bits;
  }

 private:
  template <class View, class Next>
  static void fill(const View& view, const Next& next) {
    const auto host = Kokkos::create_mirror_view(view);
    for (std::size_t i = 0; i < host.span(); ++i) host.data()[i] = next();
    Kokkos::deep_copy(view, host);
  }
};

void expect_all_on(const ExecutionSpace& exec, const std::vector<Event>& events) {
  EXPECT_FALSE(events.empty());
  for (const Event& event : events)
    EXPECT_EQ(event.device_id, Kokkos::Tools::Experimental::device_id(exec)) << event;
}

// Host back ends report one device id for all instances; there this test sees fences and kernels of
// the whole space or of another space, and KernelsUseTheThreadsOfTheInstance sees the rest.
TEST(Instances, KernelsAndFencesAreOnTheInstanceGiven) {
  const ExecutionSpace exec = two_instances()[1];
  for (const std::int64_t classes : {8, 4096, 262144}) {
    const Batch batch(classes > 100000 ? 1 : 64, classes, 1u);
    const EventRecorder recorder;
    CrossEntropy<ExecutionSpace> cross_entropy(exec, batch.rows, batch.classes);
    batch.compute(cross_entropy);
    KokkosXent::check_targets(exec, batch.targets, batch.classes);
    expect_all_on(exec, recorder.events(EventKind::kernel));
    expect_all_on(exec, recorder.events(EventKind::fence));
  }
}

// Kokkos fences the whole space when memory is freed, so only the kernels count here.
TEST(Instances, OneLinerRunsOnTheInstanceGiven) {
  const ExecutionSpace exec = two_instances()[1];
  const Batch batch(64, 4096, 1u);
  const EventRecorder recorder;
  (void)KokkosXent::cross_entropy(exec, batch.logits, batch.targets);
  expect_all_on(exec, recorder.events(EventKind::kernel));
}

/// Both batches computed `repeats` times at once, each on its instance, give what each gave alone.
void expect_at_once_as_alone(const std::vector<ExecutionSpace>& instances, const Batch& first,
                             const Batch& second, int repeats) {
  const Batch* batches[]                = {&first, &second};
  CrossEntropy<ExecutionSpace> losses[] = {
      CrossEntropy<ExecutionSpace>(instances[0], first.rows, first.classes),
      CrossEntropy<ExecutionSpace>(instances[1], second.rows, second.classes)};
  std::vector<std::uint32_t> alone[2];
  for (int i = 0; i < 2; ++i) {
    batches[i]->compute(losses[i]);
    alone[i] = batches[i]->results(instances[static_cast<std::size_t>(i)]);
  }

  const auto repeat = [&](int i) {
    for (int repetition = 0; repetition < repeats; ++repetition) batches[i]->compute(losses[i]);
  };
  std::thread other(repeat, 1);
  repeat(0);
  other.join();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(batches[i]->results(instances[static_cast<std::size_t>(i)]), alone[i]);
}

TEST(Instances, RunAtOnceAsOneAfterTheOther) {
  const std::vector<ExecutionSpace> instances = two_instances();
  if (instances[0] == instances[1]) GTEST_SKIP() << "one thread cannot be split into instances";
  expect_at_once_as_alone(instances, Batch(37, 5000, 1u), Batch(300, 61, 2u), 50);
}

// Rows that teams share, which count the teams that are done, beside rows that a team or a warp has
// to itself, and beside other shared ones.
TEST(Instances, SharedRowsRunAtOnceAsOneAfterTheOther) {
  const std::vector<ExecutionSpace> instances = two_instances();
  if (instances[0] == instances[1]) GTEST_SKIP() << "one thread cannot be split into instances";
  const std::int64_t many = KokkosXentTest::runs_on_host ? 8 : 300;
  const Batch shared(3, 50257, 1u);
  expect_at_once_as_alone(instances, shared, Batch(2, 100003, 2u), 20);
  expect_at_once_as_alone(instances, shared, Batch(10 * many, 1000, 3u), 20);
  expect_at_once_as_alone(instances, Batch(many, 20011, 4u), shared, 20);
}

}  // namespace

// A value type whose load notes which host threads a kernel runs on.

namespace {

struct Probe {
  float value;
};

std::mutex threads_mutex;
std::set<std::thread::id> threads_seen;

void note_thread() {
  const std::lock_guard lock(threads_mutex);
  threads_seen.insert(std::this_thread::get_id());
}

}  // namespace

template <>
struct KokkosXent::ValueTypeTraits<Probe> {
  using arithmetic_type = float;
  static KOKKOS_FUNCTION float load(Probe stored) {
    KOKKOS_IF_ON_HOST((note_thread();))
    return stored.value;
  }
  static KOKKOS_FUNCTION Probe store(float value) { return {value}; }
};

namespace {

std::size_t threads_that_load(const ExecutionSpace& exec) {
  threads_seen.clear();
  const std::int64_t rows = 64, classes = 300;
  Kokkos::View<Probe**, Kokkos::LayoutRight, MemorySpace> logits("logits", rows, classes);
  Kokkos::View<int*, MemorySpace> targets("targets", rows);
  Kokkos::View<float, MemorySpace> loss("loss");
  CrossEntropy<ExecutionSpace> cross_entropy(exec, rows, classes);
  cross_entropy.forward(logits, targets, loss);
  cross_entropy.backward(logits, targets, 1.0f, logits);
  exec.fence();
  return threads_seen.size();
}

/// Kokkos 4 may have a static concurrency(), which without an argument is that of the whole space.
template <class Space>
concept StaticConcurrency = requires(const Space& exec) {
  Space::concurrency(exec);
};

template <class Space>
std::size_t threads_of(const Space& exec) {
  if constexpr (StaticConcurrency<Space>)
    return static_cast<std::size_t>(Space::concurrency(exec));
  else
    return static_cast<std::size_t>(exec.concurrency());
}

TEST(Instances, KernelsUseTheThreadsOfTheInstance) {
  if (!KokkosXentTest::runs_on_host) GTEST_SKIP() << "device threads have no std::thread::id";
  const ExecutionSpace whole;
  EXPECT_EQ(threads_that_load(whole), threads_of(whole));
  for (const ExecutionSpace& part : two_instances())
    EXPECT_EQ(threads_that_load(part), threads_of(part));
}

}  // namespace
