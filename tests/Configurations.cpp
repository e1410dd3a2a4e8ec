// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Configurations.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace KokkosXentTest {

const std::vector<Configuration>& configurations() {
  static const std::vector<Configuration> all = [] {
    std::vector<Configuration> joined;
    for (const auto& part :
         {double_configurations(), float_configurations(), float16_configurations(),
          bfloat16_configurations(), mixed_configurations(), probability_configurations(),
          mixed_probability_configurations(), kokkos_half_configurations()}) {
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }();
  return all;
}

std::vector<Configuration> configurations(TargetKind kind) {
  std::vector<Configuration> some;
  std::copy_if(configurations().begin(), configurations().end(), std::back_inserter(some),
               [&](const Configuration& c) { return c.target_kind == kind; });
  return some;
}

}  // namespace KokkosXentTest
