// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KokkosXent_PerfSweep.hpp"

namespace KokkosXent::Perf {
template void register_value_type<double>(const AllSessions&, const Settings&, Registry&);
}
