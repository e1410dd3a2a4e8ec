// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_TEST_COMPUTE_HPP
#define KOKKOSXENT_TEST_COMPUTE_HPP

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "Configuration.hpp"
#include "Space.hpp"
#include "Storage.hpp"

namespace KokkosXentTest {

using Right   = Kokkos::LayoutRight;
using Left    = Kokkos::LayoutLeft;
using Strided = Kokkos::LayoutStride;

/// The types of one combination. Target: std::int32_t or std::int64_t for class indices, a
/// floating type for probabilities, which lie in TargetLayout.
template <class ScalarType, class LogitType, class LogitsLayoutType, class TargetType,
          class GradientType = LogitType, class GradientLayoutType = LogitsLayoutType,
          class TargetLayoutType = LogitsLayoutType>
struct Types {
  using Scalar         = ScalarType;
  using Logit          = LogitType;
  using LogitsLayout   = LogitsLayoutType;
  using Target         = TargetType;
  using Gradient       = GradientType;
  using GradientLayout = GradientLayoutType;
  using TargetLayout   = TargetLayoutType;

  static constexpr bool has_indices = std::is_integral_v<Target>;
  static constexpr bool can_be_in_place =
      std::is_same_v<Logit, Gradient> && std::is_same_v<LogitsLayout, GradientLayout>;
};

/// Strided where the matrices are, so that every combination of LayoutStride has strided lists too.
template <class T>
std::int64_t list_stride() {
  return std::is_same_v<typename T::TargetLayout, Strided> ? 2 : 1;
}

template <class T>
auto make_targets(const Problem& problem, const Plan& plan) {
  if constexpr (T::has_indices) {
    return List<typename T::Target, typename T::TargetLayout>("targets", problem.indices,
                                                              list_stride<T>());
  } else {
    Matrix<typename T::Target, typename T::TargetLayout> targets("targets", plan.placement,
                                                                 problem.rows, problem.classes);
    targets.assign(problem.probabilities);
    return targets;
  }
}

/// The library under test and its operands in device memory, for one problem.
template <class T>
class Experiment {
  using Scalar    = typename T::Scalar;
  using Logits    = Matrix<typename T::Logit, typename T::LogitsLayout>;
  using Gradients = Matrix<typename T::Gradient, typename T::GradientLayout>;

 public:
  Experiment(const Problem& problem, const Plan& plan)
      : m_problem(problem),
        m_plan(plan),
        m_cross_entropy(ExecutionSpace(), problem.rows + plan.spare_rows, problem.classes,
                        problem.options),
        m_logits("logits", plan.placement, problem.rows, problem.classes),
        m_gradients("gradients", plan.placement, problem.rows, problem.classes),
        m_targets(make_targets<T>(problem, plan)),
        m_weights("weights", problem.weights, list_stride<T>()),
        m_upstream("upstream", problem.grad_output,
                   plan.upstream == Upstream::rank_1_strided ? 3 : 1) {
    m_logits.assign(problem.logits);
    if (!problem.weights.empty()) m_cross_entropy.class_weights(m_weights.view());
  }

  Result run() {
    Result result;
    result.loss        = forward();
    result.row_max     = values_of(m_cross_entropy.row_max());
    result.row_log_sum = values_of(m_cross_entropy.row_log_sum());
    result.gradient    = backward(result);
    if (!m_plan.in_place) result.second_gradient = backward(result);
    m_logits.assign(m_problem.logits);
    forward_backward(result);
    result.fused_row_max     = values_of(m_cross_entropy.row_max());
    result.fused_row_log_sum = values_of(m_cross_entropy.row_log_sum());
    if (!m_plan.in_place) {
      result.gradient_after_fused = backward(result);
      result.logits_afterwards    = m_logits.values();
    }
    return result;
  }

 private:
  bool has_row_losses() const { return m_problem.options.reduction == Reduction::none; }

  List<Scalar> poisoned_loss() const {
    const auto size = has_row_losses() ? static_cast<std::size_t>(m_problem.rows) : 1u;
    return List<Scalar>("loss", std::vector<double>(size, poison));
  }

  std::vector<double> forward() {
    const auto loss = poisoned_loss();
    if (has_row_losses()) {
      m_cross_entropy.forward(m_logits.view(), m_targets.view(), loss.view());
    } else {
      m_cross_entropy.forward(m_logits.view(), m_targets.view(), loss.scalar_view());
    }
    Kokkos::fence("KokkosXentTest::forward");
    return loss.values();
  }

  template <class Call>
  std::vector<double> into_gradients(Result& result, const Call& call) {
    if constexpr (T::can_be_in_place) {
      if (m_plan.in_place) {
        call(m_logits.view());
        return read(m_logits, result);
      }
    }
    m_gradients.assign(poison);
    call(m_gradients.view());
    return read(m_gradients, result);
  }

  template <class AnyMatrix>
  static std::vector<double> read(const AnyMatrix& matrix, Result& result) {
    Kokkos::fence("KokkosXentTest::read");
    const auto values        = matrix.values();
    result.padding_is_intact = result.padding_is_intact && matrix.padding_is_intact();
    return values;
  }

  std::vector<double> backward(Result& result) {
    return into_gradients(result, [&](const auto& gradients) {
      const auto call = [&](const auto& upstream) {
        m_cross_entropy.backward(m_logits.view(), m_targets.view(), upstream, gradients);
      };
      switch (m_plan.upstream) {
        case Upstream::scalar:
          return call(static_cast<Scalar>(m_problem.grad_output.at(0)));
        case Upstream::rank_0:
          return call(m_upstream.scalar_view());
        default:
          return call(upstream_rows());
      }
    });
  }

  /// One upstream gradient a row; with stride 0, one element that all rows read.
  auto upstream_rows() const {
    const auto rows = static_cast<std::size_t>(m_problem.rows);
    if (m_plan.upstream == Upstream::rank_1_stride_0) {
      return typename List<Scalar, Strided>::View(m_upstream.view().data(),
                                                  Kokkos::LayoutStride(rows, 0));
    }
    return m_upstream.view();
  }

  void forward_backward(Result& result) {
    const auto loss       = poisoned_loss();
    result.fused_gradient = into_gradients(result, [&](const auto& gradients) {
      if (has_row_losses()) {
        m_cross_entropy.forward_backward(m_logits.view(), m_targets.view(), loss.view(), gradients);
      } else {
        m_cross_entropy.forward_backward(m_logits.view(), m_targets.view(), loss.scalar_view(),
                                         gradients);
      }
    });
    result.fused_loss     = loss.values();
  }

  const Problem& m_problem;
  const Plan& m_plan;
  KokkosXent::CrossEntropy<ExecutionSpace, Scalar> m_cross_entropy;
  Logits m_logits;
  Gradients m_gradients;
  decltype(make_targets<T>(std::declval<const Problem&>(), std::declval<const Plan&>())) m_targets;
  List<Scalar, typename T::TargetLayout> m_weights;
  List<Scalar, Strided> m_upstream;
};

template <class T>
Result compute(const Problem& problem, const Plan& plan) {
  return Experiment<T>(problem, plan).run();
}

template <class Layout>
std::vector<Placement> placements_of() {
  if constexpr (std::is_same_v<Layout, Strided>) {
    return {Placement::packed, Placement::unaligned, Placement::padded, Placement::strided,
            Placement::transposed};
  } else {
    return {Placement::packed, Placement::unaligned};
  }
}

template <class Layout>
std::string layout_name() {
  if constexpr (std::is_same_v<Layout, Right>) return "Right";
  if constexpr (std::is_same_v<Layout, Left>) return "Left";
  return "Stride";
}

template <class T>
Configuration make_configuration() {
  Configuration configuration{};
  configuration.name =
      type_name<typename T::Logit>() + layout_name<typename T::LogitsLayout>() + "_" +
      type_name<typename T::Target>() + layout_name<typename T::TargetLayout>() + "_scalar_" +
      type_name<typename T::Scalar>() + "_gradient_" + type_name<typename T::Gradient>() +
      layout_name<typename T::GradientLayout>();
  configuration.logit          = precision_of<typename T::Logit>();
  configuration.scalar         = precision_of<typename T::Scalar>();
  configuration.gradient       = precision_of<typename T::Gradient>();
  configuration.round_logit    = rounded_to<typename T::Logit>;
  configuration.round_scalar   = rounded_to<typename T::Scalar>;
  configuration.round_gradient = rounded_to<typename T::Gradient>;
  if constexpr (T::has_indices) {
    configuration.target_kind = TargetKind::indices;
    configuration.index_bits  = 8 * static_cast<int>(sizeof(typename T::Target));
  } else {
    configuration.target_kind       = TargetKind::probabilities;
    configuration.round_probability = rounded_to<typename T::Target>;
  }
  configuration.can_be_in_place = T::can_be_in_place;
  configuration.placements      = placements_of<typename T::LogitsLayout>();
  configuration.compute         = compute<T>;
  return configuration;
}

}  // namespace KokkosXentTest

#endif
