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

/// Takes in the packs and edges of a row. The gap of the background is measured from `reference`
/// instead of the maximum, so that it does not change with that, and the state's mass is 0.
template <class Background, class Packs>
class PacksSweep {
 public:
  using Scalar = typename Packs::scalar_type;
  using T      = typename Packs::value_type;

  /// 16-bit floats are ordered before they are widened.
  static constexpr bool takes_words =
      !Background::exists && widens_in_pairs<T> && std::is_same_v<Scalar, float>;
  static constexpr int at_once =
      Packs::template at_once<std::conditional_t<takes_words, T, Scalar>>;

  KOKKOS_FUNCTION PacksSweep(const Background& background, Scalar reference)
      : m_background(background), m_reference(reference) {}

  template <int Count, int Run, bool Whole>
  KOKKOS_FUNCTION void absorb(const PackPositions<Count, Run, Whole>& positions,
                              Pack<T, Run>* packs) {
    fill_missing<Scalar>(positions, packs);
    if constexpr (takes_words) {
      constexpr int pack_words = Run / 2;
      std::uint32_t words[Count * pack_words];
      unrolled<Count>([&](int p) {
        const auto pack = Kokkos::bit_cast<PackWords<Run>>(packs[p]);
        unrolled<pack_words>([&](int w) { words[p * pack_words + w] = pack.word[w]; });
      });
      m_states.template absorb_words<T>(words);
    } else {
      Scalar z[Count * Run];
      widen_packs(positions, packs, z);
      absorb_classes(positions.chunk(), z);
    }
  }
  KOKKOS_FUNCTION void absorb_edge(std::int64_t cls, Scalar logit) {
    const Scalar z[1] = {logit};
    absorb_classes(Chunk<1, 1, false>{cls, 1, cls + 1}, z);
  }
  KOKKOS_FUNCTION auto state() const { return m_states.merged(); }

 private:
  template <class Chunk, int Size>
  KOKKOS_FUNCTION void absorb_classes(const Chunk& chunk, const Scalar (&z)[Size]) {
    m_states.absorb(z);
    if constexpr (Background::exists) m_states.add_gap(m_background.gap(chunk, z, m_reference));
  }

  const Background& m_background;
  Scalar m_reference;
  LaneStates<Scalar, Background::exists, 1> m_states;
};

/// The state of one thread's share of a row, which packs hold the start of; they then hold that of
/// next_row.
template <class Background, class Packs>
KOKKOS_INLINE_FUNCTION auto sweep_packs(const Background& background,
                                        typename Packs::scalar_type reference, Packs& packs,
                                        const typename Packs::value_type* next_row) {
  using Sweep = PacksSweep<Background, Packs>;
  Sweep sweep(background, reference);
  packs.template visit_and_load<Sweep::at_once, Reuse::none>(
      next_row, [&](const auto& positions, auto* loaded) { sweep.absorb(positions, loaded); },
      [&](std::int64_t cls, auto z) { sweep.absorb_edge(cls, z); });
  return sweep.state();
}
/// The same of a row that is to be visited once more. R: of logits before that.
template <Reuse R, class Background, class Packs>
KOKKOS_INLINE_FUNCTION auto sweep_packs_first(const Background& background,
                                              typename Packs::scalar_type reference, Packs& packs) {
  using Sweep = PacksSweep<Background, Packs>;
  Sweep sweep(background, reference);
  packs.template visit_first<Sweep::at_once, R>(
      [&](const auto& positions, auto* loaded) { sweep.absorb(positions, loaded); },
      [&](std::int64_t cls, auto z) { sweep.absorb_edge(cls, z); });
  return sweep.state();
}

/// Where a gradient is written: in place of the logits, or elsewhere, in packs that belong to packs
/// of the logits, or class by class.
enum class GradientPlace { in_place, packs, classes };

/// Writes the gradients of a row's packs and edges, as if none held the spike. Packed: packs of the
/// logits are packs of the gradient.
template <bool Packed, class Packs, class Targets, class GradientType>
class GradientRowWriter {
 public:
  using Scalar     = typename Packs::scalar_type;
  using Background = typename Targets::template BackgroundRow<typename Packs::walk_type, true>;

  static constexpr int at_once = Packs::template at_once<Scalar>;

  KOKKOS_FUNCTION GradientRowWriter(const RowGradient<Scalar>& gradient,
                                    const Background& background, GradientType* row,
                                    std::int64_t stride, int head)
      : m_gradient(gradient),
        m_background(background),
        m_row(row),
        m_stride(Packed ? 1 : stride),
        m_body(row + head * m_stride) {}

  template <class T, int Count, int Run, bool Whole>
  KOKKOS_FUNCTION void write(const PackPositions<Count, Run, Whole>& positions,
                             Pack<T, Run>* packs) const {
    // A class of no row must not pass for the row's dominant one.
    if constexpr (Background::exists) fill_missing<Scalar>(positions, packs);
    Scalar z[Count * Run];
    widen_packs(positions, packs, z);
    Scalar values[Count * Run];
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
template <Mapping M, Pass P, GradientPlace Place, int Packs, class Problem, class GradientType>
class PackedRows {
 public:
  using Scalar                   = typename Problem::Scalar;
  using Targets                  = typename Problem::Targets;
  using LogitType                = typename Problem::LogitType;
  using RowWalk                  = typename Problem::RowWalk;
  static constexpr bool has_team = M == Mapping::row_per_team;
  static constexpr bool lines    = has_team && P == Pass::backward;
  using RegisterPacks =
      RowPacks<RowWalk, LogitType, Scalar, Packs, has_team ? warp_lanes : 0, lines>;

  static constexpr bool sweeps          = P != Pass::backward;
  static constexpr bool writes_gradient = P != Pass::forward;
  /// Of logits, as they are first read.
  static constexpr Reuse reuse = Place == GradientPlace::in_place ? Reuse::certain
                                 : P == Pass::forward_backward    ? Reuse::likely
                                                                  : Reuse::none;

  PackedRows(const Problem& problem, const ForwardResults<Scalar>& results,
             const GradientTask<Problem, GradientType>& task, const SavedRows<Scalar>& saved,
             const Schedule& schedule)
      : m_problem(problem),
        m_results(results),
        m_task(task),
        m_saved(saved),
        m_vector_length(schedule.vector),
        m_packs_are_all(schedule.packs_are_all && (!lines || rows_start_lines(problem.logits))) {}

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const auto group       = make_group<M>(team, m_vector_length);
    const RowTotals totals = run_rows(group);
    if constexpr (sweeps) m_results.reduction.finish(team, group.team_totals(totals));
  }

 private:
  static bool rows_start_lines(const Matrix<const LogitType>& logits) {
    const auto pitch = static_cast<std::uintptr_t>(logits.row_stride) * sizeof(LogitType);
    return (reinterpret_cast<std::uintptr_t>(logits.data) | pitch) % line_bytes == 0;
  }

  /// What is read of a row ahead of its logits: few registers' worth.
  struct RowInputs {
    std::int64_t row;
    std::int64_t label      = 0;        // Targets::load
    const LogitType* logits = nullptr;  // null: not to be read, of a row that does not count
    Scalar z_target         = 0;
    Scalar max              = 0;
    Scalar log_sum          = 0;

    KOKKOS_FUNCTION bool counts() const { return logits != nullptr; }
  };

  KOKKOS_FUNCTION bool exists(std::int64_t row) const { return row < m_problem.rows; }

  /// A row that does not exist does not count.
  KOKKOS_FUNCTION RowInputs load_inputs(std::int64_t row, std::int64_t label) const {
    RowInputs inputs{row, label};
    if (!exists(row) || m_problem.targets.kind(label) != RowKind::counts) return inputs;
    inputs.logits   = m_problem.logits.data + row * m_problem.logits.row_stride;
    inputs.z_target = load_value<Scalar>(inputs.logits[label]);
    if constexpr (!sweeps) {
      inputs.max     = m_saved.row_max[row];
      inputs.log_sum = m_saved.row_log_sum[row];
    }
    return inputs;
  }
  /// Groups that share a warp go through their rows together, so that they can merge together.
  template <class Group>
  KOKKOS_FUNCTION RowTotals run_rows(const Group& group) const {
    Scalar common = 0;
    if constexpr (writes_gradient)
      if (m_task.scale.is_common()) common = m_task.scale(0);
    RegisterPacks packs(group.thread(), group.threads(), m_problem.classes, m_packs_are_all);
    RowTotals totals;
    const auto load_label = [&](std::int64_t row) {
      return exists(row) ? m_problem.targets.load(row) : std::int64_t(0);
    };
    RowInputs inputs        = load_inputs(group.index(), load_label(group.index()));
    std::int64_t next_label = load_label(group.index() + std::int64_t(group.count()));
    packs.template load<reuse>(inputs.logits);
    while (exists(inputs.row - group.place_in_warp())) {
      const std::int64_t next_row         = inputs.row + group.count();
      const std::int64_t label_after_next = load_label(next_row + group.count());
      RowInputs next{};
      if (!inputs.counts() && group.has_warp()) {
        next = load_inputs(next_row, next_label);
        packs.template load<reuse>(next.logits);
        pass_over(group, inputs, totals);
      } else {
        run_row(group, inputs, common, next_row, next_label, next, packs, totals);
      }
      inputs     = next;
      next_label = label_after_next;  // so that the next row's loads need not wait for it
    }
    return totals;
  }

  /// A row whose logits are not read.
  template <class Group>
  KOKKOS_FUNCTION void pass_over(const Group& group, const RowInputs& inputs,
                                 RowTotals& totals) const {
    const auto target = m_problem.targets.target(inputs.label);
    if constexpr (sweeps) put(group, inputs.row, target, unread_row<Scalar>(target.kind), totals);
    if constexpr (writes_gradient)
      fill_gradient_row<Problem>(m_task, group, inputs.row, target.kind, 0, m_problem.classes);
  }

  /// sum b_j (reference - z_j) of a row that holds infinities, for which classes without mass are
  /// to be left out.
  template <class Group>
  KOKKOS_FUNCTION Scalar sum_gap(const Group& group, std::int64_t row, Scalar reference) const {
    LaneSums<Scalar, 1> sums;
    for (std::int64_t cls = group.thread(); cls < m_problem.classes; cls += group.threads()) {
      const Scalar b = m_problem.targets.background(row, cls);
      sums.add(0, keep_if(b != 0, b * (reference - m_problem.logit(row, cls))));
    }
    return group.sum(sums[0]);
  }

  template <class Group>
  KOKKOS_FUNCTION void put(const Group& group, std::int64_t row, const RowTarget<Scalar>& target,
                           const RowResult<Scalar>& result, RowTotals& totals) const {
    group.once([&]() { m_results.put(row, result); });
    totals.add_row(result.loss, target.denominator);
  }

  /// A row, which packs hold the start of. Leaves there the start of next_row, and in next its
  /// inputs.
  template <class Group>
  KOKKOS_FUNCTION void run_row(const Group& group, const RowInputs& inputs, Scalar common_scale,
                               std::int64_t next_row, std::int64_t next_label, RowInputs& next,
                               RegisterPacks& packs, RowTotals& totals) const {
    const std::int64_t row = inputs.row;
    const bool counts      = group.has_warp() || inputs.counts();
    const typename Targets::template BackgroundRow<RowWalk, true> background(m_problem.targets, row,
                                                                             packs.head());
    // In place, a lane may be writing the row before another has come so far.
    const Scalar z_target =
        sweeps && writes_gradient ? group.read_before_merge(inputs.z_target) : inputs.z_target;
    RowStatistics<Scalar> statistics{};
    if constexpr (sweeps) {
      typename Problem::State state;
      const Scalar reference = Kokkos::isfinite(z_target) ? z_target : Scalar(0);
      if constexpr (writes_gradient) {
        state = sweep_packs_first<reuse>(background, reference, packs);
      } else {
        next  = load_inputs(next_row, next_label);
        state = sweep_packs(background, reference, packs, next.logits);
      }
      state = group.template merge<Callers::whole_warp>(state);
      if constexpr (Targets::has_background) {
        if (counts && !Kokkos::isfinite(state.gap)) state.gap = sum_gap(group, row, reference);
        state.gap += m_problem.known_background_total() * (shift_of(state.max) - reference);
      }
      if (counts) {
        const auto target = m_problem.targets.counting_target(inputs.label);
        const auto result = finish_row(m_problem, target, state, z_target);
        put(group, row, target, result, totals);
        statistics = result.statistics;
      }
    } else {
      statistics = {inputs.max, inputs.log_sum, m_problem.known_background_total()};
    }

    if constexpr (writes_gradient) {
      const auto target = m_problem.targets.target(inputs.label);
      Scalar scale      = common_scale;
      if (counts && !m_task.scale.is_common()) scale = m_task.scale(row);
      const RowGradient<Scalar> gradient(target, statistics, scale);
      const bool holds_spike = counts && packs.visits(target.cls);
      next                   = load_inputs(next_row, next_label);
      using Writer =
          GradientRowWriter<Place != GradientPlace::classes, RegisterPacks, Targets, GradientType>;
      const Writer writer(gradient, background,
                          m_task.gradient.data + row * m_task.gradient.row_stride,
                          m_task.gradient.class_stride, packs.head());
      const auto write = [&](const auto& positions, auto* loaded) {
        writer.write(positions, loaded);
      };
      const auto write_edge = [&](std::int64_t cls, Scalar z) {
        if (counts) writer.write_edge(cls, z);
      };
      if constexpr (sweeps)
        packs.template visit_second_and_load<Writer::at_once, reuse>(next.logits, write,
                                                                     write_edge);
      else
        packs.template visit_and_load<Writer::at_once, reuse>(next.logits, write, write_edge);
      if (holds_spike) store_spike(m_problem, gradient, row, target.cls, z_target, m_task.gradient);
    }
    if (!counts && exists(row)) pass_over(group, inputs, totals);
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
