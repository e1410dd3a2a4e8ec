// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_SOFTMAXSTATE_HPP
#define KOKKOSXENT_IMPL_SOFTMAXSTATE_HPP

#include <impl/KokkosXent_Exp.hpp>
#include <impl/KokkosXent_Unroll.hpp>

#include <Kokkos_Core.hpp>

namespace KokkosXent::Impl {

template <class Scalar>
inline constexpr Scalar infinity_v = Kokkos::Experimental::infinity_v<Scalar>;

template <class Scalar>
inline constexpr Scalar nan_v = Kokkos::Experimental::quiet_NaN_v<Scalar>;

/// The larger of two values; b where a is NaN.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar larger(Scalar a, Scalar b) {
  KOKKOS_IF_ON_HOST((return a > b ? a : b;))         // one instruction, if vectorised
  KOKKOS_IF_ON_DEVICE((return Kokkos::fmax(a, b);))  // one instruction
}

/// The background target mass seen so far (Targets says what that is): mass = sum b_j and
/// gap = sum b_j (max - z_j), both over the classes seen.
template <class Scalar, bool HasBackground>
struct BackgroundSums {
  Scalar mass = 0;
  Scalar gap  = 0;

  /// The gap measured from new_max instead of old_max.
  KOKKOS_FUNCTION Scalar gap_from(Scalar old_max, Scalar new_max) const {
    return (mass == 0 || old_max == new_max) ? gap : gap + mass * (new_max - old_max);
  }
};

template <class Scalar>
struct BackgroundSums<Scalar, false> {};

/// m and d of the formula, over a part of a row that may be empty.
///
/// d = 1 + rest where anything was seen: the maximum's own term, exactly 1, is not added to the
/// others, so that log d = log1p(rest) keeps a confident row's loss that 1 + rest would round
/// away. An empty part, like one of -inf only, is max = -inf and rest = 0. A NaN logit turns rest
/// to NaN; max never is NaN. A +inf logit shows as max = +inf.
template <class Scalar, bool HasBackground>
struct SoftmaxState : BackgroundSums<Scalar, HasBackground> {
  Scalar max  = -infinity_v<Scalar>;
  Scalar rest = 0;

  /// log d; NaN for a row with no finite maximum.
  KOKKOS_FUNCTION Scalar log_sum() const {
    return Kokkos::isfinite(max) ? log1p_nonnegative(rest) : nan_v<Scalar>;
  }

  KOKKOS_FUNCTION void merge(const SoftmaxState& other) {
    const Scalar new_max = larger(max, other.max);
    if constexpr (HasBackground) {
      this->gap = this->gap_from(max, new_max) + other.gap_from(other.max, new_max);
      this->mass += other.mass;
    }
    const bool tie = max == other.max && new_max > -infinity_v<Scalar>;
    rest = rest_under(new_max) + other.rest_under(new_max) + (tie ? Scalar(1) : Scalar(0));
    max  = new_max;
  }

 private:
  /// What this part adds to the rest of a state whose maximum is new_max >= max.
  KOKKOS_FUNCTION Scalar rest_under(Scalar new_max) const {
    if (max == new_max) return rest;
    const Scalar sum = max > -infinity_v<Scalar> ? 1 + rest : rest;
    return sum * exp_nonpositive(max - new_max);
  }
};

/// Kokkos reducer that merges states.
template <class State>
class MergeStates {
 public:
  using reducer          = MergeStates;
  using value_type       = State;
  using result_view_type = Kokkos::View<State, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  KOKKOS_FUNCTION explicit MergeStates(State& result) : m_result(&result) {}
  KOKKOS_FUNCTION void join(State& into, const State& from) const { into.merge(from); }
  KOKKOS_FUNCTION void init(State& state) const { state = State{}; }
  KOKKOS_FUNCTION State& reference() const { return *m_result; }
  KOKKOS_FUNCTION result_view_type view() const { return result_view_type(m_result); }
  KOKKOS_FUNCTION static constexpr bool references_scalar() { return true; }

 private:
  State* m_result;
};

/// Lanes sums side by side, each with the rounding errors of its additions (Knuth's two-sum), so
/// that a sum over a million classes is as exact as one over a few.
template <class Scalar, int Lanes>
class LaneSums {
 public:
  KOKKOS_FUNCTION LaneSums() {
    for (int l = 0; l < Lanes; ++l) m_sum[l] = m_error[l] = 0;
  }

  KOKKOS_FUNCTION void add(int l, Scalar value) {
    const Scalar sum           = m_sum[l] + value;
    const Scalar virtual_value = sum - m_sum[l];
    m_error[l] += (m_sum[l] - (sum - virtual_value)) + (value - virtual_value);
    m_sum[l] = sum;
  }
  /// Adds a chunk, by lanes: element e belongs to lane e % Lanes.
  template <int Size>
  KOKKOS_FUNCTION void add_chunk(const Scalar (&values)[Size]) {
    Scalar chunk[Lanes] = {};
    unrolled<Size / Lanes>([&](int d) {
      for (int l = 0; l < Lanes; ++l) chunk[l] += values[d * Lanes + l];
    });
    for (int l = 0; l < Lanes; ++l) add(l, chunk[l]);
  }
  KOKKOS_FUNCTION void replace(int l, bool condition, Scalar value) {
    m_sum[l]   = condition ? value : m_sum[l];
    m_error[l] = condition ? Scalar(0) : m_error[l];
  }
  /// The error of an infinite sum is NaN; it does not count.
  KOKKOS_FUNCTION Scalar operator[](int l) const {
    return m_error[l] == m_error[l] ? m_sum[l] + m_error[l] : m_sum[l];
  }

 private:
  Scalar m_sum[Lanes];
  Scalar m_error[Lanes];
};

/// Lanes states side by side, for SIMD: lane l of a chunk's element e is e % Lanes.
template <class Scalar, bool HasBackground, int Lanes>
class LaneStates {
 public:
  using State = SoftmaxState<Scalar, HasBackground>;

  KOKKOS_FUNCTION LaneStates() {
    for (int l = 0; l < Lanes; ++l) m_max[l] = -infinity_v<Scalar>;
  }

  /// Takes in a chunk of mapped logits z; -inf where there is none. One exp for each element and
  /// one for each lane: the chunk's maximum is taken first.
  template <int Size>
  KOKKOS_FUNCTION void absorb(const Scalar (&z)[Size]) {
    Scalar new_max[Lanes];
    find_max(z, new_max);
    absorb_exponentials(z, new_max);
  }

  /// The same, with the background mass b of each class; 0 where there is none.
  template <int Size>
  KOKKOS_FUNCTION void absorb(const Scalar (&z)[Size], const Scalar (&b)[Size]) {
    Scalar new_max[Lanes];
    find_max(z, new_max);
    absorb_background(z, b, new_max);
    absorb_exponentials(z, new_max);
  }

  KOKKOS_FUNCTION State lane(int l) const {
    State state;
    state.max  = m_max[l];
    state.rest = m_rest[l];
    if constexpr (HasBackground) {
      state.mass = m_mass[l];
      state.gap  = m_gap[l];
    }
    return state;
  }

  /// All lanes as one state, where they are parts of one row.
  KOKKOS_FUNCTION State merged() const {
    if constexpr (Lanes == 1) return lane(0);
    State all;
    for (int l = 0; l < Lanes; ++l) all.max = larger(m_max[l], all.max);
    const bool any_seen = all.max > -infinity_v<Scalar>;
    Scalar rest[Lanes];
    Scalar tie[Lanes];
    for (int l = 0; l < Lanes; ++l) {
      const Scalar sum   = (m_max[l] > -infinity_v<Scalar> ? Scalar(1) : Scalar(0)) + m_rest[l];
      const Scalar moved = sum * exp_nonpositive(m_max[l] - (any_seen ? all.max : Scalar(0)));
      const bool at_max  = m_max[l] == all.max;
      rest[l]            = at_max ? m_rest[l] : moved;
      tie[l]             = at_max ? Scalar(1) : Scalar(0);
    }
    Scalar ties = -1;
    for (int l = 0; l < Lanes; ++l) {
      all.rest += rest[l];
      ties += tie[l];
    }
    all.rest += any_seen ? ties : Scalar(0);
    if constexpr (HasBackground) {
      for (int l = 0; l < Lanes; ++l) {
        all.mass += m_mass[l];
        all.gap += lane(l).gap_from(m_max[l], all.max);
      }
    }
    return all;
  }

 private:
  /// The maximum of each lane, by halves of the chunk: flat loops that compilers vectorise. A NaN
  /// may hide larger values of its lane, whose rest it turns to NaN anyway.
  template <int Size>
  KOKKOS_FUNCTION void find_max(const Scalar (&z)[Size], Scalar (&new_max)[Lanes]) const {
    static_assert(Size % Lanes == 0 && ((Size / Lanes) & (Size / Lanes - 1)) == 0);
    if constexpr (Size == Lanes) {
      for (int l = 0; l < Lanes; ++l) new_max[l] = larger(z[l], m_max[l]);
    } else {
      constexpr int half = Size / 2;
      Scalar halved[half];
      unrolled<half>([&](int e) { halved[e] = larger(z[e], z[e + half]); });
      find_max(halved, new_max);
    }
  }

  template <int Size>
  KOKKOS_FUNCTION void absorb_background(const Scalar (&z)[Size], const Scalar (&b)[Size],
                                         const Scalar (&new_max)[Lanes]) {
    for (int l = 0; l < Lanes; ++l)
      m_gap.add(l, m_mass[l] == 0 || m_max[l] == new_max[l] ? Scalar(0)
                                                            : m_mass[l] * (new_max[l] - m_max[l]));
    Scalar gaps[Size];
    unrolled<Size / Lanes>([&](int d) {
      for (int l = 0; l < Lanes; ++l) {
        const int e      = d * Lanes + l;
        const Scalar gap = z[e] == -infinity_v<Scalar> ? infinity_v<Scalar> : new_max[l] - z[e];
        gaps[e]          = b[e] == 0 ? Scalar(0) : b[e] * gap;
      }
    });
    m_gap.add_chunk(gaps);
    m_mass.add_chunk(b);
  }

  template <int Size>
  KOKKOS_FUNCTION void absorb_exponentials(const Scalar (&z)[Size],
                                           const Scalar (&new_max)[Lanes]) {
    Scalar shift[Lanes];  // finite where the maximum is -inf: -inf - -inf would be NaN
    Scalar sum[Lanes];
    Scalar ties[Lanes];
    for (int l = 0; l < Lanes; ++l) {
      shift[l] = new_max[l] > -infinity_v<Scalar> ? new_max[l] : Scalar(0);
      sum[l]   = 0;
      ties[l]  = 0;
    }
    unrolled<Size / Lanes>([&](int d) {
      for (int l = 0; l < Lanes; ++l) {
        const Scalar z_e  = z[d * Lanes + l];
        const Scalar term = exp_nonpositive(z_e - shift[l]);
        // Products instead of selects: compilers would branch around the exp.
        const Scalar at_max = z_e == new_max[l] ? Scalar(1) : Scalar(0);
        sum[l] += (1 - at_max) * term;
        ties[l] += at_max;
      }
    });
    for (int l = 0; l < Lanes; ++l) {
      const bool seen = m_max[l] > -infinity_v<Scalar>;
      const bool same = m_max[l] == new_max[l];
      const Scalar moved =
          ((seen ? Scalar(1) : Scalar(0)) + m_rest[l]) * exp_nonpositive(m_max[l] - shift[l]);
      const Scalar extra = same ? ties[l] : ties[l] - 1;
      m_rest.replace(l, !same, moved);
      m_rest.add(l, sum[l] + (new_max[l] > -infinity_v<Scalar> ? extra : Scalar(0)));
      m_max[l] = new_max[l];
    }
  }

  Scalar m_max[Lanes];
  LaneSums<Scalar, Lanes> m_rest;
  LaneSums<Scalar, Lanes> m_mass;  // unused, and optimised away, without a background
  LaneSums<Scalar, Lanes> m_gap;
};

}  // namespace KokkosXent::Impl

#endif
