// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_DISPATCH_HPP
#define KOKKOSXENT_IMPL_DISPATCH_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_ForwardBackward.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_Tile.hpp>
#include <impl/KokkosXent_Totals.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>

namespace KokkosXent::Impl {

/// Memory that a call uses and leaves behind without meaning. Its size depends on the execution
/// space alone.
template <class Scalar>
struct Workspace {
  RowTotals* partial_totals;                   // max_league
  SoftmaxState<Scalar, true>* partial_states;  // max_league; also holds states without background
};

inline std::string kernel_label(const char* function, Mapping mapping) {
  const char* name = "";
  switch (mapping) {
    case Mapping::rows_per_team:
      name = "rows_per_team";
      break;
    case Mapping::row_per_team:
      name = "row_per_team";
      break;
    case Mapping::teams_per_row:
      name = "teams_per_row";
      break;
    case Mapping::columns:
      name = "columns";
      break;
  }
  return std::string("KokkosXent::") + function + "[" + name + "]";
}

template <class ExecutionSpace, class Functor>
void launch(const ExecutionSpace& exec, const std::string& label, const Schedule& schedule,
            const Functor& functor, std::size_t scratch_bytes_per_thread = 0) {
  Kokkos::parallel_for(label, make_policy(exec, schedule, functor, scratch_bytes_per_thread),
                       functor);
}

template <class Problem>
Schedule schedule_of(const typename Problem::ExecutionSpace& exec, const Problem& problem) {
  using RowWalk = typename Problem::RowWalk;
  return make_schedule(
      exec,
      Shape{problem.rows, problem.classes, problem.logits.row_stride, problem.logits.class_stride,
            static_cast<int>(sizeof(typename Problem::LogitType)), RowWalk::lanes, RowWalk::run});
}

/// The schedule's kernel over whole rows: RowKernel<Mapping>, built from (args..., vector length),
/// or TileKernel, built from args.
template <template <Mapping> class RowKernel, class TileKernel, class ExecutionSpace, class... Args>
void launch_whole_rows(const ExecutionSpace& exec, const char* function, const Schedule& schedule,
                       const Args&... args) {
  const std::string label = kernel_label(function, schedule.mapping);
  const auto tiles        = [&]() {
    launch(exec, label, schedule, TileKernel{args...}, TileKernel::scratch_bytes_per_thread);
  };
  if (schedule.mapping == Mapping::columns) {
    tiles();
  } else if (schedule.mapping == Mapping::rows_per_team) {
    if constexpr (runs_on_host<ExecutionSpace>)
      tiles();
    else
      launch(exec, label, schedule, RowKernel<Mapping::rows_per_team>{args..., schedule.vector});
  } else {
    launch(exec, label, schedule, RowKernel<Mapping::row_per_team>{args..., schedule.vector});
  }
}

template <class Scalar, class ExecutionSpace>
void reduce_totals(const ExecutionSpace& exec, const char* label, const RowTotals* partials,
                   int count, const ReducedResults<Scalar>& results) {
  launch(exec, label, one_team_schedule(exec), ReduceTotals<Scalar>{partials, count, results});
}

/// D of a mean, from the targets alone.
template <class Problem>
void sum_denominators(const typename Problem::ExecutionSpace& exec, const Problem& problem,
                      const Workspace<typename Problem::Scalar>& workspace, double* denominator) {
  using Scalar = typename Problem::Scalar;
  const auto schedule =
      small_schedule(exec, problem.rows, Tuning::denominator_rows, Tuning::single_team);
  launch(exec, "KokkosXent::denominator", schedule,
         SumDenominators<typename Problem::ExecutionSpace, typename Problem::Targets>{
             problem.targets, problem.rows, workspace.partial_totals});
  reduce_totals<Scalar>(exec, "KokkosXent::denominator", workspace.partial_totals, schedule.league,
                        {Reduction::mean, nullptr, denominator});
}

/// teams_per_row: row statistics, row losses and the reduced loss.
template <class Problem>
void sweep_split_rows(const typename Problem::ExecutionSpace& exec, const char* function,
                      const Problem& problem, const Schedule& schedule,
                      const ForwardResults<typename Problem::Scalar>& results,
                      const ReducedResults<typename Problem::Scalar>& reduced,
                      const Workspace<typename Problem::Scalar>& workspace) {
  using State  = typename Problem::State;
  auto* states = reinterpret_cast<State*>(workspace.partial_states);
  launch(exec, kernel_label(function, schedule.mapping), schedule,
         SweepParts<Problem>{problem, schedule.parts, schedule.part_size, states});
  Schedule merge = one_team_schedule(exec);
  merge.team     = Tuning::merge_team;
  merge.vector   = Tuning::merge_vector;
  launch(exec, "KokkosXent::merge_rows", merge,
         MergeParts<Problem>{problem, results, reduced, schedule.parts, states});
}

template <class Problem>
void run_forward(const typename Problem::ExecutionSpace& exec, const Problem& problem,
                 const ForwardResults<typename Problem::Scalar>& results,
                 const ReducedResults<typename Problem::Scalar>& reduced,
                 const Workspace<typename Problem::Scalar>& workspace) {
  int league = 0;
  if (problem.rows > 0) {
    const Schedule schedule = schedule_of(exec, problem);
    if (schedule.mapping == Mapping::teams_per_row)
      return sweep_split_rows(exec, "forward", problem, schedule, results, reduced, workspace);
    launch_whole_rows<ForwardRowsOf<Problem>::template Kernel, ForwardTiles<Problem>>(
        exec, "forward", schedule, problem, results);
    league = schedule.league;
  }
  if (results.partials)
    reduce_totals(exec, "KokkosXent::reduce_loss", results.partials, league, reduced);
}

template <class Problem, class GradientType>
void run_backward(const typename Problem::ExecutionSpace& exec, const char* function,
                  const Problem& problem, const GradientTask<Problem, GradientType>& task,
                  const SavedRows<typename Problem::Scalar>& saved) {
  if (problem.rows == 0) return;
  const Schedule schedule = schedule_of(exec, problem);
  if (schedule.mapping == Mapping::teams_per_row)
    launch(exec, kernel_label(function, schedule.mapping), schedule,
           BackwardParts<Problem, GradientType>{problem, task, saved, schedule.parts,
                                                schedule.part_size});
  else
    launch_whole_rows<BackwardRowsOf<Problem, GradientType>::template Kernel,
                      BackwardTiles<Problem, GradientType>>(exec, function, schedule, problem, task,
                                                            saved);
}

template <class Problem, class GradientType>
void run_forward_backward(const typename Problem::ExecutionSpace& exec, const Problem& problem,
                          const ForwardResults<typename Problem::Scalar>& results,
                          const ReducedResults<typename Problem::Scalar>& reduced,
                          const GradientTask<Problem, GradientType>& task,
                          const Workspace<typename Problem::Scalar>& workspace) {
  int league = 0;
  if (problem.rows > 0) {
    const Schedule schedule = schedule_of(exec, problem);
    if (schedule.mapping == Mapping::teams_per_row) {
      sweep_split_rows(exec, "forward_backward", problem, schedule, results, reduced, workspace);
      return run_backward(exec, "forward_backward", problem, task,
                          {results.row_max, results.row_log_sum});
    }
    launch_whole_rows<ForwardBackwardRowsOf<Problem, GradientType>::template Kernel,
                      ForwardBackwardTiles<Problem, GradientType>>(
        exec, "forward_backward", schedule, problem, results, task);
    league = schedule.league;
  }
  if (results.partials)
    reduce_totals(exec, "KokkosXent::reduce_loss", results.partials, league, reduced);
}

}  // namespace KokkosXent::Impl

#endif
