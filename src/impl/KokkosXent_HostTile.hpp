// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_HOSTTILE_HPP
#define KOKKOSXENT_IMPL_HOSTTILE_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Exp.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_Intrinsics.hpp>
#include <impl/KokkosXent_Parts.hpp>
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

/// Exponentials of one row, of Depth classes at a time: z[d * stride]. By recursion, since
/// compilers do not unroll a loop of so many instructions before they vectorise, and would
/// vectorise it instead of the loop along rows around it. Each address is z and a constant: through
/// a chain of pointers Clang does not see that what is kept in place is apart from what is read.
template <class Scalar>
struct ClassSums {
  using Bits = typename ExpConstants<Scalar>::Bits;

  Scalar sum  = 0;  // in units of ExpConstants::descale
  Scalar tops = 0;  // logits that equal a maximum and are not in the sum
  Bits most   = 0;  // of the gaps' bits: above those of inf are negative ones and NaN

  KOKKOS_FORCEINLINE_FUNCTION static bool is_above(Bits bits) {
    return bits > Kokkos::bit_cast<Bits>(Scalar(infinity_v<Scalar>));
  }

  template <int Depth>
  KOKKOS_FORCEINLINE_FUNCTION void add(Scalar max, const Scalar* z, std::int64_t stride) {
    if constexpr (Depth > 1) add<Depth - 1>(max, z, stride);
    const Scalar gap = max - z[(Depth - 1) * stride];
    most             = larger_of(Kokkos::bit_cast<Bits>(gap), most);
    sum += scaled_exp_of_gap(gap);
  }
  /// The same, but where raised is 1, logits that equal the maximum are counted instead. Keep:
  /// exponentials are left in place of the logits.
  template <int Depth, bool Keep, class Z>
  KOKKOS_FORCEINLINE_FUNCTION void add_others(Scalar max, Scalar raised, Z* z,
                                              std::int64_t stride) {
    if constexpr (Depth > 1) add_others<Depth - 1, Keep>(max, raised, z, stride);
    const Scalar gap   = max - z[(Depth - 1) * stride];
    const Scalar top   = keep_if(gap == 0, raised);
    const Scalar value = scaled_exp_of_gap(gap);
    most               = larger_of(Kokkos::bit_cast<Bits>(gap), most);
    sum += keep_if(top == 0, value);
    tops += top;
    if constexpr (Keep) z[(Depth - 1) * stride] = value * ExpConstants<Scalar>::descale;
  }

  /// max: of itself and the classes.
  template <int Depth>
  KOKKOS_FORCEINLINE_FUNCTION static void raise(Scalar& max, const Scalar* z, std::int64_t stride) {
    if constexpr (Depth > 1) raise<Depth - 1>(max, z, stride);
    max = larger_of(z[(Depth - 1) * stride], max);
  }
};

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
      Scalar sum[Width];
      if (raise_is_likely || exponentials<Depth>(first, z, stride, sum))
        absorb_and_raise<Depth>(first, z, stride);
      else
        for (int l = 0; l < Width; ++l) m_rest.add(first + l, sum[l] * Constants::descale);
    } else {
      Scalar widened[Depth * Width];
      for (int d = 0; d < Depth; ++d) widen_run<Width>(z + d * stride, widened + d * Width);
      absorb<Depth>(first, widened, Width, raise_is_likely);
    }
  }

  KOKKOS_FUNCTION Scalar max(int l) const { return m_max[l]; }
  KOKKOS_FUNCTION Scalar rest(int l) const { return m_rest[l]; }

 private:
  using Constants = ExpConstants<Scalar>;
  using Sums      = ClassSums<Scalar>;
  using Bits      = typename Sums::Bits;

  /// Sums of the classes' exponentials, which mean nothing if a logit is above its row's maximum or
  /// NaN: then true.
  template <int Depth>
  KOKKOS_FORCEINLINE_FUNCTION bool exponentials(int first, const Scalar* z, std::int64_t stride,
                                                Scalar (&sum)[Width]) const {
    Bits most = 0;
    for (int l = 0; l < Width; ++l) {
      Sums sums;
      sums.template add<Depth>(m_max[first + l], z + l, stride);
      sum[l] = sums.sum;
      most   = larger_of(sums.most, most);
    }
    return Sums::is_above(most);
  }

  /// Makes each maximum that of the block and what came before, from which the exponentials are
  /// then measured. Those of logits that equal a new maximum are counted, and one of them is left
  /// out. A row whose maximum does not change comes out as from exponentials(), whatever its
  /// neighbours hold.
  template <int Depth>
  KOKKOS_FUNCTION void absorb_and_raise(int first, const Scalar* z, std::int64_t stride) {
    Scalar max[Width];
    Scalar raised[Width];  // 1 or 0
    Scalar others[Width];
    for (int l = 0; l < Width; ++l) {
      const Scalar old_max = m_max[first + l];
      max[l]               = old_max;
      Sums::template raise<Depth>(max[l], z + l, stride);
      max[l] += 0;  // -0 would make gaps of -0, whose bits are above those of inf
      raised[l] = keep_if(max[l] != old_max, Scalar(1));
      Sums sums;
      sums.template add_others<Depth, false>(shift_of(max[l]), raised[l], z + l, stride);
      others[l] = sums.sum * Constants::descale + (sums.tops - raised[l]) +
                  keep_if(Sums::is_above(sums.most), nan_v<Scalar>);
    }
    Scalar scale[Width];
    for (int l = 0; l < Width; ++l) scale[l] = exp_below(m_max[first + l], max[l]);
    for (int l = 0; l < Width; ++l) {
      const Scalar joins = keep_if(raised[l] != 0, scale[l]);  // the maximum before, to the rest
      m_rest.scale(first + l, joins + (1 - raised[l]));
      m_rest.add(first + l, joins);
      m_rest.add(first + l, others[l]);
      m_max[first + l] = max[l];
    }
  }

  Scalar m_max[Rows];
  LaneSums<Scalar, Rows> m_rest;
};

/// Of a cache line, at least.
template <class T>
inline constexpr int elements_of_line = sizeof(T) < host_line_bytes
                                            ? host_line_bytes / static_cast<int>(sizeof(T))
                                            : 1;

/// What the host's tiles have of each of their neighbouring rows, whose SIMD lanes run along rows.
/// For targets without a background. Loops are over groups of rows whose number is a constant, and
/// read and write arrays of the tile's own, so that compilers vectorise them.
template <class Problem, int Rows>
class HostTileRows {
 public:
  using Scalar = typename Problem::Scalar;
  using Bits   = typename ExpConstants<Scalar>::Bits;

  static constexpr int width = Tuning::host_group_rows;  // rows of a group
  static constexpr int depth = Tuning::host_tile_depth;  // classes taken in at once

  KOKKOS_FUNCTION HostTileRows(const Problem& problem, std::int64_t first_row, int row_count)
      : m_problem(problem),
        m_first_row(first_row),
        m_row_count(row_count),
        m_lanes((row_count + width - 1) / width * width) {
    const auto targets = problem.targets;  // which the stores cannot change, as compilers see it
    RowKind kind[Rows];
    for (int l = 0; l < m_row_count; ++l) m_class[l] = targets.load(m_first_row + l);
    targets.prefetch_rows(m_first_row + m_row_count, m_row_count);
    for (int l = 0; l < m_row_count; ++l) {
      const auto target = targets.target(m_class[l]);
      kind[l]           = target.kind;
      m_class[l]        = target.cls;
      m_spike[l]        = target.spike;
      m_denominator[l]  = target.denominator;
    }
    for (int l = m_row_count; l < m_lanes; ++l) {
      kind[l]    = RowKind::ignored;
      m_class[l] = -1;
      m_spike[l] = m_denominator[l] = 0;
    }
    int counted = 0;
    for (int l = 0; l < m_lanes; ++l) {
      const bool counts = kind[l] == RowKind::counts;
      m_counts[l]       = counts ? ~Bits{0} : Bits{0};
      m_unread[l]       = uncounted_gradient<Scalar>(kind[l]);
      counted += counts;
    }
    m_any_counts = counted > 0;
    m_all_count  = counted == m_row_count;
  }

  /// What a forward pass saved.
  KOKKOS_FUNCTION void load(const SavedRows<Scalar>& saved) {
    for (int l = 0; l < m_row_count; ++l) {
      m_max[l]     = saved.row_max[m_first_row + l];
      m_log_sum[l] = saved.row_log_sum[m_first_row + l];
    }
    prefetch_next(saved.row_max);
    prefetch_next(saved.row_log_sum);
    for (int l = m_row_count; l < m_lanes; ++l) m_max[l] = m_log_sum[l] = 0;
  }

 protected:
  /// value if row l counts, else other; without a branch.
  KOKKOS_FUNCTION Scalar counted_or(Scalar other, int l, Scalar value) const {
    return Kokkos::bit_cast<Scalar>((Kokkos::bit_cast<Bits>(value) & m_counts[l]) |
                                    (Kokkos::bit_cast<Bits>(other) & ~m_counts[l]));
  }

  /// The rows that exist of the group from row first on.
  KOKKOS_FUNCTION int group_size(int first) const {
    return m_row_count - first < width ? m_row_count - first : width;
  }

  KOKKOS_FUNCTION void load_target_logits() {
    for (int l = 0; l < m_lanes; ++l)
      m_z_target[l] = m_problem.target_logit(m_first_row + l, m_class[l]);
  }

  template <class GradientType>
  KOKKOS_FUNCTION void store_spikes(const Matrix<GradientType>& gradient,
                                    const Scalar (&at_spike)[Rows]) const {
    for (int l = 0; l < m_row_count; ++l)
      if (m_class[l] >= 0)
        gradient(m_first_row + l, m_class[l]) = round_value<GradientType>(at_spike[l]);
  }

  /// Ends the forward pass, with rest as SoftmaxState has it.
  KOKKOS_FUNCTION void finish(const Scalar (&rest)[Rows], const ForwardResults<Scalar>& results,
                              RowTotals& totals) {
    Scalar log_sum[Rows];  // apart from what is read, as compilers see it
    for (int l = 0; l < m_lanes; ++l)
      log_sum[l] = log1p_nonnegative(rest[l]) +
                   keep_if(Kokkos::abs(m_max[l]) == infinity_v<Scalar>, nan_v<Scalar>);
    for (int l = 0; l < m_lanes; ++l) m_log_sum[l] = log_sum[l];
    Scalar loss[Rows];
    for (int l = 0; l < m_lanes; ++l) {
      const Scalar whole = m_spike[l] * ((m_max[l] - m_z_target[l]) + m_log_sum[l]);
      const Scalar none  = 0 * m_log_sum[l];
      loss[l]            = keep_if(m_spike[l] != 0, whole) + keep_if(m_spike[l] == 0, none);
    }
    if (!m_all_count)
      for (int l = 0; l < m_lanes; ++l) {
        m_max[l]     = counted_or(nan_v<Scalar>, l, m_max[l]);
        m_log_sum[l] = counted_or(nan_v<Scalar>, l, m_log_sum[l]);
        loss[l]      = counted_or(m_unread[l], l, loss[l]);
      }
    put(results, loss);
    prefetch_next(results.row_max);
    prefetch_next(results.row_log_sum);
    totals.loss += total(loss);
    totals.denominator += total(m_denominator);
  }

  /// The gradient of a class is factor times its exp_below(); that of the spike's class is
  /// at_spike.
  KOKKOS_FUNCTION void set_factors(const GradientScale<Scalar>& scale, Scalar (&factor)[Rows],
                                   Scalar (&at_spike)[Rows]) const {
    Scalar scales[Rows];
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

  const Problem& m_problem;
  std::int64_t m_first_row;
  int m_row_count;
  int m_lanes;  // rows of whole groups; those from m_row_count on do not exist
  bool m_any_counts;
  bool m_all_count;       // of the rows that exist
  Bits m_counts[Rows];    // all bits, or none
  Scalar m_unread[Rows];  // the loss and the gradient of a row that does not count
  std::int64_t m_class[Rows];
  Scalar m_spike[Rows];
  Scalar m_denominator[Rows];
  Scalar m_z_target[Rows];
  Scalar m_max[Rows];
  Scalar m_log_sum[Rows];

 private:
  KOKKOS_FUNCTION void put(const ForwardResults<Scalar>& results,
                           const Scalar (&loss)[Rows]) const {
    for (int l = 0; l < m_row_count; ++l) {
      results.row_max[m_first_row + l]     = m_max[l];
      results.row_log_sum[m_first_row + l] = m_log_sum[l];
    }
    if (results.losses)
      for (int l = 0; l < m_row_count; ++l)
        results.losses[(m_first_row + l) * results.loss_stride] = loss[l];
  }

  /// Asks for what an array has of the next tile's rows.
  KOKKOS_FORCEINLINE_FUNCTION void prefetch_next(const Scalar* of_rows) const {
    prefetch_run(of_rows + m_first_row + m_row_count, m_row_count);
  }

  /// The sum of what the rows have; 0 where there is no row.
  KOKKOS_FUNCTION double total(const Scalar (&values)[Rows]) const {
    double sums[8] = {};
    for (int l = 0; l < m_lanes; l += 8)
      for (int k = 0; k < 8; ++k) sums[k] += static_cast<double>(values[l + k]);
    return reduce_halves(sums, [](double a, double b) { return a + b; });
  }
};

/// A tile of short rows, whose logits it holds, by groups of rows, from when they are read until
/// their gradients are written: forward_backward evaluates each exponential once. Only backward
/// holds nothing where it can go along rows.
template <class Problem>
class ShortRowsTile : public HostTileRows<Problem, Tuning::host_tile_rows> {
  static constexpr int rows = Tuning::host_tile_rows;
  using Base                = HostTileRows<Problem, rows>;

 public:
  using Base::depth;
  using Base::width;
  using typename Base::Scalar;

  /// Whose logits a level-1 cache holds; whole groups.
  KOKKOS_FUNCTION static int most_rows(const Problem& problem) {
    const auto group_bytes = static_cast<int>(problem.classes * width * sizeof(Scalar));
    const int groups       = Tuning::host_held_bytes / group_bytes;
    return groups < 1 ? width : (groups * width < rows ? groups * width : rows);
  }

  KOKKOS_FUNCTION ShortRowsTile(const Problem& problem, std::int64_t first_row, int row_count)
      : Base(problem, first_row, row_count), m_classes(static_cast<int>(problem.classes)) {}

  KOKKOS_FUNCTION void forward(const ForwardResults<Scalar>& results, RowTotals& totals) {
    hold_logits();
    sweep<false>(results, totals);
  }
  template <class GradientType>
  KOKKOS_FUNCTION void backward(const SavedRows<Scalar>& saved,
                                const GradientTask<Problem, GradientType>& task) {
    this->load(saved);
    if (m_classes >= mapped_classes && m_problem.logits.class_stride == 1 &&
        task.gradient.class_stride == 1) {
      map_to_gradients(task);
    } else {
      hold_logits();
      write_gradients<false>(task);
    }
  }
  template <class GradientType>
  KOKKOS_FUNCTION void forward_backward(const ForwardResults<Scalar>& results, RowTotals& totals,
                                        const GradientTask<Problem, GradientType>& task) {
    hold_logits();
    sweep<true>(results, totals);
    write_gradients<true>(task);
  }

 private:
  using Base::m_all_count;
  using Base::m_class;
  using Base::m_counts;
  using Base::m_first_row;
  using Base::m_lanes;
  using Base::m_max;
  using Base::m_problem;
  using Base::m_row_count;
  using Base::m_unread;
  using Base::m_z_target;
  using Sums = ClassSums<Scalar>;

  /// Classes of a row that map_row() takes at once, some of them twice; conversions are fast in
  /// longer loops. Rows need this many for it to pay.
  static constexpr bool converts = !std::is_same_v<typename Problem::LogitType, Scalar>;
  static constexpr int run       = converts ? Tuning::host_converted_run : Tuning::host_mapped_run;
  static constexpr int mapped_classes =
      converts ? Tuning::host_converted_min : Tuning::host_mapped_run;
  static_assert(mapped_classes >= run);

  static constexpr int room = Tuning::host_short_row * width;  // one group, or the bytes held
  static_assert(room * sizeof(Scalar) >= Tuning::host_held_bytes);

  KOKKOS_FUNCTION void hold_logits() {
    load_logits();
    for (int first = 0; first < m_lanes; first += width)
      for (int l = 0; l < width; ++l)  // any number where there is no class
        m_z_target[first + l] = group(first)[spike_place(first, l)];
  }

  /// Writes the gradients of rows that are not held, whose classes are adjacent: SIMD lanes run
  /// along classes, and nothing is transposed.
  template <class GradientType>
  KOKKOS_FUNCTION void map_to_gradients(const GradientTask<Problem, GradientType>& task) {
    Scalar factor[rows];
    Scalar at_spike[rows];
    this->load_target_logits();
    this->set_factors(task.scale, factor, at_spike);
    for (int l = 0; l < m_row_count; ++l) {
      GradientType* const gradient = &task.gradient(m_first_row + l, 0);
      if (m_counts[l])
        map_row(&m_problem.logits(m_first_row + l, 0), gradient, m_max[l], factor[l]);
      else
        for (int c = 0; c < m_classes; ++c) gradient[c] = round_value<GradientType>(m_unread[l]);
    }
    this->store_spikes(task.gradient, at_spike);
  }

  template <class T, class GradientType>
  KOKKOS_FUNCTION void map_row(const T* logits, GradientType* gradient, Scalar max,
                               Scalar factor) const {
    const int last = m_classes - run;  // may overlap others, and is read before they are written
    alignas(64) Scalar at_last[run];   // to a cache line, since Clang leaves them in memory
    alignas(64) Scalar values[run];
    map_run(logits + last, max, factor, at_last);
    for (int cls = 0; cls < last; cls += run) {
      map_run(logits + cls, max, factor, values);
      round_run<run>(values, gradient + cls);
    }
    round_run<run>(at_last, gradient + last);
  }

  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION static void map_run(const T* logits, Scalar max, Scalar factor,
                                                  Scalar (&values)[run]) {
    widen_run<run>(logits, values);
    for (int e = 0; e < run; ++e) values[e] = exp_below(values[e], max) * factor;
  }

  /// Keep: exponentials, for write_gradients().
  template <bool Keep>
  KOKKOS_FUNCTION void sweep(const ForwardResults<Scalar>& results, RowTotals& totals) {
    Scalar rest[rows];
    for (int first = 0; first < m_lanes; first += width) sweep_group<Keep>(first, rest + first);
    this->finish(rest, results, totals);
  }

  /// Kept: there are exponentials, not logits.
  template <bool Kept, class GradientType>
  KOKKOS_FUNCTION void write_gradients(const GradientTask<Problem, GradientType>& task) {
    Scalar factor[rows];
    Scalar at_spike[rows];
    this->set_factors(task.scale, factor, at_spike);
    for (int first = 0; first < m_lanes; first += width) {
      Scalar* const values = group(first);
      scale_exponentials<Kept>(first, factor, values);
      for (int l = 0; l < width; ++l) values[spike_place(first, l)] = at_spike[first + l];
      if (!m_all_count) replace_uncounted(first, values);
    }
    store_values(task.gradient);
  }

  /// Makes of a group's logits, or of its exponentials, the gradients of classes without a spike.
  template <bool Kept>
  KOKKOS_FUNCTION void scale_exponentials(int first, const Scalar (&factor)[rows],
                                          Scalar* values) const {
    Scalar max[width];  // copies, which the stores cannot change, as compilers see it
    Scalar factors[width];
    for (int l = 0; l < width; ++l) {
      max[l]     = m_max[first + l];
      factors[l] = factor[first + l];
    }
    for (int c = 0; c < m_classes; ++c)
      for (int l = 0; l < width; ++l) {
        Scalar value = values[c * width + l];
        if constexpr (!Kept) value = exp_below(value, max[l]);
        values[c * width + l] = value * factors[l];
      }
  }

  /// Of a group's rows, some of which may not count.
  KOKKOS_FUNCTION void replace_uncounted(int first, Scalar* values) const {
    for (int c = 0; c < m_classes; ++c)
      for (int l = 0; l < width; ++l) {
        Scalar& value = values[c * width + l];
        value         = this->counted_or(m_unread[first + l], first + l, value);
      }
  }

  /// Where row first + l of a group has what belongs to the class of its spike, or to any.
  KOKKOS_FUNCTION std::int64_t spike_place(int first, int l) const {
    return larger_of(m_class[first + l], std::int64_t{0}) * width + l;
  }
  /// The logits of the group that row l is in: those of class c are from c * width on.
  KOKKOS_FUNCTION Scalar* group(int l) { return m_values + l / width * (m_classes * width); }

  /// Of the rows of a group. Inlined, so that compilers see that z is elsewhere.
  struct GroupSums {
    Scalar max[width];
    Scalar sum[width]               = {};
    Scalar tops[width]              = {};
    typename Base::Bits most[width] = {};

    KOKKOS_FUNCTION GroupSums() {
      for (int l = 0; l < width; ++l) max[l] = -infinity_v<Scalar>;
    }
    template <int Depth>
    KOKKOS_FORCEINLINE_FUNCTION void raise(const Scalar* z) {
      for (int l = 0; l < width; ++l) Sums::template raise<Depth>(max[l], z + l, width);
    }
    template <int Depth, bool Keep>
    KOKKOS_FORCEINLINE_FUNCTION void add(Scalar* z) {
      for (int l = 0; l < width; ++l) {
        Sums sums;
        sums.template add_others<Depth, Keep>(shift_of(max[l]), Scalar(1), z + l, width);
        sum[l] += sums.sum;
        tops[l] += sums.tops;
        most[l] = larger_of(sums.most, most[l]);
      }
    }
  };

  template <bool Keep>
  KOKKOS_FUNCTION void sweep_group(int first, Scalar* rest) {
    Scalar* const z = group(first);
    GroupSums group;
    int c = 0;
    for (; c + depth <= m_classes; c += depth) group.template raise<depth>(z + c * width);
    for (; c < m_classes; ++c) group.template raise<1>(z + c * width);
    for (int l = 0; l < width; ++l) group.max[l] += 0;  // see TileRowStates
    for (c = 0; c + depth <= m_classes; c += depth) group.template add<depth, Keep>(z + c * width);
    for (; c < m_classes; ++c) group.template add<1, Keep>(z + c * width);
    for (int l = 0; l < width; ++l) {
      const Scalar one = keep_if(group.max[l] != -infinity_v<Scalar>, Scalar(1));
      m_max[first + l] = group.max[l];
      rest[l]          = group.sum[l] * ExpConstants<Scalar>::descale + (group.tops[l] - one) +
                keep_if(Sums::is_above(group.most[l]), nan_v<Scalar>);
    }
  }

  /// Calls visit(first class) for blocks of `depth` classes that cover all, the last of which may
  /// overlap.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_whole_block(const Visit& visit) const {
    for (int cls = 0; cls < m_classes; cls += depth)
      visit(cls + depth <= m_classes ? cls : m_classes - depth);
  }

  /// Rows that do not exist have 0.
  KOKKOS_FUNCTION void load_logits() {
    const auto& logits = m_problem.logits;
    if (logits.class_stride == 1 && m_classes >= depth) {
      constexpr int line = elements_of_line<typename Problem::LogitType>;
      // All rows are copied before any is transposed, which would have to wait for its stores.
      Scalar copy[rows * depth];
      for (int e = m_row_count * depth; e < m_lanes * depth; ++e) copy[e] = 0;
      for_each_whole_block([&](int cls) {
        for (int l = 0; l < m_row_count; ++l)
          widen_run<depth>(&logits(m_first_row + l, cls), copy + l * depth);
        // The hardware's own prefetching begins anew with each tile.
        const std::int64_t next = m_first_row + m_row_count;
        if (m_classes >= line)
          for (int l = 0; l < m_row_count; ++l) prefetch(&logits(next + l, cls));
        const bool rows_share_lines = m_classes < line && logits.row_stride == m_classes;
        for (int first = 0; first < m_lanes; first += width) {
          if (rows_share_lines && cls == 0)
            prefetch_run(&logits(next + first, 0), width * m_classes);
          const Scalar* const from = copy + first * depth;
          Scalar* const to         = group(first) + cls * width;
          for (int l = 0; l < width; ++l)
            for (int d = 0; d < depth; ++d) to[d * width + l] = from[l * depth + d];
        }
      });
      return;
    }
    for (int first = 0; first < m_lanes; first += width) {
      const int count = this->group_size(first);
      for (int c = 0; c < m_classes; ++c) {
        const auto* const from = &logits(m_first_row + first, c);
        Scalar* const to       = group(first) + c * width;
        for (int l = 0; l < count; ++l) to[l] = load_value<Scalar>(from[l * logits.row_stride]);
        for (int l = count; l < width; ++l) to[l] = 0;
      }
    }
  }

  template <class T>
  KOKKOS_FUNCTION void store_values(const Matrix<T>& out) {
    if (out.class_stride == 1 && m_classes >= depth) {
      Scalar copy[rows * depth];
      for_each_whole_block([&](int cls) {
        for (int first = 0; first < m_lanes; first += width) {
          const Scalar* const from = group(first) + cls * width;
          Scalar* const to         = copy + first * depth;
          for (int l = 0; l < width; ++l)
            for (int d = 0; d < depth; ++d) to[l * depth + d] = from[d * width + l];
        }
        for (int l = 0; l < m_row_count; ++l)
          round_run<depth>(copy + l * depth, &out(m_first_row + l, cls));
      });
      return;
    }
    for (int first = 0; first < m_row_count; first += width) {
      const int count = this->group_size(first);
      for (int c = 0; c < m_classes; ++c) {
        const Scalar* const from = group(first) + c * width;
        T* const to              = &out(m_first_row + first, c);
        for (int l = 0; l < count; ++l) to[l * out.row_stride] = round_value<T>(from[l]);
      }
    }
  }

  int m_classes;
  Scalar m_values[room];  // logits, then exponentials, then gradients
};

/// A tile of long rows that are adjacent in memory, or of a part of each of them, which it visits
/// by blocks of classes.
template <class Problem>
class AdjacentRowsTile : public HostTileRows<Problem, Tuning::host_adjacent_rows> {
  static constexpr int rows = Tuning::host_adjacent_rows;
  using Base                = HostTileRows<Problem, rows>;

 public:
  using Base::depth;
  using Base::width;
  using typename Base::Scalar;
  using LogitType = typename Problem::LogitType;

  static constexpr int copied_rows = Tuning::host_tile_rows;  // whose logits are copied at once

  /// Of which the tile has cache lines of a class side by side. Where classes are few, caches can
  /// hold half as many rows for a second pass, which is worth more than width.
  KOKKOS_FUNCTION static int most_rows(const Problem& problem) {
    if (problem.logits.row_stride != 1) return Tuning::host_tile_rows;
    return problem.classes < Tuning::host_wide_tile_classes ? rows / 2 : rows;
  }

  KOKKOS_FUNCTION AdjacentRowsTile(const Problem& problem, std::int64_t first_row, int row_count)
      : AdjacentRowsTile(problem, first_row, row_count, {0, problem.classes}) {}

  KOKKOS_FUNCTION AdjacentRowsTile(const Problem& problem, std::int64_t first_row, int row_count,
                                   const ClassRange& range)
      : Base(problem, first_row, row_count), m_range(range) {
    // Other spikes are another team's, which may have written a gradient over their logits.
    for (int l = 0; l < m_lanes; ++l)
      if (!m_range.contains(m_class[l])) m_class[l] = -1;
    this->load_target_logits();
  }

  KOKKOS_FUNCTION void forward(const ForwardResults<Scalar>& results, RowTotals& totals) {
    Scalar rest[rows];
    sweep(rest);
    this->finish(rest, results, totals);
  }

  /// What part of a tile leaves for the others: the maximum and the rest of each row.
  struct PartStates {
    Scalar max[rows];
    Scalar rest[rows];
  };
  /// forward() of a part of a tile.
  KOKKOS_FUNCTION void leave_states(PartStates& states) {
    sweep(states.rest);
    for (int l = 0; l < m_lanes; ++l) states.max[l] = m_max[l];
  }
  /// forward() of a whole tile whose parts have left states_of(part).
  template <class StatesOf>
  KOKKOS_FUNCTION void merge_parts(int parts, const StatesOf& states_of,
                                   const ForwardResults<Scalar>& results, RowTotals& totals) {
    Scalar rest[rows] = {};
    for (int l = 0; l < m_lanes; ++l) m_max[l] = -infinity_v<Scalar>;
    for (int part = 0; part < parts; ++part) {
      const PartStates& states = states_of(part);
      for (int l = 0; l < m_lanes; ++l) {
        rest[l]  = merged_rest(m_max[l], rest[l], states.max[l], states.rest[l]);
        m_max[l] = larger_of(m_max[l], states.max[l]);
      }
    }
    this->finish(rest, results, totals);
  }

  template <class GradientType>
  KOKKOS_FUNCTION void backward(const SavedRows<Scalar>& saved,
                                const GradientTask<Problem, GradientType>& task) {
    this->load(saved);
    write_gradients(task);
  }
  template <class GradientType>
  KOKKOS_FUNCTION void forward_backward(const ForwardResults<Scalar>& results, RowTotals& totals,
                                        const GradientTask<Problem, GradientType>& task) {
    forward(results, totals);
    write_gradients(task);
  }

 private:
  using Base::m_all_count;
  using Base::m_any_counts;
  using Base::m_class;
  using Base::m_first_row;
  using Base::m_lanes;
  using Base::m_max;
  using Base::m_problem;
  using Base::m_row_count;
  using Base::m_unread;
  using Base::m_z_target;

  /// m_max, and rest as SoftmaxState has it.
  KOKKOS_FUNCTION void sweep(Scalar (&rest)[rows]) {
    TileRowStates<Scalar, rows, width> states;
    if (m_any_counts)
      for_each_block([&](std::int64_t cls, int classes) {
        visit_logits(cls, classes, [&](int first, const auto* z, std::int64_t stride) {
          states.template absorb<depth>(first, z, stride,
                                        cls - m_range.begin < Tuning::host_raise_classes);
        });
      });
    for (int l = 0; l < m_lanes; ++l) {
      rest[l]  = states.rest(l);
      m_max[l] = states.max(l);
    }
  }

  /// Writes the gradients, each logit read before it is written.
  template <class GradientType>
  KOKKOS_FUNCTION void write_gradients(const GradientTask<Problem, GradientType>& task) const {
    Scalar factor[rows];
    Scalar at_spike[rows];
    this->set_factors(task.scale, factor, at_spike);
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
    this->store_spikes(task.gradient, at_spike);
  }

  /// Calls visit(first class, number of classes) for all blocks of classes.
  template <class Visit>
  KOKKOS_FUNCTION void for_each_block(const Visit& visit) const {
    for (std::int64_t cls = m_range.begin; cls < m_range.end; cls += depth) {
      const std::int64_t left = m_range.end - cls;
      visit(cls, left < depth ? static_cast<int>(left) : depth);
    }
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
      if (logits.row_stride == 1) prefetch_block(&logits(m_first_row + first, cls + depth));
      Scalar z[depth * copied_rows];
      copy_logits(first, count, cls, classes, z);
      for (int l = 0; l < count; l += width) visit(first + l, z + l, std::int64_t(copied_rows));
    }
  }

  /// Strides defeat the hardware's own prefetching.
  KOKKOS_FUNCTION void prefetch_block(const LogitType* block) const {
    for (int d = 0; d < depth; ++d)
      for (int l = 0; l < width; l += elements_of_line<LogitType>)
        prefetch(block + d * m_problem.logits.class_stride + l);
  }

  /// z[d * copied_rows + l] = the logit of row first + l and class cls + d; -inf for classes that
  /// do not exist, 0 for rows that do not exist but complete a group.
  KOKKOS_FUNCTION void copy_logits(int first, int count, std::int64_t cls, int classes,
                                   Scalar (&z)[depth * copied_rows]) const {
    const auto& logits = m_problem.logits;
    const auto* block  = &logits(m_first_row + first, cls);
    for (int d = 0; d < classes; ++d)
      for (int l = 0; l < count; ++l)
        z[d * copied_rows + l] =
            load_value<Scalar>(block[l * logits.row_stride + d * logits.class_stride]);
    for (int e = classes * copied_rows; e < depth * copied_rows; ++e) z[e] = -infinity_v<Scalar>;
    for (int d = 0; d < depth; ++d)
      for (int l = count; l < m_lanes - first && l < copied_rows; ++l) z[d * copied_rows + l] = 0;
  }

  /// Writes the gradients of a group's rows at a block of classes. Where nothing is converted and
  /// all rows count, they need not be in memory before.
  template <class GradientType, class T>
  KOKKOS_FUNCTION void write_group(const Matrix<GradientType>& gradient, int first,
                                   std::int64_t cls, int classes, const Scalar (&factor)[rows],
                                   const T* z, std::int64_t stride) const {
    if constexpr (std::is_same_v<T, Scalar>) {
      if (std::is_same_v<GradientType, Scalar> && m_all_count &&
          are_whole_runs(gradient, first, classes)) {
        GradientType* const block = &gradient(m_first_row + first, cls);
        for (int d = 0; d < depth; ++d) {
          Scalar values[width];
          map_class(first, z + d * stride, factor, values);
          round_run<width>(values, block + d * gradient.class_stride);
        }
        return;
      }
      Scalar values[depth * width];
      for (int d = 0; d < depth; ++d) map_class(first, z + d * stride, factor, values + d * width);
      if (!m_all_count)
        for (int d = 0; d < depth; ++d)
          for (int l = 0; l < width; ++l) {
            Scalar& value = values[d * width + l];
            value         = this->counted_or(m_unread[first + l], first + l, value);
          }
      store_group(gradient, first, cls, classes, values);
    } else {
      Scalar widened[depth * width];
      for (int d = 0; d < depth; ++d) widen_run<width>(z + d * stride, widened + d * width);
      write_group(gradient, first, cls, classes, factor, widened, width);
    }
  }

  /// values[l] = the gradient of row first + l at a class without a spike, of logit z[l].
  KOKKOS_FORCEINLINE_FUNCTION void map_class(int first, const Scalar* z,
                                             const Scalar (&factor)[rows], Scalar* values) const {
    for (int l = 0; l < width; ++l)
      values[l] = factor[first + l] * exp_below(z[l], m_max[first + l]);
  }

  /// Whether a group and a block of classes are whole, and the group's rows adjacent in out.
  template <class T>
  KOKKOS_FUNCTION bool are_whole_runs(const Matrix<T>& out, int first, int classes) const {
    return this->group_size(first) == width && classes == depth && out.row_stride == 1;
  }

  template <class T>
  KOKKOS_FUNCTION void store_group(const Matrix<T>& out, int first, std::int64_t cls, int classes,
                                   const Scalar (&values)[depth * width]) const {
    T* const block      = &out(m_first_row + first, cls);
    const int row_count = this->group_size(first);
    if (are_whole_runs(out, first, classes)) {
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

  ClassRange m_range;
};

/// Calls visit(tile) for the tiles of a team's rows: all rows, by groups, divided evenly.
template <class Tile, class Problem, class Member, class Visit>
KOKKOS_INLINE_FUNCTION void for_each_tile(const Problem& problem, const Member& team,
                                          const Visit& visit) {
  using Space         = typename Problem::ExecutionSpace;
  constexpr int width = Tile::width;
  const int most_rows = Tile::most_rows(problem);
  const auto mine =
      items_of<Space>(team.league_rank(), team.league_size(), ceil_div(problem.rows, width));
  const std::int64_t count = mine.end - mine.begin;
  const std::int64_t tiles = ceil_div(count * width, most_rows);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const auto groups            = items_of<Space>(tile, tiles, count);
    const std::int64_t first_row = (mine.begin + groups.begin) * width;
    const std::int64_t row_count = (groups.end - groups.begin) * width;
    const std::int64_t left      = problem.rows - first_row;
    visit(Tile(problem, first_row, static_cast<int>(row_count < left ? row_count : left)));
  }
}

/// The rows of one of `tiles` tiles that divide all rows evenly, by groups.
struct TileRows {
  std::int64_t first;
  int count;
};
template <class Tile, class Problem>
KOKKOS_INLINE_FUNCTION TileRows rows_of_tile(const Problem& problem, std::int64_t tile,
                                             std::int64_t tiles) {
  const auto groups =
      items_of<typename Problem::ExecutionSpace>(tile, tiles, ceil_div(problem.rows, Tile::width));
  const std::int64_t first = groups.begin * Tile::width;
  const std::int64_t end   = smaller_of(groups.end * Tile::width, problem.rows);
  return {first, static_cast<int>(end - first)};
}

/// Calls visit(tile) for a team's share of tiles of adjacent rows whose classes teams share, so
/// that tiles may be as wide as they can be, however many teams there are; but not so wide that all
/// teams together would have short parts of too few tiles.
template <class Problem, class Member, class Visit>
KOKKOS_INLINE_FUNCTION void for_each_part_of_tiles(const Problem& problem, const Member& team,
                                                   const Visit& visit) {
  using Space                  = typename Problem::ExecutionSpace;
  using Tile                   = AdjacentRowsTile<Problem>;
  const std::int64_t groups    = ceil_div(problem.rows, Tile::width);
  const std::int64_t blocks    = ceil_div(problem.classes, Tile::depth);
  const std::int64_t parts     = ceil_div(problem.classes, Tuning::host_tile_min_part);
  const std::int64_t for_teams = smaller_of(ceil_div(team.league_size(), parts), groups);
  const std::int64_t tiles =
      larger_of(ceil_div(groups * Tile::width, Tile::most_rows(problem)), for_teams);
  const auto mine = items_of<Space>(team.league_rank(), team.league_size(), tiles * blocks);
  for (std::int64_t item = mine.begin; item < mine.end;) {
    const TileRows rows      = rows_of_tile<Tile>(problem, item / blocks, tiles);
    const std::int64_t first = item % blocks;
    const std::int64_t end   = smaller_of(first + (mine.end - item), blocks);
    visit(Tile(problem, rows.first, rows.count,
               {first * Tile::depth, smaller_of(end * Tile::depth, problem.classes)}));
    item += end - first;
  }
}

/// forward[rows_per_team], forward[columns] of short rows
template <class Problem>
struct ForwardHostTiles {
  static constexpr std::size_t scratch_bytes_per_thread = 0;

  Problem problem;
  ForwardResults<typename Problem::Scalar> results;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    RowTotals totals;
    for_each_tile<ShortRowsTile<Problem>>(problem, team,
                                          [&](auto&& tile) { tile.forward(results, totals); });
    results.reduction.finish(team, totals);
  }
};

/// forward[columns] of long rows: a team for some tiles, or for each part of each tile, whose last
/// team merges the states of its parts.
template <class Problem>
struct ForwardAdjacentTiles {
  using Scalar     = typename Problem::Scalar;
  using Tile       = AdjacentRowsTile<Problem>;
  using PartStates = typename Tile::PartStates;

  static_assert(sizeof(PartStates) <= host_scratch_each<Scalar> * sizeof(Scalar));

  Problem problem;
  Division division;
  ForwardResults<Scalar> results;
  int* swept_parts;  // of each tile; 0 before the launch and after it
  Scalar* scratch;   // host_scratch_each<Scalar> for each team

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    RowTotals totals;
    if (division.parts == 1) {
      for_each_tile<Tile>(problem, team, [&](auto&& tile) { tile.forward(results, totals); });
      results.reduction.finish(team, totals);
      return;
    }
    const int index     = team.league_rank() / division.parts;
    const int tiles     = team.league_size() / division.parts;
    const TileRows rows = rows_of_tile<Tile>(problem, index, tiles);
    Tile(problem, rows.first, rows.count, division.range(team.league_rank() % division.parts))
        .leave_states(states_of(team.league_rank()));
    if (!counts_last(team, swept_parts + index, division.parts)) return;
    const auto states_of_part = [&](int part) -> const PartStates& {
      return states_of(index * division.parts + part);
    };
    Tile(problem, rows.first, rows.count)
        .merge_parts(division.parts, states_of_part, results, totals);
    results.reduction.finish(team, totals, index, tiles);
  }

 private:
  KOKKOS_FUNCTION PartStates& states_of(int team) const {
    return *reinterpret_cast<PartStates*>(scratch + team * host_scratch_each<Scalar>);
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
    const auto visit = [&](auto&& tile) { tile.backward(saved, task); };
    if (problem.classes < Tuning::host_short_row)
      for_each_tile<ShortRowsTile<Problem>>(problem, team, visit);
    else
      for_each_part_of_tiles(problem, team, visit);
  }
};

/// forward_backward[columns] and forward_backward[rows_per_team]
template <class Problem, class GradientType>
struct ForwardBackwardHostTiles {
  Problem problem;
  ForwardResults<typename Problem::Scalar> results;
  GradientTask<Problem, GradientType> task;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    RowTotals totals;
    const auto visit = [&](auto&& tile) { tile.forward_backward(results, totals, task); };
    if (problem.classes < Tuning::host_short_row)
      for_each_tile<ShortRowsTile<Problem>>(problem, team, visit);
    else
      for_each_tile<AdjacentRowsTile<Problem>>(problem, team, visit);
    results.reduction.finish(team, totals);
  }
};

}  // namespace KokkosXent::Impl

#endif
