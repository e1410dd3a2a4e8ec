// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_CONFIGURATIONS_HPP
#define KOKKOSXENT_TEST_CONFIGURATIONS_HPP

#include <vector>

#include "Configuration.hpp"

/// The parts of configurations(), each compiled in a source of its own. Together they cover every
/// logit type with every layout and both index widths, every type of probabilities, gradients in
/// another type or layout than the logits, and both Scalars.
namespace KokkosXentTest {

std::vector<Configuration> double_configurations();
std::vector<Configuration> float_configurations();
std::vector<Configuration> float16_configurations();
std::vector<Configuration> bfloat16_configurations();
std::vector<Configuration> mixed_configurations();
std::vector<Configuration> probability_configurations();
std::vector<Configuration> mixed_probability_configurations();
std::vector<Configuration> kokkos_half_configurations();

}  // namespace KokkosXentTest

#endif
