// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

using KokkosXent::float16;

std::vector<Configuration> float16_configurations() {
  return {
      make_configuration<Types<float, float16, Right, std::int32_t>>(),
      make_configuration<Types<float, float16, Left, std::int64_t>>(),
      make_configuration<Types<float, float16, Strided, std::int64_t>>(),
  };
}

}  // namespace KokkosXentTest
