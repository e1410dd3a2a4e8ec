// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_SPLITMIX_HPP
#define KOKKOSXENT_TEST_SPLITMIX_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace KokkosXentTest {

/// The splitmix64 generator's value at position i: the same on every machine, and in any order.
KOKKOS_INLINE_FUNCTION std::uint64_t splitmix64(std::uint64_t i) {
  std::uint64_t z = i + 0x9E3779B97F4A7C15u;
  z               = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z               = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// 24 random bits as a number of [0, 1), which every type from float up holds exactly.
KOKKOS_INLINE_FUNCTION double unit_uniform(std::uint64_t bits) {
  return static_cast<double>(bits >> 40) / 16777216.0;
}

/// A sequence of random numbers.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : m_state(splitmix64(seed)) {}

  double uniform(double low, double high) { return low + (high - low) * unit_uniform(next()); }
  /// Of [0, n).
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

 private:
  std::uint64_t next() { return splitmix64(m_state += 0x9E3779B97F4A7C15u); }

  std::uint64_t m_state;
};

}  // namespace KokkosXentTest

#endif
