// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KokkosXent_PerfMachine.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

namespace KokkosXent::Perf {
namespace {

constexpr std::int64_t assumed_cache_bytes = std::int64_t(64) << 20;

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string processor_model() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

bool may_run_on(int core) {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && core < CPU_SETSIZE)
    return CPU_ISSET(static_cast<std::size_t>(core), &allowed) != 0;
#endif
  return core >= 0;
}

/// "32768K" or "32M"; 0 where the text is something else.
std::int64_t parse_size(const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > 12) return 0;
  const std::int64_t number = std::stoll(text.substr(0, digits));
  const std::string unit    = text.substr(digits);
  if (unit == "M") return number << 20;
  return unit == "K" ? number << 10 : number;
}

/// Size of the core's last-level cache, by the list of cores that share it.
std::pair<std::string, std::int64_t> last_level_cache(const std::filesystem::path& core) {
  std::pair<std::string, std::int64_t> last{"", 0};
  std::string last_level;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(core / "cache", error)) {
    const std::string level = first_line(entry.path() / "level");
    if (first_line(entry.path() / "type") == "Instruction" || level <= last_level) continue;
    last_level = level;
    last       = {first_line(entry.path() / "shared_cpu_list"),
                  parse_size(first_line(entry.path() / "size"))};
  }
  return last;
}

std::map<std::string, std::int64_t> last_level_caches() {
  std::map<std::string, std::int64_t> caches;
  const std::filesystem::path cores = "/sys/devices/system/cpu";
  for (int core = 0;; ++core) {
    const auto folder = cores / ("cpu" + std::to_string(core));
    if (!std::filesystem::exists(folder)) return caches;
    if (may_run_on(core)) caches.insert(last_level_cache(folder));
  }
}

}  // namespace

Host ask_host() {
  Host host{processor_model(), 0, 0};
  for (const auto& [cores, bytes] : last_level_caches()) {
    host.one_cache_bytes = std::max(host.one_cache_bytes, bytes);
    host.all_caches_bytes += bytes;
  }
  if (host.one_cache_bytes == 0) host.one_cache_bytes = host.all_caches_bytes = assumed_cache_bytes;
  return host;
}

std::string compiler_description() {
#if defined(__clang__)
  std::string description = "Clang " __clang_version__;
#else
  std::string description = "GCC " __VERSION__;
#endif
#if defined(__CUDACC_VER_MAJOR__)
  description +=
      ", nvcc " + std::to_string(__CUDACC_VER_MAJOR__) + "." + std::to_string(__CUDACC_VER_MINOR__);
#endif
  return description;
}

}  // namespace KokkosXent::Perf
