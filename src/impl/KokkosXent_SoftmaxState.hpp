// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_SOFTMAXSTATE_HPP
#define KOKKOSXENT_IMPL_SOFTMAXSTATE_HPP

#include <impl/KokkosXent_Exp.hpp>
#include <impl/KokkosXent_Intrinsics.hpp>
#include <impl/KokkosXent_Unroll.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error \
    "KokkosXent computes with NaN and infinities: compile without -ffast-math, -ffinite-math-only"
#endif

namespace KokkosXent::Impl {

template <class Scalar>
inline constexpr Scalar infinity_v = Kokkos::Experimental::infinity_v<Scalar>;

template <class Scalar>
inline constexpr Scalar nan_v = Kokkos::Experimental::quiet_NaN_v<Scalar>;

/// Two values in order; a NaN among them as larger_of() and smaller_of() say.
template <class Scalar>
struct OrderedPair {
  Scalar larger;
  Scalar smaller;

  KOKKOS_FUNCTION OrderedPair(Scalar a, Scalar b)
      : larger(larger_of(a, b)), smaller(smaller_of(a, b)) {}
};

/// The same of two words of 16-bit floats T each.
template <class T>
struct OrderedWords {
  std::uint32_t larger;
  std::uint32_t smaller;

  KOKKOS_FUNCTION OrderedWords(std::uint32_t a, std::uint32_t b)
      : larger(larger_of_pairs<T>(a, b)), smaller(smaller_of_pairs<T>(a, b)) {}
};

/// What to subtract from logits whose maximum is max: finite where there is none (max = -inf),
/// since -inf - -inf would be NaN.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar shift_of(Scalar max) {
  return keep_if(max > -infinity_v<Scalar>, max);
}

/// What a change of the maximum adds to the gap of mass; nothing where there was no mass yet.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar moved_gap(Scalar mass, Scalar old_max, Scalar new_max) {
  return keep_if((mass != 0) & (old_max != new_max), mass * (new_max - old_max));
}

/// The background target mass seen so far (Targets says what that is): mass = sum b_j and
/// gap = sum b_j (max - z_j), both over the classes seen.
template <class Scalar, bool HasBackground>
struct BackgroundSums {
  Scalar mass = 0;
  Scalar gap  = 0;

  /// The gap measured from new_max instead of old_max.
  KOKKOS_FUNCTION Scalar gap_from(Scalar old_max, Scalar new_max) const {
    return gap + moved_gap(mass, old_max, new_max);
  }
};

template <class Scalar>
struct BackgroundSums<Scalar, false> {};

/// The rest of two merged parts: the smaller maximum's own term joins it; an empty part adds
/// nothing.
template <class Scalar>
KOKKOS_INLINE_FUNCTION Scalar merged_rest(Scalar max_a, Scalar rest_a, Scalar max_b,
                                          Scalar rest_b) {
  const OrderedPair<Scalar> maxima(max_a, max_b);
  const Scalar larger_rest  = max_a > max_b ? rest_a : rest_b;
  const Scalar smaller_rest = max_a > max_b ? rest_b : rest_a;
  const Scalar scale        = exp_nonpositive(maxima.smaller - shift_of(maxima.larger));
  return larger_rest + (1 + smaller_rest) * scale;
}

/// m and d of the formula, over a part of a row that may be empty.
///
/// d = 1 + rest where anything was seen: the maximum's own term, exactly 1, is not added to the
/// others, so that log d = log1p(rest) keeps a confident row's loss that 1 + rest would round
/// away. An empty part, like one of -inf only, is max = -inf and rest = 0. A NaN logit turns rest
/// to NaN, and max too where larger_of() does. A +inf logit shows as max = +inf.
template <class Scalar, bool HasBackground>
struct SoftmaxState : BackgroundSums<Scalar, HasBackground> {
  Scalar max  = -infinity_v<Scalar>;
  Scalar rest = 0;

  /// log d; NaN for a row with no finite maximum.
  KOKKOS_FUNCTION Scalar log_sum() const {
    return Kokkos::isfinite(max) ? log1p_nonnegative(rest) : nan_v<Scalar>;
  }

  KOKKOS_FUNCTION void merge(const SoftmaxState& other) {
    const OrderedPair<Scalar> maxima(max, other.max);
    if constexpr (HasBackground) {
      this->gap = this->gap_from(max, maxima.larger) + other.gap_from(other.max, maxima.larger);
      this->mass += other.mass;
    }
    rest = merged_rest(max, rest, other.max, other.rest);
    max  = maxima.larger;
  }
};

/// A state measured from a maximum that many states share, so that they merge by mere additions.
template <class Scalar, bool HasBackground>
struct SharedMaxState : BackgroundSums<Scalar, HasBackground> {
  Scalar rest = 0;
  Scalar tops = 0;  // states that hold the maximum itself: 1 each

  SharedMaxState() = default;
  KOKKOS_FUNCTION SharedMaxState(const SoftmaxState<Scalar, HasBackground>& state, Scalar max) {
    const bool has_top = state.max == max;
    tops               = has_top ? 1 : 0;
    rest = has_top ? state.rest : (1 + state.rest) * exp_nonpositive(state.max - shift_of(max));
    if constexpr (HasBackground) {
      this->gap  = state.gap_from(state.max, max);
      this->mass = state.mass;
    }
  }
  KOKKOS_FUNCTION void merge(const SharedMaxState& other) {
    rest += other.rest;
    tops += other.tops;
    if constexpr (HasBackground) {
      this->gap += other.gap;
      this->mass += other.mass;
    }
  }
  /// The maximum's own term counts once; the others that are as large join the rest.
  KOKKOS_FUNCTION SoftmaxState<Scalar, HasBackground> state(Scalar max) const {
    SoftmaxState<Scalar, HasBackground> all;
    all.max  = max;
    all.rest = max > -infinity_v<Scalar> && tops > 0 ? rest + (tops - 1) : rest;
    if constexpr (HasBackground) {
      all.gap  = this->gap;
      all.mass = this->mass;
    }
    return all;
  }
};

/// The largest value seen; see larger_of() for NaN.
template <class Scalar>
struct Largest {
  Scalar value = -infinity_v<Scalar>;

  KOKKOS_FUNCTION void merge(const Largest& other) { value = larger_of(value, other.value); }
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

/// States merged: reduce(value) gives each of those who hold a value all of them, merged. First
/// comes their maximum, then sums, so that each evaluates one exponential.
template <class Reduce, class Scalar, bool HasBackground>
KOKKOS_INLINE_FUNCTION SoftmaxState<Scalar, HasBackground> merge_states(
    const SoftmaxState<Scalar, HasBackground>& mine, const Reduce& reduce) {
  const Scalar max = reduce(Largest<Scalar>{mine.max}).value;
  return reduce(SharedMaxState<Scalar, HasBackground>(mine, max)).state(max);
}

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
  /// The same by halves, in flat loops that every compiler vectorises.
  template <int Size>
  KOKKOS_FUNCTION void add_halves(const Scalar (&values)[Size]) {
    if constexpr (Size == Lanes) {
      for (int l = 0; l < Lanes; ++l) add(l, values[l]);
    } else {
      Scalar sums[Size / 2];
      for (int i = 0; i < Size / 2; ++i) sums[i] = values[i] + values[i + Size / 2];
      add_halves(sums);
    }
  }
  KOKKOS_FUNCTION void scale(int l, Scalar factor) {
    m_sum[l] *= factor;
    m_error[l] *= factor;
  }
  /// The error of an infinite sum is NaN; it does not count.
  KOKKOS_FUNCTION Scalar operator[](int l) const {
    return m_sum[l] + keep_if(m_error[l] == m_error[l], m_error[l]);
  }

 private:
  Scalar m_sum[Lanes];
  Scalar m_error[Lanes];
};

/// A tournament by halves of the values, in flat loops that compilers vectorise: winners are the
/// largest values of each lane, and whoever loses a match is in losers from Lanes on, so that one
/// maximum, and not its ties, is left out without a comparison for each element. Where a NaN wins
/// or loses follows Pair; values larger than another of their lane's losers may be there too then,
/// which does no harm to a row that is NaN.
template <class Pair, class Value, int Size, int Lanes>
KOKKOS_INLINE_FUNCTION void knock_out(const Value (&values)[Size], Value (&winners)[Lanes],
                                      Value (&losers)[Size]) {
  static_assert(Size % Lanes == 0 && ((Size / Lanes) & (Size / Lanes - 1)) == 0);
  if constexpr (Size == Lanes) {
    for (int l = 0; l < Lanes; ++l) winners[l] = values[l];
  } else {
    constexpr int half = Size / 2;
    Value left[half];
    Value losers_of_left[half];
    unrolled<half>([&](int e) {
      const Pair pair(values[e], values[e + half]);
      left[e]          = pair.larger;
      losers[e + half] = pair.smaller;
    });
    knock_out<Pair>(left, winners, losers_of_left);
    unrolled<half>([&](int e) {
      if (e >= Lanes) losers[e] = losers_of_left[e];
    });
  }
}

/// Lanes states side by side, for SIMD: lane l of a chunk's element e is e % Lanes.
template <class Scalar, bool HasBackground, int Lanes>
class LaneStates {
 public:
  using State = SoftmaxState<Scalar, HasBackground>;

  KOKKOS_FUNCTION LaneStates() {
    for (int l = 0; l < Lanes; ++l) m_max[l] = -infinity_v<Scalar>;
  }

  /// Takes in a chunk of logits z; -inf where there is none.
  template <int Size>
  KOKKOS_FUNCTION void absorb(const Scalar (&z)[Size]) {
    Scalar others[Size];
    Scalar new_max[Lanes];
    split_off_max(z, others, new_max);
    absorb_exponentials(others, new_max);
  }

  /// The same of words of two 16-bit floats T, which are ordered before they are widened. Two lanes
  /// have a half of each word; one lane has both.
  template <class T, int Words>
  KOKKOS_FUNCTION void absorb_words(const std::uint32_t (&words)[Words]) {
    static_assert(Lanes <= 2 && std::is_same_v<Scalar, float>);
    std::uint32_t winner[1];
    std::uint32_t losers[Words];
    knock_out<OrderedWords<T>>(words, winner, losers);
    Scalar others[2 * Words];
    unrolled<Words - 1>(
        [&](int w) { widen_pair<T>(losers[w + 1], others[2 * w + 2], others[2 * w + 3]); });
    Scalar tops[2];
    widen_pair<T>(winner[0], tops[0], tops[1]);
    if constexpr (Lanes == 1) {
      const OrderedPair<Scalar> pair(tops[0], tops[1]);
      tops[0]   = pair.larger;
      others[1] = pair.smaller;
    }
    Scalar new_max[Lanes];
    take_max(tops, others, new_max);
    absorb_exponentials(others, new_max);
  }

  /// The same, with the background mass b of each class; 0 where there is none.
  template <int Size>
  KOKKOSXENT_IMPL_APART_ON_HOST KOKKOS_FUNCTION void absorb(const Scalar (&z)[Size],
                                                            const Scalar (&b)[Size]) {
    Scalar others[Size];
    Scalar new_max[Lanes];
    split_off_max(z, others, new_max);
    absorb_background(z, b, new_max);
    absorb_exponentials(others, new_max);
  }

  /// Adds to the gap of the only lane, whoever measures it from something else than the maximum.
  KOKKOS_FUNCTION void add_gap(Scalar gap) {
    static_assert(HasBackground && Lanes == 1);
    m_gap.add(0, gap);
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
    Scalar max[Lanes];
    Scalar rest[Lanes];
    for (int l = 0; l < Lanes; ++l) {
      max[l]  = m_max[l];
      rest[l] = m_rest[l];
    }
    merge_halves<Lanes / 2>(max, rest);
    State all;
    all.max  = max[0];
    all.rest = rest[0];
    if constexpr (HasBackground) {
      for (int l = 0; l < Lanes; ++l) {
        all.mass += m_mass[l];
        all.gap += lane(l).gap_from(m_max[l], all.max);
      }
    }
    return all;
  }

 private:
  /// Merges lanes [Half, 2 Half) into [0, Half), and so on down to lane 0.
  template <int Half>
  KOKKOS_FUNCTION static void merge_halves(Scalar (&max)[Lanes], Scalar (&rest)[Lanes]) {
    if constexpr (Half > 0) {
      for (int l = 0; l < Half; ++l) {
        rest[l] = merged_rest(max[l], rest[l], max[l + Half], rest[l + Half]);
        max[l]  = OrderedPair<Scalar>(max[l], max[l + Half]).larger;
      }
      merge_halves<Half / 2>(max, rest);
    }
  }

  /// new_max: each lane's maximum of the chunk and what came before. others: all the rest, that is
  /// the chunk and the maximum before, less new_max.
  template <int Size>
  KOKKOS_FUNCTION void split_off_max(const Scalar (&z)[Size], Scalar (&others)[Size],
                                     Scalar (&new_max)[Lanes]) const {
    Scalar winners[Lanes];
    knock_out<OrderedPair<Scalar>>(z, winners, others);
    take_max(winners, others, new_max);
  }
  /// The last match, between each lane's winner and its maximum before.
  template <int Size, int Others>
  KOKKOS_FUNCTION void take_max(const Scalar (&winners)[Size], Scalar (&others)[Others],
                                Scalar (&new_max)[Lanes]) const {
    for (int l = 0; l < Lanes; ++l) {
      const OrderedPair<Scalar> pair(winners[l], m_max[l]);
      new_max[l] = pair.larger;
      others[l]  = pair.smaller;
    }
  }

  template <int Size>
  KOKKOS_FUNCTION void absorb_background(const Scalar (&z)[Size], const Scalar (&b)[Size],
                                         const Scalar (&new_max)[Lanes]) {
    for (int l = 0; l < Lanes; ++l) m_gap.add(l, moved_gap(m_mass[l], m_max[l], new_max[l]));
    if constexpr (Lanes == 1 && Size >= 4) {
      // Without infinities a sum of products is enough, and shows if there were any.
      const Scalar shift = shift_of(new_max[0]);
      Scalar sums[4]     = {};
      unrolled<Size>([&](int e) { sums[e % 4] += b[e] * (shift - z[e]); });
      const Scalar sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      if (Kokkos::isfinite(sum)) {
        m_gap.add(0, sum);
        m_mass.add_chunk(b);
        return;
      }
    }
    Scalar gaps[Size];
    unrolled<Size / Lanes>([&](int d) {
      for (int l = 0; l < Lanes; ++l) {
        const int e      = d * Lanes + l;
        const Scalar gap = shift_of(new_max[l]) - z[e];  // +inf where z = -inf
        gaps[e]          = keep_if(b[e] != 0, b[e] * gap);
      }
    });
    m_gap.add_chunk(gaps);
    m_mass.add_chunk(b);
  }

  /// first: exp(others - new_max) of each lane's first one; sum: of all of them.
  template <int Size>
  KOKKOS_FUNCTION static void sum_side_by_side(const Scalar (&others)[Size],
                                               const Scalar (&new_max)[Lanes],
                                               Scalar (&first)[Lanes], Scalar (&sum)[Lanes]) {
    Scalar shift[Lanes];
    for (int l = 0; l < Lanes; ++l) {
      shift[l] = shift_of(new_max[l]);
      first[l] = exp_nonpositive(others[l] - shift[l]);
      sum[l]   = first[l];
    }
    unrolled<Size / Lanes - 1>([&](int d) {
      for (int l = 0; l < Lanes; ++l)
        sum[l] += exp_nonpositive(others[(d + 1) * Lanes + l] - shift[l]);
    });
  }
  /// The same for few lanes, which have nothing else to do while they wait for a sum: four of each
  /// are side by side.
  template <int Size>
  KOKKOS_FUNCTION static void sum_lane_by_lane(const Scalar (&others)[Size],
                                               const Scalar (&new_max)[Lanes],
                                               Scalar (&first)[Lanes], Scalar (&sum)[Lanes]) {
    for (int l = 0; l < Lanes; ++l) {
      const ShiftedExp<Scalar> exp(shift_of(new_max[l]));
      const Scalar first_exp = exp(others[l]);
      Scalar sums[4]         = {first_exp, 0, 0, 0};
      unrolled<Size / Lanes - 1>([&](int d) {
        const int e        = d + 1;
        const Scalar value = exp(others[e * Lanes + l]);
        sums[e % 4]        = e < 4 ? value : sums[e % 4] + value;  // 0 + value costs an instruction
      });
      first[l] = exp.factor() * first_exp;
      sum[l]   = exp.factor() * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  }

  /// others: as split_off_max leaves them; the first Lanes hold the maximum before where it was
  /// beaten, so that its exp is also the scale of what was summed under it.
  template <int Size>
  KOKKOS_FUNCTION void absorb_exponentials(const Scalar (&others)[Size],
                                           const Scalar (&new_max)[Lanes]) {
    Scalar first[Lanes];
    Scalar sum[Lanes];
    KOKKOS_IF_ON_HOST((sum_side_by_side(others, new_max, first, sum);))
    KOKKOS_IF_ON_DEVICE((sum_lane_by_lane(others, new_max, first, sum);))
    for (int l = 0; l < Lanes; ++l) {
      const bool beaten = new_max[l] > m_max[l];
      m_rest.scale(l, beaten ? first[l] : Scalar(1));
      m_rest.add(l, sum[l]);
      m_max[l] = new_max[l];
    }
  }

  Scalar m_max[Lanes];
  LaneSums<Scalar, Lanes> m_rest;
  LaneSums<Scalar, Lanes> m_mass;  // unused, and optimised away, without a background
  LaneSums<Scalar, Lanes> m_gap;
};

/// All values merged by op, by halves, so that compilers vectorise it.
template <class Value, int Size, class Op>
KOKKOS_INLINE_FUNCTION Value reduce_halves(const Value (&values)[Size], const Op& op) {
  if constexpr (Size == 1) {
    return values[0];
  } else {
    Value merged[Size / 2];
    for (int i = 0; i < Size / 2; ++i) merged[i] = op(values[i], values[i + Size / 2]);
    return reduce_halves(merged, op);
  }
}

/// The state of a part of a row that a host thread takes in by chunks. All exponentials are
/// measured from one maximum, which few chunks of a row exceed: the others cost one pass, without a
/// search for theirs.
template <class Scalar>
class RowState {
 public:
  /// Takes in a chunk of logits z; -inf where there is none.
  template <int Size>
  KOKKOS_FUNCTION void absorb(const Scalar (&z)[Size]) {
    Scalar values[Size];
    absorb(z, values);
  }
  /// The same; leaves exp(z[e] - max()) / ExpConstants::descale in values, which must be elsewhere.
  template <int Size>
  KOKKOS_FUNCTION void absorb(const Scalar (&z)[Size], Scalar (&values)[Size]) {
    if (m_max == -infinity_v<Scalar> || exponentials(z, values))
      absorb_and_raise(z, values);
    else
      m_rest.add_halves(values);
  }

  /// The same of bfloat16, which are taken by words of two.
  template <class T, int Size>
  KOKKOS_FUNCTION void absorb_pairs(const T (&stored)[Size]) {
    Scalar sums[Size / 2];
    if (m_max == -infinity_v<Scalar> || sums_of_pairs(stored, sums)) {
      Scalar values[Size];
      absorb_pairs_and_raise(stored, values);
    } else {
      m_rest.add_halves(sums);
    }
  }
  /// The same; values are in the order of map_pairs().
  template <class T, int Size>
  KOKKOS_FUNCTION void absorb_pairs(const T (&stored)[Size], Scalar (&values)[Size]) {
    if (m_max == -infinity_v<Scalar> || exponentials_of_pairs(stored, values))
      absorb_pairs_and_raise(stored, values);
    else
      m_rest.add_halves(values);
  }

  /// From which the exponentials are measured.
  KOKKOS_FUNCTION Scalar max() const { return m_max; }

  KOKKOS_FUNCTION SoftmaxState<Scalar, false> merged() const {
    SoftmaxState<Scalar, false> state;
    Scalar rest[lanes];
    for (int l = 0; l < lanes; ++l) rest[l] = m_rest[l];
    state.max  = m_max;
    state.rest = reduce_halves(rest, [](Scalar a, Scalar b) { return a + b; }) * Constants::descale;
    return state;
  }

 private:
  using Constants             = ExpConstants<Scalar>;
  using Bits                  = typename Constants::Bits;
  static constexpr int lanes  = 32;  // more than compilers unroll
  static constexpr Scalar one = 1 / Constants::descale;

  /// True if a logit exceeds the maximum or is NaN: then the values mean nothing.
  template <int Size>
  KOKKOS_FORCEINLINE_FUNCTION bool exponentials(const Scalar (&z)[Size],
                                                Scalar (&values)[Size]) const {
    const Scalar shift = shift_of(m_max);
    Bits most          = 0;  // of the gaps' bits: above those of inf are negative ones and NaN
    for (int e = 0; e < Size; ++e) {
      const Scalar gap = shift - z[e];
      most             = larger_of(Kokkos::bit_cast<Bits>(gap), most);
      values[e]        = scaled_exp_of_gap(gap);
    }
    return most > Kokkos::bit_cast<Bits>(Scalar(infinity_v<Scalar>));
  }

  /// The same of bfloat16, in the order of map_pairs().
  template <class T, int Size>
  KOKKOS_FORCEINLINE_FUNCTION bool exponentials_of_pairs(const T (&stored)[Size],
                                                         Scalar (&values)[Size]) const {
    const Scalar shift = shift_of(m_max);
    Bits most          = 0;
    map_pairs(stored, values, [&](Scalar z) {
      const Scalar gap = shift - z;
      most             = larger_of(Kokkos::bit_cast<Bits>(gap), most);
      return scaled_exp_of_gap(gap);
    });
    return most > Kokkos::bit_cast<Bits>(Scalar(infinity_v<Scalar>));
  }

  /// The sums of the exponentials of two neighbours each; true as above.
  template <class T, int Size>
  KOKKOS_FORCEINLINE_FUNCTION bool sums_of_pairs(const T (&stored)[Size],
                                                 Scalar (&sums)[Size / 2]) const {
    static_assert(is_bfloat16_bits<T> && std::is_same_v<Scalar, float>);
    const Scalar shift = shift_of(m_max);
    Bits most          = 0;
    for (int p = 0; p < Size / 2; ++p) {
      Scalar first, second;
      widen_pair<T>(load_word(stored + 2 * p), first, second);
      const Scalar first_gap  = shift - first;
      const Scalar second_gap = shift - second;
      most                    = larger_of(
                             larger_of(Kokkos::bit_cast<Bits>(first_gap), Kokkos::bit_cast<Bits>(second_gap)), most);
      sums[p] = scaled_exp_of_gap(first_gap) + scaled_exp_of_gap(second_gap);
    }
    return most > Kokkos::bit_cast<Bits>(Scalar(infinity_v<Scalar>));
  }

  /// Takes in a chunk that may raise the maximum, and leaves its exponentials in values.
  template <int Size>
  KOKKOS_FUNCTION void absorb_and_raise(const Scalar (&z)[Size], Scalar (&values)[Size]) {
    const bool raised  = raise_max(z);
    const bool any_nan = exponentials(z, values);
    add_top(values, raised);
    if (any_nan) m_rest.add(0, nan_v<Scalar>);
  }

  /// The same of bfloat16, in the order of map_pairs().
  template <class T, int Size>
  KOKKOS_FUNCTION void absorb_pairs_and_raise(const T (&stored)[Size], Scalar (&values)[Size]) {
    Scalar z[Size];
    map_pairs(stored, z, [](Scalar each) { return each; });
    absorb_and_raise(z, values);
  }

  /// Adds the exponentials of a chunk that may hold the maximum, of which the rest leaves out one.
  template <int Size>
  KOKKOS_FUNCTION void add_top(const Scalar (&values)[Size], bool holds_max) {
    const Bits one_bits = Kokkos::bit_cast<Bits>(Scalar(one));
    Scalar others[Size];
    Bits ones = 0;
    for (int e = 0; e < Size; ++e) {
      const Bits bits   = Kokkos::bit_cast<Bits>(values[e]);
      const Bits is_one = bits == one_bits;
      others[e]         = Kokkos::bit_cast<Scalar>(bits & (is_one - 1));
      ones += is_one;
    }
    m_rest.add_halves(others);
    m_rest.add(0, one * (static_cast<Scalar>(ones) - static_cast<Scalar>(holds_max)));
  }

  /// Makes the maximum that of z and what came before, which is then measured from it. True if it
  /// has changed.
  template <int Size>
  KOKKOS_FUNCTION bool raise_max(const Scalar (&z)[Size]) {
    const Scalar max = reduce_halves(z, [](Scalar a, Scalar b) { return larger_of(a, b); });
    if (!(max > m_max)) return false;
    const Scalar scale = exp_below(m_max, max);
    for (int l = 0; l < lanes; ++l) m_rest.scale(l, scale);
    m_rest.add(0, one * scale);  // the maximum before joins the rest
    m_max = max + 0;             // -0 would make gaps of -0, whose bits are above those of inf
    return true;
  }

  Scalar m_max = -infinity_v<Scalar>;
  LaneSums<Scalar, lanes> m_rest;  // in units of ExpConstants::descale
};

}  // namespace KokkosXent::Impl

#endif
