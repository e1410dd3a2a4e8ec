// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

/// None where Kokkos has no 16-bit types of its own: there half_t and bhalf_t are float.
template <class Half, class BHalf>
std::vector<Configuration> half_configurations() {
  std::vector<Configuration> configurations;
  if constexpr (!std::is_same_v<Half, float>) {
    configurations.push_back(make_configuration<Types<float, Half, Right, std::int32_t>>());
    configurations.push_back(make_configuration<Types<float, Half, Left, Half, float>>());
  }
  if constexpr (!std::is_same_v<BHalf, float>) {
    configurations.push_back(make_configuration<Types<float, BHalf, Left, std::int64_t>>());
    configurations.push_back(make_configuration<Types<float, BHalf, Right, BHalf>>());
  }
  return configurations;
}

std::vector<Configuration> kokkos_half_configurations() {
  return half_configurations<Kokkos::Experimental::half_t, Kokkos::Experimental::bhalf_t>();
}

}  // namespace KokkosXentTest
