// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_STORAGE_HPP
#define KOKKOSXENT_TEST_STORAGE_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "Precision.hpp"
#include "Space.hpp"

namespace KokkosXentTest {

/// How elements lie in their buffer. A View of LayoutRight or LayoutLeft can only be packed or
/// unaligned.
enum class Placement {
  packed,
  unaligned,   // starts one element after the buffer does
  padded,      // rows are three elements apart
  strided,     // neighbouring classes are three elements apart
  transposed,  // rows are neighbours; classes are padded
};

inline const char* name_of(Placement placement) {
  switch (placement) {
    case Placement::packed:
      return "packed";
    case Placement::unaligned:
      return "unaligned";
    case Placement::padded:
      return "padded";
    case Placement::strided:
      return "strided";
    default:
      return "transposed";
  }
}

/// What outputs hold before a call; every type can represent it, and no test expects it.
inline constexpr double poison = -77.0;

/// What lies between and around the elements of a View: a NaN that must be neither read nor
/// overwritten (integers: a class that no test has).
template <class T>
T padding_value() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::max();
  } else {
    return narrow<T>(std::numeric_limits<double>::quiet_NaN());
  }
}

inline constexpr std::int64_t margin = 9;

/// A buffer in the execution space's memory with room around what a View of it shows.
template <class T>
class Buffer {
 public:
  using DeviceView = Kokkos::View<T*, MemorySpace>;

  Buffer(const std::string& label, std::int64_t offset, std::int64_t span)
      : m_offset(offset),
        m_device(Kokkos::view_alloc(Kokkos::WithoutInitializing, label),
                 static_cast<std::size_t>(offset + span + margin)),
        m_host(Kokkos::create_mirror_view(m_device)) {
    std::fill_n(m_host.data(), m_host.size(), padding_value<T>());
  }

  T* data() const { return m_device.data() + m_offset; }
  T& host(std::int64_t element) const {
    return m_host(static_cast<std::size_t>(m_offset + element));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(m_host.extent(0)); }
  T& host_by_position(std::int64_t position) const {
    return m_host(static_cast<std::size_t>(position));
  }
  std::int64_t offset() const { return m_offset; }

  void to_device() const { Kokkos::deep_copy(m_device, m_host); }
  void to_host() const { Kokkos::deep_copy(m_host, m_device); }

 private:
  std::int64_t m_offset;
  DeviceView m_device;
  typename DeviceView::host_mirror_type m_host;
};

struct Strides {
  std::int64_t row, column;
};

template <class Layout>
Strides strides_of(Placement placement, std::int64_t rows, std::int64_t columns) {
  if constexpr (std::is_same_v<Layout, Kokkos::LayoutRight>) return {columns, 1};
  if constexpr (std::is_same_v<Layout, Kokkos::LayoutLeft>) return {1, rows};
  switch (placement) {
    case Placement::padded:
      return {columns + 3, 1};
    case Placement::strided:
      return {3 * columns, 3};
    case Placement::transposed:
      return {1, rows + 3};
    default:
      return {columns, 1};
  }
}

/// A matrix in plain numbers on the host, in T and any layout in the execution space's memory.
template <class T, class Layout>
class Matrix {
 public:
  using View = Kokkos::View<T**, Layout, MemorySpace>;

  Matrix(const std::string& label, Placement placement, std::int64_t rows, std::int64_t columns)
      : m_rows(rows),
        m_columns(columns),
        m_strides(strides_of<Layout>(placement, rows, columns)),
        m_buffer(label, placement == Placement::packed ? 0 : 1,
                 rows * columns == 0
                     ? 0
                     : (rows - 1) * m_strides.row + (columns - 1) * m_strides.column + 1) {}

  View view() const {
    const auto rows    = static_cast<std::size_t>(m_rows);
    const auto columns = static_cast<std::size_t>(m_columns);
    if constexpr (std::is_same_v<Layout, Kokkos::LayoutStride>) {
      return View(m_buffer.data(),
                  Kokkos::LayoutStride(rows, static_cast<std::size_t>(m_strides.row), columns,
                                       static_cast<std::size_t>(m_strides.column)));
    } else {
      return View(m_buffer.data(), rows, columns);
    }
  }

  void assign(const std::vector<double>& values) {
    for_each([&](T& element, std::size_t i) { element = narrow<T>(values[i]); });
    m_buffer.to_device();
  }
  void assign(double value) {
    for_each([&](T& element, std::size_t) { element = narrow<T>(value); });
    m_buffer.to_device();
  }

  std::vector<double> values() const {
    m_buffer.to_host();
    std::vector<double> values(static_cast<std::size_t>(m_rows * m_columns));
    for_each([&](const T& element, std::size_t i) { values[i] = widen(element); });
    return values;
  }

  /// Whether everything around the elements still is what it was. Call after values().
  bool padding_is_intact() const {
    std::vector<bool> is_element(static_cast<std::size_t>(m_buffer.size()), false);
    for (std::int64_t r = 0; r < m_rows; ++r) {
      for (std::int64_t c = 0; c < m_columns; ++c) {
        is_element[static_cast<std::size_t>(m_buffer.offset() + position(r, c))] = true;
      }
    }
    for (std::int64_t i = 0; i < m_buffer.size(); ++i) {
      if (is_element[static_cast<std::size_t>(i)]) continue;
      if (!std::isnan(widen(m_buffer.host_by_position(i)))) return false;
    }
    return true;
  }

 private:
  std::int64_t position(std::int64_t row, std::int64_t column) const {
    return row * m_strides.row + column * m_strides.column;
  }

  template <class F>
  void for_each(const F& f) const {
    for (std::int64_t r = 0; r < m_rows; ++r) {
      for (std::int64_t c = 0; c < m_columns; ++c) {
        f(m_buffer.host(position(r, c)), static_cast<std::size_t>(r * m_columns + c));
      }
    }
  }

  std::int64_t m_rows, m_columns;
  Strides m_strides;
  Buffer<T> m_buffer;
};

/// A list in plain numbers on the host, in T in the execution space's memory. Stride 0: all
/// elements are one.
template <class T, class Layout = Kokkos::LayoutRight>
class List {
 public:
  using View = Kokkos::View<T*, Layout, MemorySpace>;

  template <class Value>
  List(const std::string& label, const std::vector<Value>& values, std::int64_t stride = 1)
      : m_size(static_cast<std::int64_t>(values.size())),
        m_stride(stride),
        m_buffer(label, 0, m_size == 0 ? 0 : (m_size - 1) * stride + 1) {
    for (std::int64_t i = 0; i < m_size; ++i) {
      const Value value = values[static_cast<std::size_t>(i)];
      if constexpr (std::is_integral_v<T>) {
        m_buffer.host(i * m_stride) = static_cast<T>(value);
      } else {
        m_buffer.host(i * m_stride) = narrow<T>(value);
      }
    }
    m_buffer.to_device();
  }

  View view() const {
    const auto size = static_cast<std::size_t>(m_size);
    if constexpr (std::is_same_v<Layout, Kokkos::LayoutStride>) {
      return View(m_buffer.data(), Kokkos::LayoutStride(size, static_cast<std::size_t>(m_stride)));
    } else {
      return View(m_buffer.data(), size);
    }
  }

  /// Needs at least one element.
  Kokkos::View<T, MemorySpace> scalar_view() const {
    return Kokkos::View<T, MemorySpace>(m_buffer.data());
  }

  std::vector<double> values() const {
    m_buffer.to_host();
    std::vector<double> values;
    for (std::int64_t i = 0; i < m_size; ++i) values.push_back(widen(m_buffer.host(i * m_stride)));
    return values;
  }

 private:
  std::int64_t m_size;
  std::int64_t m_stride;
  Buffer<T> m_buffer;
};

/// The elements of any View of rank 0, 1 or 2, row after row; fences.
template <class View>
std::vector<double> values_of(const View& view) {
  Kokkos::fence("KokkosXentTest::values_of");
  using T = typename View::non_const_value_type;
  Kokkos::View<T**, Kokkos::LayoutRight, MemorySpace> packed("KokkosXentTest::packed",
                                                             view.extent(0), view.extent(1));
  if constexpr (View::rank() == 0) {
    Kokkos::deep_copy(Kokkos::subview(packed, 0, 0), view);
  } else if constexpr (View::rank() == 1) {
    Kokkos::deep_copy(Kokkos::subview(packed, Kokkos::ALL, 0), view);
  } else {
    Kokkos::deep_copy(packed, view);
  }
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), packed);
  std::vector<double> values;
  values.reserve(host.size());
  for (std::size_t r = 0; r < host.extent(0); ++r) {
    for (std::size_t c = 0; c < host.extent(1); ++c) values.push_back(widen(host(r, c)));
  }
  return values;
}

}  // namespace KokkosXentTest

#endif
