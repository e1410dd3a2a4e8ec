// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_FORWARDBACKWARD_HPP
#define KOKKOSXENT_IMPL_FORWARDBACKWARD_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

namespace KokkosXent::Impl {

/// Exponentials that the first pass over a row has left in the gradient's row, divided by
/// ExpConstants::descale: segments of classes, each measured from the maximum at that time.
template <class Scalar>
class KeptExponentials {
 public:
  /// Calls visit(begin, end, max) for each segment.
  template <class Visit>
  KOKKOS_FUNCTION void segments(const Visit& visit) const {
    std::int64_t begin = 0;
    for (int s = 0; s < m_count; ++s) {
      visit(begin, m_segments[s].end, m_segments[s].max);
      begin = m_segments[s].end;
    }
  }
  KOKKOS_FUNCTION std::int64_t end() const { return m_count > 0 ? m_segments[m_count - 1].end : 0; }
  /// Whether more cannot be kept: the maximum has been raised too often.
  KOKKOS_FUNCTION bool is_full() const { return m_count == most_segments; }
  /// Classes [this->end(), end) are measured from max.
  KOKKOS_FUNCTION void append(std::int64_t end, Scalar max) {
    if (m_count == 0 || m_segments[m_count - 1].max != max) m_segments[m_count++].max = max;
    m_segments[m_count - 1].end = end;
  }

 private:
  struct Segment {
    std::int64_t end;
    Scalar max;
  };
  static constexpr int most_segments = 32;

  Segment m_segments[most_segments];
  int m_count = 0;
};

/// The state of a row, and its exponentials in the gradient's row, of which classes from kept.end()
/// on stay as they are.
template <class Problem>
KOKKOS_INLINE_FUNCTION typename Problem::State sweep_and_keep(
    const Problem& problem, std::int64_t row, typename Problem::Scalar* gradient,
    KeptExponentials<typename Problem::Scalar>& kept) {
  using Scalar          = typename Problem::Scalar;
  using RowWalk         = typename Problem::RowWalk;
  const auto logits_row = RowWalk::row(problem.logits, row, 0);
  const Row<Scalar> gradient_row{gradient, 1, true};
  RowState<Scalar> state;
  const auto take = [&](const auto& part, const auto& z) {
    if (kept.is_full()) return state.absorb(z);
    state.absorb(z, [&](const auto& values) {
      store_chunk<true>(gradient_row, part, values);
      kept.append(part.class_end(), state.max());
    });
  };
  RowWalk::classes(0, 1, 0, problem.classes, 0, logits_row.packed, [&](auto chunk) {
    visit_chunk<true, Reuse::likely, Scalar>(logits_row, chunk, take);
  });
  return state.merged();
}

/// Both passes of one row on the host with one exponential for each class, and those in place of
/// the gradient between them.
template <class Problem, class Group>
KOKKOS_INLINE_FUNCTION RowResult<typename Problem::Scalar> forward_backward_row(
    const Problem& problem, const GradientTask<Problem, typename Problem::Scalar>& task,
    const Group& group, std::int64_t row, const RowTarget<typename Problem::Scalar>& target) {
  using Scalar          = typename Problem::Scalar;
  const Scalar z_target = problem.target_logit(row, target.cls);
  Scalar* const values  = &task.gradient(row, 0);
  KeptExponentials<Scalar> kept;
  const auto state  = sweep_and_keep(problem, row, values, kept);
  const auto result = finish_row(problem, target, state, z_target);

  const RowGradient<Scalar> gradient(target, result.statistics, task.scale(row));
  kept.segments([&](std::int64_t begin, std::int64_t end, Scalar max) {
    const Scalar factor = gradient.plain_factor(max);
    for (std::int64_t cls = begin; cls < end; ++cls)
      values[cls] = values[cls] * ExpConstants<Scalar>::descale * factor;
  });
  gradient_row(problem, task, group, row, target, result.statistics, kept.end(), problem.classes);
  if (target.cls >= 0 && target.cls < kept.end())
    store_spike(problem, gradient, row, target.cls, z_target, task.gradient);
  return result;
}

/// forward_backward[rows_per_team] on devices, forward_backward[row_per_team]: the second read of a
/// row follows the first at once, while the row is in cache.
template <Mapping M, class Problem, class GradientType>
struct ForwardBackwardRows {
  using Scalar = typename Problem::Scalar;

  Problem problem;
  ForwardResults<Scalar> results;
  GradientTask<Problem, GradientType> task;
  int vector_length;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const auto group = make_group<M>(team, vector_length);
    const auto range =
        items_of<typename Problem::ExecutionSpace>(group.index(), group.count(), problem.rows);
    RowTotals totals;
    for (std::int64_t row = range.begin; row < range.end; row += range.step) {
      const auto target = problem.targets(row);
      const auto result = both_passes(group, row, target);
      group.once([&]() { results.put(row, result); });
      totals.add_row(result.loss, target.denominator);
    }
    results.reduction.finish(team, group.team_totals(totals));
  }

 private:
  template <class Group>
  KOKKOS_FUNCTION RowResult<Scalar> both_passes(const Group& group, std::int64_t row,
                                                const RowTarget<Scalar>& target) const {
    if constexpr (Problem::on_host && !Problem::Targets::has_background &&
                  std::is_same_v<GradientType, Scalar>)
      if (target.kind == RowKind::counts && task.gradient.class_stride == 1)
        return forward_backward_row(problem, task, group, row, target);
    const auto result = forward_row<Reuse::likely>(problem, group, row, target);
    gradient_row(problem, task, group, row, target, result.statistics, 0, problem.classes);
    return result;
  }
};

template <class Problem, class GradientType>
struct ForwardBackwardRowsOf {
  template <Mapping M>
  using Kernel = ForwardBackwardRows<M, Problem, GradientType>;
};

}  // namespace KokkosXent::Impl

#endif
