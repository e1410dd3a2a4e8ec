// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_SPACE_HPP
#define KOKKOSXENT_TEST_SPACE_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

namespace KokkosXentTest {

/// Each test source is compiled once per execution space that Kokkos has.
using ExecutionSpace = KOKKOSXENT_TEST_EXECUTION_SPACE;
using MemorySpace    = typename ExecutionSpace::memory_space;

inline constexpr bool runs_on_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, MemorySpace>::accessible;

}  // namespace KokkosXentTest

#endif
