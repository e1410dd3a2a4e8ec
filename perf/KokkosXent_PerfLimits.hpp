// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_LIMITS_HPP
#define KOKKOSXENT_PERF_LIMITS_HPP

#include "KokkosXent_PerfCase.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace KokkosXent::Perf {

struct MatrixShape {
  std::int64_t rows;
  std::int64_t classes;
};

/// Cases of which the same is asked. A name may be that of several groups with other value types.
struct LimitGroup {
  std::string name;
  std::vector<std::string> value_types;
  std::vector<MatrixShape> shapes;  // rows 0: as many as the logits' size has room for
  Goal forward;
  Goal backward;
  Goal forward_backward;
  Case like{};                     // what the cases have in common, but for their shapes and types
  bool has_stored_beside = false;  // the stored log-softmax design is measured, too

  bool has_value_type(const std::string& value_type) const;
  const Goal& goal(EntryPoint entry_point) const;
};

// The limits family. backward and forward_backward are in place.
const std::vector<LimitGroup>& device_limit_groups();
const std::vector<LimitGroup>& host_limit_groups();

}  // namespace KokkosXent::Perf

#endif
