// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_TOTALS_HPP
#define KOKKOSXENT_IMPL_TOTALS_HPP

#include <KokkosXent_Options.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_Targets.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>

namespace KokkosXent::Impl {

/// Sums over rows, in double: of row losses, and of what the rows add to the mean's D.
struct RowTotals {
  double loss        = 0;
  double denominator = 0;
};

/// Sums the threads' totals over the team in a fixed order, and has one thread store them.
template <class Member>
KOKKOS_INLINE_FUNCTION void store_team_totals(const Member& team, const RowTotals& mine,
                                              RowTotals* out) {
  RowTotals all;
  const auto every_thread = Kokkos::TeamThreadRange(team, team.team_size());
  Kokkos::parallel_reduce(
      every_thread, [&](int, double& sum) { sum += mine.loss; }, all.loss);
  Kokkos::parallel_reduce(
      every_thread, [&](int, double& sum) { sum += mine.denominator; }, all.denominator);
  Kokkos::single(Kokkos::PerTeam(team), [&]() { *out = all; });
}

/// Where the reduced loss and the denominator go. Null: not wanted.
template <class Scalar>
struct ReducedResults {
  Reduction reduction;
  Scalar* loss;
  double* denominator;

  KOKKOS_FUNCTION void put(const RowTotals& totals) const {
    if (denominator) *denominator = totals.denominator;
    if (!loss) return;
    const bool mean  = reduction == Reduction::mean;
    const double nan = nan_v<double>;
    *loss            = static_cast<Scalar>(
        !mean ? totals.loss : (totals.denominator == 0 ? nan : totals.loss / totals.denominator));
  }
};

/// One team adds the partial totals of a league, in a fixed order.
template <class Scalar>
struct ReduceTotals {
  const RowTotals* partials;
  int count;
  ReducedResults<Scalar> results;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    RowTotals all;
    const auto partial_range = Kokkos::TeamThreadRange(team, count);
    Kokkos::parallel_reduce(
        partial_range, [&](int i, double& sum) { sum += partials[i].loss; }, all.loss);
    Kokkos::parallel_reduce(
        partial_range, [&](int i, double& sum) { sum += partials[i].denominator; },
        all.denominator);
    Kokkos::single(Kokkos::PerTeam(team), [&]() { results.put(all); });
  }
};

/// The mean's D ahead of a sweep: partial sums of what the rows add to it.
template <class ExecutionSpace, class Targets>
struct SumDenominators {
  Targets targets;
  std::int64_t rows;
  RowTotals* partials;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t workers = std::int64_t(team.league_size()) * team.team_size();
    const std::int64_t worker =
        std::int64_t(team.league_rank()) * team.team_size() + team.team_rank();
    const StridedRange range = items_of<ExecutionSpace>(worker, workers, rows);
    RowTotals totals;
    for (std::int64_t row = range.begin; row < range.end; row += range.step)
      totals.denominator += static_cast<double>(targets(row).denominator);
    store_team_totals(team, totals, partials + team.league_rank());
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
Schedule small_schedule(const ExecutionSpace& exec, std::int64_t items, std::int64_t items_per_team,
                        int team) {
  const std::int64_t teams =
      std::max<std::int64_t>(1, (items + items_per_team - 1) / items_per_team);
  const auto league = static_cast<int>(std::min<std::int64_t>(teams, max_league(exec)));
  return {Mapping::row_per_team, league, team, 1, 1, 0};
}

/// One team for everything.
template <class ExecutionSpace>
Schedule one_team_schedule(const ExecutionSpace& exec) {
  return small_schedule(exec, 1, 1, Tuning::single_team);
}

}  // namespace KokkosXent::Impl

#endif
