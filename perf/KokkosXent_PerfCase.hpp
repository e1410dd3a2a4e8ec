// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_CASE_HPP
#define KOKKOSXENT_PERF_CASE_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace KokkosXent::Perf {

enum class EntryPoint { forward, backward, forward_backward };
enum class Design { kokkosxent, stored_log_softmax, naive_serial };
enum class Layout { right, left };
enum class TargetKind { indices, probabilities };
enum class LogitsData { random, constant, ascending };

/// What is held against a case's target: its share of the limit, of which at least as much is
/// asked; or its time over the limit's or over that of another case, of which at most as much is.
enum class Figure { share_of_limit, time_over_limit, time_over_reference };

constexpr const char* to_string(EntryPoint entry_point) {
  switch (entry_point) {
    case EntryPoint::forward:
      return "forward";
    case EntryPoint::backward:
      return "backward";
    default:
      return "forward_backward";
  }
}

constexpr const char* to_string(Design design) {
  switch (design) {
    case Design::kokkosxent:
      return "kokkosxent";
    case Design::stored_log_softmax:
      return "stored_log_softmax";
    default:
      return "naive_serial";
  }
}

constexpr const char* to_string(Layout layout) {
  return layout == Layout::right ? "right" : "left";
}

constexpr const char* to_string(TargetKind targets) {
  return targets == TargetKind::indices ? "indices" : "probabilities";
}

constexpr const char* to_string(LogitsData data) {
  switch (data) {
    case LogitsData::random:
      return "random";
    case LogitsData::constant:
      return "constant";
    default:
      return "ascending";
  }
}

constexpr const char* to_string(Figure figure) {
  switch (figure) {
    case Figure::share_of_limit:
      return "share_of_limit";
    case Figure::time_over_limit:
      return "time_over_limit";
    default:
      return "time_over_reference";
  }
}

/// What is asked of a case of the limits family.
struct Goal {
  Figure figure = Figure::share_of_limit;
  std::optional<double> target;
};

/// What one benchmark measures.
struct Case {
  std::string family;
  std::string space;
  Design design          = Design::kokkosxent;
  EntryPoint entry_point = EntryPoint::forward;
  bool in_place          = false;
  std::string value_type;
  Layout layout             = Layout::right;
  std::int64_t rows         = 0;
  std::int64_t classes      = 0;
  std::int64_t row_padding  = 0;  // elements between a row's end and the next row's begin
  std::int64_t bytes        = 0;  // sizeof of the logits' type
  std::int64_t scalar_bytes = 0;  // sizeof of the type they are computed in
  TargetKind targets        = TargetKind::indices;
  int ignored_percent       = 0;
  std::int64_t ignored_rows = 0;
  bool class_weights        = false;
  double label_smoothing    = 0;
  LogitsData data           = LogitsData::random;

  // Of the limits family
  std::string group;            // what it has in common with others of one goal
  std::string reference_group;  // where the case whose time this one's is compared with is
  Goal goal;

  std::int64_t row_stride() const { return layout == Layout::right ? classes + row_padding : 1; }
  std::int64_t class_stride() const { return layout == Layout::right ? 1 : rows; }
  std::int64_t elements() const { return rows * (classes + row_padding); }

  /// What must move once, whatever the implementation: the logits of the rows that count, the
  /// gradient of all rows, probabilities, int64 class indices (8 bytes a row), and the row
  /// statistics (two Scalars a row), which forward and forward_backward write and backward reads.
  /// Class weights are left out: they are one row among many.
  std::int64_t must_move_bytes() const {
    const std::int64_t row_bytes = classes * bytes;
    std::int64_t moved           = (rows - ignored_rows) * row_bytes + 2 * rows * scalar_bytes;
    if (entry_point != EntryPoint::forward) moved += rows * row_bytes;
    return moved + rows * target_bytes();
  }

  /// must_move_bytes(), but with the stored log-softmax, written and read, in place of the row
  /// statistics where it is stored. A second read of the logits within one call is taken to hit a
  /// cache.
  std::int64_t design_moves_bytes() const {
    if (design != Design::stored_log_softmax) return must_move_bytes();
    const std::int64_t one_way = rows * (classes * (bytes + scalar_bytes) + target_bytes());
    return entry_point == EntryPoint::forward_backward ? 2 * one_way : one_way;
  }

 private:
  /// Of a row: an int64, or probabilities in the type that logits are computed in.
  std::int64_t target_bytes() const {
    return targets == TargetKind::indices ? 8 : classes * scalar_bytes;
  }
};

/// Bandwidths of one execution space in bytes per second, and its time of an empty launch,
/// measured in this run.
struct Bandwidth {
  double copy     = 0;  // counted as one read and one write
  double read     = 0;
  double in_place = 0;  // counted as one read and one write

  double launch_seconds = 0;  // within a long stream of launches

  /// What no implementation of the case exceeds.
  double limit(const Case& c) const {
    if (c.entry_point == EntryPoint::forward) return read;
    return c.in_place ? in_place : copy;
  }

  /// The time that the case takes at the limit. Where the goal is a time, the data may be so few
  /// that two launches take longer.
  double limit_seconds(const Case& c) const {
    const double of_bytes = static_cast<double>(c.must_move_bytes()) / limit(c);
    return c.goal.figure == Figure::time_over_limit ? std::max(of_bytes, 2 * launch_seconds)
                                                    : of_bytes;
  }
};

/// Runs a case over and over. Calls walk through windows of the logits pool that together exceed
/// the last-level cache, so that no call finds its logits there.
class Runner {
 public:
  /// batch: calls between two fences.
  Runner(std::int64_t windows, std::int64_t batch)
      : m_windows(windows), m_batch(batch), m_next(windows) {}
  Runner(const Runner&)            = delete;
  Runner& operator=(const Runner&) = delete;
  virtual ~Runner()                = default;

  std::int64_t batch() const { return m_batch; }

  /// Before each run_batch(); not timed.
  void prepare() {
    if (m_next + m_batch <= m_windows) return;
    m_next = 0;
    restore();
  }
  void run_batch() {
    for (std::int64_t call = 0; call < m_batch; ++call) run_window(m_next++);
  }

  virtual void fence() const              = 0;
  virtual std::size_t saved_bytes() const = 0;

  /// Empty, or how the results differ from those of CrossEntropy.
  virtual std::string disagreement() { return {}; }

 private:
  /// Undoes what in-place calls did to the logits.
  virtual void restore() {}
  virtual void run_window(std::int64_t window) = 0;

  std::int64_t m_windows;
  std::int64_t m_batch;
  std::int64_t m_next;
};

}  // namespace KokkosXent::Perf

#endif
