// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_NAIVE_HPP
#define KOKKOSXENT_PERF_NAIVE_HPP

#include "KokkosXent_PerfCase.hpp"
#include "KokkosXent_PerfPool.hpp"

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace KokkosXent::Perf {

/// The loops that anyone would write first: one thread, std::exp, a maximum, a sum, a gradient.
/// No shape may be slower than this.
template <class T>
struct NaiveSerial {
  using Scalar = typename ValueTypeTraits<T>::arithmetic_type;

  std::int64_t rows;
  std::int64_t classes;
  std::int64_t row_stride;
  std::int64_t class_stride;
  std::vector<Scalar> row_max;
  std::vector<Scalar> row_log_sum;

  NaiveSerial(std::int64_t rows_, std::int64_t classes_, std::int64_t row_stride_,
              std::int64_t class_stride_)
      : rows(rows_),
        classes(classes_),
        row_stride(row_stride_),
        class_stride(class_stride_),
        row_max(static_cast<std::size_t>(rows_)),
        row_log_sum(static_cast<std::size_t>(rows_)) {}

  void forward_row(const T* x, std::size_t row) {
    Scalar max = ValueTypeTraits<T>::load(x[0]);
    for (std::int64_t j = 1; j < classes; ++j)
      max = std::fmax(max, ValueTypeTraits<T>::load(x[j * class_stride]));
    Scalar sum = 0;
    for (std::int64_t j = 0; j < classes; ++j)
      sum += std::exp(ValueTypeTraits<T>::load(x[j * class_stride]) - max);
    row_max[row]     = max;
    row_log_sum[row] = std::log(sum);
  }

  void backward_row(const T* x, std::int64_t target, T* gradient, std::size_t row) const {
    const Scalar upstream = 1 / static_cast<Scalar>(rows);
    for (std::int64_t j = 0; j < classes; ++j) {
      const Scalar logit         = ValueTypeTraits<T>::load(x[j * class_stride]);
      const Scalar p             = std::exp((logit - row_max[row]) - row_log_sum[row]);
      gradient[j * class_stride] = ValueTypeTraits<T>::store((j == target ? p - 1 : p) * upstream);
    }
  }

  Scalar row_loss(const T* x, std::int64_t target, std::size_t row) const {
    const Scalar logit = ValueTypeTraits<T>::load(x[target * class_stride]);
    return (row_max[row] - logit) + row_log_sum[row];
  }
};

/// Runs the naive loops over a host space's pool.
template <class ExecutionSpace, class T>
class NaiveRunner : public Runner {
 public:
  using Pool = LogitsPool<ExecutionSpace>;

  NaiveRunner(const ExecutionSpace& exec, const Case& c, const std::shared_ptr<Pool>& pool,
              const Windows& windows)
      : Runner(windows.count, 1),
        m_exec(exec),
        m_case(c),
        m_pool(pool),
        m_period(windows.period),
        m_targets(random_targets(exec, c.rows, c.classes)),
        m_naive(c.rows, c.classes, c.row_stride(), c.class_stride()) {
    m_pool->template fill<T>(windows, c);
    exec.fence();
    if (c.entry_point == EntryPoint::backward)
      for (std::int64_t row = 0; row < c.rows; ++row)
        m_naive.forward_row(logits(0, row), static_cast<std::size_t>(row));
  }

  void fence() const override { m_exec.fence(); }
  std::size_t saved_bytes() const override {
    return 2 * static_cast<std::size_t>(m_case.rows) * sizeof(typename NaiveSerial<T>::Scalar);
  }

 private:
  const T* logits(std::int64_t window, std::int64_t row) const {
    return m_pool->template source<T>(window * m_period + row * m_naive.row_stride);
  }
  T* work(std::int64_t window, std::int64_t row) const {
    return m_pool->template work<T>(window * m_period + row * m_naive.row_stride);
  }

  void restore() override {
    if (m_case.in_place) m_pool->restore();
  }

  void run_window(std::int64_t window) override {
    double loss = 0;
    for (std::int64_t row = 0; row < m_case.rows; ++row) {
      const auto index = static_cast<std::size_t>(row);
      const T* const x = m_case.in_place ? work(window, row) : logits(window, row);
      if (m_case.entry_point != EntryPoint::backward) {
        m_naive.forward_row(x, index);
        loss += static_cast<double>(m_naive.row_loss(x, m_targets(row), index));
      }
      if (m_case.entry_point != EntryPoint::forward)
        m_naive.backward_row(x, m_targets(row), work(window, row), index);
    }
    m_mean_loss = loss / static_cast<double>(m_case.rows);
  }

  ExecutionSpace m_exec;
  Case m_case;
  std::shared_ptr<Pool> m_pool;
  std::int64_t m_period;
  TargetsView<ExecutionSpace> m_targets;
  NaiveSerial<T> m_naive;
  double m_mean_loss = 0;
};

}  // namespace KokkosXent::Perf

#endif
