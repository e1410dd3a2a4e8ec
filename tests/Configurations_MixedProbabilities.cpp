// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

using KokkosXent::bfloat16;
using KokkosXent::float16;

std::vector<Configuration> mixed_probability_configurations() {
  return {
      make_configuration<Types<float, float, Left, double>>(),
      make_configuration<Types<double, float, Strided, float, double, Left, Right>>(),
      make_configuration<Types<float, float16, Strided, float16>>(),
      make_configuration<Types<float, bfloat16, Left, float, float, Right, Right>>(),
      make_configuration<Types<float, float, Right, float16, bfloat16, Strided, Left>>(),
  };
}

}  // namespace KokkosXentTest
