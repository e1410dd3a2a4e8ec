// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_PACKEDROWS_HPP
#define KOKKOSXENT_IMPL_PACKEDROWS_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_Group.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace KokkosXent::Impl {

/// Takes in the packs and edges of a row.
template <bool HasBackground, class Background, class Packs>
class PacksSweep {
 public:
  using Scalar = typename Packs::scalar_type;

  KOKKOS_FUNCTION explicit PacksSweep(const Background& background) : m_background(background) {}

  template <class Positions, int Size>
  KOKKOS_FUNCTION void absorb(const Positions& positions, const Scalar (&z)[Size]) {
    absorb_classes(m_states, m_background, positions.chunk(), z);
  }
  KOKKOS_FUNCTION void absorb_edge(std::int64_t cls, Scalar logit) {
    const Scalar z[1] = {logit};
    absorb_classes(m_states, m_background, Chunk<1, 1, false>{cls, 1, cls + 1}, z);
  }
  KOKKOS_FUNCTION auto state() const { return m_states.merged(); }

 private:
  const Background& m_background;
  LaneStates<Scalar, HasBackground, 1> m_states;
};

/// The state of one thread's share of a row, which packs hold the start of; they then hold that of
/// next_row.
template <bool HasBackground, class Background, class Packs, class T>
KOKKOS_INLINE_FUNCTION auto sweep_packs(const Background& background, Packs& packs,
                                        const T* next_row) {
  PacksSweep<HasBackground, Background, Packs> sweep(background);
  packs.visit_and_load(
      next_row, [&](const auto& positions, const auto& z) { sweep.absorb(positions, z); },
      [&](std::int64_t cls, auto z) { sweep.absorb_edge(cls, z); });
  return sweep.state();
}
/// The same of a row that is to be visited once more.
template <bool HasBackground, class Background, class Packs>
KOKKOS_INLINE_FUNCTION auto sweep_packs_first(const Background& background, Packs& packs) {
  PacksSweep<HasBackground, Background, Packs> sweep(background);
  packs.visit_first([&](const auto& positions, const auto& z) { sweep.absorb(positions, z); },
                    [&](std::int64_t cls, auto z) { sweep.absorb_edge(cls, z); });
  return sweep.state();
}

/// Writes the gradients of a row's packs and edges, as if none held the spike. Packed: packs of the
/// logits are packs of the gradient.
template <bool Packed, class Packs, class Targets, class GradientType>
class GradientRowWriter {
 public:
  using Scalar     = typename Packs::scalar_type;
  using Background = typename Targets::template BackgroundRow<typename Packs::walk_type>;

  KOKKOS_FUNCTION GradientRowWriter(const RowGradient<Scalar>& gradient,
                                    const Background& background, GradientType* row,
                                    std::int64_t stride, int head)
      : m_gradient(gradient),
        m_background(background),
        m_row(row),
        m_stride(Packed ? 1 : stride),
        m_body(row + head * m_stride) {}

  template <class Positions, int Size>
  KOKKOS_FUNCTION void write(const Positions& positions, const Scalar (&z)[Size]) const {
    Scalar values[Size];
    class_gradients(m_gradient, m_background, positions.chunk(), z, values);
    if constexpr (Packed)
      store_packs(m_body, positions, values);
    else
      store_classes(m_body, m_stride, positions, values);
  }
  KOKKOS_FUNCTION void write_edge(std::int64_t cls, Scalar logit) const {
    const Scalar z[1] = {logit};
    Scalar values[1];
    class_gradients(m_gradient, m_background, Chunk<1, 1, false>{cls, 1, cls + 1}, z, values);
    m_row[cls * m_stride] = round_value<GradientType>(values[0]);
  }

 private:
  const RowGradient<Scalar>& m_gradient;
  const Background& m_background;
  GradientType* m_row;
  std::int64_t m_stride;
  GradientType* m_body;
};

/// packed_rows_per_team and packed_row_per_team on devices, for the passes forward, backward and
/// forward_backward: rows stream through the registers of a group (RowPacks), so that memory does
/// not wait for a row's reductions. forward_backward visits a row twice, and reads again only what
/// does not fit the group's registers. Needs packed rows.
template <Mapping M, Pass P, bool PackedGradient, int Packs, class Problem, class GradientType>
class PackedRows {
 public:
  using Scalar    = typename Problem::Scalar;
  using Targets   = typename Problem::Targets;
  using LogitType = typename Problem::LogitType;
  using RowWalk   = typename Problem::RowWalk;
  using RegisterPacks =
      RowPacks<RowWalk, LogitType, Scalar, Packs, M == Mapping::rows_per_team ? 0 : warp_lanes>;

  static constexpr bool sweeps          = P != Pass::backward;
  static constexpr bool writes_gradient = P != Pass::forward;
  static constexpr Reuse first_load     = P == Pass::forward_backward ? Reuse::likely : Reuse::none;

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
    packs.template load<first_load>(data_to_load(row, inputs.label));
    while (row < m_problem.rows) {
      const std::int64_t next_row = row + group.count();
      std::int64_t next_label     = inputs.label;
      if (next_row < m_problem.rows) next_label = m_problem.targets.load(next_row);
      RowInputs next{};
      if (m_problem.targets.kind(inputs.label) == RowKind::counts) {
        run_row(group, row, inputs, common, next_row, next_label, next, packs, totals);
      } else {
        next = row_inputs(next_row, next_label);
        packs.template load<first_load>(data_to_load(next_row, next_label));
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
    const Scalar z_target =
        sweeps && writes_gradient ? group.read_before_merge(inputs.z_target) : inputs.z_target;
    RowStatistics<Scalar> statistics{};
    if constexpr (sweeps) {
      typename Problem::State state;
      if constexpr (writes_gradient) {
        state = sweep_packs_first<Targets::has_background>(background, packs);
      } else {
        next  = row_inputs(next_row, next_label);
        state = sweep_packs<Targets::has_background>(background, packs,
                                                     data_to_load(next_row, next_label));
      }
      const auto target = m_problem.targets.target(inputs.label);
      const auto result = finish_row(m_problem, target, group.merge(state), z_target);
      put(group, row, target, result, totals);
      statistics = result.statistics;
    } else {
      statistics = {inputs.max, inputs.log_sum, m_problem.known_background_total()};
    }

    if constexpr (writes_gradient) {
      const auto target  = m_problem.targets.target(inputs.label);
      const Scalar scale = m_task.scale.is_common() ? common_scale : m_task.scale(row);
      const RowGradient<Scalar> gradient(target, statistics, scale);
      const bool holds_spike = target.cls >= 0 && packs.visits(target.cls);
      next                   = row_inputs(next_row, next_label);
      const auto* next_data  = data_to_load(next_row, next_label);
      const GradientRowWriter<PackedGradient, RegisterPacks, Targets, GradientType> writer(
          gradient, background, m_task.gradient.data + row * m_task.gradient.row_stride,
          m_task.gradient.class_stride, packs.head());
      const auto write = [&](const auto& positions, const auto& z) { writer.write(positions, z); };
      const auto write_edge = [&](std::int64_t cls, Scalar z) { writer.write_edge(cls, z); };
      if constexpr (sweeps)
        packs.visit_second_and_load(next_data, write, write_edge);
      else
        packs.visit_and_load(next_data, write, write_edge);
      if (holds_spike) store_spike(m_problem, gradient, row, target.cls, z_target, m_task.gradient);
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
