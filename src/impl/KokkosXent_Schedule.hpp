// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_SCHEDULE_HPP
#define KOKKOSXENT_IMPL_SCHEDULE_HPP

#include <impl/KokkosXent_Device.hpp>
#include <impl/KokkosXent_Row.hpp>
#include <impl/KokkosXent_Tuning.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace KokkosXent::Impl {

enum class Mapping {
  rows_per_team,         // several short rows a team
  packed_rows_per_team,  // the same, streaming through registers
  row_per_team,
  packed_row_per_team,
  teams_per_row,  // a long row over several teams
  columns         // threads run along rows that are adjacent in memory (LayoutLeft)
};

/// How the rows of one call map to teams. Plain data.
struct Schedule {
  Mapping mapping;
  int league;
  int team;
  int vector;
  int parts;                     // teams that share a row; 1 but for teams_per_row, columns
  std::int64_t part_size;        // classes each of them takes
  bool packs_are_all   = false;  // Shape
  bool gradient_packed = false;  // packs of the logits are packs of the gradient in every row
  bool passes_apart    = false;  // forward_backward: one launch after the other
};

/// What a call does with a row.
enum class Pass { forward, backward, forward_backward };

/// What Schedule knows of a call.
struct Shape {
  Pass pass;
  std::int64_t rows;
  std::int64_t classes;
  std::int64_t row_stride;
  std::int64_t class_stride;
  int value_size;
  int adjacent_rows;           // Tile::lanes
  int run;                     // Walk::run
  int resident_threads;        // of a multiprocessor
  int tile_threads;            // the same where threads run along rows
  int held_packs;              // of a row that a thread holds between two visits
  std::int64_t visited_bytes;  // of a row's operands that forward_backward visits twice
  bool packed;                 // the rows can stream through registers
  bool packs_are_all;          // no class of any row is outside of them
  bool tiles_have_parts;       // AdjacentRowsTile takes the rows, side by side in memory

  bool rows_are_adjacent() const { return class_stride != 1 && row_stride < class_stride; }
  std::int64_t row_bytes() const { return classes * value_size; }
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

KOKKOS_INLINE_FUNCTION std::int64_t ceil_div(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
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

/// The most states of parts of rows that any schedule on exec has between teams.
template <class ExecutionSpace>
std::int64_t max_states(const ExecutionSpace& exec) {
  if constexpr (runs_on_host<ExecutionSpace>)
    return max_league(exec);
  else
    return std::max<std::int64_t>(max_league(exec),
                                  device_of(exec).multiprocessors * Tuning::states_each);
}

/// What each thread of a host has for a call; a team there is a thread, and schedules that use it
/// have no more teams.
template <class Scalar>
inline constexpr std::int64_t host_scratch_each = Tuning::host_scratch_bytes /
                                                  static_cast<std::int64_t>(sizeof(Scalar));

/// Items, rows or tiles of rows, in about wanted_parts parts each: one team for each.
inline Schedule in_parts(Mapping mapping, const Shape& shape, std::int64_t items,
                         std::int64_t wanted_parts, int team) {
  // Parts start on whole runs so that all parts of a row are aligned alike.
  const std::int64_t run = shape.run;
  const std::int64_t part_size =
      ((shape.classes + wanted_parts - 1) / wanted_parts + run - 1) / run * run;
  const std::int64_t parts = (shape.classes + part_size - 1) / part_size;
  return {mapping, static_cast<int>(items * parts), team, 1, static_cast<int>(parts), part_size};
}

/// Rows in about most_parts parts each, or fewer, so that there are at most most_teams.
inline Schedule split_rows(const Shape& shape, std::int64_t most_parts, int team,
                           std::int64_t most_teams) {
  return in_parts(Mapping::teams_per_row, shape, shape.rows,
                  std::max<std::int64_t>(1, std::min(most_parts, most_teams / shape.rows)), team);
}

/// Tiles of adjacent rows on a host for a forward pass: as many as threads, or fewer and wider ones
/// that are in parts, since memory is slow in narrow ones. A part costs what a tile does, and
/// maxima rise at the start of each, so it is not to be short. Of all numbers of tiles that give
/// the same number of threads work, the largest is taken whose tiles are wide.
inline Schedule host_tiles_in_parts(const Shape& shape, std::int64_t threads) {
  const std::int64_t groups = ceil_div(shape.rows, Tuning::host_group_rows);
  const std::int64_t most_parts =
      std::max<std::int64_t>(1, shape.classes / Tuning::host_tile_forward_part);
  const std::int64_t fewest_tiles = ceil_div(shape.rows, Tuning::host_adjacent_rows);
  std::int64_t best_tiles         = 0;
  std::int64_t best_parts         = 0;
  for (std::int64_t tiles = std::min(threads, groups); tiles >= fewest_tiles; --tiles) {
    const std::int64_t parts = std::min(threads / tiles, most_parts);
    const bool is_wide       = shape.rows >= best_tiles * Tuning::host_tile_forward_rows;
    if (tiles * parts < best_tiles * best_parts) continue;
    if (tiles * parts == best_tiles * best_parts && is_wide) continue;
    best_tiles = tiles;
    best_parts = parts;
  }
  return in_parts(Mapping::columns, shape, best_tiles, best_parts, 1);
}

inline Schedule host_schedule(const Shape& shape, std::int64_t threads, std::int64_t most_teams) {
  const auto whole_rows = [&](Mapping mapping, std::int64_t items) {
    return Schedule{mapping, static_cast<int>(std::min(items, most_teams)), 1, 1, 1, shape.classes};
  };
  const std::int64_t tiles = ceil_div(shape.rows, shape.adjacent_rows);
  if (shape.rows_are_adjacent() && shape.rows >= Tuning::host_tile_min_rows) {
    // Equally many tiles for all threads, as wide as they may be.
    const std::int64_t rows_at_a_time = threads * Tuning::host_adjacent_rows;
    const std::int64_t rounds         = ceil_div(shape.rows, rows_at_a_time);
    Schedule schedule = whole_rows(Mapping::columns, std::min(rounds * threads, tiles));
    if (shape.classes < Tuning::host_short_row) return schedule;
    // A backward pass goes along wider tiles than a forward pass, since what its teams share costs
    // them less. If the caches hold nothing for it, or threads would have no tile, it is better
    // launched by itself.
    const std::int64_t parts = ceil_div(shape.classes, Tuning::host_tile_min_part);
    if (shape.pass == Pass::backward)
      schedule.league = static_cast<int>(std::min({threads, tiles * parts, most_teams}));
    if (!shape.tiles_have_parts || rounds > 1) return schedule;
    schedule.passes_apart =
        shape.pass == Pass::forward_backward && parts > 1 &&
        (schedule.league < threads ||
         shape.rows / schedule.league * shape.row_bytes() > Tuning::host_revisited_bytes);
    if (shape.pass != Pass::forward && !schedule.passes_apart) return schedule;
    Schedule in_parts     = host_tiles_in_parts(shape, threads);
    in_parts.passes_apart = schedule.passes_apart;
    return in_parts;
  }
  if (shape.classes < Tuning::host_short_row && shape.rows >= Tuning::host_tile_min_rows)
    return whole_rows(Mapping::rows_per_team, tiles);
  if (shape.rows < threads && shape.classes >= Tuning::host_split_min_classes) {
    const std::int64_t smallest_part = Tuning::host_split_min_classes / 2;
    return split_rows(shape,
                      std::min((threads + shape.rows - 1) / shape.rows,
                               (shape.classes + smallest_part - 1) / smallest_part),
                      1, most_teams);
  }
  // forward_backward may use a thread's scratch.
  return whole_rows(Mapping::row_per_team, shape.pass == Pass::forward_backward
                                               ? std::min(shape.rows, threads)
                                               : shape.rows);
}

/// The smallest team with which the rows that a device works on at a time fit its cache, so that
/// they are still there for their second visit.
inline int team_for_cache(const Shape& shape, const Device& device, int resident_threads) {
  int team = warp_lanes;
  if (device.last_level_cache == 0) return team;
  while (2 * team <= resident_threads &&
         device.multiprocessors * (resident_threads / team) * shape.visited_bytes * 100 >
             device.last_level_cache * Tuning::cache_percent)
    team *= 2;
  return team;
}

/// A schedule for packed rows, of which a multiprocessor has several in its registers: groups that
/// take equally many rows. Long rows that are visited once go to the largest teams, since memory is
/// fastest with few places to read or write at a time, unless smaller ones save much of the time: a
/// row costs a thread the packs it visits, and what its reductions cost. False where rows are too
/// few or too long.
inline bool packed_rows(const Shape& shape, const Device& device, Schedule& schedule) {
  const std::int64_t packs = (shape.classes + shape.run - 1) / shape.run;
  // RowPacks counts packs in int, and its teams are whole warps.
  if (packs > std::numeric_limits<int>::max() / 2 || device.most_lanes < warp_lanes) return false;
  const bool held       = shape.pass == Pass::forward_backward;
  const auto packs_each = [&](int lanes) { return (packs + lanes - 1) / lanes; };
  const auto groups     = [&](int lanes, int resident_threads) {
    return std::int64_t(device.multiprocessors) * (resident_threads / lanes);
  };
  const auto balanced = [&](std::int64_t most_groups) {
    const std::int64_t rounds = (shape.rows + most_groups - 1) / most_groups;
    return (shape.rows + rounds - 1) / rounds;
  };
  schedule.parts         = 1;
  schedule.part_size     = shape.classes;
  schedule.packs_are_all = shape.packs_are_all;
  // Each row to so many lanes of a warp, or to a team.
  const auto give_to_lanes = [&](int lanes) {
    schedule.mapping = Mapping::packed_rows_per_team;
    schedule.vector  = lanes;
    schedule.team    = Tuning::short_rows_team / lanes;
    schedule.league  = static_cast<int>(
        (balanced(groups(lanes, shape.resident_threads)) + schedule.team - 1) / schedule.team);
    return true;
  };
  const auto give_to_team = [&](int team) {
    schedule.mapping = Mapping::packed_row_per_team;
    schedule.vector  = 1;
    schedule.team    = team;
    schedule.league  = static_cast<int>(balanced(groups(team, Tuning::packed_team)));
    return true;
  };

  if (packs <= Tuning::lane_packs * warp_lanes) {
    // Lanes that write are to fill whole sectors of memory together.
    int lanes = shape.packs_are_all ? 1 : 2 * shape.run;  // as many as a row's edges, or more
    while (packs_each(lanes) > Tuning::lane_packs) lanes *= 2;
    if (shape.pass != Pass::forward)
      while (lanes < Tuning::writing_lanes && packs_each(lanes) > Tuning::writing_lanes) lanes *= 2;
    return give_to_lanes(lanes);
  }
  if (shape.rows < device.multiprocessors) return false;
  if (held) {
    // Two teams a multiprocessor, or more: while one reduces, another's loads are on their way.
    int team = warp_lanes;
    while (team < Tuning::packed_team / 2 && packs_each(team) > shape.held_packs)
      team += warp_lanes;
    if (packs_each(team) > shape.held_packs)
      team = std::max(team, team_for_cache(shape, device, Tuning::packed_team));
    return give_to_team(team);
  }
  if (shape.row_bytes() <= Tuning::shared_team_bytes) return give_to_lanes(warp_lanes);
  const bool one_warp = shape.pass == Pass::forward && shape.row_bytes() <= Tuning::one_warp_bytes;
  const int row_overhead = shape.pass == Pass::forward ? Tuning::row_overhead_packs : 0;
  const auto cost        = [&](int team) {  // the time of all rows, in packs that a thread visits
    const std::int64_t at_a_time = groups(team, Tuning::packed_team);
    return (shape.rows + at_a_time - 1) / at_a_time * (packs_each(team) + row_overhead);
  };
  int team = one_warp ? warp_lanes : Tuning::packed_team;
  if (shape.pass == Pass::backward)
    while (packs_each(team) < Tuning::written_packs) team /= 2;
  for (int smaller = team / 2; smaller >= 2 * warp_lanes; smaller /= 2)
    if (cost(smaller) * 100 < cost(team) * Tuning::smaller_team_percent) team = smaller;
  return give_to_team(team);
}

/// Tiles of adjacent rows, of which a multiprocessor works on one at a time: in the parts with
/// which all are done first. A part costs its classes and what a team spends besides, twice that
/// where states meet in memory.
inline Schedule tile_schedule(const Shape& shape, const Device& device, std::int64_t most_teams,
                              std::int64_t most_states) {
  const std::int64_t tile_rows = Tuning::tile_width * shape.adjacent_rows;
  const std::int64_t tiles     = (shape.rows + tile_rows - 1) / tile_rows;
  const auto cost              = [&](std::int64_t parts) {
    const std::int64_t rounds =
        (tiles * parts + device.multiprocessors - 1) / device.multiprocessors;
    const std::int64_t overhead = Tuning::tile_overhead_classes * (parts > 1 ? 2 : 1);
    return rounds * ((shape.classes + parts - 1) / parts + overhead);
  };
  const std::int64_t most_parts = std::min(
      {shape.classes / Tuning::tile_min_part, most_teams / tiles, most_states / shape.rows});
  std::int64_t best = 1;
  // Of all numbers of parts that take as many rounds, the largest costs least.
  for (std::int64_t rounds = 1, parts = 0; parts < most_parts; ++rounds) {
    parts = std::min(most_parts, rounds * device.multiprocessors / tiles);
    if (parts > 1 && cost(parts) < cost(best)) best = parts;
  }
  if (best > 1) return in_parts(Mapping::columns, shape, tiles, best, shape.tile_threads);
  return {Mapping::columns, static_cast<int>(std::min(tiles, most_teams)), shape.tile_threads, 1, 1,
          shape.classes};
}

inline Schedule device_schedule(const Shape& shape, const Device& device, std::int64_t most_teams,
                                std::int64_t most_states) {
  const auto whole_rows = [&](Mapping mapping, std::int64_t items, int team, int vector) {
    return Schedule{mapping,      static_cast<int>(std::min(items, most_teams)), team, vector, 1,
                    shape.classes};
  };
  const std::int64_t threads = std::int64_t(device.multiprocessors) * shape.resident_threads;
  if (shape.rows_are_adjacent() && shape.rows >= Tuning::tile_min_rows)
    return tile_schedule(shape, device, most_teams, most_states);
  Schedule schedule{};
  if (shape.packed && packed_rows(shape, device, schedule)) {
    schedule.league = static_cast<int>(std::min<std::int64_t>(schedule.league, most_teams));
    return schedule;
  }

  const std::int64_t resident = threads / Tuning::split_team;
  if (shape.classes >= Tuning::split_min_classes && shape.rows * 2 <= resident)
    return split_rows(shape,
                      std::min(resident / shape.rows, (shape.classes + Tuning::split_min_part - 1) /
                                                          Tuning::split_min_part),
                      Tuning::split_team, most_teams);
  if (shape.row_bytes() <= Tuning::short_row_bytes) {
    const int vector =
        ceil_to_power_of_two((shape.classes + 3) / 4, std::min(warp_lanes, device.most_lanes));
    const int team = Tuning::short_rows_team / vector;
    return whole_rows(Mapping::rows_per_team, (shape.rows + team - 1) / team, team, vector);
  }
  int team = shape.row_bytes() <= Tuning::medium_row_bytes ? Tuning::row_team_medium
                                                           : Tuning::row_team_long;
  if (shape.pass == Pass::forward_backward)
    team = std::max(team, team_for_cache(shape, device, shape.resident_threads));
  return whole_rows(Mapping::row_per_team, shape.rows, team, 1);
}

/// Needs shape.rows > 0 and shape.classes > 0.
template <class ExecutionSpace>
Schedule make_schedule(const ExecutionSpace& exec, const Shape& shape) {
  if constexpr (runs_on_host<ExecutionSpace>)
    return host_schedule(shape, exec.concurrency(), max_league(exec));
  else
    return device_schedule(shape, device_of(exec), max_league(exec), max_states(exec));
}

/// Kernels are passed by value, so that a launch never waits for an earlier one. MaxTeam: threads
/// of the largest team; the compiler gives a thread the registers that one such team leaves it.
template <class ExecutionSpace, int MaxTeam>
using SchedulePolicy =
    Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<MaxTeam, 1>,
                       Kokkos::Experimental::WorkItemProperty::HintLightWeight_t>;

/// Team scratch in which the warps of a team merge their states.
inline constexpr int merge_scratch_bytes = 2048;

/// A smaller team: about half, of whole warps as long as it has any.
inline int smaller_team(int team) {
  return team > warp_lanes ? std::max(team / 2 / warp_lanes, 1) * warp_lanes : team / 2;
}

/// The policy of a schedule. The team shrinks to what the kernel's registers allow.
template <int MaxTeam, class ExecutionSpace, class Functor>
auto make_policy(const ExecutionSpace& exec, const Schedule& schedule, const Functor& functor,
                 std::size_t scratch_bytes_per_thread = 0) {
  using Policy = SchedulePolicy<ExecutionSpace, MaxTeam>;
  if constexpr (runs_on_host<ExecutionSpace>) {
    return Policy(exec, schedule.league, 1, 1);
  } else {
    const int largest = Policy(exec, schedule.league, 1, schedule.vector)
                            .team_size_max(functor, Kokkos::ParallelForTag());
    int team = schedule.team;
    while (team > largest) team = smaller_team(team);
    Policy policy(exec, schedule.league, team, schedule.vector);
    return policy.set_scratch_size(
        0,
        Kokkos::PerTeam(merge_scratch_bytes + static_cast<int>(scratch_bytes_per_thread) * team));
  }
}

}  // namespace KokkosXent::Impl

#endif
