// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_SETTINGS_HPP
#define KOKKOSXENT_PERF_SETTINGS_HPP

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace KokkosXent::Perf {

enum class Extent { quick, normal, full };

struct Settings {
  Extent extent = Extent::normal;
  std::vector<std::string> spaces;    // empty: all
  std::vector<std::string> families;  // empty: those that the extent has
  std::int64_t logits_mib = 0;        // 0: chosen for each space
  int repetitions         = 0;        // 0: chosen by the extent
  bool help               = false;

  bool selects_space(const std::string& name) const;
  bool selects_family(const std::string& name) const;

  /// Timed repetitions, of which the median is reported.
  int repetitions_of(const std::string& family) const;
};

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string usage();

/// Takes the sweep's own flags out of argv; those of Kokkos and of Google Benchmark stay.
/// known_spaces: names that --spaces may give. Throws UsageError for anything else.
Settings parse_settings(int& argc, char** argv, const std::vector<std::string>& known_spaces);

}  // namespace KokkosXent::Perf

#endif
