// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KokkosXent_PerfReport.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>

namespace KokkosXent::Perf {
namespace {

using Json = nlohmann::ordered_json;
using Run  = benchmark::BenchmarkReporter::Run;

/// Google Benchmark 1.8 renamed these members.
template <class AnyRun>
std::string failure_of(const AnyRun& run) {
  if constexpr (requires { run.error_occurred; }) {
    return run.error_occurred ? run.error_message : "";
  } else {
    return run.skipped != 0 ? run.skip_message : "";
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double coefficient_of_variation(const std::vector<double>& values) {
  const auto n      = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares    = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return values.size() < 2 ? 0 : std::sqrt(squares / (n - 1)) / mean;
}

double nanoseconds(const Run& run) {
  return run.GetAdjustedRealTime() * 1e9 / benchmark::GetTimeUnitMultiplier(run.time_unit);
}

void add_medians(const std::vector<Run>& repetitions, Json& entry) {
  std::vector<double> times;
  std::map<std::string, std::vector<double>> counters;
  for (const Run& run : repetitions) {
    times.push_back(nanoseconds(run));
    for (const auto& [name, counter] : run.counters) counters[name].push_back(counter.value);
  }
  entry["time_unit"] = "ns";
  entry["real_time"] = median(times);
  entry["cv"]        = coefficient_of_variation(times);
  for (const auto& [name, values] : counters) entry[name] = median(values);
  entry["repetitions"] = times.size();
  entry["real_times"]  = times;
}

/// The repetitions of one benchmark as one entry; null where runs hold only their aggregates.
Json entry_of(const std::vector<Run>& runs) {
  std::vector<Run> repetitions;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(repetitions),
               [](const Run& run) { return run.run_type == Run::RT_Iteration; });
  if (repetitions.empty()) return nullptr;

  Json entry = {{"name", repetitions.front().run_name.function_name}};
  entry.update(Json::parse(repetitions.front().report_label));
  for (const Run& run : repetitions) {
    if (const std::string failure = failure_of(run); !failure.empty()) {
      entry["error"] = failure;
      return entry;
    }
  }
  add_medians(repetitions, entry);
  return entry;
}

std::string elapsed_since(std::chrono::steady_clock::time_point start) {
  const auto now     = std::chrono::steady_clock::now();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - start).count();
  std::ostringstream text;
  text << seconds / 60 << ':' << std::setw(2) << std::setfill('0') << seconds % 60;
  return text.str();
}

std::string measured(const Json& entry) {
  if (entry.contains("error")) return "FAILED: " + entry["error"].get<std::string>();
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << std::setw(10)
       << entry["real_time"].get<double>() / 1e6 << " ms " << std::setprecision(1) << std::setw(8)
       << entry["gbs"].get<double>() << " GB/s " << std::setprecision(0) << std::setw(4)
       << 100 * entry["share_of_limit"].get<double>() << " % of the limit, spread "
       << std::setprecision(1) << 100 * entry["cv"].get<double>() << " %";
  return text.str();
}

}  // namespace

bool Progress::ReportContext(const Context&) {
  std::cout << m_total << " benchmarks\n" << std::flush;
  return true;
}

void Progress::ReportRuns(const std::vector<Run>& runs) {
  const Json entry = entry_of(runs);
  if (entry.is_null()) return;
  ++m_finished;
  if (entry.contains("error")) ++m_failures;
  const auto digits = static_cast<int>(std::to_string(m_total).size());
  std::cout << '[' << std::setw(digits) << m_finished << '/' << m_total << ' '
            << elapsed_since(m_start) << "] " << std::left << std::setw(72)
            << entry["name"].get<std::string>() << std::right << ' ' << measured(entry) << '\n'
            << std::flush;
}

bool ResultFile::ReportContext(const Context& context) {
  std::ostringstream text;
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.SetErrorStream(&text);
  reporter.ReportContext(context);
  reporter.Finalize();
  Json google = Json::parse(text.str()).at("context");
  google.update(m_context);
  m_context = std::move(google);
  return true;
}

void ResultFile::ReportRuns(const std::vector<Run>& runs) {
  Json entry = entry_of(runs);
  if (!entry.is_null()) m_entries.push_back(std::move(entry));
}

void ResultFile::Finalize() {
  GetOutputStream() << Json{{"context", m_context}, {"benchmarks", m_entries}}.dump(1) << '\n';
}

}  // namespace KokkosXent::Perf
