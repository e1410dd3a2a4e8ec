// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KokkosXent_PerfSettings.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <string_view>

namespace KokkosXent::Perf {
namespace {

const std::vector<std::string> families = {"vocabulary", "shapes", "limits"};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> parse_names(const std::string& flag, const std::string& value,
                                     const std::vector<std::string>& known) {
  std::vector<std::string> names;
  std::istringstream stream(value);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!contains(known, name))
      throw UsageError(flag + ": '" + name + "' is not one of " + joined(known));
    names.push_back(name);
  }
  if (names.empty()) throw UsageError(flag + " needs at least one of " + joined(known));
  return names;
}

template <class Integer>
Integer parse_positive(const std::string& flag, const std::string& value, Integer most) {
  Integer number           = 0;
  const char* const end    = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < 1 || number > most)
    throw UsageError(flag + ": '" + value + "' is not a number from 1 to " + std::to_string(most));
  return number;
}

bool passes_through(std::string_view argument) {
  return argument.starts_with("--kokkos-") || argument.starts_with("--benchmark_");
}

void parse_flag(const std::string& argument, const std::vector<std::string>& known_spaces,
                Settings& settings) {
  const auto equals       = argument.find('=');
  const std::string flag  = argument.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
  if (argument == "--help") {
    settings.help = true;
  } else if (argument == "--quick") {
    settings.extent = Extent::quick;
  } else if (argument == "--full") {
    settings.extent = Extent::full;
  } else if (flag == "--spaces") {
    settings.spaces = parse_names(flag, value, known_spaces);
  } else if (flag == "--families") {
    settings.families = parse_names(flag, value, families);
  } else if (flag == "--logits-mib") {
    settings.logits_mib = parse_positive<std::int64_t>(flag, value, 1 << 20);
  } else if (flag == "--repetitions") {
    settings.repetitions = parse_positive<int>(flag, value, std::numeric_limits<int>::max());
  } else {
    throw UsageError("unknown argument '" + argument + "'");
  }
}

}  // namespace

bool Settings::selects_space(const std::string& name) const {
  return spaces.empty() || contains(spaces, name);
}

bool Settings::selects_family(const std::string& name) const {
  if (!families.empty()) return contains(families, name);
  return name == "vocabulary" || (name == "shapes" && extent != Extent::quick);
}

int Settings::repetitions_of(const std::string& family) const {
  if (repetitions > 0) return repetitions;
  if (family == "limits" || extent == Extent::full) return 10;
  return extent == Extent::quick ? 3 : 5;
}

std::string usage() {
  return "usage: KokkosXent_perf [flag...]\n"
         "  --quick             few vocabulary sizes and little data: seconds\n"
         "  --full              every vocabulary size for every value type, more data\n"
         "  --spaces=A,B        only these execution spaces (default: all that Kokkos has)\n"
         "  --families=A,B      vocabulary, shapes, limits (default: the first two; with --quick:\n"
         "                      vocabulary). limits: what is asked of each space, with targets\n"
         "  --logits-mib=N      size of the logits in MiB (default: chosen for each space)\n"
         "  --repetitions=N     timed repetitions, of which the median is reported\n"
         "  --benchmark_out=F   write the results to the JSON file F\n"
         "  --benchmark_...     any other flag of Google Benchmark\n"
         "  --kokkos-...        any flag of Kokkos\n"
         "  --help\n";
}

Settings parse_settings(int& argc, char** argv, const std::vector<std::string>& known_spaces) {
  Settings settings;
  int kept = std::min(argc, 1);
  for (int i = 1; i < argc; ++i) {
    if (passes_through(argv[i])) {
      argv[kept++] = argv[i];
    } else {
      parse_flag(argv[i], known_spaces, settings);
    }
  }
  argc       = kept;
  argv[argc] = nullptr;
  return settings;
}

}  // namespace KokkosXent::Perf
