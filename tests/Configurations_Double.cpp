// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

std::vector<Configuration> double_configurations() {
  return {
      make_configuration<Types<double, double, Right, std::int64_t>>(),
      make_configuration<Types<double, double, Left, std::int32_t>>(),
      make_configuration<Types<double, double, Strided, std::int64_t>>(),
  };
}

}  // namespace KokkosXentTest
