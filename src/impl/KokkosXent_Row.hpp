// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_ROW_HPP
#define KOKKOSXENT_IMPL_ROW_HPP

#include <impl/KokkosXent_Intrinsics.hpp>
#include <impl/KokkosXent_Tuning.hpp>
#include <impl/KokkosXent_Unroll.hpp>
#include <impl/KokkosXent_ValueTypes.hpp>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace KokkosXent::Impl {

template <class ExecutionSpace>
inline constexpr bool runs_on_host =
    std::is_same_v<typename ExecutionSpace::memory_space, Kokkos::HostSpace>;

inline constexpr int line_bytes = 128;  // of a device's cache

/// Element (row, class) of an operand is at data[row * row_stride + class * class_stride].
template <class T>
struct Matrix {
  T* data;
  std::int64_t row_stride;
  std::int64_t class_stride;

  KOKKOS_FUNCTION T& operator()(std::int64_t row, std::int64_t cls) const {
    return data[row * row_stride + cls * class_stride];
  }
};

/// One row of an operand, as a thread walks it.
template <class T>
struct Row {
  T* data;
  std::int64_t stride;
  bool packed;  // runs of classes can be accessed as packs (device) or as arrays (host)
};

/// Where the elements of a thread's chunk lie in the row: Size / Run runs of Run neighbouring
/// classes each, the runs step classes apart. With Masked, classes from end on do not exist.
template <int Size, int Run, bool Masked>
struct Chunk {
  static constexpr int size = Size;
  static constexpr int run  = Run;
  static constexpr int runs = Size / Run;

  std::int64_t first;
  std::int64_t step;
  std::int64_t end;

  KOKKOS_FUNCTION std::int64_t run_begin(int r) const { return first + r * step; }
  KOKKOS_FUNCTION std::int64_t class_of(int e) const { return run_begin(e / Run) + e % Run; }
  KOKKOS_FUNCTION bool run_is_whole(int r) const {
    if constexpr (Masked) return run_begin(r) + Run <= end;
    return true;
  }
  KOKKOS_FUNCTION bool is_whole() const { return run_is_whole(runs - 1); }
  /// The classes of a run that exists.
  KOKKOS_FUNCTION int run_length(int r) const {
    return run_is_whole(r) ? Run : static_cast<int>(end - run_begin(r));
  }
  /// Behind its last class, of a chunk of one run.
  KOKKOS_FUNCTION std::int64_t class_end() const { return first + run_length(0); }
  KOKKOS_FUNCTION bool exists(int e) const {
    if constexpr (Masked) return class_of(e) < end;
    return true;
  }
  /// Runs [r, r + Count) as a chunk.
  template <int Count>
  KOKKOS_FUNCTION Chunk<Count * Run, Run, Masked> part(int r) const {
    return {run_begin(r), step, end};
  }
};

/// The alignment of a load of Width values at once: up to 16 bytes. Types of odd sizes are copied.
template <class T, int Width>
constexpr std::size_t pack_alignment() {
  if (Width == 1 || (sizeof(T) & (sizeof(T) - 1)) != 0) return alignof(T);
  return sizeof(T) * Width < 16 ? sizeof(T) * Width : 16;
}

template <class T, int Width>
struct alignas(pack_alignment<T, Width>()) Pack {
  T values[Width];
};

template <class T>
inline constexpr bool widens_in_pairs = is_bfloat16_bits<T> || is_float16_bits<T>;

/// The words of a pack of 16-bit floats.
template <int Width>
struct PackWords {
  std::uint32_t word[Width / 2];
};

/// values[first + k] = the pack's element k
template <class Scalar, class T, int Width, int Size>
KOKKOS_INLINE_FUNCTION void widen_pack(const Pack<T, Width>& pack, int first,
                                       Scalar (&values)[Size]) {
  if constexpr (widens_in_pairs<T> && Width % 2 == 0) {
    const auto words = Kokkos::bit_cast<PackWords<Width>>(pack);
    unrolled<Width / 2>([&](int w) {
      float low, high;
      widen_pair<T>(words.word[w], low, high);
      values[first + 2 * w]     = low;
      values[first + 2 * w + 1] = high;
    });
  } else {
    unrolled<Width>([&](int k) { values[first + k] = load_value<Scalar>(pack.values[k]); });
  }
}

/// The pack of values[first + k], rounded.
template <class T, int Width, class Scalar, int Size>
KOKKOS_INLINE_FUNCTION Pack<T, Width> round_pack(const Scalar (&values)[Size], int first) {
  if constexpr (widens_in_pairs<T> && Width % 2 == 0 && std::is_same_v<Scalar, float>) {
    struct alignas(Pack<T, Width>) Words {
      std::uint32_t word[Width / 2];
    } words;
    unrolled<Width / 2>([&](int w) {
      words.word[w] = round_pair<T>(values[first + 2 * w], values[first + 2 * w + 1]);
    });
    return Kokkos::bit_cast<Pack<T, Width>>(words);
  } else {
    Pack<T, Width> pack;
    unrolled<Width>([&](int k) { pack.values[k] = round_value<T>(values[first + k]); });
    return pack;
  }
}

/// How the threads of ExecutionSpace walk rows of T that are computed in Scalar. On a device a
/// chunk is four 16-byte loads, whose runs interleave with those of the other threads, in one
/// lane. On the host it is one run of HostVectors SIMD vectors.
template <class ExecutionSpace, class Scalar, class T, int HostVectors>
struct Walk {
  static constexpr bool on_host = runs_on_host<ExecutionSpace>;
  static constexpr bool packs   = sizeof(T) <= 16 && 16 % sizeof(T) == 0;

  static constexpr int lanes = on_host ? 64 / static_cast<int>(sizeof(Scalar)) : 1;
  static constexpr int run =
      on_host ? HostVectors * lanes : (packs ? 16 / static_cast<int>(sizeof(T)) : 1);
  static constexpr int size = on_host ? run : 4 * run;
  // Of a host's row, what is left at its end: chunks of the size that all can have, then small
  // ones.
  static constexpr int medium = Tuning::host_chunk_vectors * lanes;
  static constexpr int tail   = medium / 4;

  /// Adjacent rows that a device's thread owns where threads run along rows instead: 4 bytes.
  static constexpr int rows = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;

  template <class U>
  using Vector = Pack<U, run>;

  static constexpr unsigned pack_alignment = alignof(Vector<T>);

  /// Classes before the first one of [begin, end) that lies at a multiple of `alignment` bytes, a
  /// power of two; without it, at one that is aligned for a pack.
  KOKKOS_FUNCTION static std::int64_t head_size(const T* row, std::int64_t stride,
                                                std::int64_t begin, std::int64_t end,
                                                unsigned alignment = pack_alignment) {
    if constexpr (on_host) return 0;
    if (stride != 1) return 0;
    const auto past = reinterpret_cast<std::uintptr_t>(row + begin) & (alignment - 1);
    const auto head = past == 0 ? 0 : static_cast<std::int64_t>((alignment - past) / sizeof(T));
    return head < end - begin ? head : end - begin;
  }

  /// Row of an operand whose runs start at class first + k * run.
  template <class U>
  KOKKOS_FUNCTION static Row<U> row(const Matrix<U>& matrix, std::int64_t index,
                                    std::int64_t first) {
    U* data     = matrix.data + index * matrix.row_stride;
    bool packed = matrix.class_stride == 1;
    if constexpr (!on_host)
      packed = packed && reinterpret_cast<std::uintptr_t>(data + first) % alignof(Vector<U>) == 0;
    return {data, matrix.class_stride, packed};
  }

  /// Calls visit(chunk) for each chunk of classes [begin, end) that thread `thread` of `threads`
  /// walks. head: of the logits (head_size). packed: all operands are; else a device walks single
  /// classes.
  template <class Visit>
  KOKKOS_FUNCTION static void classes(std::int64_t thread, std::int64_t threads, std::int64_t begin,
                                      std::int64_t end, std::int64_t head, bool packed,
                                      const Visit& visit) {
    if constexpr (on_host) {
      std::int64_t cls = begin;
      for (; cls + size <= end; cls += size) visit(Chunk<size, size, false>{cls, size, end});
      if constexpr (medium < size)
        for (; cls + medium <= end; cls += medium)
          visit(Chunk<medium, medium, false>{cls, medium, end});
      for (; cls < end; cls += tail) visit(Chunk<tail, tail, true>{cls, tail, end});
    } else if (packed) {
      const std::int64_t body     = begin + head;
      const std::int64_t body_end = body + (end - body) / run * run;
      const std::int64_t edges    = head + (end - body_end);
      for (std::int64_t e = thread; e < edges; e += threads) {
        const std::int64_t edge = e < head ? begin + e : body_end + (e - head);
        visit(Chunk<1, 1, false>{edge, 1, end});
      }
      interleaved<run>(thread, threads, body, body_end, visit);
    } else {
      interleaved<1>(thread, threads, begin, end, visit);
    }
  }

  /// The thread that walks class cls of [begin, end); arguments as for classes().
  KOKKOS_FUNCTION static std::int64_t thread_of(std::int64_t cls, std::int64_t threads,
                                                std::int64_t begin, std::int64_t end,
                                                std::int64_t head, bool packed) {
    if constexpr (on_host) return 0;
    if (!packed) return (cls - begin) % threads;
    const std::int64_t body     = begin + head;
    const std::int64_t body_end = body + (end - body) / run * run;
    if (cls < body) return (cls - begin) % threads;
    if (cls >= body_end) return (head + (cls - body_end)) % threads;
    return (cls - body) / run % threads;
  }

 private:
  /// Chunks of four runs; the threads' runs alternate.
  template <int Run, class Visit>
  KOKKOS_FUNCTION static void interleaved(std::int64_t thread, std::int64_t threads,
                                          std::int64_t begin, std::int64_t end,
                                          const Visit& visit) {
    const std::int64_t step = threads * Run;
    std::int64_t cls        = begin + thread * Run;
    for (; cls + 3 * step < end; cls += 4 * step) visit(Chunk<4 * Run, Run, false>{cls, step, end});
    if (cls < end) visit(Chunk<4 * Run, Run, true>{cls, step, end});
  }
};

/// The stride of runs: on a device, longer ones are packs.
template <bool OnHost, int Run, class T>
KOKKOS_INLINE_FUNCTION std::int64_t run_stride(const Row<T>& row) {
  return OnHost || Run == 1 ? row.stride : 1;
}

/// values[k] = from[k * stride] for k < count, which is at least 1; fill for the others. On the
/// host; neighbours are converted as many at once as if all existed.
template <int Run, class T, class Scalar>
KOKKOS_INLINE_FUNCTION void load_part(const T* from, std::int64_t stride, int count, Scalar fill,
                                      Scalar* values) {
  if (stride == 1) {
    T copy[Run];
    for (int k = 0; k < count; ++k) copy[k] = from[k];
    for (int k = count; k < Run; ++k) copy[k] = from[0];
    widen_run<Run>(copy, values);
  } else {
    for (int k = 0; k < count; ++k) values[k] = load_value<Scalar>(from[k * stride]);
  }
  for (int k = count; k < Run; ++k) values[k] = fill;
}
/// to[k * stride] = values[k] for k < count, likewise
template <int Run, class T, class Scalar>
KOKKOS_INLINE_FUNCTION void store_part(const Scalar* values, int count, T* to,
                                       std::int64_t stride) {
  if (stride == 1) {
    T copy[Run];
    round_run<Run>(values, copy);
    for (int k = 0; k < count; ++k) to[k] = copy[k];
  } else {
    for (int k = 0; k < count; ++k) to[k * stride] = round_value<T>(values[k]);
  }
}

/// Asks for the cache lines that are as far ahead of a whole chunk as pays. Rows of a packed
/// operand mostly follow one another: behind the end of one is the start of the next.
template <class T, int Size, int Run, bool Masked>
KOKKOS_FORCEINLINE_FUNCTION void prefetch_ahead(const Row<T>& row,
                                                const Chunk<Size, Run, Masked>& chunk) {
  if (row.packed && chunk.is_whole())
    prefetch_run(row.data + chunk.first + Tuning::host_prefetch_bytes / static_cast<int>(sizeof(T)),
                 Size);
}

/// values[e] = the chunk's element e, or fill where the class does not exist.
template <bool OnHost, class T, class Scalar, int Size, int Run, bool Masked>
KOKKOS_INLINE_FUNCTION void load_chunk(const Row<const T>& row,
                                       const Chunk<Size, Run, Masked>& chunk,
                                       Scalar (&values)[Size], Scalar fill) {
  unrolled<Size / Run>([&](int r) {
    const T* run    = row.data + chunk.run_begin(r) * run_stride<OnHost, Run>(row);
    const int first = r * Run;
    if (!chunk.run_is_whole(r)) {
      if constexpr (OnHost)
        load_part<Run>(run, row.stride, chunk.run_length(r), fill, values + first);
      else
        unrolled<Run>([&](int k) { values[first + k] = fill; });
    } else if constexpr (OnHost) {
      if (row.packed)
        widen_run<Run>(run, values + first);
      else
        unrolled<Run>([&](int k) { values[first + k] = load_value<Scalar>(run[k * row.stride]); });
    } else {
      widen_pack(load_pack<Reuse::likely, Pack<T, Run>>(run), first, values);
    }
  });
}

/// The same for an operand that may not be packed where the others are.
template <bool OnHost, class T, class Scalar, int Size, int Run, bool Masked>
KOKKOS_INLINE_FUNCTION void load_unaligned_chunk(const Row<const T>& row,
                                                 const Chunk<Size, Run, Masked>& chunk,
                                                 Scalar (&values)[Size], Scalar fill) {
  if (OnHost || row.packed || Run == 1) {
    load_chunk<OnHost>(row, chunk, values, fill);
  } else {
    unrolled<Size>([&](int e) {
      values[e] =
          chunk.exists(e) ? load_value<Scalar>(row.data[chunk.class_of(e) * row.stride]) : fill;
    });
  }
}

/// The same on a device, of adjacent elements, where no run exists in part.
template <class T, class Scalar, int Size, int Run, bool Masked>
KOKKOS_INLINE_FUNCTION void load_adjacent_runs(const Row<const T>& row,
                                               const Chunk<Size, Run, Masked>& chunk,
                                               Scalar (&values)[Size], Scalar fill) {
  unrolled<Size / Run>([&](int r) {
    const T* run    = row.data + chunk.run_begin(r);
    const int first = r * Run;
    if (!chunk.run_is_whole(r)) {
      unrolled<Run>([&](int k) { values[first + k] = fill; });
    } else if (row.packed) {
      widen_pack(load_pack<Reuse::likely, Pack<T, Run>>(run), first, values);
    } else {
      unrolled<Run>([&](int k) { values[first + k] = load_value<Scalar>(run[k]); });
    }
  });
}

/// Rounds the values of the chunk's existing classes into the row.
template <bool OnHost, class T, class Scalar, int Size, int Run, bool Masked>
KOKKOS_INLINE_FUNCTION void store_chunk(const Row<T>& row, const Chunk<Size, Run, Masked>& chunk,
                                        const Scalar (&values)[Size]) {
  unrolled<Size / Run>([&](int r) {
    T* run          = row.data + chunk.run_begin(r) * run_stride<OnHost, Run>(row);
    const int first = r * Run;
    if (!chunk.run_is_whole(r)) {
      if constexpr (OnHost) store_part<Run>(values + first, chunk.run_length(r), run, row.stride);
    } else if constexpr (OnHost) {
      if (row.packed)
        round_run<Run>(values + first, run);
      else
        unrolled<Run>([&](int k) { run[k * row.stride] = round_value<T>(values[first + k]); });
    } else {
      store_pack<Reuse::none>(run, round_pack<T, Run>(values, first));
    }
  });
}

/// out = value(logit) for the classes of a chunk, on the host; out may be the row of logits. What
/// is stored in another type is converted in loops of its own, which are faster so.
template <class Scalar, class T, class U, int Size, int Run, bool Masked, class Value>
KOKKOS_INLINE_FUNCTION void map_chunk(const Row<const T>& logits, const Row<U>& out,
                                      const Chunk<Size, Run, Masked>& chunk, const Value& value) {
  prefetch_ahead(logits, chunk);
  if constexpr (std::is_same_v<T, Scalar> && std::is_same_v<U, Scalar>)
    if (logits.packed && out.packed && chunk.is_whole())
      return map_array<Size>(logits.data + chunk.first, out.data + chunk.first, value);
  Scalar values[Size];
  if constexpr (pairs_words<Scalar, T, U>)
    if (logits.packed && out.packed && chunk.is_whole()) {
      map_pairs(logits.data + chunk.first, values, value);
      return round_pairs(values, out.data + chunk.first, [](float each) { return each; });
    }
  load_chunk<true>(logits, chunk, values, -Kokkos::Experimental::infinity_v<Scalar>);
  for (Scalar& each : values) each = value(each);
  store_chunk<true>(out, chunk, values);
}

/// Whether T stores -inf, so that packs of classes that do not exist can hold it.
template <class T>
inline constexpr bool stores_infinity =
    is_bfloat16_bits<T> || is_float16_bits<T> || std::is_floating_point_v<T>;

/// A pack of -inf, for one that does not exist. Needs stores_infinity<T>.
template <class Scalar, class T, int Run>
KOKKOS_INLINE_FUNCTION Pack<T, Run> missing_pack() {
  Scalar values[Run];
  unrolled<Run>([&](int k) { values[k] = -Kokkos::Experimental::infinity_v<Scalar>; });
  return round_pack<T, Run>(values, 0);
}

/// Loads pack r, for run r of chunk; it holds -inf, or anything if T has none, where that does not
/// exist.
template <Reuse R, class Scalar, class T, int Size, int Run, bool Masked>
KOKKOS_INLINE_FUNCTION void load_one_pack(const Row<const T>& row,
                                          const Chunk<Size, Run, Masked>& chunk, int r,
                                          Pack<T, Run> (&packs)[Size / Run]) {
  if (chunk.run_is_whole(r)) {
    packs[r] =
        load_pack<R, Pack<T, Run>>(row.data + chunk.run_begin(r) * run_stride<false, Run>(row));
  } else if constexpr (stores_infinity<T>) {
    packs[r] = missing_pack<Scalar, T, Run>();
  }
}

/// How many packs are visited at once: the values of a whole chunk would take too many registers.
/// Value: as what they are worked on. A power of two that divides Packs.
template <class Value, int Run, int Packs>
inline constexpr int packs_at_once = [] {
  constexpr int most_values = 64 / static_cast<int>(sizeof(Value));
  int packs                 = 1;
  while (Packs % (2 * packs) == 0 && 2 * packs * Run <= most_values) packs *= 2;
  return packs;
}();

/// visit(runs [r, r + AtOnce) of chunk, their values), -inf for classes that do not exist
template <int AtOnce, class Scalar, class T, int Size, int Run, bool Masked, class Visit>
KOKKOS_INLINE_FUNCTION void visit_packs(const Pack<T, Run> (&packs)[Size / Run],
                                        const Chunk<Size, Run, Masked>& chunk, int r,
                                        const Visit& visit) {
  const auto part = chunk.template part<AtOnce>(r);
  Scalar values[AtOnce * Run];
  unrolled<AtOnce>([&](int k) {
    if (stores_infinity<T> || part.run_is_whole(k))
      widen_pack(packs[r + k], k * Run, values);
    else
      unrolled<Run>(
          [&](int e) { values[k * Run + e] = -Kokkos::Experimental::infinity_v<Scalar>; });
  });
  visit(part, values);
}

/// Loads a chunk of logits and calls visit(part of chunk, its values) for each of its parts; the
/// host takes the whole chunk as one. Values of classes that do not exist are -inf.
template <bool OnHost, Reuse R, class Scalar, class T, int Size, int Run, bool Masked, class Visit>
KOKKOS_INLINE_FUNCTION void visit_chunk(const Row<const T>& row,
                                        const Chunk<Size, Run, Masked>& chunk, const Visit& visit) {
  if constexpr (OnHost) {
    prefetch_ahead(row, chunk);
    if constexpr (std::is_same_v<T, Scalar> && Run == Size)
      if (row.packed && chunk.is_whole())
        return visit(chunk, *reinterpret_cast<const Scalar(*)[Size]>(row.data + chunk.first));
    Scalar values[Size];
    load_chunk<true>(row, chunk, values, -Kokkos::Experimental::infinity_v<Scalar>);
    visit(chunk, values);
  } else {
    constexpr int at_once = packs_at_once<Scalar, Run, Size / Run>;
    Pack<T, Run> packs[Size / Run];
    unrolled<Size / Run>([&](int r) { load_one_pack<R, Scalar>(row, chunk, r, packs); });
    unrolled<Size / Run / at_once>(
        [&](int p) { visit_packs<at_once, Scalar>(packs, chunk, p * at_once, visit); });
  }
}

/// `Count` packs of a row's body, of Run classes each: first, first + step, ... Of the packs from
/// first on, `left` exist. Whole: those are all.
template <int Count, int Run, bool Whole>
struct PackPositions {
  int first;
  int step;
  int left;
  int head;  // the class at which pack 0 starts

  KOKKOS_FUNCTION bool exists(int p) const { return Whole || p * step < left; }
  KOKKOS_FUNCTION bool all_exist() const { return exists(Count - 1); }
  KOKKOS_FUNCTION Chunk<Count * Run, Run, !Whole> chunk() const {
    return {head + std::int64_t(first) * Run, std::int64_t(step) * Run,
            head + (std::int64_t(first) + left) * Run};
  }
};

/// Makes packs that do not exist -inf, where T stores that.
template <class Scalar, class T, int Count, int Run, bool Whole>
KOKKOS_INLINE_FUNCTION void fill_missing(const PackPositions<Count, Run, Whole>& positions,
                                         Pack<T, Run>* packs) {
  if constexpr (stores_infinity<T>) {
    if (positions.all_exist()) return;
    const auto missing = missing_pack<Scalar, T, Run>();
    unrolled<Count>([&](int p) {
      if (!positions.exists(p)) packs[p] = missing;
    });
  }
}
/// The values of packs, whose missing ones are filled; -inf for classes that do not exist.
template <class Scalar, class T, int Count, int Run, bool Whole>
KOKKOS_INLINE_FUNCTION void widen_packs(const PackPositions<Count, Run, Whole>& positions,
                                        const Pack<T, Run>* packs, Scalar (&values)[Count * Run]) {
  unrolled<Count>([&](int p) {
    if (stores_infinity<T> || positions.exists(p))
      widen_pack(packs[p], p * Run, values);
    else
      unrolled<Run>(
          [&](int e) { values[p * Run + e] = -Kokkos::Experimental::infinity_v<Scalar>; });
  });
}

/// The packs of a row that one thread of a group on a device has in registers, `Packs` at a time:
/// each is loaded anew as soon as it has been visited, with what comes next in the row or with the
/// start of the next row, so that loads are always on their way. A row that is visited twice is
/// first visited forwards, up to its last packs, which stay in registers, and then backwards: what
/// does not fit the registers is read again, the latest first, as caches keep it.
///
/// Threads side by side, Step of them (0: the whole group), have packs side by side; a thread's
/// packs are that far apart, so that their addresses are one register and constants. Needs packed
/// rows of fewer than 2^31 packs, and a group of no fewer threads than a row has classes outside
/// its packs (its edges).
///
/// Lines: packs start with a cache line, if the group has threads for the edges then, so that warps
/// write whole lines in place; and one loop visits the last packs with the others, since the code
/// that writes should fit the instruction cache.
///
/// visit(positions, packs) is called for AtOnce packs at a time, which hold anything where they do
/// not exist and which it may change, visit_edge(class, value) for the edges.
template <class W, class T, class Scalar, int Packs, int Step, bool Lines>
class RowPacks {
 public:
  using walk_type   = W;
  using scalar_type = Scalar;
  using value_type  = T;

  static constexpr int run = W::run;
  /// How many packs to visit at once, if they are worked on as values of type Value.
  template <class Value>
  static constexpr int at_once = packs_at_once<Value, run, Packs>;

  /// packs_are_all: no row has edges.
  KOKKOS_FUNCTION RowPacks(int thread, int threads, std::int64_t classes, bool packs_are_all)
      : m_thread(thread),
        m_threads(threads),
        m_alignment(Lines && threads >= line_bytes / static_cast<int>(sizeof(T)) + run
                        ? line_bytes
                        : static_cast<int>(W::pack_alignment)),
        m_classes(classes),
        m_packs_are_all(packs_are_all) {}

  /// Loads the start of a row, over what is of no more use; null: of none.
  template <Reuse R>
  KOKKOS_FUNCTION void load(const T* row) {
    move_to(row);
    unrolled<Packs>([&](int p) { load_one<R>(p); });
  }

  /// The only visit of a row; loads the start of next_row.
  template <int AtOnce, Reuse R, class Visit, class VisitEdge>
  KOKKOS_FUNCTION void visit_and_load(const T* next_row, const Visit& visit,
                                      const VisitEdge& visit_edge) {
    visit_own_edge(visit_edge);
    if constexpr (!Lines) visit_all_but_last<AtOnce, R>(visit);
    for (bool more = true; more;) {
      const Place place = m_place;
      more              = Lines && has_more();
      if (more)
        advance_by(Packs * m_threads);
      else
        move_to(next_row);
      visit_and_load_last<AtOnce, R>(place, visit);
    }
  }

  /// The first of two visits of a row.
  template <int AtOnce, Reuse R, class Visit, class VisitEdge>
  KOKKOS_FUNCTION void visit_first(const Visit& visit, const VisitEdge& visit_edge) {
    visit_own_edge(visit_edge);
    visit_all_but_last<AtOnce, R>(visit);
    unrolled<Packs / AtOnce>([&](int g) {
      if (has_group<AtOnce>(m_place, g)) visit_group<AtOnce, false>(m_place, g, visit);
    });
    unrolled<Packs>([&](int p) { forget_uses(m_packs[p]); });
  }
  /// The second one; loads the start of next_row.
  template <int AtOnce, Reuse R, class Visit, class VisitEdge>
  KOKKOS_FUNCTION void visit_second_and_load(const T* next_row, const Visit& visit,
                                             const VisitEdge& visit_edge) {
    visit_own_edge(visit_edge);
    while (m_place.first > first_pack()) {
      const Place place = m_place;
      advance_by(-Packs * m_threads);
      visit_and_load_last<AtOnce, Reuse::none>(place, visit);
    }
    const Place place = m_place;
    move_to(next_row);
    visit_and_load_last<AtOnce, R>(place, visit);
  }

  /// Classes before the first pack.
  KOKKOS_FUNCTION int head() const { return m_place.head; }
  /// Whether this thread visits a class of the row.
  KOKKOS_FUNCTION bool visits(std::int64_t cls) const {
    if (!m_packs_are_all && (cls < head() || cls >= body_end())) return cls == own_edge();
    const auto pack  = static_cast<std::uint32_t>((cls - head()) / run);
    const auto place = static_cast<int>(pack % static_cast<std::uint32_t>(Packs * m_threads));
    const int after  = place - first_pack();
    return after >= 0 && after < Packs * step() && after % step() == 0;
  }

 private:
  using RowPack = Pack<T, run>;

  /// Where m_packs[0] belongs.
  struct Place {
    int head;   // of the row
    int first;  // pack of the row
    int left;   // packs of the row from there on
  };

  KOKKOS_FUNCTION int step() const { return Step > 0 ? Step : m_threads; }
  KOKKOS_FUNCTION int first_pack() const {
    return Step > 0 ? m_thread / step() * step() * Packs + m_thread % step() : m_thread;
  }
  /// Whether any pack of a group exists. The branch also keeps compilers from working on all groups
  /// at the same time, for which there are not registers enough.
  template <int AtOnce>
  KOKKOS_FUNCTION bool has_group(const Place& place, int g) const {
    return g * AtOnce * step() < place.left;
  }

  template <int AtOnce, bool Whole, class Visit>
  KOKKOS_FUNCTION void visit_group(const Place& place, int g, const Visit& visit) {
    const int before = g * AtOnce * step();
    const PackPositions<AtOnce, run, Whole> positions{place.first + before, step(),
                                                      place.left - before, place.head};
    visit(positions, m_packs + g * AtOnce);
  }
  /// Whether the row goes on after the packs in registers.
  KOKKOS_FUNCTION bool has_more() const { return m_place.left > Packs * m_threads; }

  template <int AtOnce, Reuse R, class Visit>
  KOKKOS_FUNCTION void visit_all_but_last(const Visit& visit) {
    while (has_more()) {
      const Place place = m_place;
      advance_by(Packs * m_threads);
      unrolled<Packs / AtOnce>([&](int g) {
        visit_group<AtOnce, true>(place, g, visit);
        unrolled<AtOnce>([&](int p) { load_one<R>(g * AtOnce + p); });
      });
    }
  }
  /// Visits what belongs to place, and loads what belongs to m_place.
  template <int AtOnce, Reuse R, class Visit>
  KOKKOS_FUNCTION void visit_and_load_last(const Place& place, const Visit& visit) {
    unrolled<Packs / AtOnce>([&](int g) {
      if (has_group<AtOnce>(place, g)) visit_group<AtOnce, false>(place, g, visit);
      unrolled<AtOnce>([&](int p) { load_one<R>(g * AtOnce + p); });
    });
  }
  template <Reuse R>
  KOKKOS_FUNCTION void load_one(int p) {
    if (p * step() < m_place.left) m_packs[p] = load_pack<R, RowPack>(m_next + p * step());
  }
  KOKKOS_FUNCTION void advance_by(int packs) {
    m_place.first += packs;
    m_place.left -= packs;
    m_next += packs;
  }
  KOKKOS_FUNCTION void move_to(const T* row) {
    m_place = {0, first_pack(), 0};
    if (!row) return;
    if (!m_packs_are_all)
      m_place.head = static_cast<int>(W::head_size(row, 1, 0, m_classes, m_alignment));
    m_place.left = static_cast<int>((m_classes - head()) / run) - m_place.first;
    m_next       = reinterpret_cast<const RowPack*>(row + head()) + m_place.first;
    if (!m_packs_are_all && own_edge() < m_classes) m_edge_value = row[own_edge()];
  }

  KOKKOS_FUNCTION std::int64_t body_end() const {
    return head() + (m_classes - head()) / run * run;
  }
  /// This thread's class outside of packs, if less than m_classes.
  KOKKOS_FUNCTION std::int64_t own_edge() const {
    return m_thread < head() ? m_thread : body_end() + (m_thread - head());
  }
  template <class VisitEdge>
  KOKKOS_FUNCTION void visit_own_edge(const VisitEdge& visit_edge) const {
    if (m_packs_are_all) return;
    const std::int64_t edge = own_edge();
    if (edge < m_classes) visit_edge(edge, load_value<Scalar>(m_edge_value));
  }

  int m_thread;
  int m_threads;
  int m_alignment;  // bytes, of a row's first pack
  std::int64_t m_classes;
  bool m_packs_are_all;
  const RowPack* m_next = nullptr;  // what m_packs[0] was loaded from
  Place m_place{};
  T m_edge_value;
  RowPack m_packs[Packs];
};

/// Rounds values into the packs of a row whose body starts at `body`.
template <class T, class Scalar, int Count, int Run, bool Whole>
KOKKOS_INLINE_FUNCTION void store_packs(T* body, const PackPositions<Count, Run, Whole>& positions,
                                        const Scalar (&values)[Count * Run]) {
  auto* const packs = reinterpret_cast<Pack<T, Run>*>(body) + positions.first;
  unrolled<Count>([&](int p) {
    if (positions.exists(p))
      store_pack<Reuse::none>(packs + p * positions.step, round_pack<T, Run>(values, p * Run));
  });
}
/// The same, class by class, into a row whose packs are not those of the logits.
template <class T, class Scalar, int Count, int Run, bool Whole>
KOKKOS_INLINE_FUNCTION void store_classes(T* body, std::int64_t stride,
                                          const PackPositions<Count, Run, Whole>& positions,
                                          const Scalar (&values)[Count * Run]) {
  unrolled<Count>([&](int p) {
    const std::int64_t first = (std::int64_t(positions.first) + p * positions.step) * Run;
    if (positions.exists(p))
      unrolled<Run>(
          [&](int k) { body[(first + k) * stride] = round_value<T>(values[p * Run + k]); });
  });
}

}  // namespace KokkosXent::Impl

#endif
