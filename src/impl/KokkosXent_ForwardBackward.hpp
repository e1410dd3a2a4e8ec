// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_FORWARDBACKWARD_HPP
#define KOKKOSXENT_IMPL_FORWARDBACKWARD_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace KokkosXent::Impl {

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
      const auto result = forward_row<Reuse::likely>(problem, group, row, target);
      group.once([&]() { results.put(row, result); });
      totals.add_row(result.loss, target.denominator);
      gradient_row(problem, task, group, row, target, result.statistics, 0, problem.classes);
    }
    results.reduction.finish(team, group.team_totals(totals));
  }
};

template <class Problem, class GradientType>
struct ForwardBackwardRowsOf {
  template <Mapping M>
  using Kernel = ForwardBackwardRows<M, Problem, GradientType>;
};

}  // namespace KokkosXent::Impl

#endif
