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

namespace KokkosXent::Perf {

/// Runs the library.
template <class ExecutionSpace, class T, class Layout>
class CrossEntropyRunner : public Runner {
 public:
  using Scalar  = typename ValueTypeTraits<T>::arithmetic_type;
  using Memory  = typename ExecutionSpace::memory_space;
  using Pool    = LogitsPool<ExecutionSpace>;
  using Logits  = Kokkos::View<const T**, Layout, Memory, Kokkos::MemoryUnmanaged>;
  using Mutable = Kokkos::View<T**, Layout, Memory, Kokkos::MemoryUnmanaged>;

  CrossEntropyRunner(const ExecutionSpace& exec, const Case& c, const std::shared_ptr<Pool>& pool,
                     const Windows& windows, std::int64_t batch)
      : Runner(windows.count, batch),
        m_exec(exec),
        m_case(c),
        m_pool(pool),
        m_period(windows.period),
        m_targets(random_targets(exec, c.rows, c.classes)),
        m_loss(Kokkos::view_alloc(exec, "KokkosXent::perf::loss")),
        m_cross_entropy(exec, c.rows, c.classes) {
    m_pool->template fill<T>(windows);
    if (c.entry_point == EntryPoint::backward)  // holds for every window: their contents are equal
      m_cross_entropy.forward(logits(0), m_targets, m_loss);
  }

  void fence() const override { m_exec.fence(); }
  std::size_t saved_bytes() const override { return m_cross_entropy.saved_bytes(); }

 private:
  Logits logits(std::int64_t window) const {
    return Logits(m_pool->template source<T>(window * m_period), m_case.rows, m_case.classes);
  }
  Mutable work(std::int64_t window) const {
    return Mutable(m_pool->template work<T>(window * m_period), m_case.rows, m_case.classes);
  }

  void restore() override {
    if (m_case.in_place) m_pool->restore();
  }

  void run_window(std::int64_t window) override {
    const Logits input = m_case.in_place ? Logits(work(window)) : logits(window);
    switch (m_case.entry_point) {
      case EntryPoint::forward:
        m_cross_entropy.forward(input, m_targets, m_loss);
        break;
      case EntryPoint::backward:
        m_cross_entropy.backward(input, m_targets, Scalar(1), work(window));
        break;
      case EntryPoint::forward_backward:
        m_cross_entropy.forward_backward(input, m_targets, m_loss, work(window));
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
