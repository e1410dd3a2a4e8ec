// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

using KokkosXent::bfloat16;
using KokkosXent::float16;

std::vector<Configuration> mixed_configurations() {
  return {
      make_configuration<Types<float, float, Right, std::int32_t, bfloat16>>(),
      make_configuration<Types<float, bfloat16, Right, std::int64_t, float, Left>>(),
      make_configuration<Types<double, double, Left, std::int64_t, float, Right>>(),
      make_configuration<Types<double, float16, Left, std::int32_t, double, Strided>>(),
      make_configuration<Types<float, float, Strided, std::int64_t, float16, Right>>(),
  };
}

}  // namespace KokkosXentTest
