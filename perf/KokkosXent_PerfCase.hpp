// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_CASE_HPP
#define KOKKOSXENT_PERF_CASE_HPP

#include <cstddef>
#include <cstdint>
#include <string>

namespace KokkosXent::Perf {

enum class EntryPoint { forward, backward, forward_backward };
enum class Design { kokkosxent, stored_log_softmax, naive_serial };

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

/// What one benchmark measures. bytes: sizeof of the logits' type and of the type they are
/// computed in.
struct Case {
  std::string family;
  std::string space;
  Design design          = Design::kokkosxent;
  EntryPoint entry_point = EntryPoint::forward;
  bool in_place          = false;
  std::string value_type;
  std::string layout        = "right";
  std::int64_t rows         = 0;
  std::int64_t classes      = 0;
  std::int64_t bytes        = 0;
  std::int64_t scalar_bytes = 0;

  std::int64_t logits_bytes() const { return rows * classes * bytes; }

  /// One read of the logits, and one write of the gradient where there is one.
  std::int64_t must_move_bytes() const {
    return entry_point == EntryPoint::forward ? logits_bytes() : 2 * logits_bytes();
  }

  /// must_move_bytes(), and the write or the read of the stored log-softmax where there is one.
  /// A second read of the logits within one call is taken to hit a cache.
  std::int64_t design_moves_bytes() const {
    if (design != Design::stored_log_softmax) return must_move_bytes();
    const std::int64_t one_way = logits_bytes() + rows * classes * scalar_bytes;
    return entry_point == EntryPoint::forward_backward ? 2 * one_way : one_way;
  }
};

/// Bandwidths of one execution space in bytes per second, measured in this run.
struct Bandwidth {
  double copy     = 0;  // counted as one read and one write
  double read     = 0;
  double in_place = 0;  // counted as one read and one write

  /// What no implementation of the case exceeds.
  double limit(const Case& c) const {
    if (c.entry_point == EntryPoint::forward) return read;
    return c.in_place ? in_place : copy;
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
