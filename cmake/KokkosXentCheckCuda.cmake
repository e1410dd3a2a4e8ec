# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Kokkos 4.7.1 is the first release that compiles with CUDA 13; before it the errors come from deep
# inside Kokkos's own headers. Only a warning, since a patched Kokkos is fine.
if(Kokkos_ENABLE_CUDA
   AND DEFINED Kokkos_VERSION
   AND Kokkos_VERSION VERSION_LESS 4.7.1
   AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
  message(WARNING "Kokkos ${Kokkos_VERSION} does not compile with CUDA ${CUDAToolkit_VERSION} "
                  "unless it was patched. Use Kokkos 4.7.1 or later, or CUDA 12.")
endif()
