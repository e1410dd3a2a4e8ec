// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_REGISTRY_HPP
#define KOKKOSXENT_PERF_REGISTRY_HPP

#include "KokkosXent_PerfCase.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace KokkosXent::Perf {

/// Hands cases to Google Benchmark. Only one case's Runner lives at a time.
class Registry {
 public:
  using MakeRunner = std::function<std::unique_ptr<Runner>()>;

  /// filter: regular expression that a case's name must match; "-" before it negates.
  explicit Registry(const std::string& filter);

  /// bandwidth: of the case's space; measured before the benchmarks run.
  void add(const Case& c, int repetitions, const std::shared_ptr<const Bandwidth>& bandwidth,
           const MakeRunner& make_runner);

  std::size_t size() const { return m_size; }

 private:
  bool is_selected(const std::string& name) const;

  struct Current;
  std::string m_filter;
  std::size_t m_size = 0;
  std::shared_ptr<Current> m_current;
};

}  // namespace KokkosXent::Perf

#endif
