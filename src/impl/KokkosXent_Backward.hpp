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
#include <type_traits>

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

/// Gradient values of classes without a spike and with background mass b.
template <class Scalar, int Size>
KOKKOS_INLINE_FUNCTION void background_gradient(const RowGradient<Scalar>& gradient,
                                                const Scalar (&z)[Size], const Scalar (&b)[Size],
                                                Scalar (&values)[Size]) {
  bool any_dominant = false;
  unrolled<Size>([&](int e) { any_dominant |= gradient.is_dominant(z[e]); });
  if (any_dominant) {
    // There is one, so that its exponential is one for all classes.
    Scalar largest = z[0];
    unrolled<Size>([&](int e) { largest = larger_of(largest, z[e]); });
    const Scalar p_less_1 = gradient.probability_less_1(largest);
    unrolled<Size>([&](int e) {
      values[e] = gradient.is_dominant(z[e]) ? gradient.dominant(p_less_1, b[e], false)
                                             : gradient.with_background(z[e], b[e]);
    });
  } else {
    unrolled<Size>([&](int e) { values[e] = gradient.with_background(z[e], b[e]); });
  }
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
    const typename Targets::template BackgroundRow<RowWalk> background(problem.targets, row, 0);
    LaneSums<Scalar, RowWalk::lanes> sums;
    RowWalk::classes(group.thread(), group.threads(), 0, problem.classes, 0, background.packed(),
                     [&](auto chunk) {
                       Scalar b[chunk.size];
                       background.load(chunk, b);
                       sums.add_chunk(b);
                     });
    Scalar mine = 0;
    for (int l = 0; l < RowWalk::lanes; ++l) mine += sums[l];
    return group.sum(mine);
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

/// Gradient values of the classes of a chunk, as if none held the spike.
template <class Scalar, class Background, class Chunk, int Size>
KOKKOS_INLINE_FUNCTION void class_gradients(const RowGradient<Scalar>& gradient,
                                            const Background& background, const Chunk& chunk,
                                            const Scalar (&z)[Size], Scalar (&values)[Size]) {
  if constexpr (Background::exists) {
    Scalar b[Size];
    background.load(chunk, b);
    background_gradient(gradient, z, b, values);
  } else {
    gradient.plain(z, values);
  }
}

/// Writes the gradient of the class that holds a row's spike; z is its logit.
template <class Problem, class GradientType>
KOKKOS_INLINE_FUNCTION void store_spike(const Problem& problem,
                                        const RowGradient<typename Problem::Scalar>& gradient,
                                        std::int64_t row, std::int64_t cls,
                                        typename Problem::Scalar z,
                                        const Matrix<GradientType>& out) {
  typename Problem::Scalar b = 0;
  if constexpr (Problem::Targets::has_background) b = problem.targets.background(row, cls);
  out(row, cls) = round_value<GradientType>(gradient.at_spike(z, b));
}

/// Fills classes [begin, end) of the gradient of a row whose logits are not read.
template <class Problem, class GradientType, class Group>
KOKKOS_INLINE_FUNCTION void fill_gradient_row(const GradientTask<Problem, GradientType>& task,
                                              const Group& group, std::int64_t row, RowKind kind,
                                              std::int64_t begin, std::int64_t end) {
  using Scalar       = typename Problem::Scalar;
  using GradientWalk = typename Problem::template WalkOf<GradientType>;
  const auto fill    = uncounted_gradient<Scalar>(kind);
  const auto& out    = task.gradient;
  // A long row's packs start with a cache line, so that warps write whole ones.
  const bool is_long = (end - begin) * static_cast<std::int64_t>(sizeof(GradientType)) >=
                       line_bytes * std::int64_t(warp_lanes);
  const auto head =
      GradientWalk::head_size(out.data + row * out.row_stride, out.class_stride, begin, end,
                              is_long ? unsigned(line_bytes) : GradientWalk::pack_alignment);
  const auto out_of_row = GradientWalk::row(out, row, begin + head);
  GradientWalk::classes(group.thread(), group.threads(), begin, end, head, out_of_row.packed,
                        [&](auto chunk) {
                          Scalar values[chunk.size];
                          unrolled<chunk.size>([&](int e) { values[e] = fill; });
                          store_chunk<Problem::on_host>(out_of_row, chunk, values);
                        });
}

/// Classes [begin, end) of the gradient of one row, by one group. Reads each logit once, before it
/// writes there: gradient may be the logits.
template <class Problem, class GradientType, class Group>
KOKKOS_INLINE_FUNCTION void gradient_row(const Problem& problem,
                                         const GradientTask<Problem, GradientType>& task,
                                         const Group& group, std::int64_t row,
                                         const RowTarget<typename Problem::Scalar>& target,
                                         const RowStatistics<typename Problem::Scalar>& statistics,
                                         std::int64_t begin, std::int64_t end) {
  if (target.kind != RowKind::counts) {
    fill_gradient_row<Problem>(task, group, row, target.kind, begin, end);
    return;
  }
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

  const RowGradient<Scalar> gradient(target, statistics, task.scale(row));
  const typename Targets::template BackgroundRow<RowWalk> background(problem.targets, row,
                                                                     begin + head);
  const bool all_packed  = packed && background.packed();
  const bool holds_spike = target.cls >= begin && target.cls < end &&
                           group.thread() == RowWalk::thread_of(target.cls, group.threads(), begin,
                                                                end, head, all_packed);
  const Scalar z_spike = holds_spike ? problem.logit(row, target.cls) : Scalar(0);
  RowWalk::classes(group.thread(), group.threads(), begin, end, head, all_packed, [&](auto chunk) {
    if constexpr (Problem::has_host_kernels) {
      map_chunk<Scalar>(logits_row, gradient_row, chunk, gradient.plain());
    } else {
      visit_chunk<on_host, Reuse::none, Scalar>(
          logits_row, chunk, [&](const auto& part, const auto& z) {
            Scalar values[std::remove_reference_t<decltype(part)>::size];
            const auto constants = gradient;  // which the stores cannot change, as compilers see it
            class_gradients(constants, background, part, z, values);
            store_chunk<on_host>(gradient_row, part, values);
          });
    }
  });
  if (holds_spike) store_spike(problem, gradient, row, target.cls, z_spike, task.gradient);
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

}  // namespace KokkosXent::Impl

#endif
