// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_POOL_HPP
#define KOKKOSXENT_PERF_POOL_HPP

#include "KokkosXent_PerfMachine.hpp"
#include "KokkosXent_PerfSettings.hpp"

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <typeinfo>

namespace KokkosXent::Perf {

/// splitmix64: random bits from a position.
KOKKOS_INLINE_FUNCTION std::uint64_t random_bits(std::uint64_t position) {
  std::uint64_t z = (position + 1) * 0x9e3779b97f4a7c15u;
  z               = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z               = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Nearly normal, of mean 0 and standard deviation 2: a sum of four uniform 16-bit numbers.
KOKKOS_INLINE_FUNCTION float random_logit(std::uint64_t position) {
  const std::uint64_t bits = random_bits(position);
  const auto sum           = static_cast<float>((bits & 0xffffu) + ((bits >> 16) & 0xffffu) +
                                      ((bits >> 32) & 0xffffu) + (bits >> 48));
  return (sum - 131070.0f) * (2.0f / 37837.0f);
}

template <class ExecutionSpace, class T>
void fill_with_random_logits(const ExecutionSpace& exec, T* data, std::int64_t size) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(
      "KokkosXent::perf::random_logits", Policy(exec, 0, size), KOKKOS_LAMBDA(std::int64_t i) {
        data[i] = static_cast<T>(random_logit(static_cast<std::uint64_t>(i)));
      });
}

template <class ExecutionSpace>
using TargetsView = Kokkos::View<std::int64_t*, typename ExecutionSpace::memory_space>;

template <class ExecutionSpace>
TargetsView<ExecutionSpace> random_targets(const ExecutionSpace& exec, std::int64_t rows,
                                           std::int64_t classes) {
  const TargetsView<ExecutionSpace> targets(
      Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KokkosXent::perf::targets"), rows);
  const auto size = static_cast<std::uint64_t>(classes);
  Kokkos::parallel_for(
      "KokkosXent::perf::random_targets", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, rows),
      KOKKOS_LAMBDA(std::int64_t row) {
        const std::uint64_t bits = random_bits(~static_cast<std::uint64_t>(row));
        targets(row)             = static_cast<std::int64_t>(bits % size);
      });
  return targets;
}

/// The pool is divided into windows of equal contents, a period of elements apart.
struct Windows {
  std::int64_t period;
  std::int64_t count;
};

/// How much data a space works on.
struct PoolPlan {
  std::int64_t window_bytes;
  std::int64_t pool_bytes;  // several times the last-level cache
  std::int64_t batch;       // calls between two fences

  template <class T>
  Windows windows_of_bytes() const {
    const auto size = static_cast<std::int64_t>(sizeof(T));
    return {window_bytes / size, pool_bytes / window_bytes};
  }

  /// Windows just large enough for elements; they start at multiples of 256 bytes.
  template <class T>
  Windows windows_of(std::int64_t elements) const {
    constexpr std::int64_t alignment = 256 / sizeof(T);
    const std::int64_t period        = (elements + alignment - 1) / alignment * alignment;
    return {period, pool_bytes / (period * static_cast<std::int64_t>(sizeof(T)))};
  }
};

/// On a device, the time of a launch must be small beside that of a call, and short calls are
/// timed several at once. On the host, rows enough for every thread are what is needed.
template <class ExecutionSpace>
PoolPlan plan_pool(const ExecutionSpace& exec, const Settings& settings, const Host& host) {
  constexpr bool device        = is_device<ExecutionSpace>;
  constexpr std::int64_t mib   = std::int64_t(1) << 20;
  constexpr std::int64_t floor = 128 * mib;  // the largest logits of the shapes family
  const bool quick             = settings.extent == Extent::quick;
  const bool full              = settings.extent == Extent::full;

  std::int64_t window = settings.logits_mib * mib;
  if (window == 0 && device) window = (quick ? 128 : full ? 1024 : 512) * mib;
  if (window == 0) {
    const std::int64_t for_threads = 16 * mib * static_cast<std::int64_t>(exec.concurrency());
    window                         = std::clamp(for_threads, 32 * mib, 1024 * mib);
    if (quick) window = 8 * mib;
    if (full) window *= 2;
  }
  const std::int64_t uncached = std::max(4 * cache_bytes(exec, host), floor);
  const std::int64_t count    = (uncached + window - 1) / window;
  return {window, window * (device ? std::max<std::int64_t>(count, 4) : count),
          device ? std::int64_t(16) : std::int64_t(1)};
}

/// Memory that all benchmarks of a space share: random logits, which stay as they are, and as much
/// again for gradients and for logits that are overwritten.
template <class ExecutionSpace>
class LogitsPool {
 public:
  using Memory = typename ExecutionSpace::memory_space;
  using Words  = Kokkos::View<std::uint64_t*, Memory>;

  LogitsPool(const ExecutionSpace& exec, std::int64_t bytes)
      : m_exec(exec),
        m_source(allocate("KokkosXent::perf::logits", bytes)),
        m_work(allocate("KokkosXent::perf::work", bytes)) {
    fill<double>({static_cast<std::int64_t>(m_source.size()), 1});
    restore();
  }

  std::size_t words() const { return m_source.size(); }

  /// Logits; restore() is left to those who need it.
  template <class T>
  void fill(const Windows& windows) {
    const std::string contents = typeid(T).name() + std::to_string(windows.period);
    if (contents == m_contents) return;
    fill_with_random_logits(m_exec, source<T>(0), windows.period);
    for (std::int64_t w = 1; w < windows.count; ++w) copy_window<T>(windows.period, w);
    m_contents = contents;
  }

  /// Makes the logits that are overwritten what they were.
  void restore() { Kokkos::deep_copy(m_exec, m_work, m_source); }

  template <class T>
  T* source(std::int64_t first) const {
    return reinterpret_cast<T*>(m_source.data()) + first;
  }
  template <class T>
  T* work(std::int64_t first) const {
    return reinterpret_cast<T*>(m_work.data()) + first;
  }

  /// Room for one Scalar for each T of the pool.
  template <class T, class Scalar>
  Scalar* stored(std::int64_t first) {
    const std::size_t words = m_source.size() / sizeof(T) * sizeof(Scalar);
    if (m_stored.size() < words) {
      m_stored = {};
      m_stored = allocate("KokkosXent::perf::stored", static_cast<std::int64_t>(words * 8));
    }
    return reinterpret_cast<Scalar*>(m_stored.data()) + first;
  }

 private:
  Words allocate(const std::string& label, std::int64_t bytes) const {
    return Words(Kokkos::view_alloc(m_exec, Kokkos::WithoutInitializing, label),
                 static_cast<std::size_t>(bytes) / sizeof(std::uint64_t));
  }

  template <class T>
  void copy_window(std::int64_t period, std::int64_t window) const {
    using Window    = Kokkos::View<T*, Memory, Kokkos::MemoryUnmanaged>;
    const auto size = static_cast<std::size_t>(period);
    Kokkos::deep_copy(m_exec, Window(source<T>(window * period), size), Window(source<T>(0), size));
  }

  ExecutionSpace m_exec;
  Words m_source;
  Words m_work;
  Words m_stored;
  std::string m_contents;
};

}  // namespace KokkosXent::Perf

#endif
