// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_FORWARD_HPP
#define KOKKOSXENT_IMPL_FORWARD_HPP

#include <impl/KokkosXent_Group.hpp>
#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_SoftmaxState.hpp>
#include <impl/KokkosXent_Targets.hpp>
#include <impl/KokkosXent_Totals.hpp>
#include <impl/KokkosXent_Tuning.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace KokkosXent::Impl {

/// The inputs of every kernel, and the types that follow from them.
template <class ExecutionSpace_, class LogitType_, class Scalar_, class Targets_>
struct Problem {
  using ExecutionSpace = ExecutionSpace_;
  using LogitType      = LogitType_;
  using Scalar         = Scalar_;
  using Targets        = Targets_;
  using State          = SoftmaxState<Scalar, Targets::has_background>;

  static constexpr bool on_host = runs_on_host<ExecutionSpace>;
  /// Whether hosts have kernels of their own for it.
  static constexpr bool has_host_kernels = on_host && !Targets::has_background;
  /// Whether these sweep logits by words of two.
  static constexpr bool sums_pairs = has_host_kernels && pairs_words<Scalar, LogitType, LogitType>;
  static constexpr bool has_long_chunks =
      has_host_kernels && (std::is_same_v<LogitType, Scalar> || sums_pairs);
  static constexpr int host_vectors =
      has_long_chunks ? Tuning::host_long_chunk_vectors : Tuning::host_chunk_vectors;

  template <class T>
  using WalkOf  = Walk<ExecutionSpace, Scalar, T, host_vectors>;
  using RowWalk = WalkOf<LogitType>;

  /// Whether a thread's state takes many registers.
  static constexpr bool is_large = Targets::has_background || sizeof(Scalar) > 4;
  /// Threads of a device's multiprocessor that share its registers.
  static constexpr int resident_threads =
      is_large ? Tuning::resident_threads_large : Tuning::resident_threads;
  static constexpr int tile_threads = is_large ? Tuning::tile_threads_large : Tuning::tile_threads;
  /// Packs of a row that a thread of a team has in registers: of rows visited once, and twice.
  static constexpr int stream_packs = is_large ? Tuning::packs_large : Tuning::stream_packs;
  static constexpr int held_packs   = is_large ? Tuning::packs_large : Tuning::held_packs;

  /// Whether rows may stream through a device's registers: the background of a class is known
  /// without a second operand as large as the logits.
  static constexpr bool can_pack_rows =
      (!Targets::has_background || Targets::background_total_known) && RowWalk::packs;

  Matrix<const LogitType> logits;
  Targets targets;
  std::int64_t rows;
  std::int64_t classes;

  KOKKOS_FUNCTION Scalar logit(std::int64_t row, std::int64_t cls) const {
    return load_value<Scalar>(logits(row, cls));
  }
  /// The logit of the class that holds the spike; 0 where there is none (cls = -1).
  KOKKOS_FUNCTION Scalar target_logit(std::int64_t row, std::int64_t cls) const {
    return cls >= 0 ? logit(row, cls) : Scalar(0);
  }
  /// sum b_j of a row, where it is the same for all; else 0.
  KOKKOS_FUNCTION Scalar known_background_total() const {
    if constexpr (Targets::has_background && Targets::background_total_known)
      return targets.background_total();
    return 0;
  }
};

template <class Scalar>
struct RowResult {
  RowStatistics<Scalar> statistics;
  Scalar loss;
};

/// A row whose logits are not read.
template <class Scalar>
KOKKOS_INLINE_FUNCTION RowResult<Scalar> unread_row(RowKind kind) {
  constexpr Scalar nan = nan_v<Scalar>;
  return {{nan, nan, nan}, kind == RowKind::ignored ? Scalar(0) : nan};
}

template <class Problem>
KOKKOS_INLINE_FUNCTION RowResult<typename Problem::Scalar> finish_row(
    const Problem& problem, const RowTarget<typename Problem::Scalar>& target,
    const typename Problem::State& state, typename Problem::Scalar z_target) {
  using Scalar         = typename Problem::Scalar;
  using Targets        = typename Problem::Targets;
  const Scalar log_sum = state.log_sum();
  Scalar loss          = spike_loss(target, (state.max - z_target) + log_sum, log_sum);
  Scalar total         = 0;
  if constexpr (Targets::has_background) {
    if constexpr (Targets::background_total_known)
      total = problem.targets.background_total();
    else
      total = state.mass;
    loss += state.gap + total * log_sum;
  }
  return {{state.max, log_sum, total}, loss};
}

/// Where the forward pass puts its results.
template <class Scalar>
struct ForwardResults {
  Scalar* row_max;
  Scalar* row_log_sum;
  Scalar* losses;  // null but for Reduction::none
  std::int64_t loss_stride;
  TotalsReduction<Scalar> reduction;

  KOKKOS_FUNCTION void put(std::int64_t row, const RowResult<Scalar>& result) const {
    row_max[row]     = result.statistics.max;
    row_log_sum[row] = result.statistics.log_sum;
    if (losses) losses[row * loss_stride] = result.loss;
  }
};

/// Takes in the classes of a chunk.
template <class States, class Background, class Chunk, class Scalar, int Size>
KOKKOS_INLINE_FUNCTION void absorb_classes(States& states, const Background& background,
                                           const Chunk& chunk, const Scalar (&z)[Size]) {
  if constexpr (Background::exists) {
    Scalar b[Size];
    background.load(chunk, b);
    states.absorb(z, b);
  } else {
    states.absorb(z);
  }
}

/// The state of what one thread of a group walks of classes [begin, end).
template <Reuse R, class Problem>
KOKKOS_INLINE_FUNCTION typename Problem::State sweep_classes(const Problem& problem,
                                                             std::int64_t row, int thread,
                                                             int threads, std::int64_t begin,
                                                             std::int64_t end) {
  using Scalar           = typename Problem::Scalar;
  using RowWalk          = typename Problem::RowWalk;
  using Targets          = typename Problem::Targets;
  constexpr bool on_host = Problem::on_host;
  const auto& logits     = problem.logits;
  const std::int64_t head =
      RowWalk::head_size(logits.data + row * logits.row_stride, logits.class_stride, begin, end);
  const auto logits_row = RowWalk::row(logits, row, begin + head);

  std::conditional_t<Problem::has_host_kernels, RowState<Scalar>,
                     LaneStates<Scalar, Targets::has_background, RowWalk::lanes>>
      states;
  const typename Targets::template BackgroundRow<RowWalk> background(problem.targets, row,
                                                                     begin + head);
  const bool packed = logits_row.packed && background.packed();
  RowWalk::classes(thread, threads, begin, end, head, packed, [&](auto chunk) {
    using LogitType = typename Problem::LogitType;
    if constexpr (Problem::sums_pairs) {
      if (packed && chunk.is_whole()) {
        prefetch_ahead(logits_row, chunk);
        return states.absorb_pairs(
            *reinterpret_cast<const LogitType(*)[chunk.size]>(logits_row.data + chunk.first));
      }
    }
    visit_chunk<on_host, R, Scalar>(logits_row, chunk, [&](const auto& part, const auto& z) {
      absorb_classes(states, background, part, z);
    });
  });
  return states.merged();
}

/// The group's threads sweep classes [begin, end) of a row together.
template <Reuse R, class Problem, class Group>
KOKKOS_INLINE_FUNCTION typename Problem::State sweep_row(const Problem& problem, const Group& group,
                                                         std::int64_t row, std::int64_t begin,
                                                         std::int64_t end) {
  return group.merge(sweep_classes<R>(problem, row, group.thread(), group.threads(), begin, end));
}

/// Forward of one row by one group; every thread has the result. R: of the logits.
template <Reuse R = Reuse::none, class Problem, class Group>
KOKKOS_INLINE_FUNCTION RowResult<typename Problem::Scalar> forward_row(
    const Problem& problem, const Group& group, std::int64_t row,
    const RowTarget<typename Problem::Scalar>& target) {
  if (target.kind != RowKind::counts) return unread_row<typename Problem::Scalar>(target.kind);
  const auto z_target = group.read_before_merge(problem.target_logit(row, target.cls));
  const auto state    = sweep_row<R>(problem, group, row, 0, problem.classes);
  return finish_row(problem, target, state, z_target);
}

/// Puts result_of(row, target) of each row of a group, and their totals.
template <class Problem, class Member, class Group, class ResultOf>
KOKKOS_INLINE_FUNCTION void put_rows(const Problem& problem,
                                     const ForwardResults<typename Problem::Scalar>& results,
                                     const Member& team, const Group& group,
                                     const ResultOf& result_of) {
  const auto range =
      items_of<typename Problem::ExecutionSpace>(group.index(), group.count(), problem.rows);
  RowTotals totals;
  for (std::int64_t row = range.begin; row < range.end; row += range.step) {
    const auto target = problem.targets(row);
    const auto result = result_of(row, target);
    group.once([&]() { results.put(row, result); });
    totals.add_row(result.loss, target.denominator);
  }
  results.reduction.finish(team, group.team_totals(totals));
}

/// forward[rows_per_team] on devices, forward[row_per_team]
template <Mapping M, class Problem>
struct ForwardRows {
  Problem problem;
  ForwardResults<typename Problem::Scalar> results;
  int vector_length;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const auto group = make_group<M>(team, vector_length);
    put_rows(problem, results, team, group, [&](std::int64_t row, const auto& target) {
      return forward_row(problem, group, row, target);
    });
  }
};

template <class Problem>
struct ForwardRowsOf {
  template <Mapping M>
  using Kernel = ForwardRows<M, Problem>;
};

}  // namespace KokkosXent::Impl

#endif
