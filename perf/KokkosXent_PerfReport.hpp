// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_REPORT_HPP
#define KOKKOSXENT_PERF_REPORT_HPP

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace KokkosXent::Perf {

/// A line for each benchmark as it finishes.
class Progress : public benchmark::BenchmarkReporter {
 public:
  explicit Progress(std::size_t total) : m_total(total) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

  std::size_t failures() const { return m_failures; }

 private:
  std::size_t m_total;
  std::size_t m_finished                        = 0;
  std::size_t m_failures                        = 0;
  std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
};

/// Writes Google Benchmark's JSON, but one entry for each benchmark (the median of its
/// repetitions, their spread and all of their times), and parameters as fields of it.
class ResultFile : public benchmark::BenchmarkReporter {
 public:
  /// context: added to Google Benchmark's own.
  explicit ResultFile(nlohmann::ordered_json context) : m_context(std::move(context)) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

 private:
  nlohmann::ordered_json m_context;
  nlohmann::ordered_json m_entries = nlohmann::ordered_json::array();
};

}  // namespace KokkosXent::Perf

#endif
