// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_CROSSENTROPY_HPP
#define KOKKOSXENT_PERF_CROSSENTROPY_HPP

#include "KokkosXent_PerfCase.hpp"
#include "KokkosXent_PerfPool.hpp"

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace KokkosXent::Perf {

/// Kernels for probabilities are compiled for these logits alone.
template <class T>
inline constexpr bool takes_probabilities = std::is_same_v<T, float>;

/// Runs the library. Layouts are strides, as they are in its kernels.
template <class ExecutionSpace, class T>
class CrossEntropyRunner : public Runner {
 public:
  using Scalar = typename ValueTypeTraits<T>::arithmetic_type;
  using Memory = typename ExecutionSpace::memory_space;
  using Pool   = LogitsPool<ExecutionSpace>;
  template <class U>
  using Matrix  = Kokkos::View<U**, Kokkos::LayoutStride, Memory, Kokkos::MemoryUnmanaged>;
  using Logits  = Matrix<const T>;
  using Mutable = Matrix<T>;

  CrossEntropyRunner(const ExecutionSpace& exec, const Case& c, const std::shared_ptr<Pool>& pool,
                     const Windows& windows, std::int64_t batch)
      : Runner(windows.count, batch),
        m_exec(exec),
        m_case(c),
        m_pool(pool),
        m_period(windows.period),
        m_targets(random_targets(exec, c.rows, c.classes, c.ignored_percent)),
        m_loss(Kokkos::view_alloc(exec, "KokkosXent::perf::loss")),
        m_cross_entropy(exec, c.rows, c.classes, options_of(c)) {
    m_pool->template fill<T>(windows, c);
    if constexpr (takes_probabilities<T>)
      if (c.targets == TargetKind::probabilities)
        m_pool->template fill_with_probabilities<T, Scalar>(windows, c);
    if (c.class_weights)
      m_cross_entropy.class_weights(random_class_weights<Scalar>(exec, c.classes));
    if (c.entry_point == EntryPoint::backward)  // holds for every window: their contents are equal
      with_targets(
          0, [&](const auto& targets) { m_cross_entropy.forward(logits(0), targets, m_loss); });
  }

  void fence() const override { m_exec.fence(); }
  std::size_t saved_bytes() const override { return m_cross_entropy.saved_bytes(); }

 private:
  static Options options_of(const Case& c) {
    Options options;
    options.label_smoothing = c.label_smoothing;
    return options;
  }

  template <class U>
  Matrix<U> matrix(U* data, std::int64_t row_stride, std::int64_t class_stride) const {
    const auto size = [](std::int64_t number) { return static_cast<std::size_t>(number); };
    return Matrix<U>(data, Kokkos::LayoutStride(size(m_case.rows), size(row_stride),
                                                size(m_case.classes), size(class_stride)));
  }
  Logits logits(std::int64_t window) const {
    return matrix<const T>(m_pool->template source<T>(window * m_period), m_case.row_stride(),
                           m_case.class_stride());
  }
  Mutable work(std::int64_t window) const {
    return matrix<T>(m_pool->template work<T>(window * m_period), m_case.row_stride(),
                     m_case.class_stride());
  }

  /// Calls f with the case's kind of targets.
  template <class F>
  void with_targets(std::int64_t window, const F& f) const {
    if constexpr (takes_probabilities<T>) {
      if (m_case.targets == TargetKind::probabilities) {
        f(matrix<const Scalar>(m_pool->template beside<T, Scalar>(window * m_period),
                               m_case.classes, 1));
        return;
      }
    }
    f(m_targets);
  }

  void restore() override {
    if (m_case.in_place) m_pool->restore();
  }

  void run_window(std::int64_t window) override {
    with_targets(window, [&](const auto& targets) { run(window, targets); });
  }

  template <class Targets>
  void run(std::int64_t window, const Targets& targets) {
    const Logits input = m_case.in_place ? Logits(work(window)) : logits(window);
    switch (m_case.entry_point) {
      case EntryPoint::forward:
        m_cross_entropy.forward(input, targets, m_loss);
        break;
      case EntryPoint::backward:
        m_cross_entropy.backward(input, targets, Scalar(1), work(window));
        break;
      case EntryPoint::forward_backward:
        m_cross_entropy.forward_backward(input, targets, m_loss, work(window));
        break;
    }
  }

  ExecutionSpace m_exec;
  Case m_case;
  std::shared_ptr<Pool> m_pool;
  std::int64_t m_period;
  TargetsView<ExecutionSpace> m_targets;
  Kokkos::View<Scalar, Memory> m_loss;
  CrossEntropy<ExecutionSpace, Scalar> m_cross_entropy;
};

}  // namespace KokkosXent::Perf

#endif
