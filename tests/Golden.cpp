// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/Golden.hpp"

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/SplitMix.hpp"

namespace KokkosXentTest {
namespace {

using nlohmann::json;

json read(const std::string& file) {
  const char* carried    = std::getenv("KOKKOSXENT_TEST_DATA_DIR");
  const std::string path = std::string(carried ? carried : KOKKOSXENT_TEST_DATA_DIR) + "/" + file;
  std::ifstream stream(path);
  if (!stream) {
    throw std::runtime_error(
        "cannot read " + path +
        " (the environment variable KOKKOSXENT_TEST_DATA_DIR names its folder)");
  }
  return json::parse(stream);
}

double number(const json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::stod(text);
}

/// A number, a list, or a list of lists, one after the other.
std::vector<double> numbers(const json& value) {
  if (!value.is_array()) return {number(value)};
  std::vector<double> flat;
  for (const auto& item : value) {
    const auto part = numbers(item);
    flat.insert(flat.end(), part.begin(), part.end());
  }
  return flat;
}

Reduction reduction_of(const std::string& name) {
  if (name == "none") return Reduction::none;
  return name == "mean" ? Reduction::mean : Reduction::sum;
}

Problem problem_of(const json& value) {
  Problem problem;
  problem.rows    = value["rows"];
  problem.classes = value["classes"];
  problem.logits  = numbers(value["logits"]);
  if (value["target_kind"] == "indices") {
    problem.indices = value["targets"].get<std::vector<std::int64_t>>();
  } else {
    problem.target_kind   = TargetKind::probabilities;
    problem.probabilities = numbers(value["targets"]);
  }
  if (!value["weights"].is_null()) problem.weights = numbers(value["weights"]);
  problem.options.ignore_index    = value["ignore_index"];
  problem.options.label_smoothing = value["label_smoothing"];
  problem.options.reduction       = reduction_of(value["reduction"]);
  problem.grad_output             = numbers(value["grad_output"]);
  return problem;
}

/// logits(r, c) = ((mix(r * classes + c) >> 40) / 2^24) * 16 - 8, as stated in the file.
Problem large_rows_problem(const json& value) {
  Problem problem;
  problem.rows    = value["rows"];
  problem.classes = value["classes"];
  for (std::int64_t i = 0; i < problem.rows * problem.classes; ++i) {
    problem.logits.push_back(unit_uniform(splitmix64(static_cast<std::uint64_t>(i))) * 16.0 - 8.0);
  }
  for (std::int64_t r = 0; r < problem.rows; ++r) {
    const auto bits = splitmix64((std::uint64_t{1} << 40) + static_cast<std::uint64_t>(r));
    problem.indices.push_back(
        static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(problem.classes)));
  }
  if (problem.indices != value["targets"].get<std::vector<std::int64_t>>()) {
    throw std::runtime_error("the targets of pytorch_large_rows.json do not follow its formula");
  }
  problem.options.reduction       = Reduction::none;
  problem.options.label_smoothing = value["label_smoothing"];
  return problem;
}

struct ExactOptions {
  const char* name;
  bool probabilities, ignore, weights, smoothing;
};

constexpr ExactOptions exact_options[] = {
    {"c01_plain", false, false, false, false},
    {"c02_ignore", false, true, false, false},
    {"c03_weight", false, false, true, false},
    {"c04_weight_ignore", false, true, true, false},
    {"c05_smooth", false, false, false, true},
    {"c06_smooth_ignore", false, true, false, true},
    {"c07_smooth_weight", false, false, true, true},
    {"c08_smooth_weight_ignore", false, true, true, true},
    {"c09_prob", true, false, false, false},
    {"c10_prob_weight", true, false, true, false},
    {"c11_prob_smooth", true, false, false, true},
    {"c12_prob_smooth_weight", true, false, true, true},
};

Problem exact_problem(const json& inputs, const ExactOptions& options) {
  Problem problem;
  problem.rows    = 3;
  problem.classes = 4;
  problem.logits  = numbers(inputs["X"]);
  if (options.probabilities) {
    problem.target_kind   = TargetKind::probabilities;
    problem.probabilities = numbers(inputs["Q"]);
  } else {
    problem.indices = inputs[options.ignore ? "Y_ignore" : "Y"].get<std::vector<std::int64_t>>();
  }
  problem.options.ignore_index = inputs["ignore_index"];
  if (options.weights) problem.weights = numbers(inputs["w"]);
  if (options.smoothing) problem.options.label_smoothing = inputs["label_smoothing"];
  return problem;
}

GoldenCase exact_case(Problem problem, const json& inputs, const ExactOptions& options,
                      const json& answers, Reduction reduction) {
  const std::string reduced = name_of(reduction);
  const bool is_none        = reduction == Reduction::none;
  problem.options.reduction = reduction;
  if (is_none) problem.grad_output = numbers(inputs["g"]);
  return {std::string(options.name) + "_" + reduced, std::move(problem),
          numbers(answers[is_none ? "total_row" : reduced]),
          numbers(answers[is_none ? "dX_none_g" : "dX_" + reduced]), numbers(answers["lse"])};
}

/// A problem of index or probability rows with known losses.
GoldenCase anchor(const std::string& name, const json& x, Problem targets,
                  std::vector<double> loss) {
  const bool is_matrix      = x[0].is_array();
  targets.rows              = is_matrix ? static_cast<std::int64_t>(x.size()) : 1;
  targets.logits            = numbers(x);
  targets.classes           = static_cast<std::int64_t>(targets.logits.size()) / targets.rows;
  targets.options.reduction = Reduction::none;
  return {name, std::move(targets), std::move(loss), {}, {}};
}

Problem with_indices(std::vector<std::int64_t> indices, double label_smoothing = 0.0) {
  Problem problem;
  problem.indices                 = std::move(indices);
  problem.options.label_smoothing = label_smoothing;
  return problem;
}

Problem with_probabilities(const json& q) {
  Problem problem;
  problem.target_kind   = TargetKind::probabilities;
  problem.probabilities = numbers(q);
  return problem;
}

}  // namespace

std::vector<GoldenCase> pytorch_cases() {
  std::vector<GoldenCase> cases;
  const json file = read("pytorch_cases.json");
  for (const auto& value : file["cases"]) {
    if (number(value["z_loss"]) != 0.0 || number(value["softcap"]) != 0.0) continue;
    cases.push_back({value["name"], problem_of(value), numbers(value["loss"]),
                     numbers(value["grad_logits"]), numbers(value["lse"])});
  }
  return cases;
}

std::vector<LargeRowsCase> pytorch_large_rows() {
  std::vector<LargeRowsCase> cases;
  const json file = read("pytorch_large_rows.json");
  for (const auto& value : file["cases"]) {
    cases.push_back({large_rows_problem(value), numbers(value["loss"]), numbers(value["lse"]),
                     numbers(value["grad_abs_sum"]), numbers(value["grad_at_target"]),
                     numbers(value["grad_first"]), numbers(value["grad_last"])});
  }
  return cases;
}

std::vector<GoldenCase> exact_cases() {
  std::vector<GoldenCase> cases;
  const json file    = read("exact_cases.json");
  const json& inputs = file["inputs"];
  for (const auto& options : exact_options) {
    for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      cases.push_back(exact_case(exact_problem(inputs, options), inputs, options,
                                 file[options.name], reduction));
    }
  }
  return cases;
}

std::vector<ClosedForms> closed_forms() {
  std::vector<ClosedForms> forms;
  const json file = read("exact_cases.json");
  for (const auto& [classes, value] : file["b01_closed_form_large_vocab"].items()) {
    forms.push_back({std::stoll(classes), value["const_loss"], value["const_grad_other"],
                     value["ramp_lse"], value["ramp_loss_y0"], value["ramp_loss_y1024"],
                     value["ramp_p0"], value["two_level_lse(x0=8,rest 0)"],
                     value["two_level_loss_y0"]});
  }
  return forms;
}

std::vector<GoldenCase> exact_anchors() {
  const json file = read("exact_cases.json");
  std::vector<GoldenCase> cases;

  const json& e01 = file["e01_confident_x=[20,0]_y0"];
  cases.push_back(
      anchor("e01_confident", json{20.0, 0.0}, with_indices({0}), numbers(e01["loss"])));
  cases.back().gradient = numbers(e01["grad"]);

  const json& e02 = file["e02_first_tile_-inf"];
  cases.push_back(
      anchor("e02_first_tile_minus_inf", e02["x"], with_indices({7}), {number(e02["lse"]) - 2.0}));
  cases.back().log_sum_exp = numbers(e02["lse"]);

  const json& e03 = file["e03_big_equal_logits_1e8"];
  cases.push_back(
      anchor("e03_big_equal_logits", e03["x"], with_indices({0}), numbers(e03["loss"])));

  const json& e04 = file["e04_gap_200"];
  cases.push_back(anchor("e04_gap_200", e04["x"], with_indices({e04["y"]}), numbers(e04["loss"])));

  const json& e05 = file["e05_smoothing_underflow"];
  cases.push_back(anchor("e05_smoothing_underflow", e05["x"], with_indices({e05["y"]}, e05["eps"]),
                         numbers(e05["loss"])));

  const json& e06 = file["e06_third_party_anchors"];
  cases.push_back(anchor("e06_tf", e06["tf_doc"]["x"], with_probabilities(e06["tf_doc"]["q"]),
                         numbers(e06["tf_doc"]["ours"])));
  for (const char* source : {"optax_doc", "mindspore_doc"}) {
    const json& value = e06[source];
    cases.push_back(anchor("e06_" + std::string(source), value["x"],
                           with_indices(value["y"].get<std::vector<std::int64_t>>()),
                           numbers(value["ours"])));
  }
  return cases;
}

}  // namespace KokkosXentTest
