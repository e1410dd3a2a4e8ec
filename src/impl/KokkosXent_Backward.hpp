// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_BACKWARD_HPP
#define KOKKOSXENT_IMPL_BACKWARD_HPP

#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_Group.hpp>
#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_Targets.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace KokkosXent::Impl {

/// d loss / d row loss: the upstream gradient, divided by D for a mean.
template <class Scalar>
struct GradientScale {
  Scalar value;        // where data is null
  const Scalar* data;  // element row * stride; stride 0: one value for all rows
  std::int64_t stride;
  const double* denominator;  // null but for a mean
  bool one_class;             // the gradient is 0 whatever the rounding of A p - q

  /// One for all rows.
  KOKKOS_FUNCTION bool is_common() const { return stride == 0; }

  KOKKOS_FUNCTION Scalar operator()(std::int64_t row) const {
    Scalar upstream = data ? data[row * stride] : value;
    if (one_class) upstream *= 0;  // a NaN stays
    if (!denominator) return upstream;
    if (*denominator == 0) return nan_v<Scalar>;
    return static_cast<Scalar>(static_cast<double>(upstream) / *denominator);
  }
};

/// The inputs of a gradient besides the Problem.
template <class Problem, class GradientType>
struct GradientTask {
  Matrix<GradientType> gradient;
  GradientScale<typename Problem::Scalar> scale;
};

/// What the gradient of an uncounted row is filled with.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar uncounted_gradient(RowKind kind) {
  return kind == RowKind::ignored ? Scalar(0) : nan_v<Scalar>;
}

/// values[e] of the chunk's element that is class cls, which the chunk may hold.
template <class Chunk, class Scalar, int Size>
KOKKOS_INLINE_FUNCTION Scalar value_of_class(const Chunk& chunk, std::int64_t cls,
                                             const Scalar (&values)[Size]) {
  Scalar value = 0;
  unrolled<Size>([&](int e) { value = chunk.class_of(e) == cls ? values[e] : value; });
  return value;
}

/// Gradient values of one chunk of a row. target: the class of the spike.
template <class Scalar, class Chunk, int Size>
KOKKOS_INLINE_FUNCTION void chunk_gradient(const RowGradient<Scalar>& gradient, const Chunk& chunk,
                                           std::int64_t target, const Scalar (&z)[Size],
                                           Scalar (&values)[Size]) {
  const bool has_spike = chunk.may_hold(target);
  Scalar at_spike      = 0;
  if (has_spike) at_spike = gradient.at_spike(value_of_class(chunk, target, z), 0);
  unrolled<Size>([&](int e) { values[e] = gradient.plain(z[e]); });
  if (has_spike)
    unrolled<Size>([&](int e) { values[e] = chunk.class_of(e) == target ? at_spike : values[e]; });
}

/// The same with background mass b.
template <class Scalar, class Chunk, int Size>
KOKKOS_INLINE_FUNCTION void chunk_gradient(const RowGradient<Scalar>& gradient, const Chunk& chunk,
                                           std::int64_t target, const Scalar (&z)[Size],
                                           const Scalar (&b)[Size], Scalar (&values)[Size]) {
  const bool has_spike = chunk.may_hold(target);
  bool any_dominant    = false;
  Scalar at_spike      = 0;
  if (has_spike)
    at_spike =
        gradient.at_spike(value_of_class(chunk, target, z), value_of_class(chunk, target, b));
  unrolled<Size>([&](int e) { any_dominant |= gradient.is_dominant(z[e]); });
  if (any_dominant)
    unrolled<Size>([&](int e) {
      values[e] = gradient.is_dominant(z[e]) ? gradient.dominant(z[e], b[e], false)
                                             : gradient.with_background(z[e], b[e]);
    });
  else
    unrolled<Size>([&](int e) { values[e] = gradient.with_background(z[e], b[e]); });
  if (has_spike)
    unrolled<Size>([&](int e) { values[e] = chunk.class_of(e) == target ? at_spike : values[e]; });
}

/// sum b_j of a row, by the threads of a group.
template <class Problem, class Group>
KOKKOS_INLINE_FUNCTION typename Problem::Scalar sum_background(const Problem& problem,
                                                               const Group& group,
                                                               std::int64_t row) {
  using Scalar  = typename Problem::Scalar;
  using RowWalk = typename Problem::RowWalk;
  using Targets = typename Problem::Targets;
  if constexpr (!Targets::has_background) {
    return 0;
  } else if constexpr (Targets::background_total_known) {
    return problem.targets.background_total();
  } else {
    return group.template sum<Scalar>([&](int thread) {
      const typename Targets::template BackgroundRow<RowWalk> background(problem.targets, row, 0);
      LaneSums<Scalar, RowWalk::lanes> sums;
      RowWalk::classes(thread, group.threads(), 0, problem.classes, 0, background.packed(),
                       [&](auto chunk) {
                         Scalar b[chunk.size];
                         background.load(chunk, b);
                         sums.add_chunk(b);
                       });
      Scalar sum = 0;
      for (int l = 0; l < RowWalk::lanes; ++l) sum += sums[l];
      return sum;
    });
  }
}

/// What the forward pass saved: two Scalars a row.
template <class Scalar>
struct SavedRows {
  const Scalar* row_max;
  const Scalar* row_log_sum;

  template <class Problem, class Group>
  KOKKOS_FUNCTION RowStatistics<Scalar> operator()(const Problem& problem, const Group& group,
                                                   std::int64_t row) const {
    return {row_max[row], row_log_sum[row], sum_background(problem, group, row)};
  }
};

/// Classes [begin, end) of the gradient of one row, by one group. Reads each logit once, before it
/// writes there: gradient may be the logits.
template <class Problem, class GradientType, class Group>
KOKKOS_INLINE_FUNCTION void gradient_row(const Problem& problem,
                                         const GradientTask<Problem, GradientType>& task,
                                         const Group& group, std::int64_t row,
                                         const RowTarget<typename Problem::Scalar>& target,
                                         const RowStatistics<typename Problem::Scalar>& statistics,
                                         std::int64_t begin, std::int64_t end) {
  using Scalar           = typename Problem::Scalar;
  using RowWalk          = typename Problem::RowWalk;
  using Targets          = typename Problem::Targets;
  constexpr bool on_host = Problem::on_host;
  const auto& logits     = problem.logits;
  const std::int64_t head =
      RowWalk::head_size(logits.data + row * logits.row_stride, logits.class_stride, begin, end);
  const auto logits_row   = RowWalk::row(logits, row, begin + head);
  const auto gradient_row = RowWalk::row(task.gradient, row, begin + head);
  const bool packed       = logits_row.packed && gradient_row.packed;
  const auto walk         = [&](bool all_packed, const auto& visit) {
    group.for_each_thread([&](int thread) {
      RowWalk::classes(thread, group.threads(), begin, end, head, all_packed, visit);
    });
  };

  if (target.kind != RowKind::counts) {
    const auto fill = uncounted_gradient<Scalar>(target.kind);
    walk(gradient_row.packed, [&](auto chunk) {
      Scalar values[chunk.size];
      unrolled<chunk.size>([&](int e) { values[e] = fill; });
      store_chunk<on_host>(gradient_row, chunk, values);
    });
    return;
  }
  const RowGradient<Scalar> gradient(target, statistics, task.scale(row));
  if constexpr (Targets::has_background) {
    const typename Targets::template BackgroundRow<RowWalk> background(problem.targets, row,
                                                                       begin + head);
    walk(packed && background.packed(), [&](auto chunk) {
      Scalar z[chunk.size];
      Scalar b[chunk.size];
      Scalar values[chunk.size];
      load_chunk<on_host>(logits_row, chunk, z, -infinity_v<Scalar>);
      background.load(chunk, b);
      chunk_gradient(gradient, chunk, target.cls, z, b, values);
      store_chunk<on_host>(gradient_row, chunk, values);
    });
  } else {
    walk(packed, [&](auto chunk) {
      Scalar z[chunk.size];
      Scalar values[chunk.size];
      load_chunk<on_host>(logits_row, chunk, z, -infinity_v<Scalar>);
      chunk_gradient(gradient, chunk, target.cls, z, values);
      store_chunk<on_host>(gradient_row, chunk, values);
    });
  }
}

/// backward[rows_per_team] on devices, backward[row_per_team]
template <Mapping M, class Problem, class GradientType>
struct BackwardRows {
  Problem problem;
  GradientTask<Problem, GradientType> task;
  SavedRows<typename Problem::Scalar> saved;
  int vector_length;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const auto group = make_group<M>(team, vector_length);
    const auto range =
        items_of<typename Problem::ExecutionSpace>(group.index(), group.count(), problem.rows);
    for (std::int64_t row = range.begin; row < range.end; row += range.step)
      gradient_row(problem, task, group, row, problem.targets(row), saved(problem, group, row), 0,
                   problem.classes);
  }
};

template <class Problem, class GradientType>
struct BackwardRowsOf {
  template <Mapping M>
  using Kernel = BackwardRows<M, Problem, GradientType>;
};

/// backward[teams_per_row]
template <class Problem, class GradientType>
struct BackwardParts {
  Problem problem;
  GradientTask<Problem, GradientType> task;
  SavedRows<typename Problem::Scalar> saved;
  int parts;
  std::int64_t part_size;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const TeamGroup<Member> group(team);
    const std::int64_t row   = team.league_rank() / parts;
    const std::int64_t begin = team.league_rank() % parts * part_size;
    const std::int64_t end =
        begin + part_size < problem.classes ? begin + part_size : problem.classes;
    gradient_row(problem, task, group, row, problem.targets(row), saved(problem, group, row), begin,
                 end);
  }
};

}  // namespace KokkosXent::Impl

#endif
