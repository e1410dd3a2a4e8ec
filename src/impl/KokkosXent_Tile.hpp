// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_TILE_HPP
#define KOKKOSXENT_IMPL_TILE_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_Parts.hpp>
#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_SoftmaxState.hpp>
#include <impl/KokkosXent_Targets.hpp>
#include <impl/KokkosXent_Totals.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

// Kernels whose threads run along rows instead of classes: every SIMD lane (host) or thread
// (device) owns a row. They serve rows that are adjacent in memory (LayoutLeft), and on the host
// also short rows; there only targets with a background, for others see KokkosXent_HostTile.hpp.
// On a device the classes of a tile are shared by several slices of threads, whose states meet in
// team scratch. Where tiles are few, several teams share the classes of each.

namespace KokkosXent::Impl {

template <class Problem>
struct Tile {
  static constexpr bool on_host = Problem::on_host;
  // rows a thread owns
  static constexpr int lanes   = on_host ? Tuning::host_tile_rows : Problem::RowWalk::rows;
  static constexpr int threads = on_host ? 1 : Tuning::tile_width;      // threads side by side
  static constexpr int rows    = lanes * threads;                       // rows a tile
  static constexpr int depth = on_host ? Tuning::host_tile_depth : 16;  // classes taken in at once

  KOKKOS_FUNCTION static std::int64_t count(std::int64_t all_rows) {
    return (all_rows + rows - 1) / rows;
  }
};

/// A thread's place in a tile.
template <class Problem>
struct TileThread {
  std::int64_t first_row;
  int row_count;  // rows of the thread's lanes that exist
  int column;     // which of Tile::threads
  int slice;      // which share of the classes
  int slices;

  template <class Member>
  KOKKOS_FUNCTION TileThread(const Member& team, std::int64_t tile, std::int64_t all_rows)
      : column(team.team_rank() % Tile<Problem>::threads),
        slice(team.team_rank() / Tile<Problem>::threads),
        slices(team.team_size() / Tile<Problem>::threads) {
    first_row                 = tile * Tile<Problem>::rows + column * Tile<Problem>::lanes;
    const std::int64_t behind = all_rows - first_row;
    row_count                 = static_cast<int>(
        behind < 0 ? 0 : (behind < Tile<Problem>::lanes ? behind : Tile<Problem>::lanes));
  }

  /// Calls visit(first class, depth) for the slice's classes of a range; depth is a
  /// std::integral_constant.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_block(const ClassRange& range, const Visit& visit) const {
    constexpr int depth     = Tile<Problem>::depth;
    const std::int64_t full = range.size() / depth;
    for (std::int64_t block = slice; block < full; block += slices)
      visit(range.begin + block * depth, std::integral_constant<int, depth>{});
    for (std::int64_t cls = range.begin + full * depth + slice; cls < range.end; cls += slices)
      visit(cls, std::integral_constant<int, 1>{});
  }
  /// Whether for_each_block visits cls, which is in the range.
  KOKKOS_FUNCTION bool takes(std::int64_t cls, const ClassRange& range) const {
    constexpr int depth      = Tile<Problem>::depth;
    const std::int64_t full  = range.size() / depth;
    const std::int64_t place = cls - range.begin;
    return (place < full * depth ? place / depth : place - full * depth) % slices == slice;
  }
};

/// The targets of a thread's rows, and whether their logits are to be read.
template <class Problem>
struct TileTargets {
  RowTarget<typename Problem::Scalar> target[Tile<Problem>::lanes];
  bool any_counts = false;
  bool all_count  = true;  // of the rows that exist

  KOKKOS_FUNCTION TileTargets(const Problem& problem, const TileThread<Problem>& thread) {
    for (int l = 0; l < Tile<Problem>::lanes; ++l) {
      target[l] = {RowKind::ignored, -1, 0, 0};
      if (l < thread.row_count) target[l] = problem.targets(thread.first_row + l);
      any_counts |= target[l].kind == RowKind::counts;
      all_count &= target[l].kind == RowKind::counts || l >= thread.row_count;
    }
  }
};

/// Whether a device thread's rows are neighbours whose elements of a class it can access as a pack.
template <int Lanes, class T>
KOKKOS_INLINE_FUNCTION bool rows_are_packs(const Matrix<T>& matrix) {
  return matrix.row_stride == 1 && matrix.class_stride % Lanes == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix.data) % alignof(Pack<T, Lanes>) == 0;
}

/// packs[d] = the pack at block + d stride. Tiles side by side may share a sector of memory, which
/// is to stay in cache until both have it.
template <class T, int Width, int Count>
KOKKOS_INLINE_FUNCTION void load_packs(const T* block, std::int64_t stride,
                                       Pack<T, Width> (&packs)[Count]) {
  unrolled<Count>([&](int d) {
    packs[d] = load_pack<Reuse::likely, Pack<T, Width>>(block);
    block += stride;
  });
}

/// values[d * lanes + l] = element (first_row + l, cls + d); anything for rows that do not exist.
template <class Problem, class T, class Scalar, int Size>
KOKKOS_INLINE_FUNCTION void load_block(const Matrix<const T>& matrix, std::int64_t first_row,
                                       int row_count, std::int64_t cls, Scalar (&values)[Size],
                                       Scalar fill) {
  constexpr int lanes = Tile<Problem>::lanes;
  if (row_count == 0) {
    for (auto& value : values) value = fill;
    return;
  }
  if (row_count < lanes) {
    // Lanes without a row of their own repeat the last one, without a branch; nobody uses them.
    unrolled<Size / lanes>([&](int d) {
      for (int l = 0; l < lanes; ++l) {
        const int existing    = l < row_count ? l : row_count - 1;
        values[d * lanes + l] = load_value<Scalar>(matrix(first_row + existing, cls + d));
      }
    });
    return;
  }
  const T* block = &matrix(first_row, cls);
  if constexpr (!Problem::on_host) {
    if (rows_are_packs<lanes>(matrix)) {
      Pack<T, lanes> packs[Size / lanes];
      load_packs(block, matrix.class_stride, packs);
      unrolled<Size / lanes>([&](int d) { widen_pack(packs[d], d * lanes, values); });
      return;
    }
  }
  if (matrix.row_stride == 1) {
    unrolled<Size / lanes>([&](int d) {
      for (int l = 0; l < lanes; ++l)
        values[d * lanes + l] = load_value<Scalar>(block[d * matrix.class_stride + l]);
    });
  } else {
    for (int l = 0; l < lanes; ++l)
      unrolled<Size / lanes>([&](int d) {
        values[d * lanes + l] =
            load_value<Scalar>(block[l * matrix.row_stride + d * matrix.class_stride]);
      });
  }
}

template <class Problem, class T, class Scalar, int Size>
KOKKOS_INLINE_FUNCTION void store_block(const Matrix<T>& matrix, std::int64_t first_row,
                                        int row_count, std::int64_t cls,
                                        const Scalar (&values)[Size]) {
  constexpr int lanes = Tile<Problem>::lanes;
  if constexpr (!Problem::on_host) {
    if (row_count == lanes && rows_are_packs<lanes>(matrix)) {
      T* block = &matrix(first_row, cls);
      unrolled<Size / lanes>([&](int d) {
        store_pack<Reuse::likely>(block, round_pack<T, lanes>(values, d * lanes));
        block += matrix.class_stride;
      });
      return;
    }
  }
  const int count = row_count < lanes ? row_count : lanes;
  if (lanes > 1 && matrix.row_stride != 1) {
    for (int l = 0; l < count; ++l)
      unrolled<Size / lanes>(
          [&](int d) { matrix(first_row + l, cls + d) = round_value<T>(values[d * lanes + l]); });
  } else {
    unrolled<Size / lanes>([&](int d) {
      T* const block = &matrix(first_row, cls + d);
      for (int l = 0; l < count; ++l)
        block[l * matrix.row_stride] = round_value<T>(values[d * lanes + l]);
    });
  }
}

template <class Problem, class Scalar, int Size>
KOKKOS_INLINE_FUNCTION void load_background_block(const Problem& problem,
                                                  const TileThread<Problem>& thread,
                                                  std::int64_t cls, Scalar (&b)[Size]) {
  constexpr int lanes = Tile<Problem>::lanes;
  unrolled<Size / lanes>([&](int d) {
    for (int l = 0; l < lanes; ++l)
      b[d * lanes + l] = l < thread.row_count
                             ? problem.targets.background(thread.first_row + l, cls + d)
                             : Scalar(0);
  });
}

/// The states of a tile's rows, after all slices: state[l] for the thread's lane l.
template <class Problem>
struct TileStates {
  typename Problem::State state[Tile<Problem>::lanes];
};

/// A device team and the scratch in which its slices meet.
template <class Problem, class Member>
class TileTeam {
 public:
  using State = typename Problem::State;

  KOKKOS_FUNCTION explicit TileTeam(const Member& team) : m_team(team) {
    if constexpr (!Problem::on_host)
      m_scratch =
          team.team_scratch(0).get_shmem_aligned(sizeof(State) * team.team_size(), alignof(State));
  }

  KOKKOS_FUNCTION void barrier() const {
    if constexpr (!Problem::on_host) m_team.team_barrier();
  }

  /// merge(into, from) over what the slices hold for a row; every slice gets the result. All
  /// threads of the team must call it.
  template <class Value, class Merge>
  KOKKOS_FUNCTION Value over_slices(const TileThread<Problem>& thread, const Value& mine,
                                    const Merge& merge) const {
    static_assert(sizeof(Value) <= sizeof(State));
    if constexpr (Problem::on_host) {
      return mine;
    } else {
      auto* const values         = static_cast<Value*>(m_scratch);
      values[m_team.team_rank()] = mine;
      m_team.team_barrier();
      Value all = values[thread.column];
      for (int s = 1; s < thread.slices; ++s)
        merge(all, values[s * Tile<Problem>::threads + thread.column]);
      m_team.team_barrier();  // the scratch is used again
      return all;
    }
  }
  KOKKOS_FUNCTION State merge_slices(const TileThread<Problem>& thread, const State& mine) const {
    if constexpr (Problem::on_host)
      return mine;
    else
      return merge_states(mine, [&](const auto& value) {
        return over_slices(thread, value, [](auto& into, const auto& from) { into.merge(from); });
      });
  }

 private:
  const Member& m_team;
  void* m_scratch = nullptr;
};

/// Takes in Depth classes from cls on of a thread's rows. packs: as rows_are_packs() has it, and
/// all the rows exist.
template <int Depth, class Problem, class States>
KOKKOS_INLINE_FUNCTION void absorb_block(const Problem& problem, const TileThread<Problem>& thread,
                                         std::int64_t cls, bool packs, States& states) {
  using Scalar         = typename Problem::Scalar;
  using Targets        = typename Problem::Targets;
  using LogitType      = typename Problem::LogitType;
  constexpr int lanes  = Tile<Problem>::lanes;
  constexpr bool words = !Problem::on_host && !Targets::has_background &&
                         widens_in_pairs<LogitType> && std::is_same_v<Scalar, float>;
  if constexpr (words) {
    if (packs) {
      Pack<LogitType, lanes> loaded[Depth];
      load_packs(&problem.logits(thread.first_row, cls), problem.logits.class_stride, loaded);
      std::uint32_t pairs[Depth];
      unrolled<Depth>([&](int d) { pairs[d] = Kokkos::bit_cast<std::uint32_t>(loaded[d]); });
      states.template absorb_words<LogitType>(pairs);
      return;
    }
  }
  Scalar z[Depth * lanes];
  load_block<Problem>(problem.logits, thread.first_row, thread.row_count, cls, z,
                      -infinity_v<Scalar>);
  if constexpr (Targets::has_background) {
    Scalar b[Depth * lanes];
    load_background_block(problem, thread, cls, b);
    states.absorb(z, b);
  } else {
    states.absorb(z);
  }
}

template <class Problem, class Member>
KOKKOS_INLINE_FUNCTION TileStates<Problem> sweep_tile(const Problem& problem,
                                                      const TileTeam<Problem, Member>& team,
                                                      const TileThread<Problem>& thread,
                                                      const TileTargets<Problem>& targets,
                                                      const ClassRange& range) {
  using Scalar        = typename Problem::Scalar;
  using Targets       = typename Problem::Targets;
  constexpr int lanes = Tile<Problem>::lanes;
  LaneStates<Scalar, Targets::has_background, lanes> states;
  const bool packs =
      !Problem::on_host && thread.row_count == lanes && rows_are_packs<lanes>(problem.logits);
  if (targets.any_counts)
    thread.for_each_block(range, [&](std::int64_t cls, auto depth) {
      absorb_block<decltype(depth)::value>(problem, thread, cls, packs, states);
    });
  TileStates<Problem> all;
  for (int l = 0; l < lanes; ++l) all.state[l] = team.merge_slices(thread, states.lane(l));
  return all;
}

/// The results of a thread's rows.
template <class Problem>
struct TileResults {
  RowResult<typename Problem::Scalar> row[Tile<Problem>::lanes];
};

/// The logits of the classes that hold the spikes of a thread's rows.
template <class Problem>
struct TileTargetLogits {
  typename Problem::Scalar z[Tile<Problem>::lanes];

  KOKKOS_FUNCTION TileTargetLogits(const Problem& problem, const TileThread<Problem>& thread,
                                   const TileTargets<Problem>& targets) {
    for (int l = 0; l < Tile<Problem>::lanes; ++l)
      z[l] = problem.target_logit(thread.first_row + l, targets.target[l].cls);
  }
};

template <class Problem>
KOKKOS_INLINE_FUNCTION TileResults<Problem> finish_tile(const Problem& problem,
                                                        const TileTargets<Problem>& targets,
                                                        const TileStates<Problem>& states,
                                                        const TileTargetLogits<Problem>& z_target) {
  TileResults<Problem> results;
  for (int l = 0; l < Tile<Problem>::lanes; ++l)
    results.row[l] = targets.target[l].kind == RowKind::counts
                         ? finish_row(problem, targets.target[l], states.state[l], z_target.z[l])
                         : unread_row<typename Problem::Scalar>(targets.target[l].kind);
  return results;
}

template <class Problem, class Member>
KOKKOS_INLINE_FUNCTION TileResults<Problem> forward_tile(const Problem& problem,
                                                         const TileTeam<Problem, Member>& team,
                                                         const TileThread<Problem>& thread,
                                                         const TileTargets<Problem>& targets) {
  const TileTargetLogits<Problem> z_target(problem, thread, targets);
  const auto states = sweep_tile(problem, team, thread, targets, {0, problem.classes});
  return finish_tile(problem, targets, states, z_target);
}

/// Stores the results of a thread's rows and adds them to its totals, once for all slices.
template <class Problem>
KOKKOS_INLINE_FUNCTION void put_tile(const TileThread<Problem>& thread,
                                     const TileTargets<Problem>& targets,
                                     const TileResults<Problem>& results,
                                     const ForwardResults<typename Problem::Scalar>& out,
                                     RowTotals& totals) {
  if (thread.slice != 0) return;
  for (int l = 0; l < thread.row_count; ++l) {
    out.put(thread.first_row + l, results.row[l]);
    totals.add_row(results.row[l].loss, targets.target[l].denominator);
  }
}

/// The statistics of a thread's rows.
template <class Problem>
struct TileStatistics {
  RowStatistics<typename Problem::Scalar> row[Tile<Problem>::lanes];
};

/// What the forward pass saved of a thread's rows, and their background totals.
template <class Problem, class Member>
KOKKOS_INLINE_FUNCTION TileStatistics<Problem> saved_tile(
    const Problem& problem, const TileTeam<Problem, Member>& team,
    const TileThread<Problem>& thread, const SavedRows<typename Problem::Scalar>& saved) {
  using Scalar             = typename Problem::Scalar;
  using Targets            = typename Problem::Targets;
  constexpr int lanes      = Tile<Problem>::lanes;
  Scalar background[lanes] = {};
  if constexpr (Targets::has_background && Targets::background_total_known) {
    for (int l = 0; l < lanes; ++l) background[l] = problem.targets.background_total();
  } else if constexpr (Targets::has_background) {
    LaneSums<Scalar, lanes> sums;
    thread.for_each_block({0, problem.classes}, [&](std::int64_t cls, auto depth) {
      Scalar b[decltype(depth)::value * lanes];
      load_background_block(problem, thread, cls, b);
      sums.add_chunk(b);
    });
    for (int l = 0; l < lanes; ++l)
      background[l] =
          team.over_slices(thread, sums[l], [](Scalar& into, Scalar from) { into += from; });
  }
  TileStatistics<Problem> statistics{};
  for (int l = 0; l < thread.row_count; ++l)
    statistics.row[l] = {saved.row_max[thread.first_row + l],
                         saved.row_log_sum[thread.first_row + l], background[l]};
  return statistics;
}

/// The gradients of a thread's rows, side by side for SIMD.
template <class Problem>
class TileGradients {
 public:
  using Scalar               = typename Problem::Scalar;
  static constexpr int lanes = Tile<Problem>::lanes;

  KOKKOS_FUNCTION TileGradients(const Problem& problem, const TileThread<Problem>& thread,
                                const TileTargets<Problem>& targets,
                                const TileStatistics<Problem>& statistics,
                                const GradientScale<Scalar>& scale, const ClassRange& range)
      : m_targets(targets) {
    Scalar z_target[lanes];
    for (int l = 0; l < lanes; ++l) {
      const auto& target = targets.target[l];
      m_max[l]           = statistics.row[l].max;
      m_log_sum[l]       = statistics.row[l].log_sum;
      m_background[l]    = statistics.row[l].background_total;
      m_total[l]         = target.spike + m_background[l];
      // In place, other teams may have written the gradient of a class outside of the range.
      z_target[l] =
          range.contains(target.cls) ? problem.logit(thread.first_row + l, target.cls) : Scalar(0);
    }
    set_scale(thread, scale);
    set_at_spike(problem, thread, z_target);
  }

  /// Values of a block of classes; not those of the spikes.
  template <int Size>
  KOKKOS_FUNCTION void compute(const Scalar (&z)[Size], Scalar (&values)[Size]) const {
    unrolled<Size / lanes>([&](int d) {
      for (int l = 0; l < lanes; ++l) {
        const Scalar log_p    = (z[d * lanes + l] - m_max[l]) - m_log_sum[l];
        values[d * lanes + l] = m_scale[l] * m_total[l] * exp_nonpositive(log_p);
      }
    });
    fill_uncounted(values);
  }

  /// The same with background mass b.
  template <int Size>
  KOKKOS_FUNCTION void compute(const Scalar (&z)[Size], const Scalar (&b)[Size],
                               Scalar (&values)[Size]) const {
    bool any_dominant = false;
    unrolled<Size / lanes>([&](int d) {
      for (int l = 0; l < lanes; ++l) {
        const int e        = d * lanes + l;
        const Scalar log_p = (z[e] - m_max[l]) - m_log_sum[l];
        values[e]          = m_scale[l] * (m_total[l] * exp_nonpositive(log_p) - b[e]);
        any_dominant |= log_p > RowGradient<Scalar>::log_dominant;
      }
    });
    if (any_dominant)
      unrolled<Size>([&](int e) {
        const auto gradient = row_gradient(e % lanes);
        if (gradient.is_dominant(z[e]))
          values[e] = gradient.dominant(gradient.probability_less_1(z[e]), b[e], false);
      });
    fill_uncounted(values);
  }

  /// Of a class in the range.
  KOKKOS_FUNCTION Scalar at_spike(int l) const { return m_at_spike[l]; }

 private:
  KOKKOS_FUNCTION RowGradient<Scalar> row_gradient(int l) const {
    return {m_targets.target[l], {m_max[l], m_log_sum[l], m_background[l]}, m_scale[l]};
  }

  KOKKOS_FUNCTION void set_scale(const TileThread<Problem>& thread,
                                 const GradientScale<Scalar>& scale) {
    const Scalar common = scale.is_common() ? scale(0) : Scalar(0);
    for (int l = 0; l < lanes; ++l) {
      m_scale[l] = common;
      if (!scale.is_common() && l < thread.row_count) m_scale[l] = scale(thread.first_row + l);
    }
  }

  KOKKOS_FUNCTION void set_at_spike(const Problem& problem, const TileThread<Problem>& thread,
                                    const Scalar (&z_target)[lanes]) {
    for (int l = 0; l < lanes; ++l) {
      if constexpr (Problem::Targets::has_background) {
        const std::int64_t cls = m_targets.target[l].cls;
        m_at_spike[l]          = 0;
        if (cls >= 0)
          m_at_spike[l] = row_gradient(l).at_spike(
              z_target[l], problem.targets.background(thread.first_row + l, cls));
      } else {
        const Scalar log_p = (z_target[l] - m_max[l]) - m_log_sum[l];
        m_at_spike[l]      = m_scale[l] * m_total[l] * expm1_nonpositive(log_p);
      }
    }
  }

  template <int Size>
  KOKKOS_FUNCTION void fill_uncounted(Scalar (&values)[Size]) const {
    if (m_targets.all_count) return;
    unrolled<Size>([&](int e) {
      const RowKind kind = m_targets.target[e % lanes].kind;
      if (kind != RowKind::counts) values[e] = uncounted_gradient<Scalar>(kind);
    });
  }

  const TileTargets<Problem>& m_targets;
  Scalar m_max[lanes];
  Scalar m_log_sum[lanes];
  Scalar m_background[lanes];
  Scalar m_scale[lanes];
  Scalar m_total[lanes];
  Scalar m_at_spike[lanes];
};

/// Writes the gradients of a thread's rows in a range of classes, each logit read before it is
/// written.
template <class Problem, class GradientType, class Member>
KOKKOS_INLINE_FUNCTION void gradient_tile(const Problem& problem,
                                          const GradientTask<Problem, GradientType>& task,
                                          const TileTeam<Problem, Member>& team,
                                          const TileThread<Problem>& thread,
                                          const TileTargets<Problem>& targets,
                                          const TileStatistics<Problem>& statistics,
                                          const ClassRange& range) {
  using Scalar        = typename Problem::Scalar;
  constexpr int lanes = Tile<Problem>::lanes;
  const TileGradients<Problem> gradients(problem, thread, targets, statistics, task.scale, range);
  team.barrier();  // every slice has read the logits of the spikes
  thread.for_each_block(range, [&](std::int64_t cls, auto depth) {
    constexpr int size = decltype(depth)::value * lanes;
    Scalar z[size];
    Scalar values[size];
    if (targets.any_counts)
      load_block<Problem>(problem.logits, thread.first_row, thread.row_count, cls, z,
                          -infinity_v<Scalar>);
    else
      for (auto& z_e : z) z_e = 0;
    if constexpr (Problem::Targets::has_background) {
      Scalar b[size];
      load_background_block(problem, thread, cls, b);
      gradients.compute(z, b, values);
    } else {
      gradients.compute(z, values);
    }
    store_block<Problem>(task.gradient, thread.first_row, thread.row_count, cls, values);
  });
  for (int l = 0; l < thread.row_count; ++l) {
    const std::int64_t cls = targets.target[l].cls;
    if (range.contains(cls) && thread.takes(cls, range))
      task.gradient(thread.first_row + l, cls) = round_value<GradientType>(gradients.at_spike(l));
  }
}

/// forward[columns], and forward[rows_per_team] on the host
template <class Problem>
struct ForwardTiles {
  static constexpr std::size_t scratch_bytes_per_thread = sizeof(typename Problem::State);

  Problem problem;
  ForwardResults<typename Problem::Scalar> results;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const TileTeam<Problem, Member> team(member);
    const auto range = items_of<typename Problem::ExecutionSpace>(
        member.league_rank(), member.league_size(), Tile<Problem>::count(problem.rows));
    RowTotals totals;
    for (std::int64_t tile = range.begin; tile < range.end; tile += range.step) {
      const TileThread<Problem> thread(member, tile, problem.rows);
      const TileTargets<Problem> targets(problem, thread);
      put_tile(thread, targets, forward_tile(problem, team, thread, targets), results, totals);
    }
    results.reduction.finish(member,
                             sum_totals(member, member.team_size(), [&](int) { return totals; }));
  }
};

/// forward[columns] on a device where several teams share the classes of a tile: one for each part.
/// The last team of a tile merges the states of its parts.
template <class Problem>
struct ForwardTileParts {
  using State = typename Problem::State;

  static constexpr std::size_t scratch_bytes_per_thread = sizeof(State);

  Problem problem;
  Division division;
  ForwardResults<typename Problem::Scalar> results;
  State* states;     // parts x rows
  int* swept_parts;  // of each tile; 0 before the launch and after it

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const TileTeam<Problem, Member> team(member);
    const int tile = member.league_rank() / division.parts;
    const int part = member.league_rank() % division.parts;
    const TileThread<Problem> thread(member, tile, problem.rows);
    const TileTargets<Problem> targets(problem, thread);
    const TileTargetLogits<Problem> z_target(problem, thread, targets);
    const auto swept = sweep_tile(problem, team, thread, targets, division.range(part));
    if (thread.slice == 0)
      for (int l = 0; l < thread.row_count; ++l)
        state_of(part, thread.first_row + l) = swept.state[l];
    member.team_barrier();  // before its first thread counts
    if (!counts_last(member, swept_parts + tile, division.parts)) return;

    TileStates<Problem> all;
    for (int l = 0; l < Tile<Problem>::lanes; ++l) {
      State mine;
      if (l < thread.row_count)
        for (int p = thread.slice; p < division.parts; p += thread.slices)
          mine.merge(state_of(p, thread.first_row + l));
      all.state[l] = team.merge_slices(thread, mine);
    }
    RowTotals totals;
    put_tile(thread, targets, finish_tile(problem, targets, all, z_target), results, totals);
    results.reduction.finish(member,
                             sum_totals(member, member.team_size(), [&](int) { return totals; }),
                             tile, static_cast<int>(Tile<Problem>::count(problem.rows)));
  }

 private:
  KOKKOS_FUNCTION State& state_of(int part, std::int64_t row) const {
    return states[part * problem.rows + row];
  }
};

/// backward[columns], and backward[rows_per_team] on the host. On a device several teams may share
/// the classes of a tile.
template <class Problem, class GradientType>
struct BackwardTiles {
  static constexpr std::size_t scratch_bytes_per_thread = sizeof(typename Problem::State);

  Problem problem;
  GradientTask<Problem, GradientType> task;
  SavedRows<typename Problem::Scalar> saved;
  Division division = {problem.classes, 1, problem.classes};

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const TileTeam<Problem, Member> team(member);
    const auto range = items_of<typename Problem::ExecutionSpace>(
        member.league_rank(), member.league_size(),
        Tile<Problem>::count(problem.rows) * division.parts);
    for (std::int64_t item = range.begin; item < range.end; item += range.step) {
      const TileThread<Problem> thread(member, item / division.parts, problem.rows);
      const TileTargets<Problem> targets(problem, thread);
      gradient_tile(problem, task, team, thread, targets, saved_tile(problem, team, thread, saved),
                    division.range(static_cast<int>(item % division.parts)));
    }
  }
};

/// forward_backward[columns], and forward_backward[rows_per_team] on the host
template <class Problem, class GradientType>
struct ForwardBackwardTiles {
  static constexpr std::size_t scratch_bytes_per_thread = sizeof(typename Problem::State);

  Problem problem;
  ForwardResults<typename Problem::Scalar> results;
  GradientTask<Problem, GradientType> task;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const TileTeam<Problem, Member> team(member);
    const auto range = items_of<typename Problem::ExecutionSpace>(
        member.league_rank(), member.league_size(), Tile<Problem>::count(problem.rows));
    RowTotals totals;
    for (std::int64_t tile = range.begin; tile < range.end; tile += range.step) {
      const TileThread<Problem> thread(member, tile, problem.rows);
      const TileTargets<Problem> targets(problem, thread);
      const auto forward = forward_tile(problem, team, thread, targets);
      put_tile(thread, targets, forward, results, totals);
      TileStatistics<Problem> statistics;
      for (int l = 0; l < Tile<Problem>::lanes; ++l) statistics.row[l] = forward.row[l].statistics;
      gradient_tile(problem, task, team, thread, targets, statistics, {0, problem.classes});
    }
    results.reduction.finish(member,
                             sum_totals(member, member.team_size(), [&](int) { return totals; }));
  }
};

}  // namespace KokkosXent::Impl

#endif
