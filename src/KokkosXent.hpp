// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_HPP
#define KOKKOSXENT_HPP

#include <KokkosXent_CheckTargets.hpp>
#include <KokkosXent_CrossEntropy.hpp>
#include <KokkosXent_Options.hpp>

#endif
