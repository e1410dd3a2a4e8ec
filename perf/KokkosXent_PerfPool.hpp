// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_POOL_HPP
#define KOKKOSXENT_PERF_POOL_HPP

#include "KokkosXent_PerfCase.hpp"
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

/// ascending: from -4 to 4 along each row.
KOKKOS_INLINE_FUNCTION float logit_of(LogitsData kind, std::int64_t position,
                                      std::int64_t classes) {
  if (kind == LogitsData::constant) return 1.0f;
  if (kind == LogitsData::ascending)
    return 8.0f * static_cast<float>(position % classes) / static_cast<float>(classes) - 4.0f;
  return random_logit(static_cast<std::uint64_t>(position));
}

/// The same logits again after each period. classes: of a row, for ascending logits.
template <class ExecutionSpace, class T>
void fill_with_logits(const ExecutionSpace& exec, T* data, std::int64_t size, std::int64_t period,
                      LogitsData kind, std::int64_t classes) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(
      "KokkosXent::perf::logits", Policy(exec, 0, size), KOKKOS_LAMBDA(std::int64_t i) {
        data[i] = static_cast<T>(logit_of(kind, i % period, classes));
      });
}

template <class ExecutionSpace>
using TargetsView = Kokkos::View<std::int64_t*, typename ExecutionSpace::memory_space>;

/// The same number of every ten rows, at random places. percent: a multiple of ten.
KOKKOS_INLINE_FUNCTION bool is_ignored(std::int64_t row, int percent) {
  const auto position       = static_cast<std::uint64_t>(row % 10);
  const std::uint64_t shift = random_bits(static_cast<std::uint64_t>(row / 10));
  return (position + shift % 10) % 10 * 10 < static_cast<std::uint64_t>(percent);
}

inline std::int64_t count_ignored(std::int64_t rows, int percent) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < rows; ++row) count += is_ignored(row, percent) ? 1 : 0;
  return count;
}

template <class ExecutionSpace>
TargetsView<ExecutionSpace> random_targets(const ExecutionSpace& exec, std::int64_t rows,
                                           std::int64_t classes, int ignored_percent = 0) {
  const TargetsView<ExecutionSpace> targets(
      Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KokkosXent::perf::targets"), rows);
  const auto size           = static_cast<std::uint64_t>(classes);
  const std::int64_t ignore = Options{}.ignore_index;
  Kokkos::parallel_for(
      "KokkosXent::perf::random_targets", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, rows),
      KOKKOS_LAMBDA(std::int64_t row) {
        const std::uint64_t bits = random_bits(~static_cast<std::uint64_t>(row));
        targets(row) =
            is_ignored(row, ignored_percent) ? ignore : static_cast<std::int64_t>(bits % size);
      });
  return targets;
}

/// Between 0.5 and 1.5.
template <class Scalar, class ExecutionSpace>
Kokkos::View<Scalar*, typename ExecutionSpace::memory_space> random_class_weights(
    const ExecutionSpace& exec, std::int64_t classes) {
  const Kokkos::View<Scalar*, typename ExecutionSpace::memory_space> weights(
      Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KokkosXent::perf::class_weights"),
      classes);
  Kokkos::parallel_for(
      "KokkosXent::perf::class_weights", Kokkos::RangePolicy<ExecutionSpace>(exec, 0, classes),
      KOKKOS_LAMBDA(std::int64_t cls) {
        const std::uint64_t bits = random_bits(static_cast<std::uint64_t>(cls)) >> 40;
        weights(cls)             = Scalar(0.5) + static_cast<Scalar>(bits) * Scalar(0x1p-24);
      });
  return weights;
}

/// Fills rows with random positive numbers that sum to 1, a team a row.
template <class Scalar>
struct FillWithProbabilities {
  Scalar* probabilities;
  std::int64_t classes;

  /// Nearly uniform in (0, 1].
  KOKKOS_FUNCTION double mass(std::int64_t position) const {
    const std::uint64_t bits = random_bits(~static_cast<std::uint64_t>(position)) >> 40;
    return static_cast<double>(bits + 1) * 0x1p-24;
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t first = team.league_rank() * classes;
    const auto range         = Kokkos::TeamThreadRange(team, first, first + classes);
    double total             = 0;
    Kokkos::parallel_reduce(
        range, [&](std::int64_t i, double& sum) { sum += mass(i); }, total);
    Kokkos::parallel_for(
        range, [&](std::int64_t i) { probabilities[i] = static_cast<Scalar>(mass(i) / total); });
  }
};

template <class ExecutionSpace, class Scalar>
void fill_with_probabilities(const ExecutionSpace& exec, Scalar* probabilities, std::int64_t rows,
                             std::int64_t classes) {
  Kokkos::parallel_for(
      "KokkosXent::perf::probabilities",
      Kokkos::TeamPolicy<ExecutionSpace>(exec, static_cast<int>(rows), Kokkos::AUTO),
      FillWithProbabilities<Scalar>{probabilities, classes});
}

/// The pool is divided into windows of equal contents, a period of elements apart.
struct Windows {
  std::int64_t period;
  std::int64_t count;
};

/// How much data a space works on.
struct PoolPlan {
  std::int64_t window_bytes;  // of the vocabulary family
  std::int64_t limits_bytes;  // window of the limits family
  std::int64_t pool_bytes;    // several times the last-level cache
  std::int64_t batch;         // calls between two fences

  template <class T>
  Windows windows_of_bytes(std::int64_t bytes) const {
    return {bytes / static_cast<std::int64_t>(sizeof(T)), pool_bytes / bytes};
  }

  /// Windows just large enough for elements; they start at multiples of 256 bytes.
  template <class T>
  Windows windows_of(std::int64_t elements) const {
    constexpr std::int64_t alignment = 256 / sizeof(T);
    const std::int64_t period        = (elements + alignment - 1) / alignment * alignment;
    return {period, pool_bytes / (period * static_cast<std::int64_t>(sizeof(T)))};
  }

  /// Calls between two fences that outweigh the fences' own time also where a call takes a few
  /// microseconds. On the host each call ends in a fence of its own.
  template <class T>
  std::int64_t long_batch(const Windows& windows) const {
    constexpr std::int64_t enough = std::int64_t(256) << 20;
    const std::int64_t bytes      = windows.period * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t calls      = batch == 1 ? 1 : std::max(batch, enough / bytes);
    return std::min(calls, windows.count);
  }
};

/// On a device, the time of a launch must be small beside that of a call, and short calls are
/// timed several at once. On the host, rows enough for every thread are what is needed. Where
/// the limits family is selected, its logits are larger, and all host spaces' of one size, so that
/// their times can be compared.
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
  const bool larger_limits =
      settings.selects_family("limits") && !quick && settings.logits_mib == 0;
  std::int64_t limits = window;
  if (larger_limits) limits = device ? std::max(window, 1024 * mib) : 256 * mib;
  const std::int64_t uncached = std::max(4 * cache_bytes(exec, host), floor);
  const std::int64_t largest  = std::max(window, limits);
  const std::int64_t count    = (uncached + largest - 1) / largest;
  return {window, limits, largest * (device ? std::max<std::int64_t>(count, 4) : count),
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
    fill<double>({static_cast<std::int64_t>(m_source.size()), 1}, Case{});
    restore();
  }

  std::size_t words() const { return m_source.size(); }

  /// Logits; restore() is left to those who need it.
  template <class T>
  void fill(const Windows& windows, const Case& c) {
    std::string contents = typeid(T).name() + std::to_string(windows.period) + to_string(c.data);
    if (c.data == LogitsData::ascending) contents += std::to_string(c.classes);
    if (contents == m_contents) return;
    fill_with_logits(m_exec, source<T>(0), windows.count * windows.period, windows.period, c.data,
                     c.classes);
    m_contents = contents;
  }

  /// Contiguous rows of probabilities for windows of T.
  template <class T, class Scalar>
  void fill_with_probabilities(const Windows& windows, const Case& c) {
    Scalar* const first = beside<T, Scalar>(0);
    Perf::fill_with_probabilities(m_exec, first, c.rows, c.classes);
    for (std::int64_t w = 1; w < windows.count; ++w)
      copy_window(first, c.rows * c.classes, beside<T, Scalar>(w * windows.period));
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

  /// Room for one Scalar for each T of the pool: a stored log-softmax, or probabilities.
  template <class T, class Scalar>
  Scalar* beside(std::int64_t first) {
    const std::size_t words = m_source.size() / sizeof(T) * sizeof(Scalar);
    if (m_beside.size() < words) {
      m_beside = {};
      m_beside = allocate("KokkosXent::perf::beside", static_cast<std::int64_t>(words * 8));
    }
    return reinterpret_cast<Scalar*>(m_beside.data()) + first;
  }

 private:
  Words allocate(const std::string& label, std::int64_t bytes) const {
    return Words(Kokkos::view_alloc(m_exec, Kokkos::WithoutInitializing, label),
                 static_cast<std::size_t>(bytes) / sizeof(std::uint64_t));
  }

  template <class T>
  void copy_window(T* from, std::int64_t elements, T* to) const {
    using Window    = Kokkos::View<T*, Memory, Kokkos::MemoryUnmanaged>;
    const auto size = static_cast<std::size_t>(elements);
    Kokkos::deep_copy(m_exec, Window(to, size), Window(from, size));
  }

  ExecutionSpace m_exec;
  Words m_source;
  Words m_work;
  Words m_beside;
  std::string m_contents;
};

}  // namespace KokkosXent::Perf

#endif
