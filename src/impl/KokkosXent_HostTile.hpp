// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_HOSTTILE_HPP
#define KOKKOSXENT_IMPL_HOSTTILE_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Exp.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_Intrinsics.hpp>
#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_SoftmaxState.hpp>
#include <impl/KokkosXent_Targets.hpp>
#include <impl/KokkosXent_Totals.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace KokkosXent::Impl {

/// The states of a host tile's rows, side by side for SIMD, without a background. Like RowState
/// they measure exponentials from the maximum so far, which few blocks of classes exceed: the
/// others cost one pass. Rows are taken in by groups of Width, so that a row whose maximum is
/// exceeded costs only its neighbours a second pass.
template <class Scalar, int Rows, int Width>
class TileRowStates {
 public:
  KOKKOS_FUNCTION TileRowStates() {
    for (int l = 0; l < Rows; ++l) m_max[l] = -infinity_v<Scalar>;
  }

  /// Takes in Depth classes of rows [first, first + Width), z[d * stride + l] each.
  template <int Depth, class T>
  KOKKOS_FUNCTION void absorb(int first, const T* z, std::int64_t stride, bool raise_is_likely) {
    if constexpr (std::is_same_v<T, Scalar>) {
      if (raise_is_likely || any_above<Depth>(first, z, stride))
        absorb_and_raise<Depth>(first, z, stride);
      else
        absorb_below<Depth>(first, z, stride);
    } else {
      Scalar widened[Depth * Width];
      for (int d = 0; d < Depth; ++d) widen_run<Width>(z + d * stride, widened + d * Width);
      absorb<Depth>(first, widened, Width, raise_is_likely);
    }
  }

  KOKKOS_FUNCTION Scalar max(int l) const { return m_max[l]; }
  KOKKOS_FUNCTION Scalar rest(int l) const { return m_rest[l]; }

 private:
  using Bits = typename ExpConstants<Scalar>::Bits;

  /// Whether a logit is above its row's maximum, or NaN: the bits of its gap are above those of
  /// inf.
  template <int Depth>
  KOKKOS_FUNCTION bool any_above(int first, const Scalar* z, std::int64_t stride) const {
    Bits most = 0;
    for (int l = 0; l < Width; ++l) {
      const Scalar max = m_max[first + l];
      Bits most_of_row = 0;
      for (int d = 0; d < Depth; ++d)
        most_of_row = larger_of(Kokkos::bit_cast<Bits>(max - z[d * stride + l]), most_of_row);
      most = larger_of(most_of_row, most);
    }
    return most > Kokkos::bit_cast<Bits>(Scalar(infinity_v<Scalar>));
  }

  template <int Depth>
  KOKKOS_FUNCTION void absorb_below(int first, const Scalar* z, std::int64_t stride) {
    Scalar sum[Width];
    for (int l = 0; l < Width; ++l) {
      sum[l] = 0;
      for (int d = 0; d < Depth; ++d)
        sum[l] += scaled_exp_of_gap(m_max[first + l] - z[d * stride + l]);
    }
    for (int l = 0; l < Width; ++l) m_rest.add(first + l, sum[l] * ExpConstants<Scalar>::descale);
  }

  /// Makes each maximum that of the block and what came before, from which the exponentials are
  /// then measured. Those of logits that equal a new maximum are counted, and one of them is left
  /// out. A row whose maximum does not change comes out as from absorb_below(), whatever its
  /// neighbours hold.
  template <int Depth>
  KOKKOS_FUNCTION void absorb_and_raise(int first, const Scalar* z, std::int64_t stride) {
    constexpr Scalar scaled_one = 1 / ExpConstants<Scalar>::descale;
    Scalar max[Width];
    Scalar raised[Width];    // 1 or 0
    Scalar top_adds[Width];  // what an old maximum's equal adds to the sum
    Scalar sum[Width]  = {};
    Scalar tops[Width] = {};
    Scalar nans[Width] = {};
    for (int l = 0; l < Width; ++l) {
      const Scalar old_max = m_max[first + l];
      max[l]               = old_max;
      for (int d = 0; d < Depth; ++d) max[l] = larger_of(z[d * stride + l], max[l]);
      max[l] += 0;  // -0 would make gaps of -0, whose bits are above those of inf
      raised[l]   = keep_if(max[l] != old_max, Scalar(1));
      top_adds[l] = keep_if(max[l] == old_max, scaled_one);
    }
    Scalar values[Depth * Width];
    for (int d = 0; d < Depth; ++d)
      for (int l = 0; l < Width; ++l)
        values[d * Width + l] = scaled_exp_of_gap(shift_of(max[l]) - z[d * stride + l]);
    for (int d = 0; d < Depth; ++d)
      for (int l = 0; l < Width; ++l) {
        const Scalar gap = shift_of(max[l]) - z[d * stride + l];
        sum[l] += keep_if(gap != 0, values[d * Width + l]) + keep_if(gap == 0, top_adds[l]);
        tops[l] += keep_if(gap == 0, raised[l]);
        nans[l] += keep_if(!(gap >= 0), Scalar(1));
      }
    Scalar scale[Width];
    for (int l = 0; l < Width; ++l) scale[l] = exp_below(m_max[first + l], max[l]);
    for (int l = 0; l < Width; ++l) {
      const Scalar joins  = keep_if(raised[l] != 0, scale[l]);  // the maximum before, to the rest
      const Scalar others = sum[l] * ExpConstants<Scalar>::descale + (tops[l] - raised[l]);
      m_rest.scale(first + l, joins + (1 - raised[l]));
      m_rest.add(first + l, joins);
      m_rest.add(first + l, others + keep_if(nans[l] != 0, nan_v<Scalar>));
      m_max[first + l] = max[l];
    }
  }

  Scalar m_max[Rows];
  LaneSums<Scalar, Rows> m_rest;
};

/// A tile of neighbouring rows of one host thread, whose SIMD lanes run along rows. For targets
/// without a background. Loops are over groups of rows whose number is a constant, and read and
/// write arrays of the tile's own, so that compilers vectorise them.
template <class Problem>
class HostTile {
 public:
  using Scalar    = typename Problem::Scalar;
  using LogitType = typename Problem::LogitType;

  static constexpr int rows        = Tuning::host_adjacent_rows;  // at most
  static constexpr int width       = Tuning::host_group_rows;     // rows of a group
  static constexpr int depth       = Tuning::host_tile_depth;     // classes taken in at once
  static constexpr int copied_rows = Tuning::host_tile_rows;      // whose logits are copied at once

  KOKKOS_FUNCTION HostTile(const Problem& problem, std::int64_t first_row, int row_count)
      : m_problem(problem),
        m_first_row(first_row),
        m_row_count(row_count),
        m_lanes((row_count + width - 1) / width * width) {
    for (int l = 0; l < m_lanes; ++l) {
      RowTarget<Scalar> target{RowKind::ignored, -1, 0, 0};
      if (l < m_row_count) target = problem.targets(m_first_row + l);
      m_counts[l]      = target.kind == RowKind::counts;
      m_unread[l]      = uncounted_gradient<Scalar>(target.kind);
      m_class[l]       = target.cls;
      m_spike[l]       = target.spike;
      m_denominator[l] = target.denominator;
      m_z_target[l]    = problem.target_logit(m_first_row + l, target.cls);
      m_any_counts |= m_counts[l];
      m_all_count &= m_counts[l];
    }
  }

  /// The forward pass.
  KOKKOS_FUNCTION void sweep(const ForwardResults<Scalar>& results, RowTotals& totals) {
    TileRowStates<Scalar, rows, width> states;
    if (m_any_counts)
      for_each_block([&](std::int64_t cls, int classes) {
        visit_logits(cls, classes, [&](int first, const auto* z, std::int64_t stride) {
          states.template absorb<depth>(first, z, stride, cls < Tuning::host_raise_classes);
        });
      });
    Scalar loss[rows];
    for (int l = 0; l < m_lanes; ++l) {
      const Scalar log_sum = log1p_nonnegative(states.rest(l));
      m_max[l]             = states.max(l);
      m_log_sum[l] = log_sum + keep_if(Kokkos::abs(m_max[l]) == infinity_v<Scalar>, nan_v<Scalar>);
    }
    for (int l = 0; l < m_lanes; ++l) {
      const Scalar whole = m_spike[l] * ((m_max[l] - m_z_target[l]) + m_log_sum[l]);
      const Scalar none  = 0 * m_log_sum[l];
      loss[l]            = keep_if(m_spike[l] != 0, whole) + keep_if(m_spike[l] == 0, none);
    }
    if (!m_all_count)
      for (int l = 0; l < m_lanes; ++l) {
        m_max[l]     = m_counts[l] ? m_max[l] : nan_v<Scalar>;
        m_log_sum[l] = m_counts[l] ? m_log_sum[l] : nan_v<Scalar>;
        loss[l]      = m_counts[l] ? loss[l] : m_unread[l];
      }
    put(results, loss);
    totals.loss += total(loss);
    totals.denominator += total(m_denominator);
  }

  /// What a sweep saved.
  KOKKOS_FUNCTION void load(const SavedRows<Scalar>& saved) {
    for (int l = 0; l < m_lanes; ++l) {
      const bool exists = l < m_row_count;
      m_max[l]          = exists ? saved.row_max[m_first_row + l] : Scalar(0);
      m_log_sum[l]      = exists ? saved.row_log_sum[m_first_row + l] : Scalar(0);
    }
  }

  /// Writes the gradients, each logit read before it is written.
  template <class GradientType>
  KOKKOS_FUNCTION void write_gradients(const GradientTask<Problem, GradientType>& task) const {
    Scalar factor[rows];
    Scalar at_spike[rows];
    set_factors(task.scale, factor, at_spike);
    for_each_block([&](std::int64_t cls, int classes) {
      if (!m_any_counts) {
        const Scalar nothing[width] = {};
        for (int first = 0; first < m_row_count; first += width)
          write_group(task.gradient, first, cls, classes, factor, nothing, 0);
        return;
      }
      visit_logits(cls, classes, [&](int first, const auto* z, std::int64_t stride) {
        write_group(task.gradient, first, cls, classes, factor, z, stride);
      });
    });
    for (int l = 0; l < m_row_count; ++l)
      if (m_class[l] >= 0)
        task.gradient(m_first_row + l, m_class[l]) = round_value<GradientType>(at_spike[l]);
  }

 private:
  /// Calls visit(first class, number of classes) for all blocks of classes.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_block(const Visit& visit) const {
    for (std::int64_t cls = 0; cls < m_problem.classes; cls += depth) {
      const std::int64_t left = m_problem.classes - cls;
      visit(cls, left < depth ? static_cast<int>(left) : depth);
    }
  }
  KOKKOS_FUNCTION int group_size(int first) const {
    return m_row_count - first < width ? m_row_count - first : width;
  }

  /// Calls visit(first, z, stride) for the groups of rows, with z[d * stride + l] the logit of row
  /// first + l and class cls + d.
  template <class Visit>
  KOKKOS_FUNCTION void visit_logits(std::int64_t cls, int classes, const Visit& visit) const {
    const auto& logits = m_problem.logits;
    int first          = 0;
    if (logits.row_stride == 1 && classes == depth)
      for (; first + width <= m_row_count; first += width) {
        const auto* block = &logits(m_first_row + first, cls);
        prefetch_block(block + depth * logits.class_stride);
        visit(first, block, logits.class_stride);
      }
    for (; first < m_row_count; first += copied_rows) {
      // All groups are copied before any is visited, which would have to wait for its own stores.
      const int left  = m_row_count - first;
      const int count = left < copied_rows ? left : copied_rows;
      Scalar z[depth * copied_rows];
      copy_logits(first, count, cls, classes, z);
      for (int l = 0; l < count; l += width) visit(first + l, z + l, std::int64_t(copied_rows));
    }
  }

  /// Strides defeat the hardware's own prefetching.
  KOKKOS_FUNCTION void prefetch_block(const LogitType* block) const {
    constexpr int line = sizeof(LogitType) < 64 ? 64 / static_cast<int>(sizeof(LogitType)) : 1;
    for (int d = 0; d < depth; ++d)
      for (int l = 0; l < width; l += line) prefetch(block + d * m_problem.logits.class_stride + l);
  }

  /// z[d * copied_rows + l] = the logit of row first + l and class cls + d; -inf for classes that
  /// do not exist, 0 for rows that do not exist but complete a group.
  KOKKOS_FUNCTION void copy_logits(int first, int count, std::int64_t cls, int classes,
                                   Scalar (&z)[depth * copied_rows]) const {
    const auto& logits = m_problem.logits;
    const auto* block  = &logits(m_first_row + first, cls);
    if (logits.class_stride == 1 && classes == depth) {
      for (int l = 0; l < count; ++l)
        for (int d = 0; d < depth; ++d)
          z[d * copied_rows + l] = load_value<Scalar>(block[l * logits.row_stride + d]);
    } else {
      for (int d = 0; d < classes; ++d)
        for (int l = 0; l < count; ++l)
          z[d * copied_rows + l] =
              load_value<Scalar>(block[l * logits.row_stride + d * logits.class_stride]);
      for (int e = classes * copied_rows; e < depth * copied_rows; ++e) z[e] = -infinity_v<Scalar>;
    }
    for (int d = 0; d < depth; ++d)
      for (int l = count; l < m_lanes - first && l < copied_rows; ++l) z[d * copied_rows + l] = 0;
  }

  /// Writes the gradients of a group's rows at a block of classes.
  template <class GradientType, class T>
  KOKKOS_FUNCTION void write_group(const Matrix<GradientType>& gradient, int first,
                                   std::int64_t cls, int classes, const Scalar (&factor)[rows],
                                   const T* z, std::int64_t stride) const {
    if constexpr (std::is_same_v<T, Scalar>) {
      Scalar values[depth * width];
      for (int l = 0; l < width; ++l)
        for (int d = 0; d < depth; ++d)
          values[d * width + l] =
              factor[first + l] * exp_below(z[d * stride + l], m_max[first + l]);
      if (!m_all_count)
        for (int d = 0; d < depth; ++d)
          for (int l = 0; l < width; ++l) {
            Scalar& value = values[d * width + l];
            value         = m_counts[first + l] ? value : m_unread[first + l];
          }
      store_group(gradient, first, cls, classes, values);
    } else {
      Scalar widened[depth * width];
      for (int d = 0; d < depth; ++d) widen_run<width>(z + d * stride, widened + d * width);
      write_group(gradient, first, cls, classes, factor, widened, width);
    }
  }

  template <class T>
  KOKKOS_FUNCTION void store_group(const Matrix<T>& out, int first, std::int64_t cls, int classes,
                                   const Scalar (&values)[depth * width]) const {
    T* const block      = &out(m_first_row + first, cls);
    const int row_count = group_size(first);
    if (row_count == width && classes == depth && out.row_stride == 1) {
      for (int d = 0; d < depth; ++d)
        round_run<width>(values + d * width, block + d * out.class_stride);
    } else if (row_count == width && classes == depth && out.class_stride == 1) {
      for (int l = 0; l < width; ++l)
        for (int d = 0; d < depth; ++d)
          block[l * out.row_stride + d] = round_value<T>(values[d * width + l]);
    } else {
      for (int d = 0; d < classes; ++d)
        for (int l = 0; l < row_count; ++l)
          block[l * out.row_stride + d * out.class_stride] = round_value<T>(values[d * width + l]);
    }
  }

  /// The gradient of a class is factor times its exp_below(); that of the spike's class is
  /// at_spike.
  KOKKOS_FUNCTION void set_factors(const GradientScale<Scalar>& scale, Scalar (&factor)[rows],
                                   Scalar (&at_spike)[rows]) const {
    Scalar scales[rows];
    const Scalar common = scale.is_common() ? scale(0) : Scalar(0);
    for (int l = 0; l < m_lanes; ++l) scales[l] = common;
    if (!scale.is_common())
      for (int l = 0; l < m_row_count; ++l) scales[l] = scale(m_first_row + l);
    for (int l = 0; l < m_lanes; ++l) {
      const Scalar scaled_total = scales[l] * m_spike[l];
      const Scalar log_p        = (m_z_target[l] - m_max[l]) - m_log_sum[l];
      factor[l]                 = scaled_total * exp_nonpositive(-m_log_sum[l]);
      at_spike[l]               = scaled_total * expm1_nonpositive(log_p);
    }
  }

  KOKKOS_FUNCTION void put(const ForwardResults<Scalar>& results,
                           const Scalar (&loss)[rows]) const {
    for (int l = 0; l < m_row_count; ++l) {
      results.row_max[m_first_row + l]     = m_max[l];
      results.row_log_sum[m_first_row + l] = m_log_sum[l];
    }
    if (results.losses)
      for (int l = 0; l < m_row_count; ++l)
        results.losses[(m_first_row + l) * results.loss_stride] = loss[l];
  }

  /// The sum of what the rows have; 0 where there is no row.
  KOKKOS_FUNCTION double total(const Scalar (&values)[rows]) const {
    double sums[8] = {};
    for (int l = 0; l < m_lanes; l += 8)
      for (int k = 0; k < 8; ++k) sums[k] += static_cast<double>(values[l + k]);
    return reduce_halves(sums, [](double a, double b) { return a + b; });
  }

  const Problem& m_problem;
  std::int64_t m_first_row;
  int m_row_count;
  int m_lanes;  // rows of whole groups; those from m_row_count on do not exist
  bool m_any_counts = false;
  bool m_all_count  = true;
  bool m_counts[rows];
  Scalar m_unread[rows];  // the loss and the gradient of rows that do not count
  std::int64_t m_class[rows];
  Scalar m_spike[rows];
  Scalar m_denominator[rows];
  Scalar m_z_target[rows];
  Scalar m_max[rows];
  Scalar m_log_sum[rows];
};

/// Calls visit(tile) for the tiles of a team's rows: all rows, by groups, divided evenly.
template <class Problem, class Member, class Visit>
KOKKOS_INLINE_FUNCTION void for_each_host_tile(const Problem& problem, const Member& team,
                                               const Visit& visit) {
  using Space         = typename Problem::ExecutionSpace;
  using Tile          = HostTile<Problem>;
  constexpr int width = Tile::width;
  const int most_rows =
      problem.logits.row_stride == 1 ? Tuning::host_adjacent_rows : Tuning::host_tile_rows;
  const auto mine =
      items_of<Space>(team.league_rank(), team.league_size(), (problem.rows + width - 1) / width);
  const std::int64_t count = mine.end - mine.begin;
  const std::int64_t tiles = (count * width + most_rows - 1) / most_rows;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const auto groups            = items_of<Space>(tile, tiles, count);
    const std::int64_t first_row = (mine.begin + groups.begin) * width;
    const std::int64_t row_count = (groups.end - groups.begin) * width;
    const std::int64_t left      = problem.rows - first_row;
    visit(Tile(problem, first_row, static_cast<int>(row_count < left ? row_count : left)));
  }
}

/// forward[columns] and forward[rows_per_team]
template <class Problem>
struct ForwardHostTiles {
  static constexpr std::size_t scratch_bytes_per_thread = 0;

  Problem problem;
  ForwardResults<typename Problem::Scalar> results;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    RowTotals totals;
    for_each_host_tile(problem, team,
                       [&](HostTile<Problem>&& tile) { tile.sweep(results, totals); });
    results.reduction.finish(team, totals);
  }
};

/// backward[columns] and backward[rows_per_team]
template <class Problem, class GradientType>
struct BackwardHostTiles {
  static constexpr std::size_t scratch_bytes_per_thread = 0;

  Problem problem;
  GradientTask<Problem, GradientType> task;
  SavedRows<typename Problem::Scalar> saved;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    for_each_host_tile(problem, team, [&](HostTile<Problem>&& tile) {
      tile.load(saved);
      tile.write_gradients(task);
    });
  }
};

/// forward_backward[columns] and forward_backward[rows_per_team]
template <class Problem, class GradientType>
struct ForwardBackwardHostTiles {
  static constexpr std::size_t scratch_bytes_per_thread = 0;

  Problem problem;
  ForwardResults<typename Problem::Scalar> results;
  GradientTask<Problem, GradientType> task;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    RowTotals totals;
    for_each_host_tile(problem, team, [&](HostTile<Problem>&& tile) {
      tile.sweep(results, totals);
      tile.write_gradients(task);
    });
    results.reduction.finish(team, totals);
  }
};

}  // namespace KokkosXent::Impl

#endif
