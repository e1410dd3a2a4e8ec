// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_CHECKTARGETS_HPP
#define KOKKOSXENT_CHECKTARGETS_HPP

#include <KokkosXent_Options.hpp>
#include <impl/KokkosXent_Checks.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace KokkosXent {

namespace Impl {

template <class Targets>
struct FindInvalidTarget {
  Targets targets;
  std::int64_t num_classes;
  std::int64_t ignore_index;

  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t& first) const {
    const std::int64_t cls = targets(static_cast<std::size_t>(row));
    const bool valid       = cls == ignore_index || (cls >= 0 && cls < num_classes);
    if (!valid && row < first) first = row;
  }
};

}  // namespace Impl

/// Throws std::out_of_range if a class index is neither in [0, num_classes) nor ignore_index; the
/// text names the first such row and its value. The kernels themselves turn such a row's loss and
/// gradient to NaN without a message.
///
/// \param exec         where the check runs; fenced before the return
/// \param targets      (rows) View of std::int32_t or std::int64_t, accessible from exec
template <class ExecutionSpace, class Targets>
void check_targets(const ExecutionSpace& exec, const Targets& targets, std::int64_t num_classes,
                   std::int64_t ignore_index = Options{}.ignore_index) {
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "KokkosXent::check_targets: exec must be a Kokkos execution space");
  static_assert(Impl::KokkosView<Targets>,
                "KokkosXent::check_targets: targets must be a Kokkos::View");
  static_assert(Impl::rank_of<Targets>() == 1,
                "KokkosXent::check_targets: targets must have rank 1 (class indices)");
  static_assert(Impl::is_index_type<Impl::value_type_of<Targets>>,
                "KokkosXent::check_targets: targets must have value type int32_t or int64_t");
  static_assert(Impl::is_accessible<Targets, ExecutionSpace>(),
                "KokkosXent::check_targets: targets must be accessible from the execution space");

  using Index             = typename Targets::non_const_value_type;
  const std::int64_t rows = Impl::extent_of(targets, 0);
  std::int64_t first      = rows;
  const Impl::FindInvalidTarget<typename Targets::const_type> find{targets, num_classes,
                                                                   ignore_index};
  Kokkos::parallel_reduce(
      "KokkosXent::check_targets",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(exec, 0, rows), find,
      Kokkos::Min<std::int64_t>(first));
  exec.fence("KokkosXent::check_targets: result");
  if (first >= rows) return;  // the identity of Min where there are no rows

  Index value{};
  Kokkos::deep_copy(exec, value, Kokkos::subview(targets, first));
  exec.fence("KokkosXent::check_targets: value");
  throw std::out_of_range("KokkosXent::check_targets: the target of row " + std::to_string(first) +
                          " is " + std::to_string(value) + ", neither in [0, " +
                          std::to_string(num_classes) + ") nor the ignore_index " +
                          std::to_string(ignore_index));
}

}  // namespace KokkosXent

#endif
