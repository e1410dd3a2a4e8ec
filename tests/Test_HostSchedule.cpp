// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>

#include <algorithm>
#include <cstdint>

// How a host's threads share rows, for more of them than tests run with.
namespace KokkosXentTest {
namespace {

using namespace KokkosXent::Impl;

constexpr int value_size = 4;

Shape shape_of(Pass pass, std::int64_t rows, std::int64_t classes, bool adjacent) {
  Shape shape{};
  shape.pass             = pass;
  shape.rows             = rows;
  shape.classes          = classes;
  shape.row_stride       = adjacent ? 1 : classes;
  shape.class_stride     = adjacent ? rows : 1;
  shape.value_size       = value_size;
  shape.adjacent_rows    = Tuning::host_tile_rows;
  shape.run              = 512;
  shape.tiles_have_parts = adjacent;
  return shape;
}

Schedule schedule_of(const Shape& shape, std::int64_t threads) {
  return host_schedule(shape, threads, threads * Tuning::host_teams_per_thread);
}

/// Calls f(rows, classes, threads, schedule) for many shapes of long rows.
template <class F>
void for_each_schedule(Pass pass, bool adjacent, const F& f) {
  for (std::int64_t threads = 1; threads <= 256; ++threads)
    for (const std::int64_t rows :
         {32, 33, 64, 67, 127, 300, 1000, 2097, 2560, 2561, 2592, 2816, 9001, 40000, 1000000})
      for (const std::int64_t classes : {192, 512, 513, 2048, 4095, 4099, 22528, 32000, 600000})
        f(rows, classes, threads, schedule_of(shape_of(pass, rows, classes, adjacent), threads));
}

/// Tiles in parts are no wider than a tile can be, teams have scratch, and parts cover all classes.
TEST(HostSchedule, PartsOfTilesFitTheirArrays) {
  for (const Pass pass : {Pass::forward, Pass::forward_backward})
    for_each_schedule(
        pass, true,
        [](std::int64_t rows, std::int64_t classes, std::int64_t threads,
           const Schedule& schedule) {
          if (schedule.parts == 1) return;
          SCOPED_TRACE(::testing::Message() << rows << " x " << classes << ", " << threads);
          const std::int64_t tiles  = schedule.league / schedule.parts;
          const std::int64_t groups = ceil_div(rows, Tuning::host_group_rows);
          EXPECT_EQ(schedule.mapping, Mapping::columns);
          EXPECT_EQ(tiles * schedule.parts, schedule.league);
          EXPECT_LE(schedule.league, threads);
          EXPECT_LE(tiles, groups);
          EXPECT_LE(ceil_div(groups, tiles) * Tuning::host_group_rows, Tuning::host_adjacent_rows);
          EXPECT_GE(schedule.parts * schedule.part_size, classes);
          EXPECT_LT((schedule.parts - 1) * schedule.part_size, classes);
        });
}

/// With classes and rows enough, no more than a few threads have nothing to do.
TEST(HostSchedule, ForwardTilesUseMostThreads) {
  for_each_schedule(
      Pass::forward, true,
      [](std::int64_t rows, std::int64_t classes, std::int64_t threads, const Schedule& schedule) {
        const std::int64_t parts = std::max<std::int64_t>(1, classes / 4096);
        const std::int64_t most  = ceil_div(rows, Tuning::host_group_rows) * parts;
        EXPECT_GE(schedule.league * 2, std::min(threads, most))
            << rows << " x " << classes << ", " << threads;
      });
}

/// A team that uses scratch is a thread.
TEST(HostSchedule, ForwardBackwardAlongRowsHasATeamForEachThread) {
  for_each_schedule(Pass::forward_backward, false,
                    [](std::int64_t, std::int64_t, std::int64_t threads, const Schedule& schedule) {
                      if (schedule.mapping != Mapping::row_per_team) return;
                      EXPECT_LE(schedule.league, threads);
                      EXPECT_GE(schedule.league, 1);
                    });
}

}  // namespace
}  // namespace KokkosXentTest
