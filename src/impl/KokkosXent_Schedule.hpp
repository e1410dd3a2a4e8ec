// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_SCHEDULE_HPP
#define KOKKOSXENT_IMPL_SCHEDULE_HPP

#include <impl/KokkosXent_Row.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>

namespace KokkosXent::Impl {

enum class Mapping {
  rows_per_team,  // several short rows a team
  row_per_team,
  teams_per_row,  // one long row over several teams, merged by a second small kernel
  columns         // threads run along rows that are adjacent in memory (LayoutLeft)
};

/// All tuning: what shapes go to which mapping, and in teams of what size.
struct Tuning {
  // Devices
  static constexpr int tile_rows              = 32;     // adjacent rows a tile: one warp's width
  static constexpr int tile_min_rows          = 8;      // fewer rows: their classes are strided
  static constexpr int tile_slices            = 8;      // threads that share a row of a tile
  static constexpr int tile_slices_few        = 32;     // the same where there are few tiles
  static constexpr int short_row_bytes        = 2048;   // rows up to this: rows_per_team
  static constexpr int short_rows_team        = 128;    // threads
  static constexpr int medium_row_bytes       = 16384;  // rows up to this: row_team_medium
  static constexpr int row_team_medium        = 128;
  static constexpr int row_team_long          = 256;
  static constexpr int split_min_classes      = 8192;  // shorter rows are not split
  static constexpr int split_classes_per_part = 4096;
  static constexpr int smallest_team          = 64;    // bounds the league: every team resident
  static constexpr int single_team            = 512;   // threads of the one team of small kernels
  static constexpr int merge_team             = 32;    // threads of the team that merges parts
  static constexpr int merge_vector           = 32;    // vector lanes of each
  static constexpr int denominator_rows       = 8192;  // targets that a team adds up
  // Host
  static constexpr int host_short_row         = 64;     // rows shorter than this: rows_per_team
  static constexpr int host_split_min_classes = 16384;  // shorter rows are not split
  static constexpr int host_teams_per_thread  = 8;
};

/// How the rows of one call map to teams. Plain data.
struct Schedule {
  Mapping mapping;
  int league;
  int team;
  int vector;
  int parts;               // teams that share a row; 1 but for teams_per_row
  std::int64_t part_size;  // classes each of them takes
};

/// What Schedule knows of a call.
struct Shape {
  std::int64_t rows;
  std::int64_t classes;
  std::int64_t row_stride;
  std::int64_t class_stride;
  int value_size;
  int lanes;  // Walk::lanes
  int run;    // Walk::run

  bool rows_are_adjacent() const { return class_stride != 1 && row_stride < class_stride; }
};

/// Rows (or tiles of rows) begin, begin + step, ... below end.
struct StridedRange {
  std::int64_t begin;
  std::int64_t step;
  std::int64_t end;
};

/// The items of `count` that worker takes: a block on the host, where neighbours share cache and
/// memory bank; interleaved on a device, where neighbours run at the same time.
template <class ExecutionSpace>
KOKKOS_INLINE_FUNCTION StridedRange items_of(std::int64_t worker, std::int64_t workers,
                                             std::int64_t count) {
  if constexpr (runs_on_host<ExecutionSpace>) {
    const std::int64_t block = count / workers;
    const std::int64_t extra = count % workers;
    const std::int64_t begin = worker * block + (worker < extra ? worker : extra);
    return {begin, 1, begin + block + (worker < extra ? 1 : 0)};
  } else {
    return {worker, workers, count};
  }
}

inline int ceil_to_power_of_two(std::int64_t n, int most) {
  int power = 1;
  while (power < n && power < most) power *= 2;
  return power;
}

/// The largest league of any schedule on exec: the number of partial results a call may need.
template <class ExecutionSpace>
int max_league(const ExecutionSpace& exec) {
  if constexpr (runs_on_host<ExecutionSpace>)
    return exec.concurrency() * Tuning::host_teams_per_thread;
  else
    return std::max(1, exec.concurrency() / Tuning::smallest_team);
}

inline Schedule split_rows(const Shape& shape, std::int64_t teams, int team,
                           std::int64_t classes_per_part) {
  const std::int64_t wanted = std::min((teams + shape.rows - 1) / shape.rows,
                                       (shape.classes + classes_per_part - 1) / classes_per_part);
  // Parts start on whole runs so that all parts of a row are aligned alike.
  const std::int64_t run       = shape.run;
  const std::int64_t part_size = ((shape.classes + wanted - 1) / wanted + run - 1) / run * run;
  const std::int64_t parts     = (shape.classes + part_size - 1) / part_size;
  return {Mapping::teams_per_row,
          static_cast<int>(shape.rows * parts),
          team,
          1,
          static_cast<int>(parts),
          part_size};
}

inline Schedule host_schedule(const Shape& shape, std::int64_t threads, std::int64_t most_teams) {
  const auto whole_rows = [&](Mapping mapping, std::int64_t items) {
    return Schedule{mapping, static_cast<int>(std::min(items, most_teams)), 1, 1, 1, shape.classes};
  };
  const std::int64_t tiles = (shape.rows + shape.lanes - 1) / shape.lanes;
  if (shape.rows_are_adjacent() && shape.rows >= shape.lanes)
    return whole_rows(Mapping::columns, tiles);
  if (shape.classes < Tuning::host_short_row && shape.rows >= shape.lanes)
    return whole_rows(Mapping::rows_per_team, tiles);
  if (shape.rows < threads && shape.classes >= Tuning::host_split_min_classes)
    return split_rows(shape, threads, 1, Tuning::host_split_min_classes / 2);
  return whole_rows(Mapping::row_per_team, shape.rows);
}

inline Schedule device_schedule(const Shape& shape, std::int64_t threads, std::int64_t most_teams) {
  const auto whole_rows = [&](Mapping mapping, std::int64_t items, int team, int vector) {
    return Schedule{mapping,      static_cast<int>(std::min(items, most_teams)), team, vector, 1,
                    shape.classes};
  };
  if (shape.rows_are_adjacent() && shape.rows >= Tuning::tile_min_rows) {
    const std::int64_t tiles = (shape.rows + Tuning::tile_rows - 1) / Tuning::tile_rows;
    const bool few           = tiles * Tuning::tile_rows * Tuning::tile_slices * 4 < threads;
    const int slices         = few ? Tuning::tile_slices_few : Tuning::tile_slices;
    return whole_rows(Mapping::columns, tiles, Tuning::tile_rows * slices, 1);
  }
  const std::int64_t row_bytes = shape.classes * shape.value_size;
  if (row_bytes <= Tuning::short_row_bytes) {
    const int vector = ceil_to_power_of_two((shape.classes + shape.run - 1) / shape.run, 32);
    const int team   = Tuning::short_rows_team / vector;
    return whole_rows(Mapping::rows_per_team, (shape.rows + team - 1) / team, team, vector);
  }
  const int team =
      row_bytes <= Tuning::medium_row_bytes ? Tuning::row_team_medium : Tuning::row_team_long;
  const std::int64_t resident_teams = std::min(threads / team, most_teams);
  if (shape.classes >= Tuning::split_min_classes && shape.rows * 2 <= resident_teams)
    return split_rows(shape, resident_teams / 2, team, Tuning::split_classes_per_part);
  return whole_rows(Mapping::row_per_team, shape.rows, team, 1);
}

/// Needs shape.rows > 0 and shape.classes > 0.
template <class ExecutionSpace>
Schedule make_schedule(const ExecutionSpace& exec, const Shape& shape) {
  if constexpr (runs_on_host<ExecutionSpace>)
    return host_schedule(shape, exec.concurrency(), max_league(exec));
  else
    return device_schedule(shape, exec.concurrency(), max_league(exec));
}

/// Kernels are passed by value, so that a launch never waits for an earlier one.
template <class ExecutionSpace>
using SchedulePolicy =
    Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Experimental::WorkItemProperty::HintLightWeight_t>;

/// The policy of a schedule. The team shrinks by powers of two to what the kernel's registers
/// allow.
template <class ExecutionSpace, class Functor>
auto make_policy(const ExecutionSpace& exec, const Schedule& schedule, const Functor& functor,
                 std::size_t scratch_bytes_per_thread = 0) {
  using Policy = SchedulePolicy<ExecutionSpace>;
  if constexpr (runs_on_host<ExecutionSpace>) {
    return Policy(exec, schedule.league, 1, 1);
  } else {
    const int largest = Policy(exec, schedule.league, 1, schedule.vector)
                            .team_size_max(functor, Kokkos::ParallelForTag());
    int team = schedule.team;
    while (team > largest) team /= 2;
    Policy policy(exec, schedule.league, team, schedule.vector);
    return policy.set_scratch_size(
        0, Kokkos::PerTeam(static_cast<int>(scratch_bytes_per_thread) * team));
  }
}

}  // namespace KokkosXent::Impl

#endif
