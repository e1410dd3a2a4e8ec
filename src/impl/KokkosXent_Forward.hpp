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

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace KokkosXent::Impl {

/// The inputs of every kernel, and the types that follow from them.
template <class ExecutionSpace_, class LogitType_, class Scalar_, class Targets_>
struct Problem {
  using ExecutionSpace = ExecutionSpace_;
  using LogitType      = LogitType_;
  using Scalar         = Scalar_;
  using Targets        = Targets_;
  using RowWalk        = Walk<ExecutionSpace, Scalar, LogitType>;
  using State          = SoftmaxState<Scalar, Targets::has_background>;

  static constexpr bool on_host = runs_on_host<ExecutionSpace>;

  Matrix<const LogitType> logits;
  Targets targets;
  std::int64_t rows;
  std::int64_t classes;

  KOKKOS_FUNCTION Scalar logit(std::int64_t row, std::int64_t cls) const {
    return load_value<Scalar>(logits(row, cls));
  }
  /// The logit that holds the spike; 0 where there is none.
  KOKKOS_FUNCTION Scalar target_logit(std::int64_t row, const RowTarget<Scalar>& target) const {
    return target.cls >= 0 ? logit(row, target.cls) : Scalar(0);
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
  RowTotals* partials;  // null for Reduction::none

  KOKKOS_FUNCTION void put(std::int64_t row, const RowResult<Scalar>& result) const {
    row_max[row]     = result.statistics.max;
    row_log_sum[row] = result.statistics.log_sum;
    if (losses) losses[row * loss_stride] = result.loss;
  }
};

/// The state of what one thread of a group walks of classes [begin, end).
template <class Problem>
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

  LaneStates<Scalar, Targets::has_background, RowWalk::lanes> states;
  if constexpr (Targets::has_background) {
    const typename Targets::template BackgroundRow<RowWalk> background(problem.targets, row,
                                                                       begin + head);
    const bool packed = logits_row.packed && background.packed();
    RowWalk::classes(thread, threads, begin, end, head, packed, [&](auto chunk) {
      Scalar z[chunk.size];
      Scalar b[chunk.size];
      load_chunk<on_host>(logits_row, chunk, z, -infinity_v<Scalar>);
      background.load(chunk, b);
      states.absorb(z, b);
    });
  } else {
    RowWalk::classes(thread, threads, begin, end, head, logits_row.packed, [&](auto chunk) {
      Scalar z[chunk.size];
      load_chunk<on_host>(logits_row, chunk, z, -infinity_v<Scalar>);
      states.absorb(z);
    });
  }
  return states.merged();
}

/// The group's threads sweep classes [begin, end) of a row together.
template <class Problem, class Group>
KOKKOS_INLINE_FUNCTION typename Problem::State sweep_row(const Problem& problem, const Group& group,
                                                         std::int64_t row, std::int64_t begin,
                                                         std::int64_t end) {
  return group.template merge<typename Problem::State>(
      [&](int thread) { return sweep_classes(problem, row, thread, group.threads(), begin, end); });
}

/// Forward of one row by one group; every thread has the result.
template <class Problem, class Group>
KOKKOS_INLINE_FUNCTION RowResult<typename Problem::Scalar> forward_row(
    const Problem& problem, const Group& group, std::int64_t row,
    const RowTarget<typename Problem::Scalar>& target) {
  if (target.kind != RowKind::counts) return unread_row<typename Problem::Scalar>(target.kind);
  const auto z_target =
      group.read_before_merge([&]() { return problem.target_logit(row, target); });
  const auto state = sweep_row(problem, group, row, 0, problem.classes);
  return finish_row(problem, target, state, z_target);
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
    const auto range =
        items_of<typename Problem::ExecutionSpace>(group.index(), group.count(), problem.rows);
    RowTotals totals;
    for (std::int64_t row = range.begin; row < range.end; row += range.step) {
      const auto target = problem.targets(row);
      const auto result = forward_row(problem, group, row, target);
      group.once([&]() { results.put(row, result); });
      totals.loss += static_cast<double>(result.loss);
      totals.denominator += static_cast<double>(target.denominator);
    }
    if (results.partials) group.store_totals(totals, results.partials + team.league_rank());
  }
};

template <class Problem>
struct ForwardRowsOf {
  template <Mapping M>
  using Kernel = ForwardRows<M, Problem>;
};

/// forward[teams_per_row]: the states of the parts of every row.
template <class Problem>
struct SweepParts {
  Problem problem;
  int parts;
  std::int64_t part_size;
  typename Problem::State* states;  // rows x parts

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const TeamGroup<Member> group(team);
    const std::int64_t row   = team.league_rank() / parts;
    const std::int64_t begin = team.league_rank() % parts * part_size;
    const std::int64_t end =
        begin + part_size < problem.classes ? begin + part_size : problem.classes;
    if (problem.targets(row).kind != RowKind::counts) return;
    const auto state = sweep_row(problem, group, row, begin, end);
    group.once([&]() { states[team.league_rank()] = state; });
  }
};

/// merge_rows: one team turns the parts' states into the results of every row, and into the loss.
template <class Problem>
struct MergeParts {
  using Scalar = typename Problem::Scalar;
  using State  = typename Problem::State;

  Problem problem;
  ForwardResults<Scalar> results;
  ReducedResults<Scalar> reduced;
  int parts;
  const State* states;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    RowTotals all;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, problem.rows),
        [&](std::int64_t row, double& sum) { sum += static_cast<double>(merge_row(team, row)); },
        all.loss);
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, problem.rows),
        [&](std::int64_t row, double& sum) {
          sum += static_cast<double>(problem.targets(row).denominator);
        },
        all.denominator);
    Kokkos::single(Kokkos::PerTeam(team), [&]() { reduced.put(all); });
  }

 private:
  template <class Member>
  KOKKOS_FUNCTION Scalar merge_row(const Member& team, std::int64_t row) const {
    const auto target = problem.targets(row);
    State state;
    if (target.kind == RowKind::counts)
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(team, parts),
          [&](int part, State& partial) { partial.merge(states[row * parts + part]); },
          MergeStates<State>(state));
    const auto result = target.kind == RowKind::counts
                            ? finish_row(problem, target, state, problem.target_logit(row, target))
                            : unread_row<Scalar>(target.kind);
    Kokkos::single(Kokkos::PerThread(team), [&]() { results.put(row, result); });
    return result.loss;
  }
};

}  // namespace KokkosXent::Impl

#endif
