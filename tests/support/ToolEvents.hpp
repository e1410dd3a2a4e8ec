// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_TOOL_EVENTS_HPP
#define KOKKOSXENT_TEST_TOOL_EVENTS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace KokkosXentTest {

enum class EventKind { kernel, fence, allocation, deep_copy, region };

/// Something that Kokkos reported to its Tools interface. The device id names the instance that a
/// kernel or fence is for; it is 0 for other kinds.
struct Event {
  EventKind kind;
  std::string label;
  std::uint32_t device_id = 0;

  bool has_prefix(std::string_view prefix) const { return label.starts_with(prefix); }
};

inline std::ostream& operator<<(std::ostream& out, const Event& event) {
  constexpr const char* kinds[] = {"kernel", "fence", "allocation", "deep copy", "region"};
  return out << kinds[static_cast<int>(event.kind)] << " \"" << event.label << "\" on device id "
             << event.device_id;
}

/// Collects the events of its lifetime. One at a time.
class EventRecorder {
 public:
  EventRecorder() : m_previous(Kokkos::Tools::Experimental::get_callbacks()) {
    namespace Tools = Kokkos::Tools::Experimental;
    recorded().clear();
    Tools::set_begin_parallel_for_callback(begin_kernel);
    Tools::set_begin_parallel_reduce_callback(begin_kernel);
    Tools::set_begin_parallel_scan_callback(begin_kernel);
    Tools::set_begin_fence_callback(begin_fence);
    Tools::set_allocate_data_callback(allocate);
    Tools::set_begin_deep_copy_callback(begin_deep_copy);
    Tools::set_push_region_callback(push_region);
  }
  ~EventRecorder() { Kokkos::Tools::Experimental::set_callbacks(m_previous); }
  EventRecorder(const EventRecorder&)            = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  const std::vector<Event>& events() const { return recorded(); }

  std::vector<Event> events(EventKind kind) const {
    std::vector<Event> found;
    for (const Event& event : recorded())
      if (event.kind == kind) found.push_back(event);
    return found;
  }

 private:
  // Callbacks are plain function pointers, so what they fill is static.
  static std::vector<Event>& recorded() {
    static std::vector<Event> events;
    return events;
  }
  static void begin_kernel(const char* label, std::uint32_t device_id, std::uint64_t*) {
    recorded().push_back({EventKind::kernel, label, device_id});
  }
  static void begin_fence(const char* label, std::uint32_t device_id, std::uint64_t*) {
    // The Tools interface itself fences before each callback.
    if (std::string_view(label).ends_with("Kokkos Profile Tool Fence")) return;
    recorded().push_back({EventKind::fence, label, device_id});
  }
  static void allocate(Kokkos::Tools::SpaceHandle, const char* label, const void*,
                       std::uint64_t bytes) {
    // Kokkos 4 reports a team policy without level 1 scratch as an allocation of nothing.
    if (bytes == 0) return;
    recorded().push_back({EventKind::allocation, label});
  }
  static void begin_deep_copy(Kokkos::Tools::SpaceHandle, const char* to, const void*,
                              Kokkos::Tools::SpaceHandle, const char* from, const void*,
                              std::uint64_t) {
    // A copy from a View to a variable of the host has no label for where it goes.
    const bool to_variable = std::string_view(to) == "(none)";
    recorded().push_back({EventKind::deep_copy, to_variable ? from : to});
  }
  static void push_region(const char* label) { recorded().push_back({EventKind::region, label}); }

  Kokkos::Tools::Experimental::EventSet m_previous;
};

}  // namespace KokkosXentTest

#endif
