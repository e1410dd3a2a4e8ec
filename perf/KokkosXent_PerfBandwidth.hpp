// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_BANDWIDTH_HPP
#define KOKKOSXENT_PERF_BANDWIDTH_HPP

#include "KokkosXent_PerfCase.hpp"
#include "KokkosXent_PerfMachine.hpp"
#include "KokkosXent_PerfPool.hpp"

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace KokkosXent::Perf {

enum class Traffic { read, copy, in_place };

/// 16 bytes: what one load instruction of a device thread brings at most.
struct alignas(16) WordPair {
  std::uint64_t first  = 0;
  std::uint64_t second = 0;

  KOKKOS_FUNCTION WordPair& operator+=(const WordPair& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
  KOKKOS_FUNCTION bool operator==(const WordPair& other) const {
    return first == other.first && second == other.second;
  }
};

/// Moves words as fast as plain loops do. On the host a work item has a contiguous piece; on a
/// device it has words that are far apart, so that neighbouring threads move neighbouring words.
/// Integers, because host compilers vectorise their sum.
template <class ExecutionSpace, Traffic traffic>
struct MoveWords {
  static constexpr bool device        = is_device<ExecutionSpace>;
  static constexpr int block          = device ? 4 : 8;
  static constexpr std::int64_t piece = device ? block : 8192;
  using Word                          = std::conditional_t<device, WordPair, std::uint64_t>;

  const Word* from;
  Word* to;  // from itself for in_place
  std::int64_t items;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t first = device ? item : item * piece;
    const std::int64_t step  = device ? items : 1;
    Word sum{};
    for (std::int64_t k = 0; k < piece; k += block) {
      Word words[block];
      for (int b = 0; b < block; ++b) words[b] = from[first + (k + b) * step];
      if constexpr (traffic == Traffic::read) {
        for (int b = 0; b < block; ++b) sum += words[b];
      } else {
        if constexpr (traffic == Traffic::in_place)
          for (int b = 0; b < block; ++b) words[b] += Word{1};
        for (int b = 0; b < block; ++b) to[first + (k + b) * step] = words[b];
      }
    }
    // Practically never true of random words, but no compiler can leave the reading out.
    if constexpr (traffic == Traffic::read)
      if (sum == Word{}) to[0] = sum;
  }
};

template <Traffic traffic, class ExecutionSpace>
double measure_traffic(const ExecutionSpace& exec, const LogitsPool<ExecutionSpace>& pool) {
  using Move   = MoveWords<ExecutionSpace, traffic>;
  using Word   = typename Move::Word;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;

  const auto words = static_cast<std::int64_t>(pool.words() * sizeof(std::uint64_t) / sizeof(Word));
  const std::int64_t items = words / Move::piece;
  Word* const work         = pool.template work<Word>(0);
  const Word* const source = pool.template source<Word>(0);
  const Move move{traffic == Traffic::in_place ? work : source, work, items};

  constexpr int repetitions = 11;
  std::vector<double> seconds;
  for (int r = 0; r <= repetitions; ++r) {
    exec.fence();
    const Kokkos::Timer timer;
    Kokkos::parallel_for("KokkosXent::perf::move_words", Policy(exec, 0, items), move);
    exec.fence();
    if (r > 0) seconds.push_back(timer.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  const double ways = traffic == Traffic::read ? 1 : 2;
  return ways * static_cast<double>(items * Move::piece) * static_cast<double>(sizeof(Word)) /
         seconds[repetitions / 2];
}

/// Adds up exponentials of numbers in a core's first cache, an exponential for each number read:
/// what forward would reach if memory were infinitely fast. A work item for each thread.
template <class Scalar>
struct AddExponentials {
  static constexpr int size   = 2048;
  static constexpr int passes = 2048;
  static constexpr int lanes  = 64 / sizeof(Scalar);

  Scalar* sums;

  KOKKOS_FUNCTION void operator()(int thread) const {
    Scalar numbers[size];
    for (int i = 0; i < size; ++i) numbers[i] = Scalar(-0.01) * static_cast<Scalar>(i);
    Scalar sum[lanes] = {};
    for (int pass = 0; pass < passes; ++pass) {
      const Scalar top = static_cast<Scalar>(pass) * Scalar(0.001);
      for (int i = 0; i < size; i += lanes)
        for (int l = 0; l < lanes; ++l) sum[l] += Impl::exp_nonpositive(numbers[i + l] - top);
    }
    for (int l = 0; l < lanes; ++l) sums[thread] += sum[l];
  }
};

/// Bytes of the numbers per second, of all threads.
template <class Scalar, class ExecutionSpace>
double measure_exponentials(const ExecutionSpace& exec) {
  using Add         = AddExponentials<Scalar>;
  const int threads = exec.concurrency();
  const Kokkos::View<Scalar*, typename ExecutionSpace::memory_space> sums(
      "KokkosXent::perf::exponentials", threads);
  const Add add{sums.data()};

  constexpr int repetitions = 11;
  std::vector<double> seconds;
  for (int r = 0; r <= repetitions; ++r) {
    exec.fence();
    const Kokkos::Timer timer;
    Kokkos::parallel_for("KokkosXent::perf::add_exponentials",
                         Kokkos::RangePolicy<ExecutionSpace>(exec, 0, threads), add);
    exec.fence();
    if (r > 0) seconds.push_back(timer.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  const double numbers = static_cast<double>(threads) * Add::size * Add::passes;
  return numbers * sizeof(Scalar) / seconds[repetitions / 2];
}

/// A kernel that does nothing.
struct EmptyTeam {
  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member&) const {}
};

template <class ExecutionSpace>
double measure_launch_seconds(const ExecutionSpace& exec) {
  const Kokkos::TeamPolicy<ExecutionSpace> one_team(exec, 1, 1);
  constexpr int repetitions = 11;
  constexpr int launches    = 1000;
  std::vector<double> seconds;
  for (int r = 0; r <= repetitions; ++r) {
    exec.fence();
    const Kokkos::Timer timer;
    for (int l = 0; l < launches; ++l)
      Kokkos::parallel_for("KokkosXent::perf::empty_launch", one_team, EmptyTeam{});
    exec.fence();
    if (r > 0) seconds.push_back(timer.seconds() / launches);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[repetitions / 2];
}

template <class ExecutionSpace>
Bandwidth measure_bandwidth(const ExecutionSpace& exec, const LogitsPool<ExecutionSpace>& pool) {
  Bandwidth bandwidth;
  bandwidth.read           = measure_traffic<Traffic::read>(exec, pool);
  bandwidth.copy           = measure_traffic<Traffic::copy>(exec, pool);
  bandwidth.in_place       = measure_traffic<Traffic::in_place>(exec, pool);
  bandwidth.launch_seconds = measure_launch_seconds(exec);
  return bandwidth;
}

}  // namespace KokkosXent::Perf

#endif
