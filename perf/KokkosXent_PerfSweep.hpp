// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_SWEEP_HPP
#define KOKKOSXENT_PERF_SWEEP_HPP

#include "KokkosXent_PerfCase.hpp"
#include "KokkosXent_PerfConfig.hpp"
#include "KokkosXent_PerfCrossEntropy.hpp"
#include "KokkosXent_PerfLimits.hpp"
#include "KokkosXent_PerfNaive.hpp"
#include "KokkosXent_PerfPool.hpp"
#include "KokkosXent_PerfRegistry.hpp"
#include "KokkosXent_PerfSettings.hpp"
#include "KokkosXent_PerfStored.hpp"

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace KokkosXent::Perf {

/// One execution space, ready to be measured.
template <class ExecutionSpace>
struct SpaceSession {
  ExecutionSpace exec;
  bool selected        = false;
  bool is_reference    = false;  // Serial, beside other spaces
  bool runs_naive_loop = false;
  PoolPlan plan{};
  std::shared_ptr<LogitsPool<ExecutionSpace>> pool;
  std::shared_ptr<Bandwidth> bandwidth;
};

template <class... Spaces>
using Sessions    = std::tuple<SpaceSession<Spaces>...>;
using AllSessions = ListOfSpaces<Sessions>;

template <class T>
constexpr const char* value_type_name() {
  if constexpr (std::is_same_v<T, double>) return "double";
  if constexpr (std::is_same_v<T, float>) return "float";
  if constexpr (std::is_same_v<T, float16>) return "float16";
  if constexpr (std::is_same_v<T, bfloat16>) return "bfloat16";
}

/// Without --full, float and bfloat16 stand for 32- and 16-bit types.
template <class T>
std::vector<std::int64_t> vocabulary_sizes(Extent extent) {
  constexpr bool stands_for_others = std::is_same_v<T, float> || std::is_same_v<T, bfloat16>;
  if (extent == Extent::quick)
    return stands_for_others ? std::vector<std::int64_t>{512, 32000, 128256}
                             : std::vector<std::int64_t>{};
  if (extent == Extent::full || stands_for_others)
    return {128, 512, 1024, 4096, 8192, 32000, 50257, 65536, 128256, 151936, 262144};
  return {512, 8192, 32000, 128256};
}

/// Shapes at which an implementation may fall off a cliff.
inline std::vector<MatrixShape> edge_shapes(Extent extent) {
  std::vector<MatrixShape> shapes = {{1 << 20, 2}, {1 << 20, 8}, {1 << 16, 32}, {1, 262144},
                                     {8, 262144},  {1, 1000003}, {1024, 4096}};
  if (extent == Extent::full)
    shapes.insert(shapes.end(), {{1 << 20, 32}, {1 << 18, 128}, {64, 262144}});
  return shapes;
}

/// Registers the cases of one value type in one space.
template <class ExecutionSpace, class T>
class CaseList {
 public:
  using Scalar  = typename ValueTypeTraits<T>::arithmetic_type;
  using Session = SpaceSession<ExecutionSpace>;

  CaseList(const Session& session, const Settings& settings, Registry& registry)
      : m_session(session), m_settings(settings), m_registry(registry) {}

  void add_vocabulary() {
    const Windows windows =
        m_session.plan.template windows_of_bytes<T>(m_session.plan.window_bytes);
    for (const std::int64_t classes : vocabulary_sizes<T>(m_settings.extent)) {
      if (classes > windows.period) continue;
      const Case c = new_case({}, "vocabulary", {windows.period / classes, classes});
      add_entry_points(c, windows, Design::kokkosxent);
      if (!m_session.is_reference) add_entry_points(c, windows, Design::stored_log_softmax);
    }
  }

  void add_shape(const MatrixShape& shape, Layout layout) {
    const Windows windows = m_session.plan.template windows_of<T>(shape.rows * shape.classes);
    Case c                = new_case({}, "shapes", shape);
    c.layout              = layout;
    add_entry_points(c, windows, Design::kokkosxent);
    if (m_session.runs_naive_loop) add_entry_points(c, windows, Design::naive_serial);
  }

  void add_limits() {
    for (const LimitGroup& group :
         is_device<ExecutionSpace> ? device_limit_groups() : host_limit_groups()) {
      if (!group.has_value_type(value_type_name<T>())) continue;
      auto shapes = group.shapes;
      if (m_settings.extent == Extent::quick) shapes.resize(1);
      for (const MatrixShape& shape : shapes) add_limit(group, shape);
    }
  }

 private:
  static constexpr EntryPoint entry_points[3] = {EntryPoint::forward, EntryPoint::backward,
                                                 EntryPoint::forward_backward};

  void add_limit(const LimitGroup& group, const MatrixShape& shape) {
    const PoolPlan& plan        = m_session.plan;
    const std::int64_t at_most  = rows_that_fit(group, shape.classes);
    const bool as_many_as_fit   = shape.rows == 0;
    const bool rows_are_the_aim = group.goal(EntryPoint::forward).figure == Figure::time_over_limit;
    Case c                      = new_case(group.like, "limits", shape);
    if (as_many_as_fit) c.rows = at_most;
    if (!rows_are_the_aim) c.rows = std::min(c.rows, at_most);
    if (c.rows == 0) return;
    c.group         = group.name;
    c.ignored_rows  = count_ignored(c.rows, c.ignored_percent);
    Windows windows = plan.template windows_of<T>(c.elements());
    if (as_many_as_fit) windows = plan.template windows_of_bytes<T>(plan.limits_bytes);
    const std::int64_t batch = plan.template long_batch<T>(windows);
    for (const EntryPoint entry_point : entry_points) {
      c.goal = group.goal(entry_point);
      add_case(c, windows, entry_point, entry_point != EntryPoint::forward, batch);
      if (group.has_stored_beside && entry_point != EntryPoint::backward)
        add_case(of_stored_design(c), windows, entry_point, false, batch);
    }
  }

  std::int64_t rows_that_fit(const LimitGroup& group, std::int64_t classes) const {
    const auto row_bytes =
        (classes + group.like.row_padding) * static_cast<std::int64_t>(sizeof(T));
    return m_session.plan.limits_bytes / row_bytes;
  }

  /// Nothing is asked of it.
  static Case of_stored_design(Case c) {
    c.design = Design::stored_log_softmax;
    c.goal   = {};
    return c;
  }

  static Case new_case(Case c, const std::string& family, const MatrixShape& shape) {
    c.family       = family;
    c.space        = ExecutionSpace::name();
    c.value_type   = value_type_name<T>();
    c.rows         = shape.rows;
    c.classes      = shape.classes;
    c.bytes        = sizeof(T);
    c.scalar_bytes = sizeof(Scalar);
    return c;
  }

  void add_entry_points(Case c, const Windows& windows, Design design) {
    c.design = design;
    if (design == Design::naive_serial) c.space = "one host thread";
    const bool can_be_in_place = design != Design::stored_log_softmax;
    const std::int64_t batch   = std::min(m_session.plan.batch, windows.count);
    add_case(c, windows, EntryPoint::forward, false, batch);
    add_case(c, windows, EntryPoint::backward, can_be_in_place, batch);
    if (can_be_in_place && m_settings.extent == Extent::full)
      add_case(c, windows, EntryPoint::backward, false, batch);
    add_case(c, windows, EntryPoint::forward_backward, can_be_in_place, batch);
  }

  void add_case(Case c, const Windows& windows, EntryPoint entry_point, bool in_place,
                std::int64_t batch) {
    c.entry_point = entry_point;
    c.in_place    = in_place;
    m_registry.add(c, m_settings.repetitions_of(c.family), m_session.bandwidth,
                   [session = m_session, c, windows, batch]() {
                     return make_runner(session, c, windows, batch);
                   });
  }

  static std::unique_ptr<Runner> make_runner(const Session& session, const Case& c,
                                             const Windows& windows, std::int64_t batch) {
    if (c.design == Design::stored_log_softmax)
      return std::make_unique<StoredRunner<ExecutionSpace, T>>(session.exec, c, session.pool,
                                                               windows, batch);
    if constexpr (std::is_same_v<T, float> && !is_device<ExecutionSpace>) {
      if (c.design == Design::naive_serial)
        return std::make_unique<NaiveRunner<ExecutionSpace, T>>(session.exec, c, session.pool,
                                                                windows);
    }
    return std::make_unique<CrossEntropyRunner<ExecutionSpace, T>>(session.exec, c, session.pool,
                                                                   windows, batch);
  }

  const Session& m_session;
  const Settings& m_settings;
  Registry& m_registry;
};

template <class T, class ExecutionSpace>
void register_space(const SpaceSession<ExecutionSpace>& session, const Settings& settings,
                    Registry& registry) {
  if (!session.selected) return;
  CaseList<ExecutionSpace, T> cases(session, settings, registry);
  if (settings.selects_family("vocabulary")) cases.add_vocabulary();
  if (settings.selects_family("limits")) cases.add_limits();
  if constexpr (std::is_same_v<T, float>) {
    if (!settings.selects_family("shapes")) return;
    for (const MatrixShape& shape : edge_shapes(settings.extent))
      cases.add_shape(shape, Layout::right);
    cases.add_shape({1024, 4096}, Layout::left);
  }
}

/// Instantiated in a source of its own for each value type, which compile at the same time.
template <class T>
void register_value_type(const AllSessions& sessions, const Settings& settings,
                         Registry& registry) {
  std::apply([&](const auto&... session) { (register_space<T>(session, settings, registry), ...); },
             sessions);
}

extern template void register_value_type<float>(const AllSessions&, const Settings&, Registry&);
extern template void register_value_type<bfloat16>(const AllSessions&, const Settings&, Registry&);
extern template void register_value_type<float16>(const AllSessions&, const Settings&, Registry&);
extern template void register_value_type<double>(const AllSessions&, const Settings&, Registry&);

}  // namespace KokkosXent::Perf

#endif
