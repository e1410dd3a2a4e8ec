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

/// Exponentials of numbers in a core's first cache, one for each number read, with the conversions
/// that T needs: what computing alone allows. read: they are added up, as by forward. in_place:
/// each is multiplied and written over its number, as by backward. A work item for each thread.
template <class T, Traffic traffic>
struct CachedExponentials {
  static_assert(traffic != Traffic::copy);
  using Scalar = typename ValueTypeTraits<T>::arithmetic_type;

  static constexpr int size      = 16384 / sizeof(T);  // half of a small first cache
  static constexpr int passes    = 1024;
  static constexpr bool converts = !std::is_same_v<T, Scalar>;
  static constexpr bool by_words = Impl::pairs_words<Scalar, T, T>;
  // Numbers taken at once: as many as GCC and Clang are fastest with.
  static constexpr int added    = converts ? 128 : 256 / sizeof(Scalar);
  static constexpr int replaced = 256;

  Scalar* results;

  KOKKOS_FUNCTION void operator()(int thread) const {
    T numbers[size];
    for (int i = 0; i < size; ++i)
      numbers[i] = Impl::round_value<T>(-static_cast<Scalar>(i + 1) / size);
    if constexpr (traffic == Traffic::read) {
      results[thread] = add_up(numbers);
    } else {
      replace(numbers);
      results[thread] = Impl::load_value<Scalar>(numbers[thread % size]);
    }
  }

 private:
  KOKKOS_FUNCTION static Scalar max_of(int pass) {
    return static_cast<Scalar>(pass) * Scalar(0.001);
  }

  KOKKOSXENT_IMPL_APART_ON_HOST KOKKOS_FUNCTION static Scalar add_up(const T* numbers) {
    Scalar sums[added] = {};
    for (int pass = 0; pass < passes; ++pass)
      for (int i = 0; i < size; i += added) add_run(numbers + i, max_of(pass), sums);
    return Impl::reduce_halves(sums, [](Scalar a, Scalar b) { return a + b; });
  }
  KOKKOS_FORCEINLINE_FUNCTION static void add_run(const T* numbers, Scalar max,
                                                  Scalar (&sums)[added]) {
    if constexpr (by_words) {
      for (int p = 0; p < added / 2; ++p) {
        Scalar first, second;
        Impl::widen_pair<T>(Impl::load_word(numbers + 2 * p), first, second);
        sums[p] += Impl::scaled_exp_of_gap(max - first) + Impl::scaled_exp_of_gap(max - second);
      }
    } else if constexpr (converts) {
      Scalar values[added];
      Impl::widen_run<added>(numbers, values);
      for (int k = 0; k < added; ++k) sums[k] += Impl::scaled_exp_of_gap(max - values[k]);
    } else {
      for (int k = 0; k < added; ++k) sums[k] += Impl::scaled_exp_of_gap(max - numbers[k]);
    }
  }

  /// Numbers between -1 and 0 stay there, and away from 0: pass for pass the work is the same.
  KOKKOSXENT_IMPL_APART_ON_HOST KOKKOS_FUNCTION static void replace(T* numbers) {
    for (int pass = 0; pass < passes; ++pass)
      for (int i = 0; i < size; i += replaced)
        replace_run(numbers + i, max_of(pass), -1 - max_of(pass));
  }
  KOKKOS_FORCEINLINE_FUNCTION static void replace_run(T* numbers, Scalar max, Scalar factor) {
    if constexpr (by_words) {
      Scalar values[replaced];
      Impl::map_pairs(numbers, values,
                      [=](Scalar number) { return factor * Impl::exp_below(number, max); });
      Impl::round_pairs(values, numbers, [](Scalar value) { return value; });
    } else if constexpr (converts) {
      Scalar values[replaced];
      Impl::widen_run<replaced>(numbers, values);
      for (Scalar& value : values) value = factor * Impl::exp_below(value, max);
      Impl::round_run<replaced>(values, numbers);
    } else {
      for (int k = 0; k < replaced; ++k) numbers[k] = factor * Impl::exp_below(numbers[k], max);
    }
  }
};

/// Bytes of the numbers per second, of all threads; of in_place read and written. Of the fastest
/// repetition: what is to limit others must not have waited for a core.
template <class T, Traffic traffic, class ExecutionSpace>
double measure_exponentials(const ExecutionSpace& exec) {
  using Exponentials = CachedExponentials<T, traffic>;
  const int threads  = exec.concurrency();
  const Kokkos::View<typename Exponentials::Scalar*, typename ExecutionSpace::memory_space> results(
      "KokkosXent::perf::exponentials", threads);
  const Exponentials exponentials{results.data()};

  constexpr int repetitions = 32;
  double fastest            = std::numeric_limits<double>::infinity();
  for (int r = 0; r < repetitions; ++r) {
    exec.fence();
    const Kokkos::Timer timer;
    Kokkos::parallel_for("KokkosXent::perf::cached_exponentials",
                         Kokkos::RangePolicy<ExecutionSpace>(exec, 0, threads), exponentials);
    exec.fence();
    fastest = std::min(fastest, timer.seconds());
  }
  const double ways    = traffic == Traffic::read ? 1 : 2;
  const double numbers = static_cast<double>(threads) * Exponentials::size * Exponentials::passes;
  return ways * numbers * sizeof(T) / fastest;
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
