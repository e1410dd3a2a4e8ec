// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_ROW_HPP
#define KOKKOSXENT_IMPL_ROW_HPP

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
  KOKKOS_FUNCTION bool exists(int e) const {
    if constexpr (Masked) return class_of(e) < end;
    return true;
  }
  KOKKOS_FUNCTION bool may_hold(std::int64_t cls) const {
    bool found = false;
    unrolled<runs>([&](int r) { found |= cls >= run_begin(r) && cls - run_begin(r) < Run; });
    return found;
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

/// How the threads of ExecutionSpace walk rows of T that are computed in Scalar. On a device a
/// chunk is four 16-byte loads, whose runs interleave with those of the other threads, in one
/// lane. On the host it is one run of eight SIMD vectors.
template <class ExecutionSpace, class Scalar, class T>
struct Walk {
  static constexpr bool on_host = runs_on_host<ExecutionSpace>;
  static constexpr bool packs   = sizeof(T) <= 16 && 16 % sizeof(T) == 0;

  static constexpr int lanes = on_host ? 64 / static_cast<int>(sizeof(Scalar)) : 1;
  static constexpr int run   = on_host ? 8 * lanes : (packs ? 16 / static_cast<int>(sizeof(T)) : 1);
  static constexpr int size  = on_host ? run : 4 * run;

  template <class U>
  using Vector = Pack<U, run>;

  /// Classes before the first one of [begin, end) whose logit is aligned for a pack.
  KOKKOS_FUNCTION static std::int64_t head_size(const T* row, std::int64_t stride,
                                                std::int64_t begin, std::int64_t end) {
    if constexpr (on_host) return 0;
    if (stride != 1) return 0;
    const auto past = reinterpret_cast<std::uintptr_t>(row + begin) % alignof(Vector<T>);
    const auto head =
        past == 0 ? 0 : static_cast<std::int64_t>((alignof(Vector<T>) - past) / sizeof(T));
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
      for (; cls < end; cls += lanes) visit(Chunk<lanes, lanes, true>{cls, lanes, end});
    } else if (packed) {
      const std::int64_t body     = begin + head;
      const std::int64_t body_end = body + (end - body) / run * run;
      interleaved<run>(thread, threads, body, body_end, visit);
      const std::int64_t edges = head + (end - body_end);
      for (std::int64_t e = thread; e < edges; e += threads) {
        const std::int64_t edge = e < head ? begin + e : body_end + (e - head);
        visit(Chunk<1, 1, false>{edge, 1, end});
      }
    } else {
      interleaved<1>(thread, threads, begin, end, visit);
    }
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

/// values[e] = the chunk's element e, or fill where the class does not exist.
template <bool OnHost, class T, class Scalar, int Size, int Run, bool Masked>
KOKKOS_INLINE_FUNCTION void load_chunk(const Row<const T>& row,
                                       const Chunk<Size, Run, Masked>& chunk,
                                       Scalar (&values)[Size], Scalar fill) {
  unrolled<Size / Run>([&](int r) {
    const T* run    = row.data + chunk.run_begin(r) * row.stride;
    const int first = r * Run;
    if (!chunk.run_is_whole(r)) {
      unrolled<Run>([&](int k) {
        values[first + k] =
            OnHost && chunk.exists(first + k) ? load_value<Scalar>(run[k * row.stride]) : fill;
      });
    } else if constexpr (OnHost) {
      if (row.packed)
        unrolled<Run>([&](int k) { values[first + k] = load_value<Scalar>(run[k]); });
      else
        unrolled<Run>([&](int k) { values[first + k] = load_value<Scalar>(run[k * row.stride]); });
    } else {
      const auto pack = *reinterpret_cast<const Pack<T, Run>*>(run);
      unrolled<Run>([&](int k) { values[first + k] = load_value<Scalar>(pack.values[k]); });
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

/// Rounds the values of the chunk's existing classes into the row.
template <bool OnHost, class T, class Scalar, int Size, int Run, bool Masked>
KOKKOS_INLINE_FUNCTION void store_chunk(const Row<T>& row, const Chunk<Size, Run, Masked>& chunk,
                                        const Scalar (&values)[Size]) {
  unrolled<Size / Run>([&](int r) {
    T* run          = row.data + chunk.run_begin(r) * row.stride;
    const int first = r * Run;
    if (!chunk.run_is_whole(r)) {
      if constexpr (OnHost)
        unrolled<Run>([&](int k) {
          if (chunk.exists(first + k)) run[k * row.stride] = round_value<T>(values[first + k]);
        });
    } else if constexpr (OnHost) {
      if (row.packed)
        unrolled<Run>([&](int k) { run[k] = round_value<T>(values[first + k]); });
      else
        unrolled<Run>([&](int k) { run[k * row.stride] = round_value<T>(values[first + k]); });
    } else {
      Pack<T, Run> pack;
      unrolled<Run>([&](int k) { pack.values[k] = round_value<T>(values[first + k]); });
      *reinterpret_cast<Pack<T, Run>*>(run) = pack;
    }
  });
}

}  // namespace KokkosXent::Impl

#endif
