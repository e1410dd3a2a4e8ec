// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_STORED_HPP
#define KOKKOSXENT_PERF_STORED_HPP

#include "KokkosXent_PerfCase.hpp"
#include "KokkosXent_PerfPool.hpp"
#include "KokkosXent_StoredLogSoftmax.hpp"

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace KokkosXent::Perf {

/// Error that a gradient may have relative to upstream, where both designs compute in Scalar and
/// round to T: of a stored logarithm around 12, and of the last rounding.
template <class T, class Scalar>
constexpr double allowed_gradient_error() {
  if constexpr (std::is_same_v<T, bfloat16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, float16>) return 0x1p-10;
  return std::is_same_v<Scalar, double> ? 1e-13 : 1e-5;
}

/// Elements of two gradients that are further apart than bound; NaN counts.
template <class ExecutionSpace, class T>
std::int64_t count_differences(const ExecutionSpace& exec, const T* one, const T* other,
                               std::int64_t size, double bound) {
  using Policy             = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  std::int64_t differences = 0;
  Kokkos::parallel_reduce(
      "KokkosXent::perf::count_differences", Policy(exec, 0, size),
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t & count) {
        const auto a     = static_cast<double>(ValueTypeTraits<T>::load(one[i]));
        const auto b     = static_cast<double>(ValueTypeTraits<T>::load(other[i]));
        const bool close = Kokkos::fabs(a - b) <= bound;
        count += close ? 0 : 1;
      },
      differences);
  return differences;
}

/// Runs the stored design.
template <class ExecutionSpace, class T>
class StoredRunner : public Runner {
 public:
  using Scalar = typename ValueTypeTraits<T>::arithmetic_type;
  using Memory = typename ExecutionSpace::memory_space;
  using Pool   = LogitsPool<ExecutionSpace>;

  StoredRunner(const ExecutionSpace& exec, const Case& c, const std::shared_ptr<Pool>& pool,
               const Windows& windows, std::int64_t batch)
      : Runner(windows.count, batch),
        m_exec(exec),
        m_case(c),
        m_pool(pool),
        m_period(windows.period),
        m_targets(random_targets(exec, c.rows, c.classes)),
        m_loss(Kokkos::view_alloc(exec, "KokkosXent::perf::loss")),
        m_design(exec, c.rows, c.classes) {
    m_pool->template fill<T>(windows, c);
    if (c.entry_point == EntryPoint::backward)
      for (std::int64_t w = 0; w < windows.count; ++w) forward(w);
  }

  void fence() const override { m_exec.fence(); }
  std::size_t saved_bytes() const override {
    return static_cast<std::size_t>(m_case.rows * m_case.classes) * sizeof(Scalar);
  }

  /// Compares a few rows.
  std::string disagreement() override {
    const std::int64_t rows = std::min<std::int64_t>(m_case.rows, 4);
    using Logits            = Kokkos::View<const T**, Kokkos::LayoutRight, Memory>;
    using Gradient          = Kokkos::View<T**, Kokkos::LayoutRight, Memory>;
    const Logits logits(m_pool->template source<T>(0), rows, m_case.classes);
    const Gradient expected("KokkosXent::perf::expected", rows, m_case.classes);
    const auto targets = Kokkos::subview(m_targets, std::pair<std::int64_t, std::int64_t>(0, rows));

    CrossEntropy<ExecutionSpace, Scalar> cross_entropy(m_exec, rows, m_case.classes);
    cross_entropy.forward(logits, targets, m_loss);
    cross_entropy.backward(logits, targets, Scalar(1), expected);
    const double expected_loss = loss();
    m_design.forward(logits.data(), m_targets.data(), stored(0), m_loss, rows);
    m_design.backward(stored(0), m_targets.data(), Scalar(1), gradient(0), rows);
    return compare(expected_loss, expected.data(), rows);
  }

 private:
  std::string compare(double expected_loss, const T* expected, std::int64_t rows) const {
    const double bound     = allowed_gradient_error<T, Scalar>();
    const double loss_gap  = std::abs(loss() - expected_loss);
    const bool loss_agrees = loss_gap <= expected_loss * (sizeof(Scalar) == 8 ? 1e-13 : 1e-5);
    const auto differences = count_differences(m_exec, expected, gradient(0), rows * m_case.classes,
                                               bound / static_cast<double>(rows));
    if (loss_agrees && differences == 0) return {};
    std::ostringstream message;
    message << "stored_log_softmax disagrees with CrossEntropy: loss " << loss() << " and "
            << expected_loss << ", " << differences << " gradient elements differ";
    return message.str();
  }

  double loss() const {
    Scalar value = 0;
    Kokkos::deep_copy(m_exec, value, m_loss);
    m_exec.fence();
    return static_cast<double>(value);
  }

  Scalar* stored(std::int64_t window) const {
    return m_pool->template beside<T, Scalar>(window * m_period);
  }
  T* gradient(std::int64_t window) const { return m_pool->template work<T>(window * m_period); }

  void forward(std::int64_t window) {
    m_design.forward(m_pool->template source<T>(window * m_period), m_targets.data(),
                     stored(window), m_loss, m_case.rows);
  }
  void backward(std::int64_t window) {
    m_design.backward(stored(window), m_targets.data(), Scalar(1), gradient(window), m_case.rows);
  }

  void run_window(std::int64_t window) override {
    if (m_case.entry_point != EntryPoint::backward) forward(window);
    if (m_case.entry_point != EntryPoint::forward) backward(window);
  }

  ExecutionSpace m_exec;
  Case m_case;
  std::shared_ptr<Pool> m_pool;
  std::int64_t m_period;
  TargetsView<ExecutionSpace> m_targets;
  Kokkos::View<Scalar, Memory> m_loss;
  StoredLogSoftmax<ExecutionSpace, T> m_design;
};

}  // namespace KokkosXent::Perf

#endif
