// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_PARTS_HPP
#define KOKKOSXENT_IMPL_PARTS_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_Group.hpp>
#include <impl/KokkosXent_Totals.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

// Kernels whose teams share rows.

namespace KokkosXent::Impl {

/// How rows are divided.
struct Division {
  std::int64_t rows;
  std::int64_t classes;
  int parts;
  std::int64_t part_size;

  KOKKOS_FUNCTION std::int64_t begin(int part) const { return part * part_size; }
  KOKKOS_FUNCTION std::int64_t end(int part) const {
    return begin(part) + part_size < classes ? begin(part) + part_size : classes;
  }
};

/// Where the parts of a row meet. All zero between launches.
template <class Scalar>
struct Meeting {
  int swept;  // parts whose states are there, over all rows that have met here
  int ready;  // rows whose statistics were there
  int done;   // parts whose gradients have been written, over all rows
  RowStatistics<Scalar> statistics;
};

/// Rows of a launch meet at row % meetings; a row begins there when the one before it has left.
template <class Problem>
struct Meetings {
  using Scalar = typename Problem::Scalar;
  using State  = typename Problem::State;

  Meeting<Scalar>* meetings;
  State* states;      // count x parts
  RowTotals* totals;  // of the rows that have met there
  int count;

  KOKKOS_FUNCTION int index(std::int64_t row) const { return static_cast<int>(row % count); }
  KOKKOS_FUNCTION int rows_before(std::int64_t row) const { return static_cast<int>(row / count); }
};

/// Waits, for a whole team, until what others count up has reached `goal`, and sees what they
/// stored before. The others must be running teams, or have been.
template <class Member>
KOKKOS_INLINE_FUNCTION void wait_for(const Member& team, int* counter, int goal) {
  Kokkos::single(Kokkos::PerTeam(team), [&]() {
    while (Kokkos::atomic_load(counter) < goal) {
    }
    Kokkos::memory_fence();
  });
  team.team_barrier();
}

/// Adds one to a counter after all that the team's first thread has stored; the count before, for
/// the whole team, which then sees what those who counted earlier had stored.
template <class Member>
KOKKOS_INLINE_FUNCTION int count_up(const Member& team, int* counter) {
  int before = 0;
  Kokkos::single(
      Kokkos::PerTeam(team),
      [&](int& count) {
        Kokkos::memory_fence();
        count = Kokkos::atomic_fetch_add(counter, 1);
        Kokkos::memory_fence();
      },
      before);
  return before;
}

/// Sweeps one part of a row; the team that is the last to do so merges the parts' states into the
/// row's results. True in that team. before: rows that have met at the row's meeting.
template <Reuse R, class Problem, class Group>
KOKKOS_INLINE_FUNCTION bool sweep_part(const Problem& problem, const Division& division,
                                       const Meetings<Problem>& meetings,
                                       const ForwardResults<typename Problem::Scalar>& results,
                                       const Group& group, std::int64_t row, int part,
                                       int before) {
  using Scalar = typename Problem::Scalar;
  using State  = typename Problem::State;
  const auto& team     = group.team();
  const int index      = meetings.index(row);
  auto& meeting        = meetings.meetings[index];
  State* const states  = meetings.states + std::int64_t(index) * division.parts;
  const auto target    = problem.targets(row);
  const bool counts    = target.kind == RowKind::counts;
  const Scalar z_target = problem.target_logit(row, target.cls);
  const State state    = counts ? sweep_row<R>(problem, group, row, division.begin(part),
                                               division.end(part))
                                : State{};
  if (before > 0) wait_for(team, &meeting.done, before * division.parts);
  group.once([&]() { states[part] = state; });
  if (count_up(team, &meeting.swept) != (before + 1) * division.parts - 1) return false;

  RowResult<Scalar> result = unread_row<Scalar>(target.kind);
  if (counts) {
    State all;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, division.parts),
        [&](int p, State& partial) { partial.merge(states[p]); }, MergeStates<State>(all));
    result = finish_row(problem, target, all, z_target);
  }
  group.once([&]() {
    results.put(row, result);
    meeting.statistics = result.statistics;
    RowTotals totals;
    if (before > 0) totals = meetings.totals[index];
    totals.add_row(result.loss, target.denominator);
    meetings.totals[index] = totals;
  });
  return true;
}

/// Adds up the rows' totals and makes all meetings zero again: the last thing a launch does.
template <class Problem, class Member>
KOKKOS_INLINE_FUNCTION void close_meetings(const Meetings<Problem>& meetings,
                                           const TotalsReduction<typename Problem::Scalar>& totals,
                                           const Member& team) {
  if (totals.results.wanted()) totals.put(team, meetings.count);
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, meetings.count), [&](int i) {
    meetings.meetings[i].swept = 0;
    meetings.meetings[i].ready = 0;
    meetings.meetings[i].done  = 0;
  });
}

/// forward[teams_per_row]: a team for each part of each row.
template <class Problem>
struct ForwardParts {
  Problem problem;
  Division division;
  Meetings<Problem> meetings;  // as many as rows
  ForwardResults<typename Problem::Scalar> results;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const std::int64_t row = team.league_rank() / division.parts;
    const int part         = team.league_rank() % division.parts;
    const TeamGroup<Member> group(team);
    if (!sweep_part<Reuse::none>(problem, division, meetings, results, group, row, part, 0)) return;
    int* const finished = results.reduction.finished;
    if (count_up(team, finished) != meetings.count - 1) return;
    close_meetings(meetings, results.reduction, team);
    Kokkos::single(Kokkos::PerTeam(team), [&]() { *finished = 0; });
  }
};

/// backward[teams_per_row]: a team for each part of each row.
template <class Problem, class GradientType>
struct BackwardParts {
  Problem problem;
  Division division;
  GradientTask<Problem, GradientType> task;
  SavedRows<typename Problem::Scalar> saved;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const TeamGroup<Member> group(team);
    const std::int64_t row = team.league_rank() / division.parts;
    const int part         = team.league_rank() % division.parts;
    gradient_row(problem, task, group, row, problem.targets(row), saved(problem, group, row),
                 division.begin(part), division.end(part));
  }
};

/// forward_backward[teams_per_row_in_sequence] on devices: teams draw tickets, in whose order the sweeps of a
/// row's parts are followed, `lag` rows later, by their gradients, while the row is in the last
/// level cache. Who waits for others waits for smaller tickets, which running teams hold: whoever
/// holds the smallest ticket waits for nobody, however few teams run at a time.
template <class Problem, class GradientType>
struct ForwardBackwardParts {
  Problem problem;
  Division division;
  Meetings<Problem> meetings;
  ForwardResults<typename Problem::Scalar> results;
  GradientTask<Problem, GradientType> task;
  std::int64_t* next_ticket;  // 0 before the launch and after it
  std::int64_t lag;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const TeamGroup<Member> group(team);
    const std::int64_t tickets_per_row = 2 * division.parts;
    const std::int64_t tickets         = (division.rows + lag) * tickets_per_row;
    for (std::int64_t ticket = draw(team); ticket < tickets; ticket = draw(team)) {
      const std::int64_t step = ticket / tickets_per_row;
      const int place         = static_cast<int>(ticket % tickets_per_row);
      if (place < division.parts) {
        if (step < division.rows) sweep(group, step, place);
      } else if (step >= lag) {
        write_gradient(group, step - lag, place - division.parts);
      }
    }
    if (!finishes_last(team, results.reduction.finished)) return;
    close_meetings(meetings, results.reduction, team);
    Kokkos::single(Kokkos::PerTeam(team), [&]() { *next_ticket = 0; });
  }

 private:
  template <class Member>
  KOKKOS_FUNCTION std::int64_t draw(const Member& team) const {
    std::int64_t ticket = 0;
    Kokkos::single(
        Kokkos::PerTeam(team),
        [&](std::int64_t& drawn) { drawn = Kokkos::atomic_fetch_add(next_ticket, std::int64_t(1)); },
        ticket);
    return ticket;
  }

  template <class Group>
  KOKKOS_FUNCTION void sweep(const Group& group, std::int64_t row, int part) const {
    const int before = meetings.rows_before(row);
    if (sweep_part<Reuse::likely>(problem, division, meetings, results, group, row, part, before))
      count_up(group.team(), &meetings.meetings[meetings.index(row)].ready);
  }

  template <class Group>
  KOKKOS_FUNCTION void write_gradient(const Group& group, std::int64_t row, int part) const {
    const auto& team = group.team();
    auto& meeting = meetings.meetings[meetings.index(row)];
    wait_for(team, &meeting.ready, meetings.rows_before(row) + 1);
    gradient_row(problem, task, group, row, problem.targets(row), meeting.statistics,
                 division.begin(part), division.end(part));
    team.team_barrier();  // all have read the statistics
    count_up(team, &meeting.done);
  }
};

}  // namespace KokkosXent::Impl

#endif
