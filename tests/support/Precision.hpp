// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_PRECISION_HPP
#define KOKKOSXENT_TEST_PRECISION_HPP

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cmath>
#include <concepts>
#include <limits>
#include <string>
#include <type_traits>

namespace KokkosXentTest {

/// What a binary floating-point type can hold.
struct Precision {
  int digits;           // of the significand, the hidden one counted
  int lowest_exponent;  // of the smallest normal number, 2^lowest_exponent
  double largest;

  /// Relative error of one rounding to nearest.
  double unit_roundoff() const { return std::ldexp(1.0, -digits); }
  double smallest_normal() const { return std::ldexp(1.0, lowest_exponent); }
  double smallest_subnormal() const { return std::ldexp(1.0, lowest_exponent - digits + 1); }

  /// Distance between neighbouring numbers of the type around a finite value.
  double spacing(double value) const {
    if (std::abs(value) < smallest_normal()) return smallest_subnormal();
    return std::ldexp(1.0, std::ilogb(value) - digits + 1);
  }
};

template <class T>
Precision precision_of() {
  if constexpr (std::is_same_v<T, double>) {
    return {53, -1022, std::numeric_limits<double>::max()};
  } else if constexpr (std::is_same_v<T, float>) {
    return {24, -126, std::numeric_limits<float>::max()};
  } else if constexpr (std::is_same_v<T, KokkosXent::float16> ||
                       std::is_same_v<T, Kokkos::Experimental::half_t>) {
    return {11, -14, 65504.0};
  } else {
    static_assert(std::is_same_v<T, KokkosXent::bfloat16> ||
                  std::is_same_v<T, Kokkos::Experimental::bhalf_t>);
    return {8, -126, std::ldexp(255.0, 120)};
  }
}

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, double>) return "double";
  if constexpr (std::is_same_v<T, float>) return "float";
  if constexpr (std::is_same_v<T, KokkosXent::float16>) return "float16";
  if constexpr (std::is_same_v<T, KokkosXent::bfloat16>) return "bfloat16";
  if constexpr (std::is_same_v<T, std::int32_t>) return "int32";
  if constexpr (std::is_same_v<T, std::int64_t>) return "int64";
  if constexpr (!std::is_same_v<Kokkos::Experimental::half_t, float>) {
    if constexpr (std::is_same_v<T, Kokkos::Experimental::half_t>) return "half_t";
    if constexpr (std::is_same_v<T, Kokkos::Experimental::bhalf_t>) return "bhalf_t";
  }
}

/// Rounds to the storage type T.
template <class T>
T narrow(double value) {
  if constexpr (std::constructible_from<T, double>) {
    return static_cast<T>(value);
  } else {
    return static_cast<T>(static_cast<float>(value));
  }
}

template <class T>
double widen(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(static_cast<float>(value));
  }
}

/// The nearest number that T holds.
template <class T>
double rounded_to(double value) {
  return widen(narrow<T>(value));
}

}  // namespace KokkosXentTest

#endif
