// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_STOREDLOGSOFTMAX_HPP
#define KOKKOSXENT_STOREDLOGSOFTMAX_HPP

#include "KokkosXent_PerfMachine.hpp"

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstdint>

namespace KokkosXent::Perf {

// The design that KokkosXent replaces, as Lightning Thunder's Triton executor has it: forward reads
// the logits twice (an online maximum and sum, then log d - (x - m)) and stores the rows x classes
// negative log-softmax in the arithmetic type: float for 16-bit logits. The loss picks the
// target's element. backward reads what was stored and writes (exp(-stored) - onehot) * upstream
// in the logits' type. Mean reduction of index targets, without options.
//
// It uses the library's exp, so that the two designs differ in nothing but what they move.

/// Threads that share a row: rank of size.
struct RowThreads {
  int rank;
  int size;
};

/// How the threads of a row walk it: in blocks of elements that are stride classes apart, so that
/// a device's threads access neighbours and each has several loads in flight, and a host's thread
/// has loops to vectorise over.
template <class ExecutionSpace, class Scalar>
struct BlockWalk {
  static constexpr bool device = is_device<ExecutionSpace>;
  static constexpr int block   = device ? 8 : 1024;
  static constexpr int lanes   = device ? 8 : static_cast<int>(64 / sizeof(Scalar));

  KOKKOS_FUNCTION static int stride(const RowThreads& threads) { return device ? threads.size : 1; }

  /// Calls visit(first class, elements of the block that exist) for the blocks of one thread.
  template <class Visit>
  KOKKOS_FUNCTION static void blocks(const RowThreads& threads, std::int64_t begin,
                                     std::int64_t end, const Visit& visit) {
    const std::int64_t between = stride(threads);
    const std::int64_t step    = block * static_cast<std::int64_t>(threads.size);
    for (std::int64_t first = begin + threads.rank; first < end; first += step) {
      const std::int64_t left = (end - first + between - 1) / between;
      visit(first, left < block ? static_cast<int>(left) : block);
    }
  }

  /// Calls visit(e) for e < count; on a device unrolled, so that arrays stay in registers.
  template <class Visit>
  KOKKOS_FUNCTION static void elements(int count, const Visit& visit) {
    if constexpr (device) {
      for (int e = 0; e < block; ++e)
        if (e < count) visit(e);
    } else {
      for (int e = 0; e < count; ++e) visit(e);
    }
  }
};

/// m and d of a part of a row.
template <class Scalar>
struct MaxAndSum {
  Scalar max = -Kokkos::Experimental::infinity_v<Scalar>;
  Scalar sum = 0;

  KOKKOS_FUNCTION void merge(const MaxAndSum& other) {
    if (other.sum == 0) return;
    const Scalar new_max = other.max > max ? other.max : max;
    sum                  = sum * Impl::exp_nonpositive(max - new_max) +
          other.sum * Impl::exp_nonpositive(other.max - new_max);
    max = new_max;
  }

  /// Takes in x[0..count), rounded up to whole lanes, of which at least one is finite.
  template <int Lanes, int Size>
  KOKKOS_FUNCTION void absorb(const Scalar (&x)[Size], int count) {
    MaxAndSum part;
    Scalar lane[Lanes];
    for (int l = 0; l < Lanes; ++l) lane[l] = part.max;
    for (int e = 0; e < count; e += Lanes)
      for (int l = 0; l < Lanes; ++l) lane[l] = x[e + l] > lane[l] ? x[e + l] : lane[l];
    for (int l = 0; l < Lanes; ++l) part.max = lane[l] > part.max ? lane[l] : part.max;
    for (int l = 0; l < Lanes; ++l) lane[l] = 0;
    for (int e = 0; e < count; e += Lanes)
      for (int l = 0; l < Lanes; ++l) lane[l] += Impl::exp_nonpositive(x[e + l] - part.max);
    for (int l = 0; l < Lanes; ++l) part.sum += lane[l];
    merge(part);
  }
};

/// Kokkos reducer.
template <class Scalar>
struct MergeMaxAndSum {
  using reducer          = MergeMaxAndSum;
  using value_type       = MaxAndSum<Scalar>;
  using result_view_type = Kokkos::View<value_type, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  value_type* result;

  KOKKOS_FUNCTION void join(value_type& into, const value_type& from) const { into.merge(from); }
  KOKKOS_FUNCTION void init(value_type& value) const { value = value_type{}; }
  KOKKOS_FUNCTION value_type& reference() const { return *result; }
  KOKKOS_FUNCTION result_view_type view() const { return result_view_type(result); }
  KOKKOS_FUNCTION static constexpr bool references_scalar() { return true; }
};

/// Several short rows a team, a vector of threads each; or one row a team.
enum class Sharing { vector, team };

template <Sharing sharing, class Member>
KOKKOS_FUNCTION auto row_range(const Member& team, int threads) {
  if constexpr (sharing == Sharing::vector) {
    return Kokkos::ThreadVectorRange(team, threads);
  } else {
    return Kokkos::TeamThreadRange(team, threads);
  }
}

template <Sharing sharing, class Member>
KOKKOS_FUNCTION std::int64_t first_row(const Member& team) {
  if constexpr (sharing == Sharing::vector) {
    return static_cast<std::int64_t>(team.league_rank()) * team.team_size() + team.team_rank();
  } else {
    return team.league_rank();
  }
}

template <class ExecutionSpace, class T, Sharing sharing>
struct StoreLogSoftmax {
  using Scalar = typename ValueTypeTraits<T>::arithmetic_type;
  using Walk   = BlockWalk<ExecutionSpace, Scalar>;

  const T* logits;
  const std::int64_t* targets;
  Scalar* stored;
  Scalar* row_losses;
  std::int64_t rows;
  std::int64_t classes;
  int threads;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t row = first_row<sharing>(team);
    if (row >= rows) return;
    const T* const x = logits + row * classes;

    MaxAndSum<Scalar> all;
    Kokkos::parallel_reduce(
        row_range<sharing>(team, threads),
        [&](int rank, MaxAndSum<Scalar>& part) {
          part.merge(sweep(x, RowThreads{rank, threads}));
        },
        MergeMaxAndSum<Scalar>{&all});
    const Scalar log_sum = Kokkos::log(all.sum);
    Kokkos::parallel_for(row_range<sharing>(team, threads), [&](int rank) {
      store(x, stored + row * classes, all.max, log_sum, RowThreads{rank, threads});
    });
    const Scalar loss = log_sum - (ValueTypeTraits<T>::load(x[targets[row]]) - all.max);
    if constexpr (sharing == Sharing::vector) {
      Kokkos::single(Kokkos::PerThread(team), [&]() { row_losses[row] = loss; });
    } else {
      Kokkos::single(Kokkos::PerTeam(team), [&]() { row_losses[row] = loss; });
    }
  }

  KOKKOS_FUNCTION MaxAndSum<Scalar> sweep(const T* x, const RowThreads& row_threads) const {
    MaxAndSum<Scalar> state;
    const std::int64_t stride = Walk::stride(row_threads);
    Walk::blocks(row_threads, 0, classes, [&](std::int64_t first, int count) {
      Scalar values[Walk::block];
      Walk::elements(count,
                     [&](int e) { values[e] = ValueTypeTraits<T>::load(x[first + e * stride]); });
      pad(values, count);
      state.template absorb<Walk::lanes>(values, count);
    });
    return state;
  }

  /// -inf up to whole lanes.
  KOKKOS_FUNCTION static void pad(Scalar (&values)[Walk::block], int count) {
    constexpr Scalar nothing = -Kokkos::Experimental::infinity_v<Scalar>;
    if constexpr (Walk::device) {
      for (int e = 0; e < Walk::block; ++e)
        if (e >= count) values[e] = nothing;
    } else {
      for (int e = count; e % Walk::lanes != 0; ++e) values[e] = nothing;
    }
  }

  KOKKOS_FUNCTION void store(const T* x, Scalar* out, Scalar max, Scalar log_sum,
                             const RowThreads& row_threads) const {
    const std::int64_t stride = Walk::stride(row_threads);
    Walk::blocks(row_threads, 0, classes, [&](std::int64_t first, int count) {
      Scalar values[Walk::block];
      Walk::elements(count, [&](int e) {
        values[e] = log_sum - (ValueTypeTraits<T>::load(x[first + e * stride]) - max);
      });
      Walk::elements(count, [&](int e) { out[first + e * stride] = values[e]; });
    });
  }
};

/// Teams for the backward pass share a long row: parts of part_size classes.
template <class ExecutionSpace, class T, Sharing sharing>
struct GradientOfStored {
  using Scalar = typename ValueTypeTraits<T>::arithmetic_type;
  using Walk   = BlockWalk<ExecutionSpace, Scalar>;

  const Scalar* stored;
  const std::int64_t* targets;
  Scalar upstream;
  T* gradient;
  std::int64_t rows;
  std::int64_t classes;
  int threads;
  int parts;
  std::int64_t part_size;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t item = first_row<sharing>(team);
    const std::int64_t row  = item / parts;
    if (row >= rows) return;
    const std::int64_t begin = item % parts * part_size;
    const std::int64_t end   = begin + part_size < classes ? begin + part_size : classes;
    Kokkos::parallel_for(row_range<sharing>(team, threads), [&](int rank) {
      exponentiate(row, begin, end, RowThreads{rank, threads});
    });
  }

  KOKKOS_FUNCTION void exponentiate(std::int64_t row, std::int64_t begin, std::int64_t end,
                                    const RowThreads& row_threads) const {
    const Scalar* const in = stored + row * classes;
    T* const out           = gradient + row * classes;
    const int stride       = Walk::stride(row_threads);
    Walk::blocks(row_threads, begin, end, [&](std::int64_t first, int count) {
      const auto to_target = static_cast<int>(targets[row] - first);
      Scalar values[Walk::block];
      Walk::elements(count,
                     [&](int e) { values[e] = in[first + e * static_cast<std::int64_t>(stride)]; });
      Walk::elements(count, [&](int e) {
        const Scalar one_hot = e * stride == to_target ? Scalar(1) : Scalar(0);
        out[first + e * static_cast<std::int64_t>(stride)] =
            ValueTypeTraits<T>::store((Impl::exp_nonpositive(-values[e]) - one_hot) * upstream);
      });
    });
  }
};

template <class ExecutionSpace, class T>
class StoredLogSoftmax {
 public:
  using Scalar = typename ValueTypeTraits<T>::arithmetic_type;
  using Memory = typename ExecutionSpace::memory_space;

  StoredLogSoftmax(const ExecutionSpace& exec, std::int64_t max_rows, std::int64_t classes)
      : m_exec(exec),
        m_classes(classes),
        m_shape(shape_of(classes)),
        m_row_losses(Kokkos::view_alloc(exec, "KokkosXent::perf::row_losses"), max_rows) {}

  /// stored: rows x classes.
  void forward(const T* logits, const std::int64_t* targets, Scalar* stored,
               const Kokkos::View<Scalar, Memory>& loss, std::int64_t rows) const {
    if (m_shape.sharing == Sharing::vector) {
      store_log_softmax<Sharing::vector>(logits, targets, stored, rows);
    } else {
      store_log_softmax<Sharing::team>(logits, targets, stored, rows);
    }
    const Scalar* const row_losses = m_row_losses.data();
    const auto divisor             = static_cast<double>(rows);
    Kokkos::parallel_reduce(
        "KokkosXent::perf::mean_loss", Kokkos::RangePolicy<ExecutionSpace>(m_exec, 0, rows),
        KOKKOS_LAMBDA(int row, Scalar& sum) {
          sum += static_cast<Scalar>(static_cast<double>(row_losses[row]) / divisor);
        },
        loss);
  }

  /// upstream: gradient of the mean loss.
  void backward(const Scalar* stored, const std::int64_t* targets, Scalar upstream, T* gradient,
                std::int64_t rows) const {
    const Scalar of_row = upstream / static_cast<Scalar>(rows);
    if (m_shape.sharing == Sharing::vector) {
      gradient_of_stored<Sharing::vector>(stored, targets, of_row, gradient, rows);
    } else {
      gradient_of_stored<Sharing::team>(stored, targets, of_row, gradient, rows);
    }
  }

 private:
  // At most 512 threads a team, and registers for two such teams on a multiprocessor.
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<512, 2>>;

  struct Shape {
    Sharing sharing;
    int threads;        // of a row
    int rows_per_team;  // 1 for Sharing::team
  };

  static Shape shape_of(std::int64_t classes) {
    if (!is_device<ExecutionSpace>) return {Sharing::team, 1, 1};
    if (classes <= 1024) {
      int threads = 1;
      while (threads < 32 && threads * 8 < classes) threads *= 2;
      return {Sharing::vector, threads, 128 / threads};
    }
    return {Sharing::team, classes <= 4096 ? 128 : classes <= 16384 ? 256 : 512, 1};
  }

  Policy policy(std::int64_t rows, std::int64_t parts) const {
    const auto league = (rows * parts + m_shape.rows_per_team - 1) / m_shape.rows_per_team;
    if (m_shape.sharing == Sharing::vector)
      return Policy(m_exec, static_cast<int>(league), m_shape.rows_per_team, m_shape.threads);
    return Policy(m_exec, static_cast<int>(league), m_shape.threads);
  }

  template <Sharing sharing>
  void store_log_softmax(const T* logits, const std::int64_t* targets, Scalar* stored,
                         std::int64_t rows) const {
    Kokkos::parallel_for(
        "KokkosXent::perf::store_log_softmax", policy(rows, 1),
        StoreLogSoftmax<ExecutionSpace, T, sharing>{logits, targets, stored, m_row_losses.data(),
                                                    rows, m_classes, m_shape.threads});
  }

  template <Sharing sharing>
  void gradient_of_stored(const Scalar* stored, const std::int64_t* targets, Scalar of_row,
                          T* gradient, std::int64_t rows) const {
    constexpr std::int64_t most_of_a_row = 16384;
    const bool split                     = is_device<ExecutionSpace> && sharing == Sharing::team;
    const std::int64_t parts     = split ? (m_classes + most_of_a_row - 1) / most_of_a_row : 1;
    const std::int64_t part_size = split ? most_of_a_row : m_classes;
    Kokkos::parallel_for("KokkosXent::perf::gradient_of_stored", policy(rows, parts),
                         GradientOfStored<ExecutionSpace, T, sharing>{
                             stored, targets, of_row, gradient, rows, m_classes, m_shape.threads,
                             static_cast<int>(parts), part_size});
  }

  ExecutionSpace m_exec;
  std::int64_t m_classes;
  Shape m_shape;
  Kokkos::View<Scalar*, Memory> m_row_losses;
};

}  // namespace KokkosXent::Perf

#endif
