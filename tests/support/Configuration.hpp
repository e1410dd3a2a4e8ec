// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_CONFIGURATION_HPP
#define KOKKOSXENT_TEST_CONFIGURATION_HPP

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "Precision.hpp"
#include "Problem.hpp"
#include "Storage.hpp"

namespace KokkosXentTest {

/// How the upstream gradient is handed over.
enum class Upstream { scalar, rank_0, rank_1, rank_1_strided, rank_1_stride_0 };

inline const char* name_of(Upstream upstream) {
  switch (upstream) {
    case Upstream::scalar:
      return "scalar";
    case Upstream::rank_0:
      return "rank 0";
    case Upstream::rank_1:
      return "rank 1";
    case Upstream::rank_1_strided:
      return "rank 1 strided";
    default:
      return "rank 1 of stride 0";
  }
}

/// How a problem is put to the library at run time.
struct Plan {
  Placement placement     = Placement::packed;
  Upstream upstream       = Upstream::scalar;
  bool in_place           = false;
  std::int64_t spare_rows = 0;  // max_rows beyond the problem's rows
};

inline std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  return out << name_of(plan.placement) << ", upstream " << name_of(plan.upstream)
             << (plan.in_place ? ", in place" : "") << ", " << plan.spare_rows << " spare rows";
}

/// What the library gave, widened to double. forward, then backward (twice where that is out of
/// place); then forward_backward, then, out of place, backward from what that left.
struct Result {
  std::vector<double> loss, row_max, row_log_sum, gradient, second_gradient;
  std::vector<double> fused_loss, fused_row_max, fused_row_log_sum, fused_gradient,
      gradient_after_fused;
  std::vector<double> logits_afterwards;  // out of place only
  bool padding_is_intact = true;
};

/// One compile-time combination of types and layouts, behind functions of plain numbers.
struct Configuration {
  std::string name;
  TargetKind target_kind;
  Precision logit, scalar, gradient;
  double (*round_logit)(double);
  double (*round_probability)(double);  // null for class indices
  double (*round_scalar)(double);
  double (*round_gradient)(double);
  int index_bits;  // of class indices; 0 for probabilities
  bool can_be_in_place;
  std::vector<Placement> placements;
  Result (*compute)(const Problem&, const Plan&);

  bool is_double() const {
    return logit.digits == 53 && scalar.digits == 53 && gradient.digits == 53;
  }
};

/// What GoogleTest prints of a parameter.
inline void PrintTo(const Configuration& configuration, std::ostream* out) {
  *out << configuration.name;
}

/// All combinations that are compiled; Configurations_*.cpp hold them.
const std::vector<Configuration>& configurations();

/// Those for one kind of targets.
std::vector<Configuration> configurations(TargetKind kind);

}  // namespace KokkosXentTest

#endif
