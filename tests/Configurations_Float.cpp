// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

std::vector<Configuration> float_configurations() {
  return {
      make_configuration<Types<float, float, Right, std::int64_t>>(),
      make_configuration<Types<float, float, Left, std::int32_t>>(),
      make_configuration<Types<float, float, Strided, std::int32_t>>(),
      make_configuration<Types<double, float, Right, std::int32_t>>(),
  };
}

}  // namespace KokkosXentTest
