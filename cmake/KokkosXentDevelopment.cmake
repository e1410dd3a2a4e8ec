# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# What tests, perf and examples are compiled with. Never exported.

add_library(KokkosXent_warnings INTERFACE)
target_compile_options(
  KokkosXent_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion
                                $<$<BOOL:${KokkosXent_WARNINGS_AS_ERRORS}>:-Werror>)

add_library(KokkosXent_native_arch INTERFACE)
target_compile_options(KokkosXent_native_arch
                       INTERFACE $<$<BOOL:${KokkosXent_NATIVE_ARCH}>:-march=native>)

# Names of the C++ types Kokkos::<name>, one for each execution space that this Kokkos has.
set(KokkosXent_available_spaces)
foreach(space Serial OpenMP Threads Cuda HIP SYCL)
  string(TOUPPER ${space} device)
  if(Kokkos_ENABLE_${device} OR device IN_LIST Kokkos_DEVICES)
    list(APPEND KokkosXent_available_spaces ${space})
  endif()
endforeach()

set(KokkosXent_EXECUTION_SPACES
    ""
    CACHE STRING "Execution spaces that tests and perf are built for; empty: all that Kokkos has")
if(NOT KokkosXent_EXECUTION_SPACES)
  set(KokkosXent_EXECUTION_SPACES ${KokkosXent_available_spaces})
endif()
foreach(space IN LISTS KokkosXent_EXECUTION_SPACES)
  if(NOT space IN_LIST KokkosXent_available_spaces)
    message(FATAL_ERROR "KokkosXent_EXECUTION_SPACES names ${space}, but this Kokkos has "
                        "${KokkosXent_available_spaces}")
  endif()
endforeach()
