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

// Kernels in which several teams share each of a few rows.

namespace KokkosXent::Impl {

/// Classes [begin, end).
struct ClassRange {
  std::int64_t begin;
  std::int64_t end;

  KOKKOS_FUNCTION std::int64_t size() const { return end - begin; }
  KOKKOS_FUNCTION bool contains(std::int64_t cls) const { return begin <= cls && cls < end; }
};

/// How a row is divided.
struct Division {
  std::int64_t classes;
  int parts;
  std::int64_t part_size;

  KOKKOS_FUNCTION ClassRange range(int part) const {
    const std::int64_t begin = part * part_size;
    return {begin, begin + part_size < classes ? begin + part_size : classes};
  }
};

/// forward[teams_per_row]: a team for each part of each row. The last team of a row merges the
/// states of its parts, and the last of those adds up the rows. A backward pass may find what they
/// read in cache.
template <class Problem>
struct ForwardParts {
  using Scalar = typename Problem::Scalar;
  using State  = typename Problem::State;

  Problem problem;
  Division division;
  ForwardResults<Scalar> results;
  State* states;     // rows x parts
  int* swept_parts;  // of each row; 0 before the launch and after it

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const TeamGroup<Member> group(team);
    const std::int64_t row  = team.league_rank() / division.parts;
    const int part          = team.league_rank() % division.parts;
    const auto target       = problem.targets(row);
    const Scalar z_target   = problem.target_logit(row, target.cls);
    State* const row_states = states + row * division.parts;
    if (target.kind == RowKind::counts) {
      const ClassRange range = division.range(part);
      const State state = sweep_row<Reuse::likely>(problem, group, row, range.begin, range.end);
      group.once([&]() { row_states[part] = state; });
    }
    if (!counts_last(team, swept_parts + row, division.parts)) return;

    RowResult<Scalar> result = unread_row<Scalar>(target.kind);
    if (target.kind == RowKind::counts) {
      State all;
      Kokkos::parallel_reduce(
          Kokkos::TeamThreadRange(team, division.parts),
          [&](int p, State& partial) { partial.merge(row_states[p]); }, MergeStates<State>(all));
      result = finish_row(problem, target, all, z_target);
    }
    RowTotals totals;
    totals.add_row(result.loss, target.denominator);
    group.once([&]() { results.put(row, result); });
    results.reduction.finish(team, totals, static_cast<int>(row), static_cast<int>(problem.rows));
  }
};

/// backward[teams_per_row]: a team for each part of each row. On a device they start with the last
/// one, which the cache may still hold from a forward pass; on the host a part stays with its core.
template <class Problem, class GradientType>
struct BackwardParts {
  Problem problem;
  Division division;
  GradientTask<Problem, GradientType> task;
  SavedRows<typename Problem::Scalar> saved;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const TeamGroup<Member> group(team);
    const int index =
        Problem::on_host ? team.league_rank() : team.league_size() - 1 - team.league_rank();
    const std::int64_t row = index / division.parts;
    const ClassRange range = division.range(index % division.parts);
    gradient_row(problem, task, group, row, problem.targets(row), saved(problem, group, row),
                 range.begin, range.end);
  }
};

}  // namespace KokkosXent::Impl

#endif
