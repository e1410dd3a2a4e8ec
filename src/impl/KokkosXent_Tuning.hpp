// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_IMPL_TUNING_HPP
#define KOKKOSXENT_IMPL_TUNING_HPP

namespace KokkosXent::Impl {

/// All tuning: what shapes go to which mapping, and in teams of what size.
struct Tuning {
  // Devices
  static constexpr int resident_threads       = 640;    // a multiprocessor; sets registers a thread
  static constexpr int resident_threads_large = 512;    // the same for kernels of larger states
  static constexpr int tile_width             = 32;     // threads along adjacent rows: one warp
  static constexpr int tile_min_rows          = 8;      // fewer rows: their classes are strided
  static constexpr int tile_threads           = 768;    // of a multiprocessor: one team
  static constexpr int tile_threads_large     = 512;    // the same for kernels of larger states
  static constexpr int tile_overhead_classes  = 1024;   // of a tile, in the time of a team's rest
  static constexpr int tile_min_part          = 1024;   // classes
  static constexpr int states_each            = 256;    // of parts of tiles, a multiprocessor
  static constexpr int short_row_bytes        = 2048;   // rows up to this: rows_per_team
  static constexpr int short_rows_team        = 128;    // threads
  static constexpr int medium_row_bytes       = 16384;  // rows up to this: row_team_medium
  static constexpr int row_team_medium        = 128;
  static constexpr int row_team_long          = 256;
  static constexpr int lane_packs           = 8;   // 16-byte packs in registers, up to a warp a row
  static constexpr int stream_packs         = 12;  // the same for a team a row
  static constexpr int held_packs           = 16;  // the same where a row is visited twice
  static constexpr int written_packs        = 8;   // the same where it is written only
  static constexpr int packs_large          = 8;   // stream_packs, held_packs of larger states
  static constexpr int smaller_team_percent = 92;  // of the time: less, and a smaller team is taken
  static constexpr int packed_team          = 512;    // threads of a multiprocessor, team a row
  static constexpr int one_warp_bytes       = 16384;  // rows of forward, up to this: one warp a row
  static constexpr int shared_team_bytes =
      8192;  // rows visited once, up to this: in a team with others
  static constexpr int row_overhead_packs = 14;    // packs visited in the time of a row's rest
  static constexpr int writing_lanes      = 4;     // of short rows, to write whole sectors
  static constexpr int cache_percent      = 60;    // of the last-level cache, for second visits
  static constexpr int split_min_classes  = 8192;  // shorter rows are not split
  static constexpr int split_min_part     = 4096;  // classes
  static constexpr int split_team         = 128;
  static constexpr int smallest_team      = 64;    // leagues: concurrency / smallest_team at most
  static constexpr int small_team         = 512;   // threads of the teams of small kernels
  static constexpr int denominator_rows   = 8192;  // targets that a team adds up
  // Host
  static constexpr int host_chunk_vectors      = 16;    // SIMD vectors of a row taken in at once
  static constexpr int host_long_chunk_vectors = 32;    // without a background and conversions
  static constexpr int host_prefetch_bytes     = 4096;  // ahead: the hardware's own ends at a page
  static constexpr int host_tile_rows          = 128;   // several SIMD vectors and cache lines
  static constexpr int host_adjacent_rows      = 2560;  // of LayoutLeft: pages of a class
  static constexpr int host_wide_tile_classes  = 512;   // fewer: tiles of half as many such rows
  static constexpr int host_tile_min_part      = 512;   // classes, where teams share a tile's
  static constexpr int host_tile_forward_part  = 2048;  // the same of forward
  static constexpr int host_tile_forward_rows  = 256;   // of tiles whose classes need no sharing
  static constexpr int host_revisited_bytes   = 4 << 20;  // of a tile that a core's caches may hold
  static constexpr int host_scratch_bytes     = 1 << 19;  // a thread: less than its caches
  static constexpr int host_held_bytes        = 24576;    // of logits: most of a level-1 cache
  static constexpr int host_group_rows        = 32;       // of a tile: several SIMD vectors
  static constexpr int host_tile_depth        = 8;        // classes of a tile taken in at once
  static constexpr int host_raise_classes     = 512;  // of a tile, in which maxima still rise often
  static constexpr int host_mapped_run        = 16;   // classes of a short row taken at once
  static constexpr int host_converted_run     = 32;   // the same where they are converted
  static constexpr int host_converted_min     = 64;   // shorter such rows are held instead
  static constexpr int host_tile_min_rows     = 32;   // fewer rows: row_per_team
  static constexpr int host_short_row         = 192;  // rows shorter than this: rows_per_team
  static constexpr int host_split_min_classes = 16384;  // shorter rows are not split
  static constexpr int host_teams_per_thread  = 8;
};

}  // namespace KokkosXent::Impl

#endif
