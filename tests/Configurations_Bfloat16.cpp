// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

using KokkosXent::bfloat16;

std::vector<Configuration> bfloat16_configurations() {
  return {
      make_configuration<Types<float, bfloat16, Right, std::int64_t>>(),
      make_configuration<Types<float, bfloat16, Left, std::int32_t>>(),
      make_configuration<Types<float, bfloat16, Strided, std::int32_t>>(),
      make_configuration<Types<double, bfloat16, Right, std::int32_t>>(),
  };
}

}  // namespace KokkosXentTest
