// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Measures the choices that Tuning (src/impl/KokkosXent_Tuning.hpp) makes for a device: each pass
// over packed rows by groups of every power of two, beside the group that the schedule would
// choose. Prints a table of GB/s (logits read once, gradient written once); the marked figure is
// the schedule's.

#include <KokkosXent.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "KokkosXent_PerfMachine.hpp"
#include "KokkosXent_PerfPool.hpp"

namespace KokkosXent::Perf {
namespace {

using ExecutionSpace = Kokkos::DefaultExecutionSpace;
using Memory         = ExecutionSpace::memory_space;

constexpr int repetitions = 11;

/// The median time of a call in seconds; calls alternate between halves of the pool.
double seconds_of(const ExecutionSpace& exec, const std::function<void(int)>& call) {
  std::vector<double> seconds;
  for (int r = 0; r <= repetitions; ++r) {
    exec.fence();
    const Kokkos::Timer timer;
    call(0);
    call(1);
    exec.fence();
    if (r > 0) seconds.push_back(timer.seconds() / 2);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[repetitions / 2];
}

/// The schedule with groups of `lanes` in place of its own; none where it has no packed rows.
bool with_group_of(int lanes, int most_threads, int multiprocessors, std::int64_t rows,
                   Impl::Schedule& schedule) {
  const bool one_warp = schedule.mapping == Impl::Mapping::packed_rows_per_team;
  if (!one_warp && schedule.mapping != Impl::Mapping::packed_row_per_team) return false;
  if (one_warp ? lanes > Impl::warp_lanes : lanes < Impl::warp_lanes) return false;
  const std::int64_t groups = std::int64_t(multiprocessors) * (most_threads / lanes);
  const std::int64_t rounds = (rows + groups - 1) / groups;
  const std::int64_t used   = (rows + rounds - 1) / rounds;
  if (one_warp) {
    schedule.vector = lanes;
    schedule.team   = Impl::Tuning::short_rows_team / lanes;
    schedule.league = static_cast<int>((used + schedule.team - 1) / schedule.team);
  } else {
    schedule.team   = lanes;
    schedule.league = static_cast<int>(used);
  }
  return true;
}

template <class T>
class Tuner {
 public:
  using Scalar  = typename ValueTypeTraits<T>::arithmetic_type;
  using Targets = Impl::IndexTargets<Scalar, false>;
  using Problem = Impl::Problem<ExecutionSpace, T, Scalar, Targets>;

  Tuner(const ExecutionSpace& exec, std::int64_t bytes)
      : m_exec(exec),
        m_elements(bytes / static_cast<std::int64_t>(sizeof(T))),
        m_pool(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KokkosXent::tune::logits"),
               static_cast<std::size_t>(2 * m_elements)) {
    fill_with_logits(m_exec, m_pool.data(), 2 * m_elements, 2 * m_elements, LogitsData::random, 1);
  }

  void print(const char* type, std::int64_t classes) {
    const std::int64_t rows = std::max<std::int64_t>(1, m_elements / classes);
    const auto targets      = random_targets(m_exec, rows, classes);
    const Kokkos::View<Scalar**, Memory> statistics("KokkosXent::tune::statistics", 3,
                                                    static_cast<std::size_t>(rows));
    for (const auto pass :
         {Impl::Pass::forward, Impl::Pass::backward, Impl::Pass::forward_backward}) {
      const char* name = pass == Impl::Pass::forward    ? "forward"
                         : pass == Impl::Pass::backward ? "backward"
                                                        : "forward_backward";
      std::printf("| %s | %s | %lld |", type, name, static_cast<long long>(classes));
      const Problem first = problem(0, rows, classes, targets.data());
      const auto gradient = gradient_of(first);
      const auto chosen =
          Impl::schedule_of(m_exec, first, pass, pass == Impl::Pass::forward ? nullptr : &gradient);
      const bool one_warp    = chosen.mapping == Impl::Mapping::packed_rows_per_team;
      const int most_threads = one_warp ? Problem::resident_threads : Impl::Tuning::packed_team;
      for (int lanes = 1; lanes <= Impl::Tuning::packed_team; lanes *= 2) {
        Impl::Schedule schedule = chosen;
        if (!with_group_of(lanes, most_threads, Impl::device_of(m_exec).multiprocessors, rows,
                           schedule)) {
          std::printf(" |");
          continue;
        }
        const double seconds = seconds_of(m_exec, [&](int half) {
          run(pass, schedule, problem(half * m_elements, rows, classes, targets.data()),
              statistics.data(), rows);
        });
        const double bytes =
            static_cast<double>(rows * classes) * sizeof(T) * (pass == Impl::Pass::forward ? 1 : 2);
        std::printf(lanes == (one_warp ? chosen.vector : chosen.team) ? " **%.0f** |" : " %.0f |",
                    bytes / seconds * 1e-9);
      }
      std::printf("\n");
    }
  }

 private:
  Problem problem(std::int64_t begin, std::int64_t rows, std::int64_t classes,
                  const std::int64_t* targets) const {
    Targets kind(targets, 1);
    kind.configure(classes, -100, 0.0, {nullptr, 0, nullptr});
    return {{m_pool.data() + begin, classes, 1}, kind, rows, classes};
  }
  Impl::Matrix<T> gradient_of(const Problem& p) const {
    return {const_cast<T*>(p.logits.data), p.logits.row_stride, 1};
  }

  void run(Impl::Pass pass, const Impl::Schedule& schedule, const Problem& p, Scalar* statistics,
           std::int64_t rows) const {
    const Impl::ForwardResults<Scalar> results{
        statistics,
        statistics + rows,
        statistics + 2 * rows,
        1,
        {nullptr, nullptr, {Reduction::none, nullptr, nullptr}}};
    const Impl::GradientTask<Problem, T> task{gradient_of(p), {1, nullptr, 0, nullptr, false}};
    const Impl::Workspace<Scalar> no_workspace{};
    if (pass == Impl::Pass::forward)
      Impl::run_forward(m_exec, "tune", schedule, p, results, no_workspace);
    else if (pass == Impl::Pass::backward)
      Impl::run_backward(m_exec, "tune", schedule, p, task, {statistics, statistics + rows});
    else
      Impl::run_forward_backward(m_exec, schedule, p, results, task, nullptr, no_workspace);
  }

  ExecutionSpace m_exec;
  std::int64_t m_elements;
  Kokkos::View<T*, Memory> m_pool;
};

template <class T>
void tune(const char* type, std::int64_t bytes) {
  Tuner<T> tuner(ExecutionSpace(), bytes);
  for (const std::int64_t classes :
       {32, 128, 1024, 4096, 8192, 16384, 32000, 50257, 65536, 128256, 262144})
    tuner.print(type, classes);
}

}  // namespace
}  // namespace KokkosXent::Perf

int main(int argc, char** argv) {
  using namespace KokkosXent::Perf;
  const Kokkos::ScopeGuard kokkos(argc, argv);
  std::int64_t mib      = 1024;
  constexpr char flag[] = "--logits-mib=";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], flag, sizeof(flag) - 1) == 0)
      mib = std::atoll(argv[i] + sizeof(flag) - 1);
    if (std::strncmp(argv[i], flag, sizeof(flag) - 1) != 0 || mib <= 0) {
      std::fprintf(stderr, "usage: KokkosXent_tune [--logits-mib=N]\n");
      return 2;
    }
  }
  if (is_device<Kokkos::DefaultExecutionSpace>) {
    std::printf("GB/s by lanes that share a row\n\n| type | pass | V |");
    for (int lanes = 1; lanes <= KokkosXent::Impl::Tuning::packed_team; lanes *= 2)
      std::printf(" %d |", lanes);
    std::printf("\n|---|---|---|");
    for (int lanes = 1; lanes <= KokkosXent::Impl::Tuning::packed_team; lanes *= 2)
      std::printf("---|");
    std::printf("\n");
    tune<float>("float", mib << 20);
    tune<KokkosXent::bfloat16>("bfloat16", mib << 20);
  } else {
    std::printf("%s is a host space: nothing to tune\n", Kokkos::DefaultExecutionSpace::name());
  }
  return 0;
}
