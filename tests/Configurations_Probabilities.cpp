// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Compute.hpp"
#include "support/Configurations.hpp"

namespace KokkosXentTest {

using KokkosXent::bfloat16;
using KokkosXent::float16;

std::vector<Configuration> probability_configurations() {
  return {
      make_configuration<Types<double, double, Right, double>>(),
      make_configuration<Types<double, double, Left, double>>(),
      make_configuration<Types<float, float, Right, float>>(),
      make_configuration<Types<float, float, Strided, float>>(),
      make_configuration<Types<float, bfloat16, Right, bfloat16>>(),
  };
}

}  // namespace KokkosXentTest
