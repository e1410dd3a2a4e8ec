// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_UNROLL_HPP
#define KOKKOSXENT_IMPL_UNROLL_HPP

#include <Kokkos_Core.hpp>

namespace KokkosXent::Impl {

/// f(i) for i in [0, Count). Unrolled on a device, where a local array stays in registers only if
/// it is indexed by constants; a plain loop for the vectoriser on the host.
template <int Count, class F>
KOKKOS_INLINE_FUNCTION void unrolled(const F& f) {
  KOKKOS_IF_ON_HOST((for (int i = 0; i < Count; ++i) f(i);))
  KOKKOS_IF_ON_DEVICE((_Pragma("unroll") for (int i = 0; i < Count; ++i) f(i);))
}

/// to[i] = f(from[i]) on the host. from may be to; compilers vectorise that only where they see it.
template <int Count, class T, class F>
KOKKOS_FORCEINLINE_FUNCTION void map_array(const T* from, T* to, const F& f) {
  if (from == to) {
    for (int i = 0; i < Count; ++i) to[i] = f(to[i]);
  } else {
    for (int i = 0; i < Count; ++i) to[i] = f(from[i]);
  }
}

}  // namespace KokkosXent::Impl

#endif
