// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KokkosXent_PerfRegistry.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>

namespace KokkosXent::Perf {
namespace {

std::string name_of(const Case& c) {
  const std::string layout = c.layout == Layout::right ? "" : "/left";
  return c.family + "/" + c.space + "/" + to_string(c.design) + "/" + to_string(c.entry_point) +
         (c.in_place ? "/in_place/" : "/") + c.value_type + "/" + std::to_string(c.rows) + "x" +
         std::to_string(c.classes) + (c.group.empty() ? layout : "/" + c.group);
}

/// The case of another group that is otherwise like c.
std::string reference_name_of(Case c) {
  c.group = c.reference_group;
  return name_of(c);
}

void add_limits_fields(const Case& c, nlohmann::ordered_json& fields) {
  fields["group"]           = c.group;
  fields["row_padding"]     = c.row_padding;
  fields["targets"]         = to_string(c.targets);
  fields["ignored_percent"] = c.ignored_percent;
  fields["ignored_rows"]    = c.ignored_rows;
  fields["class_weights"]   = c.class_weights;
  fields["label_smoothing"] = c.label_smoothing;
  fields["data"]            = to_string(c.data);
  fields["figure"]          = to_string(c.goal.figure);
  if (c.goal.target) fields["target"] = *c.goal.target;
  if (c.goal.figure == Figure::time_over_reference) fields["reference"] = reference_name_of(c);
}

/// The case's parameters. Google Benchmark has one text field for what is not a measured number.
std::string label_of(const Case& c, std::size_t saved_bytes, const Bandwidth& bandwidth) {
  nlohmann::ordered_json fields = {{"family", c.family},
                                   {"space", c.space},
                                   {"design", to_string(c.design)},
                                   {"entry_point", to_string(c.entry_point)},
                                   {"in_place", c.in_place},
                                   {"value_type", c.value_type},
                                   {"layout", to_string(c.layout)},
                                   {"rows", c.rows},
                                   {"classes", c.classes},
                                   {"must_move_bytes", c.must_move_bytes()},
                                   {"design_moves_bytes", c.design_moves_bytes()},
                                   {"saved_bytes", saved_bytes},
                                   {"limit_ns", bandwidth.limit_seconds(c) * 1e9}};
  if (!c.group.empty()) add_limits_fields(c, fields);
  return fields.dump();
}

void time_batches(benchmark::State& state, Runner& runner) {
  using Clock = std::chrono::steady_clock;
  while (state.KeepRunningBatch(runner.batch())) {
    runner.prepare();
    runner.fence();
    const auto start = Clock::now();
    runner.run_batch();
    runner.fence();
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    state.SetIterationTime(elapsed.count());
  }
}

void set_counters(benchmark::State& state, const Case& c, const Bandwidth& bandwidth) {
  using benchmark::Counter;
  const auto bytes                 = static_cast<double>(c.must_move_bytes());
  const auto per_second            = Counter::kIsIterationInvariantRate;
  state.counters["gbs"]            = Counter(bytes / 1e9, per_second);
  state.counters["share_of_copy"]  = Counter(bytes / bandwidth.copy, per_second);
  state.counters["share_of_limit"] = Counter(bytes / bandwidth.limit(c), per_second);
}

}  // namespace

/// The case that runs now.
struct Registry::Current {
  std::string name;
  std::unique_ptr<Runner> runner;
  std::string failure;

  /// Sets up, checks and warms up where the case is another one than before.
  void become(const std::string& next, const MakeRunner& make_runner) {
    if (name == next) return;
    name = next;
    runner.reset();
    runner  = make_runner();
    failure = runner->disagreement();
    runner->prepare();
    runner->run_batch();
    runner->fence();
  }
};

Registry::Registry(const std::string& filter)
    : m_filter(filter), m_current(std::make_shared<Current>()) {}

bool Registry::is_selected(const std::string& name) const {
  if (m_filter.empty() || m_filter == "all") return true;
  const bool negated = m_filter.front() == '-';
  const std::regex pattern(m_filter.substr(negated ? 1 : 0), std::regex::extended);
  return std::regex_search(name, pattern) != negated;
}

void Registry::add(const Case& c, int repetitions,
                   const std::shared_ptr<const Bandwidth>& bandwidth,
                   const MakeRunner& make_runner) {
  const std::string name = name_of(c);
  if (!is_selected(name)) return;
  ++m_size;
  const auto body = [c, name, bandwidth, make_runner,
                     current = m_current](benchmark::State& state) {
    current->become(name, make_runner);
    state.SetLabel(label_of(c, current->runner->saved_bytes(), *bandwidth));
    if (!current->failure.empty()) {
      state.SkipWithError(current->failure.c_str());
      return;
    }
    time_batches(state, *current->runner);
    set_counters(state, c, *bandwidth);
  };
  benchmark::RegisterBenchmark(name.c_str(), body)
      ->UseManualTime()
      ->MinTime(0.002)
      ->Repetitions(repetitions)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace KokkosXent::Perf
