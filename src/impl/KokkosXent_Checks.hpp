// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_CHECKS_HPP
#define KOKKOSXENT_IMPL_CHECKS_HPP

#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_ValueTypes.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace KokkosXent::Impl {

// Properties of argument types, false instead of an error where the type is no View.

template <class V>
concept KokkosView = Kokkos::is_view_v<V>;

template <class V>
constexpr int rank_of() {
  if constexpr (KokkosView<V>) return static_cast<int>(V::rank());
  return -1;
}

template <class V>
struct ValueTypeOf {
  using type = void;
};
template <KokkosView V>
struct ValueTypeOf<V> {
  using type = typename V::non_const_value_type;
};
template <class V>
using value_type_of = typename ValueTypeOf<V>::type;

template <class V, class ExecutionSpace>
constexpr bool is_accessible() {
  if constexpr (KokkosView<V>)
    return Kokkos::SpaceAccessibility<ExecutionSpace, typename V::memory_space>::accessible;
  return false;
}

template <class V>
constexpr bool is_const() {
  if constexpr (KokkosView<V>) return std::is_const_v<typename V::value_type>;
  return false;
}

/// Whether values of type T are computed in double.
template <class T>
constexpr bool computes_in_double() {
  if constexpr (KnownValueType<T>) return std::is_same_v<arithmetic_type_t<T>, double>;
  return false;
}

template <class T>
inline constexpr bool is_index_type =
    std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;

/// "2048 x 32000"; "scalar" for rank 0.
template <class V>
std::string extents_text(const V& view) {
  if constexpr (V::rank() == 0) {
    return "scalar";
  } else {
    std::string text = std::to_string(view.extent(0));
    for (unsigned d = 1; d < static_cast<unsigned>(V::rank()); ++d)
      text += " x " + std::to_string(view.extent(d));
    return text;
  }
}

template <class V>
std::int64_t extent_of(const V& view, unsigned dimension) {
  return static_cast<std::int64_t>(view.extent(dimension));
}

template <class V>
auto as_matrix(const V& view) {
  return Matrix<typename V::value_type>{view.data(), static_cast<std::int64_t>(view.stride(0)),
                                        static_cast<std::int64_t>(view.stride(1))};
}

/// Which bytes an operand of rank 2, or 1 (one class a row), occupies.
struct Footprint {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::int64_t value_size;
  std::int64_t rows;
  std::int64_t classes;
  std::int64_t row_stride;
  std::int64_t class_stride;

  bool empty() const { return rows == 0 || classes == 0; }
  /// Two elements share an address. Strides that interleave count as sharing.
  bool overlaps_itself() const {
    if (empty()) return false;
    const auto covers = [](std::int64_t inner_stride, std::int64_t inner, std::int64_t outer_stride,
                           std::int64_t outer) {
      return (inner == 1 || inner_stride > 0) &&
             (outer == 1 || outer_stride > inner_stride * (inner - 1));
    };
    return !covers(class_stride, classes, row_stride, rows) &&
           !covers(row_stride, rows, class_stride, classes);
  }
  bool is_same_as(const Footprint& other) const {
    return begin == other.begin && value_size == other.value_size &&
           (rows == 1 || row_stride == other.row_stride) &&
           (classes == 1 || class_stride == other.class_stride);
  }
  bool overlaps(const Footprint& other) const {
    if (empty() || other.empty() || end <= other.begin || other.end <= begin) return false;
    return !takes_turns_with(other);
  }

 private:
  /// Rows of both lie in one buffer side by side, like two blocks of its columns.
  bool takes_turns_with(const Footprint& other) const {
    const bool alike = value_size == other.value_size && row_stride == other.row_stride &&
                       class_stride == 1 && other.class_stride == 1 && row_stride > 0;
    if (!alike) return false;
    const std::int64_t pitch    = row_stride * value_size;
    const std::int64_t distance = static_cast<std::int64_t>(other.begin - begin) % pitch;
    const std::int64_t offset   = distance < 0 ? distance + pitch : distance;
    return offset >= classes * value_size && offset + other.classes * value_size <= pitch;
  }
};

template <class V>
Footprint footprint_of(const V& view) {
  Footprint print{};
  print.begin        = reinterpret_cast<std::uintptr_t>(view.data());
  print.value_size   = sizeof(typename V::value_type);
  print.rows         = extent_of(view, 0);
  print.classes      = 1;
  print.row_stride   = static_cast<std::int64_t>(view.stride(0));
  print.class_stride = 1;
  print.end          = print.begin;
  if constexpr (V::rank() == 2) {
    print.classes      = extent_of(view, 1);
    print.class_stride = static_cast<std::int64_t>(view.stride(1));
  }
  if (!print.empty())
    print.end += static_cast<std::uintptr_t>(
        ((print.rows - 1) * print.row_stride + (print.classes - 1) * print.class_stride + 1) *
        print.value_size);
  return print;
}

/// Throws std::invalid_argument unless every element of the gradient has a place of its own, and
/// one that is no element of an input, but for the logits' very own.
template <class Logits, class Targets, class Gradient>
void check_overlap(const std::string& function, const Logits& logits, const Targets& targets,
                   const Gradient& gradient) {
  const Footprint output = footprint_of(gradient);
  if (output.overlaps_itself())
    throw std::invalid_argument(function + ": grad_logits must not have rows or classes that " +
                                "overlap: extents " + extents_text(gradient) + ", strides " +
                                std::to_string(output.row_stride) + ", " +
                                std::to_string(output.class_stride));
  const Footprint input = footprint_of(logits);
  const bool same_type =
      std::is_same_v<typename Logits::non_const_value_type, typename Gradient::value_type>;
  if (!(same_type && output.is_same_as(input)) && output.overlaps(input))
    throw std::invalid_argument(
        function + ": grad_logits must be the same View as logits, or not " + "overlap it");
  if (output.overlaps(footprint_of(targets)))
    throw std::invalid_argument(function + ": grad_logits must not overlap targets");
}

}  // namespace KokkosXent::Impl

#endif
