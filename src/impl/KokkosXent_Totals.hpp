// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_TOTALS_HPP
#define KOKKOSXENT_IMPL_TOTALS_HPP

#include <KokkosXent_Options.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_SoftmaxState.hpp>
#include <impl/KokkosXent_Targets.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>

namespace KokkosXent::Impl {

/// Sums over rows, in double: of row losses, and of what the rows add to the mean's D.
struct RowTotals {
  double loss        = 0;
  double denominator = 0;

  template <class Scalar>
  KOKKOS_FUNCTION void add_row(Scalar row_loss, Scalar row_denominator) {
    loss += static_cast<double>(row_loss);
    denominator += static_cast<double>(row_denominator);
  }
  KOKKOS_FUNCTION void merge(const RowTotals& other) {
    loss += other.loss;
    denominator += other.denominator;
  }
};

/// f(i) of all i in [0, count), merged in a fixed order by the team's threads, for all of them.
template <class Member, class F>
KOKKOS_INLINE_FUNCTION RowTotals sum_totals(const Member& team, int count, const F& f) {
  RowTotals all;
  Kokkos::parallel_reduce(
      Kokkos::TeamThreadRange(team, count), [&](int i, RowTotals& partial) { partial.merge(f(i)); },
      MergeStates<RowTotals>(all));
  return all;
}

/// True in the last of `all` teams that come here; it sees what the others' first threads
/// (Kokkos::PerTeam) have stored before they came, and their other threads before a team barrier
/// ahead of that. counter is 0 before the first and after the last.
template <class Member>
KOKKOS_INLINE_FUNCTION bool counts_last(const Member& team, int* counter, int all) {
  int last = 0;
  Kokkos::single(
      Kokkos::PerTeam(team),
      [&](int& is_last) {
        Kokkos::memory_fence();
        is_last = Kokkos::atomic_fetch_add(counter, 1) == all - 1 ? 1 : 0;
        Kokkos::memory_fence();
        if (is_last) *counter = 0;
      },
      last);
  return last != 0;
}

/// Where the reduced loss and the denominator go. Null: not wanted.
template <class Scalar>
struct ReducedResults {
  Reduction reduction;
  Scalar* loss;
  double* denominator;

  KOKKOS_FUNCTION bool wanted() const { return loss || denominator; }

  KOKKOS_FUNCTION void put(const RowTotals& totals) const {
    if (denominator) *denominator = totals.denominator;
    if (!loss) return;
    const bool mean  = reduction == Reduction::mean;
    const double nan = nan_v<double>;
    *loss            = static_cast<Scalar>(
        !mean ? totals.loss : (totals.denominator == 0 ? nan : totals.loss / totals.denominator));
  }
};

/// How teams arrive at the totals of all rows: each leaves its own, and the last one adds them up,
/// in a fixed order.
template <class Scalar>
struct TotalsReduction {
  RowTotals* partials;
  int* finished;
  ReducedResults<Scalar> results;

  /// Called once by each of `all` teams, by team `index` with its totals in each of its threads.
  template <class Member>
  KOKKOS_FUNCTION void finish(const Member& team, const RowTotals& totals, int index,
                              int all) const {
    if (!results.wanted()) return;
    Kokkos::single(Kokkos::PerTeam(team), [&]() { partials[index] = totals; });
    if (!counts_last(team, finished, all)) return;
    const RowTotals sum = sum_totals(team, all, [&](int i) { return partials[i]; });
    Kokkos::single(Kokkos::PerTeam(team), [&]() { results.put(sum); });
  }
  /// For all teams of a launch.
  template <class Member>
  KOKKOS_FUNCTION void finish(const Member& team, const RowTotals& totals) const {
    finish(team, totals, team.league_rank(), team.league_size());
  }
};

/// The mean's D ahead of a sweep: what the rows add to it.
template <class ExecutionSpace, class Scalar, class Targets>
struct SumDenominators {
  Targets targets;
  std::int64_t rows;
  TotalsReduction<Scalar> reduction;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t workers = std::int64_t(team.league_size()) * team.team_size();
    const auto mine            = sum_totals(team, team.team_size(), [&](int thread) {
      const StridedRange range = items_of<ExecutionSpace>(
          std::int64_t(team.league_rank()) * team.team_size() + thread, workers, rows);
      RowTotals totals;
      for (std::int64_t row = range.begin; row < range.end; row += range.step)
        totals.add_row(Scalar(0), targets(row).denominator);
      return totals;
    });
    reduction.finish(team, mine);
  }
};

/// sum w_j, by one team.
template <class Scalar>
struct SumClassWeights {
  const Scalar* weights;
  std::int64_t stride;
  std::int64_t num_classes;
  double* sum;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    double all = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, num_classes),
        [&](std::int64_t cls, double& partial) {
          partial += static_cast<double>(weights[cls * stride]);
        },
        all);
    Kokkos::single(Kokkos::PerTeam(team), [&]() { *sum = all; });
  }
};

/// A schedule for the small kernels: teams that divide `items` among their threads.
template <class ExecutionSpace>
Schedule small_schedule(const ExecutionSpace& exec, std::int64_t items,
                        std::int64_t items_per_team) {
  const std::int64_t teams =
      std::max<std::int64_t>(1, (items + items_per_team - 1) / items_per_team);
  Schedule schedule{};
  schedule.mapping = Mapping::row_per_team;
  schedule.league  = static_cast<int>(std::min<std::int64_t>(teams, max_league(exec)));
  schedule.team    = Tuning::small_team;
  schedule.vector  = 1;
  return schedule;
}

}  // namespace KokkosXent::Impl

#endif
