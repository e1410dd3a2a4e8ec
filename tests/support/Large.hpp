// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_LARGE_HPP
#define KOKKOSXENT_TEST_LARGE_HPP

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "Space.hpp"
#include "SplitMix.hpp"

/// Tests of many elements work in device memory throughout: filled and judged by kernels.
namespace KokkosXentTest {

/// Tests of more than 2^31 elements that are really touched run on devices, or where asked for.
inline bool large_tests_run() {
  return !runs_on_host || std::getenv("KOKKOSXENT_TEST_LARGE") != nullptr;
}

template <class T>
using DeviceMatrix = Kokkos::View<T**, Kokkos::LayoutRight, MemorySpace>;
template <class T>
using DeviceList = Kokkos::View<T*, MemorySpace>;
template <class T>
using StridedMatrix = Kokkos::View<T**, Kokkos::LayoutStride, MemorySpace>;
template <class T>
using StridedList = Kokkos::View<T*, Kokkos::LayoutStride, MemorySpace>;

/// Nothing where the memory does not suffice. Not initialised, so that a host touches only what is
/// used.
template <class View>
std::optional<View> try_allocate(const std::string& label, std::int64_t rows,
                                 std::int64_t columns = 1) {
  try {
    const auto property = Kokkos::view_alloc(Kokkos::WithoutInitializing, label);
    if constexpr (View::rank() == 1) {
      return View(property, static_cast<std::size_t>(rows * columns));
    } else {
      return View(property, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;

/// Element i = the number at position i of a random sequence, in [-spread, spread).
template <class T>
struct FillUniform {
  T* data;
  double spread;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const double unit = unit_uniform(splitmix64(static_cast<std::uint64_t>(i)));
    data[i]           = static_cast<T>(static_cast<float>((2.0 * unit - 1.0) * spread));
  }
};

template <class View>
void fill_uniform(const View& view, double spread) {
  using T = typename View::value_type;
  Kokkos::parallel_for("KokkosXentTest::fill_uniform",
                       Range(0, static_cast<std::int64_t>(view.span())),
                       FillUniform<T>{view.data(), spread});
}

/// Element i = (i * step) mod classes.
template <class T>
struct FillTargets {
  T* data;
  std::int64_t step, classes;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    data[i] = static_cast<T>((i * step) % classes);
  }
};

template <class T>
DeviceList<T> spread_targets(std::int64_t rows, std::int64_t classes, std::int64_t step = 1) {
  const DeviceList<T> targets("targets", static_cast<std::size_t>(rows));
  Kokkos::parallel_for("KokkosXentTest::fill_targets", Range(0, rows),
                       FillTargets<T>{targets.data(), step, classes});
  return targets;
}

/// Counts elements of a packed buffer that are not within bound of expected; NaN counts.
template <class T>
struct CountOutside {
  const T* data;
  double expected, bound;

  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& count) const {
    const double error = static_cast<double>(static_cast<float>(data[i])) - expected;
    if (!(error <= bound && error >= -bound)) ++count;
  }
};

template <class T>
std::int64_t count_outside(const T* data, std::int64_t size, double expected, double bound) {
  std::int64_t count = 0;
  Kokkos::parallel_reduce("KokkosXentTest::count_outside", Range(0, size),
                          CountOutside<T>{data, expected, bound}, count);
  return count;
}

template <class View>
std::int64_t count_outside(const View& packed, double expected, double bound) {
  return count_outside(static_cast<const typename View::value_type*>(packed.data()),
                       static_cast<std::int64_t>(packed.span()), expected, bound);
}

/// Counts elements of two packed buffers whose bits differ.
template <class Bits>
struct CountDifferent {
  const Bits* a;
  const Bits* b;

  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& count) const {
    if (a[i] != b[i]) ++count;
  }
};

template <class View>
std::int64_t count_different(const View& a, const View& b) {
  using Bits =
      std::conditional_t<sizeof(typename View::value_type) == 2, std::uint16_t, std::uint32_t>;
  static_assert(sizeof(Bits) == sizeof(typename View::value_type));
  std::int64_t count = 0;
  Kokkos::parallel_reduce("KokkosXentTest::count_different",
                          Range(0, static_cast<std::int64_t>(a.span())),
                          CountDifferent<Bits>{reinterpret_cast<const Bits*>(a.data()),
                                               reinterpret_cast<const Bits*>(b.data())},
                          count);
  return count;
}

/// rows x classes of one row, without memory of its own.
template <class T>
StridedMatrix<const T> expanded(const DeviceList<T>& row, std::int64_t rows) {
  return StridedMatrix<const T>(
      row.data(), Kokkos::LayoutStride(static_cast<std::size_t>(rows), 0, row.extent(0), 1));
}

/// The first element of a list, `rows` times.
template <class T>
StridedList<const T> repeated(const DeviceList<T>& one, std::int64_t rows) {
  return StridedList<const T>(one.data(), Kokkos::LayoutStride(static_cast<std::size_t>(rows), 0));
}

template <class T>
double host_value(const Kokkos::View<T, MemorySpace>& value) {
  Kokkos::fence("KokkosXentTest::host_value");
  T host{};
  Kokkos::deep_copy(host, value);
  return static_cast<double>(host);
}

}  // namespace KokkosXentTest

#endif
