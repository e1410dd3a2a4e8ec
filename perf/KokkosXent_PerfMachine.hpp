// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_MACHINE_HPP
#define KOKKOSXENT_PERF_MACHINE_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>

namespace KokkosXent::Perf {

/// What is known of the host. Ask before Kokkos is initialised: an OpenMP runtime may then bind
/// this thread to one core.
struct Host {
  std::string processor;
  std::int64_t one_cache_bytes;   // the largest last-level cache of a core that we may run on
  std::int64_t all_caches_bytes;  // all last-level caches of the cores that we may run on
};

Host ask_host();

std::string compiler_description();

template <class ExecutionSpace>
inline constexpr bool is_device =
    !Kokkos::SpaceAccessibility<Kokkos::HostSpace,
                                typename ExecutionSpace::memory_space>::accessible;

/// Model of the processor that runs ExecutionSpace.
template <class ExecutionSpace>
std::string processor_name(const ExecutionSpace& exec, const Host& host) {
  if constexpr (requires { exec.cuda_device_prop().name; }) {
    return exec.cuda_device_prop().name;
  } else if constexpr (requires { exec.hip_device_prop().name; }) {
    return exec.hip_device_prop().name;
  } else if constexpr (is_device<ExecutionSpace>) {
    return ExecutionSpace::name();
  } else {
    return host.processor;
  }
}

/// Last-level cache that ExecutionSpace can fill.
template <class ExecutionSpace>
std::int64_t cache_bytes(const ExecutionSpace& exec, const Host& host) {
  if constexpr (requires { exec.cuda_device_prop().l2CacheSize; }) {
    return exec.cuda_device_prop().l2CacheSize;
  } else if constexpr (requires { exec.hip_device_prop().l2CacheSize; }) {
    return exec.hip_device_prop().l2CacheSize;
  } else {
    return exec.concurrency() > 1 ? host.all_caches_bytes : host.one_cache_bytes;
  }
}

}  // namespace KokkosXent::Perf

#endif
