// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_PERF_SWEEP_HPP
#define KOKKOSXENT_PERF_SWEEP_HPP

#include "KokkosXent_PerfCase.hpp"
#include "KokkosXent_PerfConfig.hpp"
#include "KokkosXent_PerfCrossEntropy.hpp"
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

struct MatrixShape {
  std::int64_t rows;
  std::int64_t classes;
};

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
    const Windows windows = m_session.plan.template windows_of_bytes<T>();
    for (const std::int64_t classes : vocabulary_sizes<T>(m_settings.extent)) {
      if (classes > windows.period) continue;
      Case c = new_case("vocabulary", {windows.period / classes, classes});
      add_entry_points<Kokkos::LayoutRight>(c, windows, Design::kokkosxent);
      if (!m_session.is_reference)
        add_entry_points<Kokkos::LayoutRight>(c, windows, Design::stored_log_softmax);
    }
  }

  template <class Layout>
  void add_shape(const MatrixShape& shape) {
    const Windows windows = m_session.plan.template windows_of<T>(shape.rows * shape.classes);
    Case c                = new_case("shapes", shape);
    c.layout              = std::is_same_v<Layout, Kokkos::LayoutRight> ? "right" : "left";
    add_entry_points<Layout>(c, windows, Design::kokkosxent);
    if (m_session.runs_naive_loop) add_entry_points<Layout>(c, windows, Design::naive_serial);
  }

 private:
  Case new_case(const std::string& family, const MatrixShape& shape) const {
    Case c;
    c.family       = family;
    c.space        = ExecutionSpace::name();
    c.value_type   = value_type_name<T>();
    c.rows         = shape.rows;
    c.classes      = shape.classes;
    c.bytes        = sizeof(T);
    c.scalar_bytes = sizeof(Scalar);
    return c;
  }

  template <class Layout>
  void add_entry_points(Case c, const Windows& windows, Design design) {
    c.design = design;
    if (design == Design::naive_serial) c.space = "one host thread";
    const bool can_be_in_place = design != Design::stored_log_softmax;
    add_case<Layout>(c, windows, EntryPoint::forward, false);
    add_case<Layout>(c, windows, EntryPoint::backward, can_be_in_place);
    if (can_be_in_place && m_settings.extent == Extent::full)
      add_case<Layout>(c, windows, EntryPoint::backward, false);
    add_case<Layout>(c, windows, EntryPoint::forward_backward, can_be_in_place);
  }

  template <class Layout>
  void add_case(Case c, const Windows& windows, EntryPoint entry_point, bool in_place) {
    c.entry_point            = entry_point;
    c.in_place               = in_place;
    const std::int64_t batch = std::min(m_session.plan.batch, windows.count);
    m_registry.add(c, m_session.bandwidth, [session = m_session, c, windows, batch]() {
      return make_runner<Layout>(session, c, windows, batch);
    });
  }

  template <class Layout>
  static std::unique_ptr<Runner> make_runner(const Session& session, const Case& c,
                                             const Windows& windows, std::int64_t batch) {
    if constexpr (std::is_same_v<Layout, Kokkos::LayoutRight>) {
      if (c.design == Design::stored_log_softmax)
        return std::make_unique<StoredRunner<ExecutionSpace, T>>(session.exec, c, session.pool,
                                                                 windows, batch);
    }
    if constexpr (!is_device<ExecutionSpace>) {
      if (c.design == Design::naive_serial)
        return std::make_unique<NaiveRunner<ExecutionSpace, T, Layout>>(session.exec, c,
                                                                        session.pool, windows);
    }
    return std::make_unique<CrossEntropyRunner<ExecutionSpace, T, Layout>>(
        session.exec, c, session.pool, windows, batch);
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
  if constexpr (std::is_same_v<T, float>) {
    if (!settings.selects_family("shapes")) return;
    for (const MatrixShape& shape : edge_shapes(settings.extent))
      cases.template add_shape<Kokkos::LayoutRight>(shape);
    cases.template add_shape<Kokkos::LayoutLeft>({1024, 4096});
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
