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

/// What a host makes of the exponentials of numbers of a type T.
enum class Exponentials {
  added_up,  // what forward does with a logit
  rounded    // into another array of T: what backward does
};

/// Evaluates exponentials of numbers in a core's first cache, one for each number, in runs as the
/// library's kernels do: no pass can be faster, however fast memory is. A work item for each
/// thread.
template <class T, Exponentials use>
struct EvaluateExponentials {
  using Scalar = std::conditional_t<Impl::computes_in_double<T>(), double, float>;

  static constexpr int run    = 2048 / sizeof(Scalar);
  static constexpr int lanes  = 64 / sizeof(Scalar);
  static constexpr int size   = 2 * run;
  static constexpr int passes = 4096;
  static constexpr bool pairs = Impl::pairs_words<Scalar, T, T>;

  T* numbers;      // size for each thread
  T* results;      // likewise
  Scalar* totals;  // one for each thread

  KOKKOS_FUNCTION void operator()(int thread) const {
    T* const from = numbers + thread * size;
    T* const to   = results + thread * size;
    for (int i = 0; i < size; ++i)
      from[i] = Impl::round_value<T>(Scalar(-0.01) * static_cast<Scalar>(i));
    Scalar total = 0;
    for (int pass = 0; pass < passes; ++pass) {
      const Scalar max = static_cast<Scalar>(pass) * Scalar(0.001);
      for (int i = 0; i < size; i += run) {
        if constexpr (use == Exponentials::added_up)
          total += sum_of_run(from + i, max);
        else
          round_exponentials(from + i, to + i, max);
      }
    }
    totals[thread] = total;
  }

 private:
  KOKKOS_FUNCTION static Scalar sum_of_run(const T* from, Scalar max) {
    const auto exp    = [max](Scalar z) { return Impl::scaled_exp_of_gap(max - z); };
    Scalar sum[lanes] = {};
    Scalar values[run];
    evaluate(from, values, exp);
    for (int i = 0; i < run; i += lanes)
      for (int l = 0; l < lanes; ++l) sum[l] += values[i + l];
    return Impl::reduce_halves(sum, [](Scalar a, Scalar b) { return a + b; });
  }
  KOKKOS_FUNCTION static void round_exponentials(const T* from, T* to, Scalar max) {
    const auto exp = [max](Scalar z) { return Scalar(0.5) * Impl::exp_below(z, max); };
    if constexpr (std::is_same_v<T, Scalar>) {
      for (int i = 0; i < run; ++i) to[i] = exp(from[i]);
    } else {
      Scalar values[run];
      evaluate(from, values, exp);
      if constexpr (pairs)
        Impl::round_pairs(values, to, [](Scalar value) { return value; });
      else
        Impl::round_run<run>(values, to);
    }
  }
  template <class Exp>
  KOKKOS_FUNCTION static void evaluate(const T* from, Scalar (&values)[run], const Exp& exp) {
    if constexpr (std::is_same_v<T, Scalar>) {
      for (int i = 0; i < run; ++i) values[i] = exp(from[i]);
    } else if constexpr (pairs) {
      Impl::map_pairs(from, values, exp);
    } else {
      Impl::widen_run<run>(from, values);
      for (Scalar& value : values) value = exp(value);
    }
  }
};

/// Bytes per second, of all threads: of the numbers, and where they are rounded of the results.
template <class T, Exponentials use, class ExecutionSpace>
double measure_exponentials(const ExecutionSpace& exec) {
  using Evaluate     = EvaluateExponentials<T, use>;
  using MemorySpace  = typename ExecutionSpace::memory_space;
  const int threads  = exec.concurrency();
  const auto numbers = static_cast<std::size_t>(threads) * Evaluate::size;
  const Kokkos::View<T*, MemorySpace> from("KokkosXent::perf::numbers", numbers);
  const Kokkos::View<T*, MemorySpace> to("KokkosXent::perf::exponentials", numbers);
  const Kokkos::View<typename Evaluate::Scalar*, MemorySpace> totals("KokkosXent::perf::totals",
                                                                     threads);
  const Evaluate evaluate{from.data(), to.data(), totals.data()};

  constexpr int repetitions = 11;
  std::vector<double> seconds;
  for (int r = 0; r <= repetitions; ++r) {
    exec.fence();
    const Kokkos::Timer timer;
    Kokkos::parallel_for("KokkosXent::perf::exponentials",
                         Kokkos::RangePolicy<ExecutionSpace>(exec, 0, threads), evaluate);
    exec.fence();
    if (r > 0) seconds.push_back(timer.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  const double ways = use == Exponentials::added_up ? 1 : 2;
  return ways * static_cast<double>(numbers) * Evaluate::passes * sizeof(T) /
         seconds[repetitions / 2];
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
