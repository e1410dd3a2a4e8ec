// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_PACKEDROWS_HPP
#define KOKKOSXENT_IMPL_PACKEDROWS_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_Group.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace KokkosXent::Impl {

/// packed_rows_per_team and packed_row_per_team on devices, for the passes forward, backward and
/// forward_backward: rows stream through the registers of a group (RowPacks), so that memory does
/// not wait for a row's reductions. forward_backward visits a row twice and reads it from memory
/// once: it must fit the group's registers. Needs packed rows, and a gradient whose packs are those
/// of the logits.
template <Mapping M, Pass P, int Packs, class Problem, class GradientType>
class PackedRows {
 public:
  using Scalar    = typename Problem::Scalar;
  using Targets   = typename Problem::Targets;
  using LogitType = typename Problem::LogitType;
  using RowWalk   = typename Problem::RowWalk;
  using RegisterPacks = RowPacks<RowWalk, LogitType, Scalar, Packs,
                                       M == Mapping::rows_per_team ? 0 : warp_lanes>;

  static constexpr bool sweeps          = P != Pass::backward;
  static constexpr bool writes_gradient = P != Pass::forward;

  PackedRows(const Problem& problem, const ForwardResults<Scalar>& results,
           const GradientTask<Problem, GradientType>& task, const SavedRows<Scalar>& saved,
           const Schedule& schedule)
      : m_problem(problem),
        m_results(results),
        m_task(task),
        m_saved(saved),
        m_vector_length(schedule.vector),
        m_packs_are_all(schedule.packs_are_all) {}

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const auto group = make_group<M>(team, m_vector_length);
    RowTotals totals;
    if (group.index() < m_problem.rows) totals = run_rows(group);
    if constexpr (sweeps) m_results.reduction.finish(team, group.team_totals(totals));
  }

 private:
  /// What is read of a row ahead of its logits: few registers' worth.
  struct RowInputs {
    std::int64_t label;  // Targets::load
    Scalar z_target;
    Scalar max;
    Scalar log_sum;
  };

  KOKKOS_FUNCTION const LogitType* row_data(std::int64_t row) const {
    return m_problem.logits.data + row * m_problem.logits.row_stride;
  }
  /// The row's logits; null if they are not to be read or there is no such row.
  KOKKOS_FUNCTION const LogitType* data_to_load(std::int64_t row, std::int64_t label) const {
    return row < m_problem.rows && m_problem.targets.kind(label) == RowKind::counts ? row_data(row)
                                                                                    : nullptr;
  }
  KOKKOS_FUNCTION RowInputs row_inputs(std::int64_t row, std::int64_t label) const {
    RowInputs inputs{label, 0, 0, 0};
    if (row >= m_problem.rows) return inputs;
    inputs.z_target = m_problem.target_logit(row, m_problem.targets.class_of(label));
    if constexpr (!sweeps) {
      inputs.max     = m_saved.row_max[row];
      inputs.log_sum = m_saved.row_log_sum[row];
    }
    return inputs;
  }

  template <class Group>
  KOKKOS_FUNCTION RowTotals run_rows(const Group& group) const {
    Scalar common = 0;
    if constexpr (writes_gradient)
      if (m_task.scale.is_common()) common = m_task.scale(0);
    RegisterPacks packs(group.thread(), group.threads(), m_problem.classes, m_packs_are_all);
    RowTotals totals;
    std::int64_t row = group.index();
    RowInputs inputs = row_inputs(row, m_problem.targets.load(row));
    if (const auto* data = data_to_load(row, inputs.label)) packs.load(data);
    while (row < m_problem.rows) {
      const std::int64_t next_row = row + group.count();
      std::int64_t next_label     = inputs.label;
      if (next_row < m_problem.rows) next_label = m_problem.targets.load(next_row);
      RowInputs next{};
      if (m_problem.targets.kind(inputs.label) == RowKind::counts) {
        run_row(group, row, inputs, common, next_row, next_label, next, packs, totals);
      } else {
        next = row_inputs(next_row, next_label);
        if (const auto* data = data_to_load(next_row, next_label)) packs.load(data);
        pass_over(group, row, inputs, totals);
      }
      row    = next_row;
      inputs = next;
    }
    return totals;
  }

  /// A row whose logits are not read.
  template <class Group>
  KOKKOS_FUNCTION void pass_over(const Group& group, std::int64_t row, const RowInputs& inputs,
                                 RowTotals& totals) const {
    const auto target = m_problem.targets.target(inputs.label);
    const auto result = unread_row<Scalar>(target.kind);
    if constexpr (sweeps) put(group, row, target, result, totals);
    if constexpr (writes_gradient)
      fill_gradient_row<Problem>(m_task, group, row, target.kind, 0, m_problem.classes);
  }

  template <class Group>
  KOKKOS_FUNCTION void put(const Group& group, std::int64_t row, const RowTarget<Scalar>& target,
                           const RowResult<Scalar>& result, RowTotals& totals) const {
    group.once([&]() { m_results.put(row, result); });
    totals.add_row(result.loss, target.denominator);
  }

  /// A row that counts, which packs hold the start of. Leaves there the start of next_row, and in
  /// next its inputs.
  template <class Group>
  KOKKOS_FUNCTION void run_row(const Group& group, std::int64_t row, const RowInputs& inputs,
                               Scalar common_scale, std::int64_t next_row, std::int64_t next_label,
                               RowInputs& next, RegisterPacks& packs, RowTotals& totals) const {
    const typename Targets::template BackgroundRow<RowWalk> background(m_problem.targets, row,
                                                                       packs.head());
    // In place, a lane may be writing the row before another has come so far.
    const Scalar z_target = sweeps && writes_gradient ? group.read_before_merge(inputs.z_target)
                                                      : inputs.z_target;
    RowStatistics<Scalar> statistics{};
    if constexpr (sweeps) {
      LaneStates<Scalar, Targets::has_background, RowWalk::lanes> states;
      const auto absorb = [&](const auto& positions, const auto& z) {
        absorb_classes(states, background, positions.chunk(), z);
      };
      const auto absorb_edge = [&](std::int64_t cls, Scalar value) {
        const Scalar z[1] = {value};
        absorb_classes(states, background, Chunk<1, 1, false>{cls, 1, cls + 1}, z);
      };
      if constexpr (writes_gradient) {
        packs.visit_held(absorb, absorb_edge);
      } else {
        next = row_inputs(next_row, next_label);
        packs.visit_and_load(data_to_load(next_row, next_label), absorb, absorb_edge);
      }
      const auto target = m_problem.targets.target(inputs.label);
      const auto result = finish_row(m_problem, target, group.merge(states.merged()), z_target);
      put(group, row, target, result, totals);
      statistics = result.statistics;
    } else {
      statistics = {inputs.max, inputs.log_sum, m_problem.known_background_total()};
    }

    if constexpr (writes_gradient) {
      const auto target  = m_problem.targets.target(inputs.label);
      const Scalar scale = m_task.scale.is_common() ? common_scale : m_task.scale(row);
      const RowGradient<Scalar> gradient(target, statistics, scale);
      GradientType* const out  = m_task.gradient.data + row * m_task.gradient.row_stride;
      GradientType* const body = out + packs.head();
      const bool holds_spike   = target.cls >= 0 && packs.visits(target.cls);
      next                     = row_inputs(next_row, next_label);
      const auto* next_data    = data_to_load(next_row, next_label);
      const auto write = [&](const auto& positions, const auto& z) {
        Scalar values[std::extent_v<std::remove_reference_t<decltype(z)>>];
        class_gradients(gradient, background, positions.chunk(), z, values);
        store_packs(body, positions, values);
      };
      const auto write_edge = [&](std::int64_t cls, Scalar value) {
        const Scalar z[1] = {value};
        Scalar values[1];
        class_gradients(gradient, background, Chunk<1, 1, false>{cls, 1, cls + 1}, z, values);
        out[cls] = round_value<GradientType>(values[0]);
      };
      if constexpr (sweeps)
        packs.visit_held_and_load(next_data, write, write_edge);
      else
        packs.visit_and_load(next_data, write, write_edge);
      if (holds_spike)
        store_spike(m_problem, gradient, row, target.cls, z_target, m_task.gradient);
    }
  }

  Problem m_problem;
  ForwardResults<Scalar> m_results;
  GradientTask<Problem, GradientType> m_task;
  SavedRows<Scalar> m_saved;
  int m_vector_length;
  bool m_packs_are_all;
};

}  // namespace KokkosXent::Impl

#endif
