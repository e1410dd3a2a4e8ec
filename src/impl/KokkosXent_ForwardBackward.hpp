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

/// Where the first pass over a row leaves exponentials, divided by ExpConstants::descale, for the
/// second one: segments of classes, each measured from the maximum at that time. Chunks that are
/// taken by pairs are in the order of map_pairs().
template <class Scalar>
class KeptExponentials {
 public:
  /// values: of classes [0, room), or fewer.
  KOKKOS_FUNCTION KeptExponentials(Scalar* values, std::int64_t room)
      : m_values(values), m_room(room) {}

  KOKKOS_FUNCTION Scalar* values() const { return m_values; }
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
  KOKKOS_FUNCTION bool has_room(std::int64_t end) const { return end <= m_room; }
  /// The values of a chunk.
  template <class Chunk>
  KOKKOS_FUNCTION auto& values_of(const Chunk& chunk) const {
    return *reinterpret_cast<Scalar(*)[Chunk::size]>(m_values + chunk.first);
  }
  /// Keeps the next classes, up to end, which are measured from max; false if the maximum has been
  /// raised too often: then there is no more room.
  KOKKOS_FUNCTION bool append(std::int64_t end, Scalar max) {
    if (m_count == 0 || m_segments[m_count - 1].max != max) {
      if (m_count == most_segments) {
        m_room = 0;
        return false;
      }
      m_segments[m_count++].max = max;
    }
    m_segments[m_count - 1].end = end;
    return true;
  }

 private:
  struct Segment {
    std::int64_t end;
    Scalar max;
  };
  static constexpr int most_segments = 32;

  Scalar* m_values;
  std::int64_t m_room;
  Segment m_segments[most_segments];
  int m_count = 0;
};

/// The state of a row, of whose exponentials as many are kept as there is room for. Pairs: what can
/// be taken by words of two is. Apart: they are not kept where logits may be.
template <bool Pairs, bool Apart, class Problem>
KOKKOS_INLINE_FUNCTION typename Problem::State sweep_and_keep(
    const Problem& problem, std::int64_t row, KeptExponentials<typename Problem::Scalar>& kept) {
  using Scalar          = typename Problem::Scalar;
  using RowWalk         = typename Problem::RowWalk;
  using LogitType       = typename Problem::LogitType;
  const auto logits_row = RowWalk::row(problem.logits, row, 0);
  RowState<Scalar> state;
  // absorb(values): where its exponentials go.
  const auto keep = [&](const auto& chunk, const auto& absorb) {
    constexpr int size     = std::remove_reference_t<decltype(chunk)>::size;
    const std::int64_t end = chunk.class_end();
    Scalar values[size];
    if (!kept.has_room(end)) return absorb(values);
    if constexpr (Apart) {
      if (chunk.is_whole()) {
        absorb(kept.values_of(chunk));
        kept.append(end, state.max());
        return;
      }
    }
    absorb(values);
    if (kept.append(end, state.max()))
      store_chunk<true>(Row<Scalar>{kept.values(), 1, true}, chunk, values);
  };
  RowWalk::classes(0, 1, 0, problem.classes, 0, logits_row.packed, [&](auto chunk) {
    if constexpr (Pairs) {
      if (chunk.is_whole()) {
        prefetch_ahead(logits_row, chunk);
        const auto& stored =
            *reinterpret_cast<const LogitType(*)[chunk.size]>(logits_row.data + chunk.first);
        return keep(chunk, [&](auto& values) { state.absorb_pairs(stored, values); });
      }
    }
    visit_chunk<true, Reuse::likely, Scalar>(
        logits_row, chunk, [&](const auto& part, const auto& z) {
          keep(part, [&](auto& values) { state.absorb(z, values); });
        });
  });
  return state.merged();
}

/// Makes gradients of classes without a spike of the exponentials that are kept of a row.
template <bool Pairs, class RowWalk, class Scalar, class GradientType>
KOKKOS_INLINE_FUNCTION void scale_kept(const KeptExponentials<Scalar>& kept,
                                       const RowGradient<Scalar>& gradient,
                                       GradientType* gradient_row) {
  kept.segments([&](std::int64_t begin, std::int64_t end, Scalar max) {
    const Scalar factor = gradient.plain_factor(max);
    const auto scaled   = [&](Scalar value) {
      return value * ExpConstants<Scalar>::descale * factor;
    };
    if constexpr (std::is_same_v<GradientType, Scalar>) {
      for (std::int64_t cls = begin; cls < end; ++cls)
        gradient_row[cls] = scaled(gradient_row[cls]);
    } else {
      // A segment ends where a chunk did, so that its chunks are those of the first pass.
      RowWalk::classes(0, 1, begin, end, 0, true, [&](auto chunk) {
        if constexpr (Pairs)
          if (chunk.is_whole())
            return round_pairs(kept.values_of(chunk), gradient_row + chunk.first, scaled);
        Scalar values[chunk.size];
        load_chunk<true>(Row<const Scalar>{kept.values(), 1, true}, chunk, values, Scalar(0));
        for (Scalar& each : values) each = scaled(each);
        store_chunk<true>(Row<GradientType>{gradient_row, 1, true}, chunk, values);
      });
    }
  });
}

/// Both passes of one row on the host with one exponential for each class that is kept between
/// them.
template <bool Pairs, class Problem, class GradientType, class Group>
KOKKOS_INLINE_FUNCTION RowResult<typename Problem::Scalar> forward_backward_row(
    const Problem& problem, const GradientTask<Problem, GradientType>& task, const Group& group,
    std::int64_t row, const RowTarget<typename Problem::Scalar>& target,
    KeptExponentials<typename Problem::Scalar> kept) {
  using Scalar          = typename Problem::Scalar;
  const Scalar z_target = problem.target_logit(row, target.cls);
  const auto state =
      sweep_and_keep<Pairs, !std::is_same_v<GradientType, Scalar>>(problem, row, kept);
  const auto result = finish_row(problem, target, state, z_target);
  const RowGradient<Scalar> gradient(target, result.statistics, task.scale(row));
  scale_kept<Pairs, typename Problem::RowWalk>(kept, gradient, &task.gradient(row, 0));
  gradient_row(problem, task, group, row, target, result.statistics, kept.end(), problem.classes);
  if (target.cls >= 0 && target.cls < kept.end())
    store_spike(problem, gradient, row, target.cls, z_target, task.gradient);
  return result;
}

/// Both passes of one row; the second read follows the first at once, while the row is in cache.
template <class Problem, class GradientType, class Group>
KOKKOS_INLINE_FUNCTION RowResult<typename Problem::Scalar> read_row_twice(
    const Problem& problem, const GradientTask<Problem, GradientType>& task, const Group& group,
    std::int64_t row, const RowTarget<typename Problem::Scalar>& target) {
  const auto result = forward_row<Reuse::likely>(problem, group, row, target);
  gradient_row(problem, task, group, row, target, result.statistics, 0, problem.classes);
  return result;
}

/// forward_backward[rows_per_team] on devices, forward_backward[row_per_team]
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
    put_rows(problem, results, team, group, [&](std::int64_t row, const RowTarget<Scalar>& target) {
      return read_row_twice(problem, task, group, row, target);
    });
  }
};

template <class Problem, class GradientType>
struct ForwardBackwardRowsOf {
  template <Mapping M>
  using Kernel = ForwardBackwardRows<M, Problem, GradientType>;
};

/// forward_backward[row_per_team] where the host has kernels of its own: exponentials are kept in
/// the gradient's row, if that stores Scalars, else in the team's scratch.
template <class Problem, class GradientType>
struct ForwardBackwardKeptRows {
  using Scalar = typename Problem::Scalar;

  Problem problem;
  ForwardResults<Scalar> results;
  GradientTask<Problem, GradientType> task;
  Scalar* scratch;  // host_scratch_each<Scalar> for each team

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const auto group = make_group<Mapping::row_per_team>(team, 1);
    put_rows(problem, results, team, group, [&](std::int64_t row, const RowTarget<Scalar>& target) {
      if (target.kind != RowKind::counts || task.gradient.class_stride != 1)
        return read_row_twice(problem, task, group, row, target);
      const auto kept = kept_of(team.league_rank(), row);
      if constexpr (pairs_words<Scalar, typename Problem::LogitType, GradientType>)
        if (problem.logits.class_stride == 1)
          return forward_backward_row<true>(problem, task, group, row, target, kept);
      return forward_backward_row<false>(problem, task, group, row, target, kept);
    });
  }

 private:
  KOKKOS_FUNCTION KeptExponentials<Scalar> kept_of(int team, std::int64_t row) const {
    if constexpr (std::is_same_v<GradientType, Scalar>)
      return {&task.gradient(row, 0), problem.classes};
    else
      return {scratch + team * host_scratch_each<Scalar>, host_scratch_each<Scalar>};
  }
};

}  // namespace KokkosXent::Impl

#endif
