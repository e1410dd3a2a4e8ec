// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_GROUP_HPP
#define KOKKOSXENT_IMPL_GROUP_HPP

#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_SoftmaxState.hpp>
#include <impl/KokkosXent_Totals.hpp>

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace KokkosXent::Impl {

/// The states of `lanes` neighbouring lanes merged, for each of them.
template <Callers C, class State>
KOKKOS_INLINE_FUNCTION State merge_lanes(const State& mine, int lanes) {
  return merge_states(mine, [&](const auto& value) { return join_lanes<C>(value, lanes); });
}
/// The states of the threads of a nested range merged, one iteration each.
template <class Range, class State>
KOKKOS_INLINE_FUNCTION State merge_over(const Range& range, const State& mine) {
  return merge_states(mine, [&](const auto& value) {
    using Value = std::remove_cv_t<std::remove_reference_t<decltype(value)>>;
    Value merged;
    Kokkos::parallel_reduce(
        range, [&](int, Value& partial) { partial.merge(value); }, MergeStates<Value>(merged));
    return merged;
  });
}

/// The threads that share a row: all threads of a team. On the host a team is one thread.
template <class Member>
class TeamGroup {
  static constexpr bool on_host = runs_on_host<typename Member::execution_space>;

 public:
  /// At most one for each team of a launch: it takes team scratch.
  KOKKOS_FUNCTION explicit TeamGroup(const Member& team) : m_team(team) {
    if constexpr (has_lane_exchange) {
      const std::size_t bytes     = merge_scratch_bytes;
      const std::size_t alignment = alignof(double);
      m_scratch                   = team.team_scratch(0).get_shmem_aligned(bytes, alignment);
    }
  }

  KOKKOS_FUNCTION int index() const { return m_team.league_rank(); }
  KOKKOS_FUNCTION int count() const { return m_team.league_size(); }
  KOKKOS_FUNCTION int thread() const { return on_host ? 0 : m_team.team_rank(); }
  KOKKOS_FUNCTION int threads() const { return on_host ? 1 : m_team.team_size(); }

  /// Where the group is among those that share a warp, and whether it is the only one.
  KOKKOS_FUNCTION static constexpr int place_in_warp() { return 0; }
  KOKKOS_FUNCTION static constexpr bool has_warp() { return true; }

  /// The threads' states merged, for all threads. It has a barrier.
  template <Callers = Callers::neighbours, class State>
  KOKKOS_FUNCTION State merge(const State& mine) const {
    if constexpr (on_host)
      return mine;
    else if constexpr (has_lane_exchange)
      return merge_warps(mine);
    else
      return merge_over(Kokkos::TeamThreadRange(m_team, threads()), mine);
  }
  template <class Scalar>
  KOKKOS_FUNCTION Scalar sum(Scalar mine) const {
    if constexpr (on_host) {
      return mine;
    } else {
      Scalar sum = 0;
      Kokkos::parallel_reduce(
          Kokkos::TeamThreadRange(m_team, threads()),
          [&](int, Scalar& partial) { partial += mine; }, sum);
      return sum;
    }
  }
  /// A value that every thread has read where the group's threads may write after the next merge.
  template <class Scalar>
  KOKKOS_FUNCTION Scalar read_before_merge(Scalar value) const {
    return value;
  }
  /// Calls f in the first thread.
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    if (thread() == 0) f();
  }
  /// The team's totals, where every thread holds those of all the group's rows.
  KOKKOS_FUNCTION RowTotals team_totals(const RowTotals& totals) const { return totals; }

 private:
  /// Merges within warps, then across them through scratch, of which every other merge uses the
  /// other half: so one barrier is enough.
  template <class State>
  KOKKOS_FUNCTION State merge_warps(const State& mine) const {
    const int warps = threads() / warp_lanes;
    State all =
        merge_lanes<Callers::whole_warp>(mine, threads() < warp_lanes ? threads() : warp_lanes);
    if (warps <= 1) {
      m_team.team_barrier();
      return all;
    }
    static_assert(2 * warp_lanes * sizeof(State) <= merge_scratch_bytes);
    auto* const states = static_cast<State*>(m_scratch) + (m_odd ? warp_lanes : 0);
    m_odd              = !m_odd;
    if (thread() % warp_lanes == 0) states[thread() / warp_lanes] = all;
    m_team.team_barrier();
    int lanes = 2;
    while (lanes < warps) lanes *= 2;
    const int warp = thread() % lanes;
    return merge_lanes<Callers::whole_warp>(warp < warps ? states[warp] : State{}, lanes);
  }

  const Member& m_team;
  void* m_scratch    = nullptr;
  mutable bool m_odd = false;  // the half of scratch that the next merge uses
};

/// The threads that share a row: the vector lanes of one thread of a team. Devices only, where each
/// lane runs the whole kernel, with variables of its own.
template <class Member>
class VectorGroup {
 public:
  KOKKOS_FUNCTION VectorGroup(const Member& team, int vector_length)
      : m_team(team), m_lanes(vector_length) {
    Kokkos::parallel_for(lanes(), [&](int lane) { m_lane = lane; });
  }

  KOKKOS_FUNCTION int index() const {
    return m_team.league_rank() * m_team.team_size() + m_team.team_rank();
  }
  KOKKOS_FUNCTION int count() const { return m_team.league_size() * m_team.team_size(); }
  KOKKOS_FUNCTION int thread() const { return m_lane; }
  KOKKOS_FUNCTION int threads() const { return m_lanes; }

  KOKKOS_FUNCTION int place_in_warp() const {
    return has_lane_exchange ? m_team.team_rank() % (warp_lanes / m_lanes) : 0;
  }
  KOKKOS_FUNCTION bool has_warp() const { return !has_lane_exchange || m_lanes == warp_lanes; }

  /// Called by the group, or by all groups of a warp.
  template <Callers C = Callers::neighbours, class State>
  KOKKOS_FUNCTION State merge(const State& mine) const {
    if constexpr (has_lane_exchange)
      return merge_lanes<C>(mine, m_lanes);
    else
      return merge_over(lanes(), mine);
  }
  template <class Scalar>
  KOKKOS_FUNCTION Scalar sum(Scalar mine) const {
    Scalar sum = 0;
    Kokkos::parallel_reduce(
        lanes(), [&](int, Scalar& partial) { partial += mine; }, sum);
    return sum;
  }
  /// Where a merge does not order memory, one lane's value for all.
  template <class Scalar>
  KOKKOS_FUNCTION Scalar read_before_merge(Scalar value) const {
    if constexpr (has_lane_exchange) return value;
    Scalar read = value;
    Kokkos::single(
        Kokkos::PerThread(m_team), [&](Scalar& one) { one = value; }, read);
    return read;
  }
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    if (m_lane == 0) f();
  }
  KOKKOS_FUNCTION RowTotals team_totals(const RowTotals& totals) const {
    return sum_totals(m_team, m_team.team_size(), [&](int) { return totals; });
  }

 private:
  KOKKOS_FUNCTION auto lanes() const { return Kokkos::ThreadVectorRange(m_team, m_lanes); }

  const Member& m_team;
  int m_lanes;
  int m_lane = 0;
};

/// The group that a mapping gives a row to.
template <Mapping M, class Member>
KOKKOS_INLINE_FUNCTION auto make_group(const Member& team, int vector_length) {
  if constexpr (M == Mapping::rows_per_team)
    return VectorGroup<Member>(team, vector_length);
  else
    return TeamGroup<Member>(team);
}

}  // namespace KokkosXent::Impl

#endif
