// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

int main(int argc, char* argv[]) {
  ::testing::InitGoogleTest(&argc, argv);
  // Tests can be listed where the execution space has no device.
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return RUN_ALL_TESTS();
}
