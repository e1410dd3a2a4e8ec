// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KokkosXent_PerfBandwidth.hpp"
#include "KokkosXent_PerfConfig.hpp"
#include "KokkosXent_PerfMachine.hpp"
#include "KokkosXent_PerfRegistry.hpp"
#include "KokkosXent_PerfReport.hpp"
#include "KokkosXent_PerfRevision.hpp"
#include "KokkosXent_PerfSettings.hpp"
#include "KokkosXent_PerfSweep.hpp"

#include <benchmark/benchmark.h>

#include <Kokkos_Core.hpp>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace KokkosXent::Perf {
namespace {

using Json = nlohmann::ordered_json;

template <class... Spaces>
struct SpaceNames {
  static std::vector<std::string> get() { return {Spaces::name()...}; }
};

constexpr int exit_usage = 2;

/// Serial beside other spaces is their reference.
template <class ExecutionSpace>
void open_session(SpaceSession<ExecutionSpace>& session, const Settings& settings, const Host& host,
                  std::size_t spaces, bool& naive_loop_has_a_host) {
  const std::string name = ExecutionSpace::name();
  session.selected       = settings.selects_space(name);
  if (!session.selected) return;
  session.is_reference = name == "Serial" && spaces > 1;
  if (!is_device<ExecutionSpace> && !naive_loop_has_a_host)
    session.runs_naive_loop = naive_loop_has_a_host = true;
  session.plan      = plan_pool(session.exec, settings, host);
  session.bandwidth = std::make_shared<Bandwidth>();
  session.pool =
      std::make_shared<LogitsPool<ExecutionSpace>>(session.exec, session.plan.pool_bytes);
}

template <class T, class ExecutionSpace>
void measure_computing(const ExecutionSpace& exec, Json& context) {
  const std::string type = value_type_name<T>();
  const std::string key  = type + "_gbs_" + ExecutionSpace::name();
  const double added_up  = measure_exponentials<T, Traffic::read>(exec) / 1e9;
  const double in_place  = measure_exponentials<T, Traffic::in_place>(exec) / 1e9;

  context["exp_" + key]          = added_up;
  context["exp_in_place_" + key] = in_place;
  std::cout << "  exponentials of " << type << ": added up " << added_up << ", in place "
            << in_place << " GB/s\n";
}

template <class ExecutionSpace>
void measure_space(const SpaceSession<ExecutionSpace>& session, const Host& host, Json& context) {
  if (!session.selected) return;
  const std::string name = ExecutionSpace::name();
  std::cout << name << ": " << std::flush;
  *session.bandwidth   = measure_bandwidth(session.exec, *session.pool);
  const double read    = session.bandwidth->read / 1e9;
  const double copy    = session.bandwidth->copy / 1e9;
  const double inplace = session.bandwidth->in_place / 1e9;
  const double launch  = session.bandwidth->launch_seconds * 1e9;
  std::cout << std::fixed << std::setprecision(1) << "read " << read << ", copy " << copy
            << ", in place " << inplace << " GB/s; empty launch " << launch / 1e3 << " us\n";
  context["processor_" + name]   = processor_name(session.exec, host);
  context["threads_" + name]     = session.exec.concurrency();
  context["cache_bytes_" + name] = cache_bytes(session.exec, host);
  context["pool_bytes_" + name]  = session.plan.pool_bytes;
  context["read_gbs_" + name]    = read;
  context["copy_gbs_" + name]    = copy;
  context["inplace_gbs_" + name] = inplace;
  context["launch_ns_" + name]   = launch;
  if constexpr (!is_device<ExecutionSpace>) {
    measure_computing<float>(session.exec, context);
    measure_computing<bfloat16>(session.exec, context);
    measure_computing<float16>(session.exec, context);
    measure_computing<double>(session.exec, context);
  }
}

Json build_context() {
  return {{"project", "KokkosXent"},
          {"version", Config::version},
          {"revision", Config::revision},
          {"kokkos_version", Config::kokkos_version},
          {"kokkos_devices", Config::kokkos_devices},
          {"kokkos_arch", Config::kokkos_arch},
          {"kokkos_options", Config::kokkos_options},
          {"compiler", compiler_description()},
          {"compiler_flags", Config::compiler_flags}};
}

/// Space for space the bandwidths, then the benchmarks.
std::size_t run_sweep(const Settings& settings, const Host& host, bool writes_file) {
  AllSessions sessions;
  Registry registry(benchmark::GetBenchmarkFilter());
  Json context              = build_context();
  context["host_processor"] = host.processor;

  bool naive_loop_has_a_host = false;
  constexpr auto spaces      = std::tuple_size_v<AllSessions>;
  std::apply(
      [&](auto&... session) {
        (open_session(session, settings, host, spaces, naive_loop_has_a_host), ...);
        (measure_space(session, host, context), ...);
      },
      sessions);
  register_value_type<float>(sessions, settings, registry);
  register_value_type<bfloat16>(sessions, settings, registry);
  register_value_type<float16>(sessions, settings, registry);
  register_value_type<double>(sessions, settings, registry);

  Progress progress(registry.size());
  ResultFile file(context);
  benchmark::RunSpecifiedBenchmarks(&progress, writes_file ? &file : nullptr, "all");
  benchmark::ClearRegisteredBenchmarks();
  return progress.failures();
}

bool asks_for_file(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with("--benchmark_out=")) return true;
  return false;
}

std::optional<Settings> settings_or_error(int& argc, char** argv) {
  try {
    return parse_settings(argc, argv, ListOfSpaces<SpaceNames>::get());
  } catch (const UsageError& error) {
    std::cerr << "KokkosXent_perf: " << error.what() << '\n' << usage();
    return std::nullopt;
  }
}

}  // namespace
}  // namespace KokkosXent::Perf

int main(int argc, char** argv) {
  using namespace KokkosXent::Perf;
  const Host host        = ask_host();
  const auto settings    = settings_or_error(argc, argv);
  const bool writes_file = asks_for_file(argc, argv);
  if (!settings) return exit_usage;
  if (settings->help) {
    std::cout << usage();
    return EXIT_SUCCESS;
  }
  const Kokkos::ScopeGuard kokkos(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return exit_usage;
  return run_sweep(*settings, host, writes_file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
