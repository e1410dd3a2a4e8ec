// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KokkosXent_PerfLimits.hpp"

#include <algorithm>

namespace KokkosXent::Perf {
namespace {

Goal share(double target) { return {Figure::share_of_limit, target}; }
Goal time_over_limit(double target) { return {Figure::time_over_limit, target}; }

/// One row for each number of classes.
std::vector<MatrixShape> of_classes(const std::vector<std::int64_t>& numbers) {
  std::vector<MatrixShape> shapes;
  for (const std::int64_t classes : numbers) shapes.push_back({0, classes});
  return shapes;
}

template <class Set>
Case case_with(const Set& set) {
  Case c;
  set(c);
  return c;
}

/// Compared with the same case of another group.
template <class Set>
Case case_beside(const std::string& reference_group, const Set& set) {
  Case c            = case_with(set);
  c.reference_group = reference_group;
  return c;
}

// Targets are ratios to bandwidths measured in the same run. The first shape of a group is the one
// that --quick measures.

std::vector<LimitGroup> make_device_groups() {
  const std::vector<std::string> float_and_bfloat16 = {"float", "bfloat16"};
  const Goal no_target_share                        = {};
  const Goal no_target_time                         = {Figure::time_over_reference, {}};
  const Goal quarter_of_reference                   = {Figure::time_over_reference, 0.25};
  return {
      {"contiguous",
       {"float", "bfloat16", "float16"},
       of_classes({32000, 4096, 8192, 65536, 128256, 151936, 262144}),
       share(0.95),
       share(0.93),
       share(0.85),
       {},
       true},
      {"odd_classes",
       float_and_bfloat16,
       of_classes({50257, 32001, 151643}),
       share(0.90),
       share(0.88),
       share(0.78),
       {},
       true},
      {"double", {"double"}, of_classes({32000, 128256}), share(0.93), share(0.90), share(0.75)},
      {"layout_left",
       float_and_bfloat16,
       {{8192, 32000}},
       share(0.85),
       share(0.85),
       share(0.60),
       case_with([](Case& c) { c.layout = Layout::left; })},
      {"layout_left_unaligned",  // classes start anywhere in a sector of memory
       float_and_bfloat16,
       {{8190, 32000}},
       no_target_share,
       no_target_share,
       no_target_share,
       case_with([](Case& c) { c.layout = Layout::left; })},
      {"padded_rows", float_and_bfloat16, of_classes({32000}), share(0.95), share(0.93),
       share(0.85), case_with([](Case& c) { c.row_padding = 64; })},
      {"short_rows",
       float_and_bfloat16,
       {{1 << 20, 32}, {1 << 20, 128}, {1 << 18, 1000}},
       share(0.80),
       share(0.80),
       share(0.70)},
      {"few_rows",
       float_and_bfloat16,
       {{1, 262144}, {8, 262144}, {64, 262144}},
       time_over_limit(2),
       time_over_limit(2),
       time_over_limit(2)},
      {"probabilities",
       {"float"},
       of_classes({32000}),
       share(0.90),
       share(0.88),
       share(0.75),
       case_with([](Case& c) { c.targets = TargetKind::probabilities; })},
      {"weights_and_smoothing",
       {"bfloat16"},
       of_classes({128256}),
       share(0.90),
       share(0.88),
       share(0.75),
       case_with([](Case& c) {
         c.class_weights   = true;
         c.label_smoothing = 0.1;
       })},
      {"ignored_90",
       {"bfloat16"},
       of_classes({50257}),
       quarter_of_reference,
       no_target_share,
       no_target_share,
       case_beside("odd_classes", [](Case& c) { c.ignored_percent = 90; })},
      {"constant_logits",
       {"bfloat16"},
       of_classes({32000}),
       no_target_time,
       no_target_time,
       no_target_time,
       case_beside("contiguous", [](Case& c) { c.data = LogitsData::constant; })},
      {"ascending_logits",
       {"bfloat16"},
       of_classes({32000}),
       no_target_time,
       no_target_time,
       no_target_time,
       case_beside("contiguous", [](Case& c) { c.data = LogitsData::ascending; })},
  };
}

std::vector<LimitGroup> make_host_groups() {
  const std::vector<std::string> float_alone = {"float"};
  const std::vector<std::string> others      = {"bfloat16", "float16", "double"};
  const Goal one_and_a_half_of_reference     = {Figure::time_over_reference, 1.5};
  return {
      {"contiguous", float_alone, of_classes({32000, 8192, 65536, 128256, 262144}), share(0.80),
       share(0.75), share(0.75)},
      {"contiguous", others, of_classes({32000, 8192, 128256, 262144}), share(0.70), share(0.70),
       share(0.70)},
      {"odd_classes", float_alone, of_classes({50257}), share(0.80), share(0.75), share(0.75)},
      {"odd_classes", others, of_classes({50257}), share(0.70), share(0.70), share(0.70)},
      {"layout_left",
       {"float", "bfloat16", "float16", "double"},
       of_classes({32000}),
       one_and_a_half_of_reference,
       one_and_a_half_of_reference,
       one_and_a_half_of_reference,
       case_beside("contiguous", [](Case& c) { c.layout = Layout::left; })},
      {"one_row",
       float_alone,
       {{1, 1000003}},
       time_over_limit(2),
       time_over_limit(2),
       time_over_limit(2)},
      {"short_rows", float_alone, {{1 << 20, 8}}, share(0.50), share(0.50), share(0.50)},
  };
}

}  // namespace

bool LimitGroup::has_value_type(const std::string& value_type) const {
  return std::find(value_types.begin(), value_types.end(), value_type) != value_types.end();
}

const Goal& LimitGroup::goal(EntryPoint entry_point) const {
  switch (entry_point) {
    case EntryPoint::forward:
      return forward;
    case EntryPoint::backward:
      return backward;
    default:
      return forward_backward;
  }
}

const std::vector<LimitGroup>& device_limit_groups() {
  static const std::vector<LimitGroup> groups = make_device_groups();
  return groups;
}

const std::vector<LimitGroup>& host_limit_groups() {
  static const std::vector<LimitGroup> groups = make_host_groups();
  return groups;
}

}  // namespace KokkosXent::Perf
