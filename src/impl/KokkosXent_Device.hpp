// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_DEVICE_HPP
#define KOKKOSXENT_IMPL_DEVICE_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace KokkosXent::Impl {

/// What the schedule asks of a device.
struct Device {
  int multiprocessors;            // compute units
  std::int64_t last_level_cache;  // bytes; 0: unknown
  int most_lanes;                 // vector lanes of a team's thread
};

/// The one place that knows Kokkos's backends by name.
template <class ExecutionSpace>
Device device_of(const ExecutionSpace& exec) {
  const int most_lanes = Kokkos::TeamPolicy<ExecutionSpace>::vector_length_max();
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) {
    const auto& properties = exec.cuda_device_prop();
    return {properties.multiProcessorCount, static_cast<std::int64_t>(properties.l2CacheSize),
            most_lanes};
  }
#elif defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<ExecutionSpace, Kokkos::HIP>) {
    const auto& properties = exec.hip_device_prop();
    return {properties.multiProcessorCount, static_cast<std::int64_t>(properties.l2CacheSize),
            most_lanes};
  }
#endif
  constexpr int threads_per_multiprocessor = 2048;
  return {std::max(1, exec.concurrency() / threads_per_multiprocessor), 0, most_lanes};
}

}  // namespace KokkosXent::Impl

#endif
