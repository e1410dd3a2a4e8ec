// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_TARGETS_HPP
#define KOKKOSXENT_IMPL_TARGETS_HPP

#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_SoftmaxState.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

namespace KokkosXent::Impl {

enum class RowKind { counts, ignored, invalid };

/// A row's target, apart from its background: q_j = (spike where j = cls) + b_j.
template <class Scalar>
struct RowTarget {
  RowKind kind;
  std::int64_t cls;    // the class that holds the spike; -1 where there is none
  Scalar spike;        // (1 - eps) w_y
  Scalar denominator;  // what the row adds to the mean's D
};

/// w_j, 1 where the user gave none.
template <class Scalar>
struct ClassWeights {
  const Scalar* data;  // null: no weights
  std::int64_t stride;
  const double* sum;  // sum w_j on the device; not read without weights

  KOKKOS_FUNCTION bool given() const { return data != nullptr; }
  KOKKOS_FUNCTION Scalar operator()(std::int64_t cls) const {
    return given() ? data[cls * stride] : Scalar(1);
  }
  KOKKOS_FUNCTION bool adjacent() const { return !given() || stride == 1; }
  KOKKOS_FUNCTION Matrix<const Scalar> as_matrix() const { return {data, 0, stride}; }
};

/// Class indices. The background is label smoothing's b_j = (eps / V) w_j; without smoothing there
/// is none, and nothing of it is compiled.
template <class Scalar, bool Smoothing>
class IndexTargets {
 public:
  static constexpr bool has_background         = Smoothing;
  static constexpr bool background_total_known = true;
  static constexpr std::size_t class_bytes     = 0;  // of a row's own operands

  IndexTargets(const std::int32_t* indices, std::int64_t stride)
      : m_narrow(indices), m_stride(stride) {}
  IndexTargets(const std::int64_t* indices, std::int64_t stride)
      : m_wide(indices), m_stride(stride) {}

  void configure(std::int64_t num_classes, std::int64_t ignore_index, double label_smoothing,
                 const ClassWeights<Scalar>& weights) {
    m_num_classes  = num_classes;
    m_ignore_index = ignore_index;
    m_keep         = static_cast<Scalar>(1.0 - label_smoothing);
    m_share        = static_cast<Scalar>(label_smoothing / static_cast<double>(num_classes));
    m_weights      = weights;
  }

  /// What a row's target is made of, so that it can be loaded ahead of its use.
  KOKKOS_FUNCTION std::int64_t load(std::int64_t row) const {
    return m_wide ? m_wide[row * m_stride] : m_narrow[row * m_stride];
  }
  /// Asks for the targets of rows, which need not exist.
  KOKKOS_FORCEINLINE_FUNCTION void prefetch_rows(std::int64_t first_row, int count) const {
    if (m_stride != 1) return;
    if (m_wide)
      prefetch_run(m_wide + first_row, count);
    else
      prefetch_run(m_narrow + first_row, count);
  }
  KOKKOS_FUNCTION RowKind kind(std::int64_t label) const {
    if (label == m_ignore_index) return RowKind::ignored;
    return label < 0 || label >= m_num_classes ? RowKind::invalid : RowKind::counts;
  }
  KOKKOS_FUNCTION RowTarget<Scalar> target(std::int64_t label) const {
    const RowKind row_kind = kind(label);
    return row_kind == RowKind::counts ? counting_target(label)
                                       : RowTarget<Scalar>{row_kind, -1, 0, 0};
  }
  /// The same of a label whose row counts.
  KOKKOS_FUNCTION RowTarget<Scalar> counting_target(std::int64_t label) const {
    const Scalar weight = m_weights(label);
    return {RowKind::counts, label, m_keep * weight, weight};
  }

  KOKKOS_FUNCTION RowTarget<Scalar> operator()(std::int64_t row) const { return target(load(row)); }

  /// b_j of one class.
  KOKKOS_FUNCTION Scalar background(std::int64_t, std::int64_t cls) const {
    return m_share * m_weights(cls);
  }

  KOKKOS_FUNCTION bool weights_are_adjacent() const { return m_weights.adjacent(); }

  /// sum b_j, with the roundings of background(): exactly b_0 for one class.
  KOKKOS_FUNCTION Scalar background_total() const {
    const double sum = m_weights.given() ? *m_weights.sum : static_cast<double>(m_num_classes);
    return m_share * static_cast<Scalar>(sum);
  }

  /// Loads b_j by chunks, for a thread that walks the row with W. AdjacentWeights: they are, and
  /// runs of chunks exist as a whole or not at all.
  template <class W, bool AdjacentWeights = false>
  class BackgroundRow {
   public:
    static constexpr bool exists = Smoothing;

    KOKKOS_FUNCTION BackgroundRow(const IndexTargets& targets, std::int64_t, std::int64_t first)
        : m_share(targets.m_share), m_weights(W::row(targets.m_weights.as_matrix(), 0, first)) {}

    template <int Size, int Run, bool Masked>
    KOKKOS_FUNCTION void load(const Chunk<Size, Run, Masked>& chunk, Scalar (&b)[Size]) const {
      if (m_weights.data) {
        if constexpr (AdjacentWeights)
          load_adjacent_runs(m_weights, chunk, b, Scalar(0));
        else
          load_unaligned_chunk<W::on_host>(m_weights, chunk, b, Scalar(0));
        unrolled<Size>([&](int e) { b[e] *= m_share; });
      } else {
        unrolled<Size>([&](int e) { b[e] = chunk.exists(e) ? m_share : Scalar(0); });
      }
    }

    KOKKOS_FUNCTION static constexpr bool packed() { return true; }

    /// sum b_j (reference - z_j) over a chunk, on a device; not finite where a logit is not, also
    /// if b_j is 0.
    template <class Chunk, int Size>
    KOKKOS_FUNCTION Scalar gap(const Chunk& chunk, const Scalar (&z)[Size],
                               Scalar reference) const {
      const auto distance = [&](int e) {
        return chunk.run_is_whole(e / Chunk::run) ? reference - z[e] : Scalar(0);
      };
      Scalar sums[4] = {};
      if (m_weights.data) {
        Scalar weights[Size];
        load_adjacent_runs(m_weights, chunk, weights, Scalar(0));
        unrolled<Size>([&](int e) { sums[e % 4] += weights[e] * distance(e); });
      } else {
        unrolled<Size>([&](int e) { sums[e % 4] += distance(e); });
      }
      return m_share * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }

   private:
    Scalar m_share;
    Row<const Scalar> m_weights;
  };

 private:
  const std::int32_t* m_narrow = nullptr;
  const std::int64_t* m_wide   = nullptr;
  std::int64_t m_stride;
  std::int64_t m_num_classes  = 0;
  std::int64_t m_ignore_index = 0;
  Scalar m_keep               = 1;  // 1 - eps
  Scalar m_share              = 0;  // eps / V
  ClassWeights<Scalar> m_weights{};
};

/// Class probabilities t: no spike, the background is b_j = w_j ((1 - eps) t_j + eps / V).
template <class Scalar, class T>
class ProbabilityTargets {
 public:
  static constexpr bool has_background         = true;
  static constexpr bool background_total_known = false;
  static constexpr std::size_t class_bytes     = sizeof(T);

  explicit ProbabilityTargets(const Matrix<const T>& probabilities)
      : m_probabilities(probabilities) {}

  void configure(std::int64_t num_classes, std::int64_t, double label_smoothing,
                 const ClassWeights<Scalar>& weights) {
    m_keep    = static_cast<Scalar>(1.0 - label_smoothing);
    m_share   = static_cast<Scalar>(label_smoothing / static_cast<double>(num_classes));
    m_weights = weights;
  }

  KOKKOS_FUNCTION std::int64_t load(std::int64_t) const { return -1; }
  KOKKOS_FUNCTION RowKind kind(std::int64_t) const { return RowKind::counts; }
  KOKKOS_FUNCTION RowTarget<Scalar> target(std::int64_t) const {
    return {RowKind::counts, -1, 0, 1};
  }
  KOKKOS_FUNCTION RowTarget<Scalar> operator()(std::int64_t row) const { return target(load(row)); }

  KOKKOS_FUNCTION bool weights_are_adjacent() const { return m_weights.adjacent(); }

  KOKKOS_FUNCTION Scalar background(std::int64_t row, std::int64_t cls) const {
    return mass(load_value<Scalar>(m_probabilities(row, cls)), m_weights(cls));
  }

  template <class W>
  class BackgroundRow {
   public:
    static constexpr bool exists = true;

    KOKKOS_FUNCTION BackgroundRow(const ProbabilityTargets& targets, std::int64_t row,
                                  std::int64_t first)
        : m_targets(targets),
          m_probabilities(W::row(targets.m_probabilities, row, first)),
          m_weights(W::row(targets.m_weights.as_matrix(), 0, first)) {}

    template <int Size, int Run, bool Masked>
    KOKKOS_FUNCTION void load(const Chunk<Size, Run, Masked>& chunk, Scalar (&b)[Size]) const {
      load_chunk<W::on_host>(m_probabilities, chunk, b, Scalar(0));
      if (m_weights.data) {
        Scalar weight[Size];
        load_unaligned_chunk<W::on_host>(m_weights, chunk, weight, Scalar(0));
        unrolled<Size>([&](int e) { b[e] = m_targets.mass(b[e], weight[e]); });
      } else {
        unrolled<Size>(
            [&](int e) { b[e] = m_targets.mass(b[e], chunk.exists(e) ? Scalar(1) : Scalar(0)); });
      }
    }

    KOKKOS_FUNCTION bool packed() const { return m_probabilities.packed; }

   private:
    const ProbabilityTargets& m_targets;
    Row<const T> m_probabilities;
    Row<const Scalar> m_weights;
  };

 private:
  KOKKOS_FUNCTION Scalar mass(Scalar probability, Scalar weight) const {
    return weight * (m_keep * probability + m_share);
  }

  Matrix<const T> m_probabilities;
  Scalar m_keep  = 1;  // 1 - eps
  Scalar m_share = 0;  // eps / V
  ClassWeights<Scalar> m_weights{};
};

/// The spike's part of the row loss; negative_log_p = (m - z_y) + log d. Without mass it is 0 also
/// where z_y = -inf, but not where the row holds a NaN, which log_sum shows.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar spike_loss(const RowTarget<Scalar>& target, Scalar negative_log_p,
                                         Scalar log_sum) {
  return target.spike == 0 ? 0 * log_sum : target.spike * negative_log_p;
}

/// What the gradient needs to know of a row that counts.
template <class Scalar>
struct RowStatistics {
  Scalar max;               // m
  Scalar log_sum;           // log d
  Scalar background_total;  // sum b_j
};

/// d loss / d z_j for one row, before rounding: scale (A p_j - q_j).
///
/// log p may come out of rounding a little above 0; the exponentials take that.
template <class Scalar>
class RowGradient {
 public:
  /// log p above which a class is dominant: p > 0.503, so that no two of a row are, however their
  /// probabilities are rounded.
  static constexpr Scalar log_dominant = Scalar(-0.6875);

  KOKKOS_FUNCTION RowGradient(const RowTarget<Scalar>& target,
                              const RowStatistics<Scalar>& statistics, Scalar scale)
      : m_max(statistics.max),
        m_log_sum(statistics.log_sum),
        m_dominant_below_max(statistics.log_sum + log_dominant),
        m_inverse_sum(exp_nonpositive(-statistics.log_sum)),
        m_scale(scale),
        m_background_total(statistics.background_total),
        m_spike(target.spike),
        m_total(m_spike + m_background_total),
        m_scaled_total(scale * m_total * m_inverse_sum) {}

  KOKKOS_FUNCTION Scalar probability(Scalar z) const { return exp_below(z, m_max) * m_inverse_sum; }
  KOKKOS_FUNCTION Scalar probability_less_1(Scalar z) const {
    return expm1_nonpositive((z - m_max) - m_log_sum);
  }

  /// The gradient of a class without mass, as a function of its logit.
  KOKKOS_FUNCTION auto plain() const {
    const ShiftedExp<Scalar> exp(m_max);
    return [exp, factor = m_scaled_total * exp.factor()](Scalar z) { return factor * exp(z); };
  }
  /// values[e] = the gradient of a class without mass whose logit is z[e]
  template <int Size>
  KOKKOS_FUNCTION void plain(const Scalar (&z)[Size], Scalar (&values)[Size]) const {
    const auto value = plain();
    unrolled<Size>([&](int e) { values[e] = value(z[e]); });
  }
  /// The same of a class with exp(z - some_max), divided by that; some_max is at most the row's.
  KOKKOS_FUNCTION Scalar plain_factor(Scalar some_max) const {
    return m_scaled_total * exp_below(some_max, m_max);
  }
  /// A class with background mass b only.
  KOKKOS_FUNCTION Scalar with_background(Scalar z, Scalar b) const {
    return m_scale * (m_total * probability(z) - b);
  }
  /// Whether a class holds more than about half the probability, so that A p - q would cancel.
  KOKKOS_FUNCTION bool is_dominant(Scalar z) const { return z - m_max > m_dominant_below_max; }
  /// A (p - 1) + (A - q), which does not cancel, for a class with background mass b, and the spike.
  KOKKOS_FUNCTION Scalar dominant(Scalar p_less_1, Scalar b, bool holds_spike) const {
    const Scalar other_mass = (m_background_total - b) + (holds_spike ? Scalar(0) : m_spike);
    return m_scale * (m_total * p_less_1 + other_mass);
  }
  /// The class that holds the spike, and background mass b.
  KOKKOS_FUNCTION Scalar at_spike(Scalar z, Scalar b) const {
    if (is_dominant(z) || m_background_total == 0) return dominant(probability_less_1(z), b, true);
    return m_scale * (m_total * probability(z) - (b + m_spike));
  }

 private:
  Scalar m_max;
  Scalar m_log_sum;
  Scalar m_dominant_below_max;  // z - m of a dominant class is above it
  Scalar m_inverse_sum;         // 1 / d
  Scalar m_scale;
  Scalar m_background_total;
  Scalar m_spike;
  Scalar m_total;
  Scalar m_scaled_total;
};

}  // namespace KokkosXent::Impl

#endif
