// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_GROUP_HPP
#define KOKKOSXENT_IMPL_GROUP_HPP

#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_SoftmaxState.hpp>
#include <impl/KokkosXent_Totals.hpp>

#include <Kokkos_Core.hpp>

namespace KokkosXent::Impl {

/// The threads that share a row: all threads of a team. On the host a team is one thread.
template <class Member>
class TeamGroup {
  static constexpr bool on_host = runs_on_host<typename Member::execution_space>;

 public:
  KOKKOS_FUNCTION explicit TeamGroup(const Member& team) : m_team(team) {}

  KOKKOS_FUNCTION int index() const { return m_team.league_rank(); }
  KOKKOS_FUNCTION int count() const { return m_team.league_size(); }
  KOKKOS_FUNCTION int threads() const { return on_host ? 1 : m_team.team_size(); }

  /// Calls f(thread) for each thread of the group.
  template <class F>
  KOKKOS_FUNCTION void for_each_thread(const F& f) const {
    if constexpr (on_host)
      f(0);
    else
      Kokkos::parallel_for(Kokkos::TeamThreadRange(m_team, threads()), f);
  }
  /// f(thread) of all threads merged, for all threads.
  template <class State, class F>
  KOKKOS_FUNCTION State merge(const F& f) const {
    if constexpr (on_host) {
      return f(0);
    } else {
      State merged;
      Kokkos::parallel_reduce(
          Kokkos::TeamThreadRange(m_team, threads()),
          [&](int thread, State& partial) { partial.merge(f(thread)); },
          MergeStates<State>(merged));
      return merged;
    }
  }
  template <class Scalar, class F>
  KOKKOS_FUNCTION Scalar sum(const F& f) const {
    Scalar sum = 0;
    if constexpr (on_host)
      sum = f(0);
    else
      Kokkos::parallel_reduce(
          Kokkos::TeamThreadRange(m_team, threads()),
          [&](int thread, Scalar& partial) { partial += f(thread); }, sum);
    return sum;
  }
  /// f(), which reads what the group's threads may write over after the next merge.
  template <class F>
  KOKKOS_FUNCTION auto read_before_merge(const F& f) const {
    return f();  // a merge of a team has barriers
  }
  /// Calls f in one thread.
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerTeam(m_team), f);
  }
  /// Stores the team's totals; every thread holds those of all the group's rows.
  KOKKOS_FUNCTION void store_totals(const RowTotals& totals, RowTotals* out) const {
    once([&]() { *out = totals; });
  }

 private:
  const Member& m_team;
};

/// The threads that share a row: the vector lanes of one thread of a team. Devices only.
template <class Member>
class VectorGroup {
 public:
  KOKKOS_FUNCTION VectorGroup(const Member& team, int vector_length)
      : m_team(team), m_vector_length(vector_length) {}

  KOKKOS_FUNCTION int index() const {
    return m_team.league_rank() * m_team.team_size() + m_team.team_rank();
  }
  KOKKOS_FUNCTION int count() const { return m_team.league_size() * m_team.team_size(); }
  KOKKOS_FUNCTION int threads() const { return m_vector_length; }

  template <class F>
  KOKKOS_FUNCTION void for_each_thread(const F& f) const {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(m_team, m_vector_length), f);
  }
  template <class State, class F>
  KOKKOS_FUNCTION State merge(const F& f) const {
    State merged;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(m_team, m_vector_length),
        [&](int lane, State& partial) { partial.merge(f(lane)); }, MergeStates<State>(merged));
    return merged;
  }
  template <class Scalar, class F>
  KOKKOS_FUNCTION Scalar sum(const F& f) const {
    Scalar sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(m_team, m_vector_length),
        [&](int lane, Scalar& partial) { partial += f(lane); }, sum);
    return sum;
  }
  /// One lane reads and hands the value on: merges of vector lanes do not order memory.
  template <class F>
  KOKKOS_FUNCTION auto read_before_merge(const F& f) const {
    decltype(f()) value{};
    Kokkos::single(
        Kokkos::PerThread(m_team), [&](decltype(f())& read) { read = f(); }, value);
    return value;
  }
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerThread(m_team), f);
  }
  KOKKOS_FUNCTION void store_totals(const RowTotals& totals, RowTotals* out) const {
    store_team_totals(m_team, totals, out);
  }

 private:
  const Member& m_team;
  int m_vector_length;
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
