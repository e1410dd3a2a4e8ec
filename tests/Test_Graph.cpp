// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/Large.hpp"
#include "support/Space.hpp"
#include "support/Storage.hpp"
#include "support/Tolerance.hpp"

// Calls recorded as a CUDA graph and replayed: nothing but kernels is in them, and what they read
// is what the Views hold when the graph runs.
namespace KokkosXentTest {
namespace {

#ifdef KOKKOS_ENABLE_CUDA

using KokkosXent::Reduction;

void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}

/// The default stream cannot be captured.
class Stream {
 public:
  Stream() { check(cudaStreamCreate(&m_stream), "cudaStreamCreate"); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(m_stream), cudaSuccess); }
  Stream(const Stream&)            = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return m_stream; }

 private:
  cudaStream_t m_stream = nullptr;
};

/// What call() launches on a stream, recorded instead of run.
class Graph {
 public:
  template <class Call>
  Graph(cudaStream_t stream, const Call& call) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    call();
    check(cudaStreamEndCapture(stream, &m_graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiateWithFlags(&m_executable, m_graph, 0),
          "cudaGraphInstantiateWithFlags");
  }
  ~Graph() {
    if (m_executable) EXPECT_EQ(cudaGraphExecDestroy(m_executable), cudaSuccess);
    if (m_graph) EXPECT_EQ(cudaGraphDestroy(m_graph), cudaSuccess);
  }
  Graph(const Graph&)            = delete;
  Graph& operator=(const Graph&) = delete;

  std::size_t nodes() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(m_graph, nullptr, &count), "cudaGraphGetNodes");
    return count;
  }
  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(m_executable, stream), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

 private:
  cudaGraph_t m_graph          = nullptr;
  cudaGraphExec_t m_executable = nullptr;
};

/// One shape for each way of mapping contiguous rows: lanes of a warp, a warp, a team, and teams
/// that share rows.
struct Size {
  std::int64_t rows, classes;
};

constexpr Size sizes[] = {{1000, 9}, {3000, 1000}, {300, 20011}, {300, 40000}, {3, 50257}};

/// The same of adjacent rows: a team a tile, and teams that share one.
constexpr Size adjacent_sizes[] = {{300, 1000}, {40, 20011}};

/// Operands whose values change while the Views stay.
template <class T, class Layout>
class Operands {
 public:
  Operands(const Size& size, Reduction reduction)
      : m_size(size),
        m_logits("logits", rows(), classes()),
        m_gradient("gradient", rows(), classes()),
        m_targets("targets", rows()),
        m_losses("losses", reduction == Reduction::none ? rows() : 1),
        m_reduction(reduction) {}

  void fill(int turn) const {
    fill_uniform(m_logits, 2.0 + 3.0 * turn);
    Kokkos::deep_copy(m_targets, spread_targets<std::int64_t>(m_size.rows, m_size.classes,
                                                              m_size.classes - 1 - turn));
    Kokkos::fence("KokkosXentTest::fill");
  }
  void poison_results() const {
    Kokkos::deep_copy(m_gradient, narrow<T>(poison));
    Kokkos::deep_copy(m_losses, static_cast<float>(poison));
    Kokkos::fence("KokkosXentTest::poison_results");
  }
  /// The losses, then the gradient.
  std::vector<double> results() const {
    std::vector<double> all             = values_of(m_losses);
    const std::vector<double> gradients = values_of(m_gradient);
    all.insert(all.end(), gradients.begin(), gradients.end());
    return all;
  }

  template <class CrossEntropy>
  void forward_then_backward(CrossEntropy& cross_entropy) const {
    with_loss([&](const auto& loss) { cross_entropy.forward(m_logits, m_targets, loss); });
    cross_entropy.backward(m_logits, m_targets, 0.5f, m_gradient);
  }
  template <class CrossEntropy>
  void forward_backward(CrossEntropy& cross_entropy) const {
    with_loss([&](const auto& loss) {
      cross_entropy.forward_backward(m_logits, m_targets, loss, m_gradient);
    });
  }

 private:
  std::size_t rows() const { return static_cast<std::size_t>(m_size.rows); }
  std::size_t classes() const { return static_cast<std::size_t>(m_size.classes); }

  template <class Call>
  void with_loss(const Call& call) const {
    if (m_reduction == Reduction::none)
      call(m_losses);
    else
      call(Kokkos::View<float, MemorySpace>(m_losses.data()));
  }

  Size m_size;
  Kokkos::View<T**, Layout, MemorySpace> m_logits, m_gradient;
  DeviceList<std::int64_t> m_targets;
  DeviceList<float> m_losses;
  Reduction m_reduction;
};

template <class Operands, class Call>
void expect_replays_as_called(const Stream& stream, const Operands& operands, const Call& call) {
  // Before it is captured, a kernel must have been loaded.
  operands.fill(0);
  call();
  Kokkos::fence("KokkosXentTest::loaded");
  const Graph graph(stream.get(), call);
  EXPECT_GT(graph.nodes(), 0u);
  for (int turn = 1; turn <= 3; ++turn) {
    SCOPED_TRACE(::testing::Message() << "turn " << turn);
    operands.fill(turn);
    operands.poison_results();
    call();
    const auto called = operands.results();
    operands.poison_results();
    graph.launch(stream.get());
    EXPECT_TRUE(all_same_bits(operands.results(), called));
  }
}

template <class T, class Space, class Layout>
void expect_all_replay(const Size& size, const KokkosXent::Options& options) {
  SCOPED_TRACE(::testing::Message() << size.rows << " x " << size.classes << ", label_smoothing "
                                    << options.label_smoothing);
  const Stream stream;
  const Space exec(stream.get());
  KokkosXent::CrossEntropy<Space> cross_entropy(exec, size.rows, size.classes, options);
  const Operands<T, Layout> operands(size, options.reduction);
  Kokkos::fence("KokkosXentTest::constructed");
  expect_replays_as_called(stream, operands,
                           [&]() { operands.forward_then_backward(cross_entropy); });
  expect_replays_as_called(stream, operands, [&]() { operands.forward_backward(cross_entropy); });
}

template <class T, class Space, class Layout>
void expect_all_replay(const Size& size) {
  expect_all_replay<T, Space, Layout>(size, {.reduction = Reduction::mean});
  expect_all_replay<T, Space, Layout>(size, {.reduction = Reduction::none, .label_smoothing = 0.1});
}

template <class T, class Space>
void expect_all_sizes_replay() {
  if constexpr (std::is_same_v<Space, Kokkos::Cuda>) {
    for (const Size& size : sizes) expect_all_replay<T, Space, Kokkos::LayoutRight>(size);
    for (const Size& size : adjacent_sizes) expect_all_replay<T, Space, Kokkos::LayoutLeft>(size);
  } else {
    GTEST_SKIP() << Space::name() << " has no graphs to capture";
  }
}

#else

template <class T, class Space>
void expect_all_sizes_replay() {
  GTEST_SKIP() << Space::name() << " has no graphs to capture";
}

#endif

TEST(Graph, ReplaysOfFloatAreDirectCalls) { expect_all_sizes_replay<float, ExecutionSpace>(); }

TEST(Graph, ReplaysOfBfloat16AreDirectCalls) {
  expect_all_sizes_replay<KokkosXent::bfloat16, ExecutionSpace>();
}

}  // namespace
}  // namespace KokkosXentTest
