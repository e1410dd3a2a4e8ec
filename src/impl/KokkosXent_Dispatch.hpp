// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_DISPATCH_HPP
#define KOKKOSXENT_IMPL_DISPATCH_HPP

#include <impl/KokkosXent_Backward.hpp>
#include <impl/KokkosXent_Forward.hpp>
#include <impl/KokkosXent_ForwardBackward.hpp>
#include <impl/KokkosXent_HostTile.hpp>
#include <impl/KokkosXent_PackedRows.hpp>
#include <impl/KokkosXent_Parts.hpp>
#include <impl/KokkosXent_Schedule.hpp>
#include <impl/KokkosXent_Tile.hpp>
#include <impl/KokkosXent_Totals.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

namespace KokkosXent::Impl {

/// Memory that a call uses and leaves behind without meaning, but for counters, which are zero
/// between calls. Arrays have max_league elements, that of states max_states.
template <class Scalar>
struct Workspace {
  RowTotals* partial_totals;
  SoftmaxState<Scalar, true>* partial_states;  // also holds states without background
  int* swept_parts;                            // of each row or tile
  int* finished;                               // counts teams
  Scalar* host_scratch;                        // host_scratch_each<Scalar> for each thread
};

inline const char* to_string(Mapping mapping) {
  switch (mapping) {
    case Mapping::rows_per_team:
      return "rows_per_team";
    case Mapping::packed_rows_per_team:
      return "packed_rows_per_team";
    case Mapping::row_per_team:
      return "row_per_team";
    case Mapping::packed_row_per_team:
      return "packed_row_per_team";
    case Mapping::teams_per_row:
      return "teams_per_row";
    case Mapping::columns:
      break;
  }
  return "columns";
}

inline std::string kernel_label(const char* function, Mapping mapping) {
  return std::string("KokkosXent::") + function + "[" + to_string(mapping) + "]";
}

template <int MaxTeam, class ExecutionSpace, class Functor>
void launch(const ExecutionSpace& exec, const std::string& label, const Schedule& schedule,
            const Functor& functor, std::size_t scratch_bytes_per_thread = 0) {
  Kokkos::parallel_for(
      label, make_policy<MaxTeam>(exec, schedule, functor, scratch_bytes_per_thread), functor);
}

template <class Problem, class HostTiles, class Tiles>
using TilesOf = std::conditional_t<Problem::has_host_kernels, HostTiles, Tiles>;

/// The schedule's kernel over whole rows: RowKernel<Mapping>, built from (args..., vector length),
/// or TileKernel, built from args.
template <class Problem, template <Mapping> class RowKernel, class TileKernel, class ExecutionSpace,
          class... Args>
void launch_whole_rows(const ExecutionSpace& exec, const std::string& label,
                       const Schedule& schedule, const Args&... args) {
  constexpr int max_team = Problem::resident_threads;
  const auto tiles       = [&]() {
    launch<Problem::tile_threads>(exec, label, schedule, TileKernel{args...},
                                  TileKernel::scratch_bytes_per_thread);
  };
  if (schedule.mapping == Mapping::columns) {
    tiles();
  } else if (schedule.mapping == Mapping::rows_per_team) {
    if constexpr (runs_on_host<ExecutionSpace>)
      tiles();
    else
      launch<max_team>(exec, label, schedule,
                       RowKernel<Mapping::rows_per_team>{args..., schedule.vector});
  } else {
    launch<max_team>(exec, label, schedule,
                     RowKernel<Mapping::row_per_team>{args..., schedule.vector});
  }
}

/// Launches a kernel of packed rows. in_place gives hints to the cache, which pay in backward, and
/// in forward_backward where a team's states are small.
template <Pass P, GradientPlace Place, class Problem, class GradientType>
void launch_packed_kernel(const typename Problem::ExecutionSpace& exec, const std::string& label,
                          const Schedule& schedule, const Problem& problem,
                          const ForwardResults<typename Problem::Scalar>& results,
                          const GradientTask<Problem, GradientType>& task,
                          const SavedRows<typename Problem::Scalar>& saved) {
  constexpr int team_packs            = P == Pass::forward_backward ? Problem::held_packs
                                        : P == Pass::backward       ? Tuning::written_packs
                                                                    : Problem::stream_packs;
  constexpr bool in_place             = Place == GradientPlace::in_place;
  constexpr bool lanes_gain           = P == Pass::backward;
  constexpr bool team_gains           = lanes_gain || !Problem::is_large;
  constexpr GradientPlace lanes_place = in_place && !lanes_gain ? GradientPlace::packs : Place;
  constexpr GradientPlace team_place  = in_place && !team_gains ? GradientPlace::packs : Place;
  if (schedule.mapping == Mapping::packed_rows_per_team)
    launch<Problem::resident_threads>(
        exec, label, schedule,
        PackedRows<Mapping::rows_per_team, P, lanes_place, Tuning::lane_packs, Problem,
                   GradientType>(problem, results, task, saved, schedule));
  else
    launch<Tuning::packed_team>(
        exec, label, schedule,
        PackedRows<Mapping::row_per_team, P, team_place, team_packs, Problem, GradientType>(
            problem, results, task, saved, schedule));
}

/// True if the schedule's kernel is one of packed rows; then it is launched.
template <Pass P, class Problem, class GradientType>
bool launch_packed_rows(const typename Problem::ExecutionSpace& exec, const std::string& label,
                        const Schedule& schedule, const Problem& problem,
                        const ForwardResults<typename Problem::Scalar>& results,
                        const GradientTask<Problem, GradientType>& task,
                        const SavedRows<typename Problem::Scalar>& saved) {
  if constexpr (!Problem::on_host && Problem::can_pack_rows) {
    if (schedule.mapping != Mapping::packed_rows_per_team &&
        schedule.mapping != Mapping::packed_row_per_team)
      return false;
    if constexpr (sizeof(GradientType) == sizeof(typename Problem::LogitType)) {
      if constexpr (P != Pass::forward &&
                    std::is_same_v<GradientType, typename Problem::LogitType>) {
        if (schedule.gradient_packed &&
            static_cast<const void*>(task.gradient.data) == problem.logits.data) {
          launch_packed_kernel<P, GradientPlace::in_place>(exec, label, schedule, problem, results,
                                                           task, saved);
          return true;
        }
      }
      if (schedule.gradient_packed) {
        launch_packed_kernel<P, GradientPlace::packs>(exec, label, schedule, problem, results, task,
                                                      saved);
        return true;
      }
    }
    // The mapping does not depend on where the gradient is written, so that the results do not.
    if constexpr (P == Pass::forward_backward) {
      launch_packed_kernel<P, GradientPlace::classes>(exec, label, schedule, problem, results, task,
                                                      saved);
      return true;
    }
  }
  return false;
}

/// D of a mean, from the targets alone.
template <class Problem>
void sum_denominators(const typename Problem::ExecutionSpace& exec, const Problem& problem,
                      const Workspace<typename Problem::Scalar>& workspace, double* denominator) {
  using Scalar        = typename Problem::Scalar;
  const auto schedule = small_schedule(exec, problem.rows, Tuning::denominator_rows);
  launch<Tuning::small_team>(
      exec, "KokkosXent::denominator", schedule,
      SumDenominators<typename Problem::ExecutionSpace, Scalar, typename Problem::Targets>{
          problem.targets,
          problem.rows,
          {workspace.partial_totals, workspace.finished, {Reduction::mean, nullptr, denominator}}});
}

template <class Problem>
Division division_of(const Problem& problem, const Schedule& schedule) {
  return {problem.classes, schedule.parts, schedule.part_size};
}

template <class Problem>
void run_forward(const typename Problem::ExecutionSpace& exec, const char* function,
                 const Schedule& schedule, const Problem& problem,
                 const ForwardResults<typename Problem::Scalar>& results,
                 const Workspace<typename Problem::Scalar>& workspace) {
  using LogitType         = typename Problem::LogitType;
  constexpr int max_team  = Problem::resident_threads;
  const std::string label = kernel_label(function, schedule.mapping);
  auto* const states      = reinterpret_cast<typename Problem::State*>(workspace.partial_states);
  if constexpr (!Problem::on_host) {
    if (schedule.mapping == Mapping::columns && schedule.parts > 1) {
      using Kernel = ForwardTileParts<Problem>;
      launch<Problem::tile_threads>(
          exec, label, schedule,
          Kernel{problem, division_of(problem, schedule), results, states, workspace.swept_parts},
          Kernel::scratch_bytes_per_thread);
      return;
    }
  }
  if constexpr (Problem::has_host_kernels) {
    if (schedule.mapping == Mapping::columns && problem.classes >= Tuning::host_short_row) {
      launch<1>(exec, label, schedule,
                ForwardAdjacentTiles<Problem>{problem, division_of(problem, schedule), results,
                                              workspace.swept_parts, workspace.host_scratch});
      return;
    }
  }
  if (schedule.mapping == Mapping::teams_per_row)
    launch<max_team>(exec, label, schedule,
                     ForwardParts<Problem>{problem, division_of(problem, schedule), results, states,
                                           workspace.swept_parts});
  else if (!launch_packed_rows<Pass::forward>(exec, label, schedule, problem, results,
                                              GradientTask<Problem, LogitType>{}, {}))
    launch_whole_rows<Problem, ForwardRowsOf<Problem>::template Kernel,
                      TilesOf<Problem, ForwardHostTiles<Problem>, ForwardTiles<Problem>>>(
        exec, label, schedule, problem, results);
}

template <class Problem, class GradientType>
void run_backward(const typename Problem::ExecutionSpace& exec, const char* function,
                  const Schedule& schedule, const Problem& problem,
                  const GradientTask<Problem, GradientType>& task,
                  const SavedRows<typename Problem::Scalar>& saved) {
  constexpr int max_team = Problem::resident_threads;
  if (problem.rows == 0) return;
  const std::string label = kernel_label(function, schedule.mapping);
  if constexpr (!Problem::on_host) {
    if (schedule.mapping == Mapping::columns && schedule.parts > 1) {
      using Kernel = BackwardTiles<Problem, GradientType>;
      launch<Problem::tile_threads>(exec, label, schedule,
                                    Kernel{problem, task, saved, division_of(problem, schedule)},
                                    Kernel::scratch_bytes_per_thread);
      return;
    }
  }
  if (schedule.mapping == Mapping::teams_per_row)
    launch<max_team>(
        exec, label, schedule,
        BackwardParts<Problem, GradientType>{problem, division_of(problem, schedule), task, saved});
  else if (!launch_packed_rows<Pass::backward>(exec, label, schedule, problem,
                                               ForwardResults<typename Problem::Scalar>{}, task,
                                               saved))
    launch_whole_rows<Problem, BackwardRowsOf<Problem, GradientType>::template Kernel,
                      TilesOf<Problem, BackwardHostTiles<Problem, GradientType>,
                              BackwardTiles<Problem, GradientType>>>(exec, label, schedule, problem,
                                                                     task, saved);
}

/// denominator: where a mean's D, which the gradient needs, is to be put; null for other
/// reductions.
template <class Problem, class GradientType>
void run_forward_backward(const typename Problem::ExecutionSpace& exec, const Schedule& schedule,
                          const Problem& problem, ForwardResults<typename Problem::Scalar> results,
                          const GradientTask<Problem, GradientType>& task, double* denominator,
                          const Workspace<typename Problem::Scalar>& workspace) {
  using Scalar         = typename Problem::Scalar;
  const char* function = "forward_backward";
  if (schedule.parts > 1 || schedule.passes_apart) {
    results.reduction.results.denominator = denominator;
    run_forward(exec, function, schedule, problem, results, workspace);
    run_backward(exec, function, schedule, problem, task,
                 SavedRows<Scalar>{results.row_max, results.row_log_sum});
    return;
  }
  if (denominator) sum_denominators(exec, problem, workspace, denominator);
  const std::string label = kernel_label(function, schedule.mapping);
  if constexpr (Problem::has_host_kernels) {
    if (schedule.mapping == Mapping::row_per_team)
      launch<1>(exec, label, schedule,
                ForwardBackwardKeptRows<Problem, GradientType>{problem, results, task,
                                                               workspace.host_scratch});
    else
      launch<1>(exec, label, schedule,
                ForwardBackwardHostTiles<Problem, GradientType>{problem, results, task});
  } else if (!launch_packed_rows<Pass::forward_backward>(exec, label, schedule, problem, results,
                                                         task, SavedRows<Scalar>{})) {
    launch_whole_rows<Problem, ForwardBackwardRowsOf<Problem, GradientType>::template Kernel,
                      ForwardBackwardTiles<Problem, GradientType>>(exec, label, schedule, problem,
                                                                   results, task);
  }
}

/// What the schedule is to know of a pass over the problem's rows. gradient: null for the forward
/// pass.
template <class Problem, class GradientType>
Schedule schedule_of(const typename Problem::ExecutionSpace& exec, const Problem& problem,
                     Pass pass, const Matrix<GradientType>* gradient) {
  using RowWalk      = typename Problem::RowWalk;
  const auto& logits = problem.logits;
  if (problem.rows == 0)  // a launch that puts the totals of nothing
    return {Mapping::row_per_team, 1, Tuning::row_team_medium, 1, 1, problem.classes};
  const auto past_pack = [](const void* data, std::int64_t elements, std::size_t size) {
    return (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(elements) * size) %
           16;
  };
  constexpr std::size_t size = sizeof(typename Problem::LogitType);
  const auto first_past      = past_pack(logits.data, 0, size);
  const auto second_past     = past_pack(logits.data, logits.row_stride, size);
  const bool gradient_packed =
      !gradient || (sizeof(GradientType) == size && gradient->class_stride == 1 &&
                    past_pack(gradient->data, 0, size) == first_past &&
                    past_pack(gradient->data, gradient->row_stride, size) == second_past);
  // Some class must be aligned for a pack: types may be aligned to less than their size.
  const bool packed = Problem::can_pack_rows && logits.class_stride == 1 &&
                      problem.targets.weights_are_adjacent() && first_past % size == 0 &&
                      (pass != Pass::backward || gradient_packed);
  const bool packs_are_all =
      first_past == 0 && second_past == 0 && problem.classes % RowWalk::run == 0;
  Schedule schedule = make_schedule(
      exec, Shape{pass, problem.rows, problem.classes, logits.row_stride, logits.class_stride,
                  static_cast<int>(size), Tile<Problem>::lanes, RowWalk::run,
                  Problem::resident_threads, Problem::tile_threads, Problem::held_packs,
                  problem.classes * static_cast<std::int64_t>(size + Problem::Targets::class_bytes),
                  packed, packs_are_all, Problem::has_host_kernels && logits.row_stride == 1});
  schedule.gradient_packed = gradient_packed;
  return schedule;
}

}  // namespace KokkosXent::Impl

#endif
