// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_CROSSENTROPY_HPP
#define KOKKOSXENT_CROSSENTROPY_HPP

#include <KokkosXent_Options.hpp>
#include <impl/KokkosXent_Checks.hpp>
#include <impl/KokkosXent_Dispatch.hpp>

#include <Kokkos_Core.hpp>

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

// One static_assert per property of an argument. Macros, since a static_assert's text must be a
// literal and is to name the function that was called; undefined again at the end of this file.
#define KOKKOSXENT_ARGUMENT(function, argument, property) \
  "KokkosXent::CrossEntropy::" function ": " argument " must " property
#define KOKKOSXENT_ASSERT_LOGITS(function, argument, V)                                         \
  static_assert(Impl::KokkosView<V>,                                                            \
                KOKKOSXENT_ARGUMENT(function, argument, "be a Kokkos::View"));                  \
  static_assert(Impl::rank_of<V>() == 2,                                                        \
                KOKKOSXENT_ARGUMENT(function, argument, "have rank 2 (rows, classes)"));        \
  static_assert(Impl::KnownValueType<Impl::value_type_of<V>>,                                   \
                KOKKOSXENT_ARGUMENT(function, argument,                                         \
                                    "have a value type known to KokkosXent::ValueTypeTraits")); \
  static_assert(                                                                                \
      std::is_same_v<Scalar, double> || !Impl::computes_in_double<Impl::value_type_of<V>>(),    \
      KOKKOSXENT_ARGUMENT(function, argument,                                                   \
                          "have a value type whose arithmetic type fits Scalar "                \
                          "(double logits need Scalar = double)"));                             \
  static_assert(Impl::is_accessible<V, ExecutionSpace>(),                                       \
                KOKKOSXENT_ARGUMENT(function, argument, "be accessible from the execution space"))
#define KOKKOSXENT_ASSERT_TARGETS(function, V)                                                   \
  static_assert(Impl::KokkosView<V>,                                                             \
                KOKKOSXENT_ARGUMENT(function, "targets", "be a Kokkos::View"));                  \
  static_assert(                                                                                 \
      Impl::rank_of<V>() == 1 || Impl::rank_of<V>() == 2,                                        \
      KOKKOSXENT_ARGUMENT(function, "targets",                                                   \
                          "have rank 1 (class indices) or rank 2 (class probabilities)"));       \
  static_assert(                                                                                 \
      Impl::rank_of<V>() != 1 || Impl::is_index_type<Impl::value_type_of<V>>,                    \
      KOKKOSXENT_ARGUMENT(function, "targets of rank 1", "have value type int32_t or int64_t")); \
  static_assert(Impl::rank_of<V>() != 2 || Impl::KnownValueType<Impl::value_type_of<V>>,         \
                KOKKOSXENT_ARGUMENT(function, "targets of rank 2",                               \
                                    "have a floating value type known to "                       \
                                    "KokkosXent::ValueTypeTraits"));                             \
  static_assert(                                                                                 \
      Impl::is_accessible<V, ExecutionSpace>(),                                                  \
      KOKKOSXENT_ARGUMENT(function, "targets", "be accessible from the execution space"))
#define KOKKOSXENT_ASSERT_LOSS(function, V)                                                       \
  static_assert(Impl::KokkosView<V>, KOKKOSXENT_ARGUMENT(function, "loss", "be a Kokkos::View")); \
  static_assert(                                                                                  \
      Impl::rank_of<V>() == 0 || Impl::rank_of<V>() == 1,                                         \
      KOKKOSXENT_ARGUMENT(function, "loss", "have rank 0 (mean, sum) or rank 1 (none)"));         \
  static_assert(std::is_same_v<Impl::value_type_of<V>, Scalar>,                                   \
                KOKKOSXENT_ARGUMENT(function, "loss", "have value type Scalar"));                 \
  static_assert(!Impl::is_const<V>(),                                                             \
                KOKKOSXENT_ARGUMENT(function, "loss", "not be const: it is written"));            \
  static_assert(Impl::is_accessible<V, ExecutionSpace>(),                                         \
                KOKKOSXENT_ARGUMENT(function, "loss", "be accessible from the execution space"))
#define KOKKOSXENT_ASSERT_GRAD_LOGITS(function, V)      \
  KOKKOSXENT_ASSERT_LOGITS(function, "grad_logits", V); \
  static_assert(!Impl::is_const<V>(),                   \
                KOKKOSXENT_ARGUMENT(function, "grad_logits", "not be const: it is written"))

namespace KokkosXent {

/// Softmax cross-entropy over rows of logits, and its gradient.
///
/// For a row z of V logits with target mass q_j (class index y: (1 - eps) w_y at y plus eps/V w_j;
/// class probabilities t: w_j ((1 - eps) t_j + eps/V)), m = max z, d = sum exp(z_j - m):
///
///     row loss      = sum_j q_j ((m - z_j) + log d)
///     d loss/d z_j  = (sum q) exp((z_j - m) - log d) - q_j
///
/// Semantics are those of PyTorch's torch.nn.functional.cross_entropy, except: what the
/// logits of ignored rows hold changes nothing; a class without target mass contributes 0 also
/// where its logit is -inf; an invalid class index turns its own row's loss and gradient to NaN
/// instead of raising an error (check_targets() raises one).
///
/// Between forward() and backward() live two Scalars a row and a constant. Every kernel runs on
/// the given execution space instance; nothing fences, and nothing is allocated after
/// construction, so a host reader of any result fences the instance first. Results are bitwise
/// the same for the same inputs, build, execution space and concurrency.
///
/// An object serves one call at a time; it can be moved, not copied. A moved-from object can only
/// be assigned to or destroyed.
///
/// \tparam ExecutionSpace  where the kernels run
/// \tparam Scalar          float or double: arithmetic, losses and saved statistics
template <class ExecutionSpace, class Scalar = float>
class CrossEntropy {
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "KokkosXent::CrossEntropy: ExecutionSpace must be a Kokkos execution space");
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>,
                "KokkosXent::CrossEntropy: Scalar must be float or double");

 public:
  using execution_space = ExecutionSpace;
  using memory_space    = typename ExecutionSpace::memory_space;
  using scalar_type     = Scalar;
  using statistics_view = Kokkos::View<const Scalar*, memory_space>;

  /// Allocates what all later calls need: for up to max_rows rows of num_classes logits.
  /// \throws std::invalid_argument  negative sizes; label_smoothing outside [0, 1]
  CrossEntropy(const ExecutionSpace& exec, std::int64_t max_rows, std::int64_t num_classes,
               const Options& options = {})
      : m_exec(exec),
        m_max_rows(max_rows),
        m_num_classes(num_classes),
        m_options(checked(options, max_rows, num_classes)),
        m_row_max(allocate("KokkosXent::row_max"), rows_extent()),
        m_row_log_sum(allocate("KokkosXent::row_log_sum"), rows_extent()),
        m_constants(allocate("KokkosXent::constants"), constants_count),
        m_partial_totals(allocate("KokkosXent::partial_totals"), league_extent()),
        m_partial_states(allocate("KokkosXent::partial_states"), states_extent()),
        m_swept_parts(allocate_zero("KokkosXent::swept_parts"), league_extent()),
        m_finished_teams(allocate_zero("KokkosXent::finished_teams")),
        m_host_scratch(allocate_host_scratch()) {}

  CrossEntropy(const CrossEntropy&)            = delete;
  CrossEntropy& operator=(const CrossEntropy&) = delete;
  CrossEntropy(CrossEntropy&&)                 = default;
  CrossEntropy& operator=(CrossEntropy&&)      = default;
  ~CrossEntropy()                              = default;

  /// Weights of the classes for all later calls: a View of num_classes Scalars, of any stride,
  /// which is kept. Call again after changing its values: their sum is taken here.
  /// \throws std::invalid_argument  another extent
  template <class Weights>
  void class_weights(const Weights& weights) {
    static_assert(Impl::KokkosView<Weights>,
                  KOKKOSXENT_ARGUMENT("class_weights", "weights", "be a Kokkos::View"));
    static_assert(Impl::rank_of<Weights>() == 1,
                  KOKKOSXENT_ARGUMENT("class_weights", "weights", "have rank 1 (classes)"));
    static_assert(std::is_same_v<Impl::value_type_of<Weights>, Scalar>,
                  KOKKOSXENT_ARGUMENT("class_weights", "weights", "have value type Scalar"));
    static_assert(
        Impl::is_accessible<Weights, ExecutionSpace>(),
        KOKKOSXENT_ARGUMENT("class_weights", "weights", "be accessible from the execution space"));
    if (Impl::extent_of(weights, 0) != m_num_classes)
      throw std::invalid_argument(
          "KokkosXent::CrossEntropy::class_weights: extents do not match: weights: " +
          Impl::extents_text(weights) + ", classes: " + std::to_string(m_num_classes));
    m_weights_owner = weights;
    m_weights       = {weights.data(), static_cast<std::int64_t>(weights.stride(0)), weight_sum()};
    Impl::launch<Impl::Tuning::small_team>(
        m_exec, "KokkosXent::class_weight_sum", Impl::small_schedule(m_exec, 1, 1),
        Impl::SumClassWeights<Scalar>{m_weights.data, m_weights.stride, m_num_classes,
                                      weight_sum()});
  }

  /// Losses of the rows, and the row statistics that backward() needs.
  ///
  /// \param logits   (rows, classes), any layout and strides
  /// \param targets  (rows) int32_t or int64_t class indices, or (rows, classes) probabilities
  /// \param loss     Scalar: rank 0 for mean and sum, (rows) for none
  /// \throws std::invalid_argument  extents that do not match, or more rows than max_rows; the
  ///                                text has every extent
  template <class Logits, class Targets, class Loss>
  void forward(const Logits& logits, const Targets& targets, const Loss& loss) {
    KOKKOSXENT_ASSERT_LOGITS("forward", "logits", Logits);
    KOKKOSXENT_ASSERT_TARGETS("forward", Targets);
    KOKKOSXENT_ASSERT_LOSS("forward", Loss);
    const std::string function = "KokkosXent::CrossEntropy::forward";
    check_extents(function, logits, targets, ", loss: " + Impl::extents_text(loss),
                  loss_extent_matches(logits, loss));
    check_loss_rank(function, loss);

    m_rows = -1;  // until this call has come through
    with_problem(logits, targets, [&](const auto& problem) {
      const auto schedule =
          Impl::schedule_of(m_exec, problem, Impl::Pass::forward, no_gradient(logits));
      Impl::run_forward(m_exec, "forward", schedule, problem, forward_results(loss, denominator()),
                        workspace());
    });
    m_rows = Impl::extent_of(logits, 0);
  }

  /// Gradient of the loss of the last forward() or forward_backward() with the same logits,
  /// targets and class weights, times grad_output. Leaves the saved statistics as they are.
  ///
  /// \param grad_output  Scalar or rank-0 View; for none also (rows), any stride, 0 included
  /// \param grad_logits  (rows, classes), any layout and value type; may be the logits themselves
  /// \throws std::invalid_argument  extents that do not match; grad_logits with elements that
  ///                                overlap one another, or those of other logits or targets
  /// \throws std::logic_error       no forward pass before, or one of another number of rows
  template <class Logits, class Targets, class GradOutput, class GradLogits>
  void backward(const Logits& logits, const Targets& targets, const GradOutput& grad_output,
                const GradLogits& grad_logits) {
    KOKKOSXENT_ASSERT_LOGITS("backward", "logits", Logits);
    KOKKOSXENT_ASSERT_TARGETS("backward", Targets);
    static_assert(std::is_arithmetic_v<GradOutput> || Impl::KokkosView<GradOutput>,
                  KOKKOSXENT_ARGUMENT("backward", "grad_output", "be a Scalar or a Kokkos::View"));
    static_assert(!Impl::KokkosView<GradOutput> || Impl::rank_of<GradOutput>() == 0 ||
                      Impl::rank_of<GradOutput>() == 1,
                  KOKKOSXENT_ARGUMENT("backward", "grad_output", "have rank 0 or rank 1 (none)"));
    static_assert(
        !Impl::KokkosView<GradOutput> || std::is_same_v<Impl::value_type_of<GradOutput>, Scalar>,
        KOKKOSXENT_ARGUMENT("backward", "grad_output", "have value type Scalar"));
    static_assert(
        !Impl::KokkosView<GradOutput> || Impl::is_accessible<GradOutput, ExecutionSpace>(),
        KOKKOSXENT_ARGUMENT("backward", "grad_output", "be accessible from the execution space"));
    KOKKOSXENT_ASSERT_GRAD_LOGITS("backward", GradLogits);
    const std::string function = "KokkosXent::CrossEntropy::backward";
    check_extents(
        function, logits, targets, grad_output_text(grad_output) + grad_logits_text(grad_logits),
        same_extents(logits, grad_logits) && grad_output_extent_matches(logits, grad_output));
    check_grad_output_rank<GradOutput>(function);
    Impl::check_overlap(function, logits, targets, grad_logits);
    check_saved_rows(function, Impl::extent_of(logits, 0));

    with_problem(logits, targets, [&](const auto& problem) {
      const auto task = gradient_task(problem, grad_logits, gradient_scale(grad_output));
      const auto schedule =
          Impl::schedule_of(m_exec, problem, Impl::Pass::backward, &task.gradient);
      Impl::run_backward(m_exec, "backward", schedule, problem, task,
                         {m_row_max.data(), m_row_log_sum.data()});
    });
  }

  /// forward() and backward() with grad_output 1, reading each row from memory once where it fits
  /// the cache. Arguments and errors as there.
  template <class Logits, class Targets, class Loss, class GradLogits>
  void forward_backward(const Logits& logits, const Targets& targets, const Loss& loss,
                        const GradLogits& grad_logits) {
    KOKKOSXENT_ASSERT_LOGITS("forward_backward", "logits", Logits);
    KOKKOSXENT_ASSERT_TARGETS("forward_backward", Targets);
    KOKKOSXENT_ASSERT_LOSS("forward_backward", Loss);
    KOKKOSXENT_ASSERT_GRAD_LOGITS("forward_backward", GradLogits);
    const std::string function = "KokkosXent::CrossEntropy::forward_backward";
    check_extents(function, logits, targets,
                  ", loss: " + Impl::extents_text(loss) + grad_logits_text(grad_logits),
                  same_extents(logits, grad_logits) && loss_extent_matches(logits, loss));
    check_loss_rank(function, loss);
    Impl::check_overlap(function, logits, targets, grad_logits);

    m_rows = -1;
    with_problem(logits, targets, [&](const auto& problem) {
      const auto task = gradient_task(problem, grad_logits, gradient_scale(Scalar(1)));
      const auto schedule =
          Impl::schedule_of(m_exec, problem, Impl::Pass::forward_backward, &task.gradient);
      Impl::run_forward_backward(m_exec, schedule, problem, forward_results(loss, nullptr), task,
                                 m_options.reduction == Reduction::mean ? denominator() : nullptr,
                                 workspace());
    });
    m_rows = Impl::extent_of(logits, 0);
  }

  /// m = max z of the rows of the last forward pass. NaN where the row has an ignored or
  /// invalid target; unspecified where the row holds a NaN.
  statistics_view row_max() const { return saved_rows(m_row_max); }
  /// log d = log sum exp(z - m) of the rows of the last forward pass: log-sum-exp is
  /// row_max + row_log_sum. NaN where row_max is, and where the row holds a NaN or has no finite
  /// maximum.
  statistics_view row_log_sum() const { return saved_rows(m_row_log_sum); }

  /// Bytes that live between forward and backward: two Scalars for each of max_rows rows, and two
  /// doubles (the mean's denominator, the sum of the class weights).
  std::size_t saved_bytes() const {
    return (m_row_max.size() + m_row_log_sum.size()) * sizeof(Scalar) +
           m_constants.size() * sizeof(double);
  }
  /// Bytes of scratch that is used within a call and holds nothing of meaning between calls. They
  /// depend on the execution space's concurrency, not on rows or classes. On a host they include
  /// half a MiB for each thread, whose pages are touched only by forward_backward() of gradients
  /// that are not of type Scalar, and where threads share rows that are adjacent in memory.
  std::size_t workspace_bytes() const {
    return m_partial_totals.size() * sizeof(Impl::RowTotals) +
           m_partial_states.size() * sizeof(Impl::SoftmaxState<Scalar, true>) +
           (m_swept_parts.size() + 1) * sizeof(int) + m_host_scratch.size() * sizeof(Scalar);
  }

 private:
  static constexpr std::size_t constants_count = 2;

  static const Options& checked(const Options& options, std::int64_t max_rows,
                                std::int64_t num_classes) {
    Impl::check_options(options);
    if (max_rows < 0 || num_classes < 0)
      throw std::invalid_argument(
          "KokkosXent::CrossEntropy: max_rows and num_classes must not be negative: max_rows: " +
          std::to_string(max_rows) + ", num_classes: " + std::to_string(num_classes));
    return options;
  }

  auto allocate(const char* label) const {
    return Kokkos::view_alloc(std::string(label), m_exec, Kokkos::WithoutInitializing);
  }
  auto allocate_zero(const char* label) const {
    return Kokkos::view_alloc(std::string(label), m_exec);
  }
  Kokkos::View<Scalar*, memory_space> allocate_host_scratch() const {
    if constexpr (Impl::runs_on_host<ExecutionSpace>)
      return Kokkos::View<Scalar*, memory_space>(
          allocate("KokkosXent::host_scratch"),
          static_cast<std::size_t>(m_exec.concurrency()) * Impl::host_scratch_each<Scalar>);
    return {};
  }
  std::size_t rows_extent() const { return static_cast<std::size_t>(m_max_rows); }
  std::size_t league_extent() const { return static_cast<std::size_t>(Impl::max_league(m_exec)); }
  std::size_t states_extent() const { return static_cast<std::size_t>(Impl::max_states(m_exec)); }

  double* denominator() const { return m_constants.data(); }
  double* weight_sum() const { return m_constants.data() + 1; }

  Impl::Workspace<Scalar> workspace() const {
    return {m_partial_totals.data(), m_partial_states.data(), m_swept_parts.data(),
            m_finished_teams.data(), m_host_scratch.data()};
  }

  statistics_view saved_rows(const Kokkos::View<Scalar*, memory_space>& all) const {
    return Kokkos::subview(all, std::pair<std::size_t, std::size_t>(
                                    0, static_cast<std::size_t>(m_rows < 0 ? 0 : m_rows)));
  }

  // Checks of extents

  template <class Logits, class GradLogits>
  static bool same_extents(const Logits& logits, const GradLogits& grad_logits) {
    return logits.extent(0) == grad_logits.extent(0) && logits.extent(1) == grad_logits.extent(1);
  }
  template <class Logits, class Loss>
  static bool loss_extent_matches(const Logits& logits, const Loss& loss) {
    if constexpr (Loss::rank() == 1) return loss.extent(0) == logits.extent(0);
    return true;
  }
  template <class Logits, class GradOutput>
  static bool grad_output_extent_matches(const Logits& logits, const GradOutput& grad_output) {
    if constexpr (Impl::rank_of<GradOutput>() == 1)
      return grad_output.extent(0) == logits.extent(0);
    return true;
  }
  template <class GradOutput>
  static std::string grad_output_text(const GradOutput& grad_output) {
    if constexpr (Impl::KokkosView<GradOutput>)
      return ", grad_output: " + Impl::extents_text(grad_output);
    return ", grad_output: scalar";
  }
  template <class GradLogits>
  static std::string grad_logits_text(const GradLogits& grad_logits) {
    return ", grad_logits: " + Impl::extents_text(grad_logits);
  }

  template <class Logits, class Targets>
  void check_extents(const std::string& function, const Logits& logits, const Targets& targets,
                     const std::string& other_extents, bool others_match) const {
    bool match = others_match && targets.extent(0) == logits.extent(0);
    if constexpr (Targets::rank() == 2) match = match && targets.extent(1) == logits.extent(1);
    const std::int64_t rows = Impl::extent_of(logits, 0);
    match = match && Impl::extent_of(logits, 1) == m_num_classes && rows <= m_max_rows;
    const std::string extents = "logits: " + Impl::extents_text(logits) +
                                ", targets: " + Impl::extents_text(targets) + other_extents +
                                " (constructed for at most " + std::to_string(m_max_rows) +
                                " rows of " + std::to_string(m_num_classes) + " classes)";
    if (!match) throw std::invalid_argument(function + ": extents do not match: " + extents);
    if (rows > 0 && m_num_classes == 0)
      throw std::invalid_argument(function + ": rows without classes have no loss: " + extents);
  }

  template <class Loss>
  void check_loss_rank(const std::string& function, const Loss&) const {
    const bool rows_wanted = m_options.reduction == Reduction::none;
    if (rows_wanted == (Loss::rank() == 1)) return;
    throw std::invalid_argument(function + ": loss must have rank " +
                                (rows_wanted ? "1 (rows) for Reduction::none"
                                             : "0 for Reduction::mean and Reduction::sum") +
                                ", but has rank " + std::to_string(Loss::rank()));
  }
  template <class GradOutput>
  void check_grad_output_rank(const std::string& function) const {
    if (Impl::rank_of<GradOutput>() == 1 && m_options.reduction != Reduction::none)
      throw std::invalid_argument(
          function +
          ": grad_output must be a Scalar or have rank 0 for Reduction::mean and "
          "Reduction::sum, but has rank 1");
  }
  void check_saved_rows(const std::string& function, std::int64_t rows) const {
    if (m_rows < 0)
      throw std::logic_error(function + ": no forward or forward_backward came before");
    if (m_rows != rows)
      throw std::logic_error(function + ": the forward pass before had " + std::to_string(m_rows) +
                             " rows, not " + std::to_string(rows));
  }

  // From Views to kernel arguments

  /// Calls f(problem) with the logits and the kind of targets that the arguments and options ask
  /// for.
  template <class Logits, class Targets, class F>
  void with_problem(const Logits& logits, const Targets& targets, const F& f) const {
    using LogitType = typename Logits::non_const_value_type;
    const auto run  = [&](auto target_kind) {
      target_kind.configure(m_num_classes, m_options.ignore_index, m_options.label_smoothing,
                             m_weights);
      const typename Logits::const_type const_logits = logits;
      f(Impl::Problem<ExecutionSpace, LogitType, Scalar, decltype(target_kind)>{
          Impl::as_matrix(const_logits), target_kind, Impl::extent_of(logits, 0), m_num_classes});
    };
    const typename Targets::const_type const_targets = targets;
    if constexpr (Targets::rank() == 2) {
      run(Impl::ProbabilityTargets<Scalar, typename Targets::non_const_value_type>(
          Impl::as_matrix(const_targets)));
    } else {
      const auto stride = static_cast<std::int64_t>(targets.stride(0));
      if (m_options.label_smoothing > 0)
        run(Impl::IndexTargets<Scalar, true>(const_targets.data(), stride));
      else
        run(Impl::IndexTargets<Scalar, false>(const_targets.data(), stride));
    }
  }

  /// denominator: where the mean's D goes; null: it is there already.
  template <class Loss>
  Impl::ForwardResults<Scalar> forward_results(const Loss& loss, double* denominator) const {
    Impl::ForwardResults<Scalar> results{m_row_max.data(),
                                         m_row_log_sum.data(),
                                         nullptr,
                                         0,
                                         {m_partial_totals.data(),
                                          m_finished_teams.data(),
                                          {m_options.reduction, nullptr, nullptr}}};
    if constexpr (Loss::rank() == 1) {
      results.losses      = loss.data();
      results.loss_stride = static_cast<std::int64_t>(loss.stride(0));
    } else {
      results.reduction.results.loss        = loss.data();
      results.reduction.results.denominator = denominator;
    }
    return results;
  }

  template <class GradOutput>
  Impl::GradientScale<Scalar> gradient_scale(const GradOutput& grad_output) const {
    Impl::GradientScale<Scalar> scale{0, nullptr, 0, nullptr, m_num_classes == 1};
    if (m_options.reduction == Reduction::mean) scale.denominator = denominator();
    if constexpr (Impl::KokkosView<GradOutput>) {
      scale.data = grad_output.data();
      if constexpr (GradOutput::rank() == 1)
        scale.stride = static_cast<std::int64_t>(grad_output.stride(0));
    } else {
      scale.value = static_cast<Scalar>(grad_output);
    }
    return scale;
  }
  template <class Problem, class GradLogits>
  static auto gradient_task(const Problem&, const GradLogits& grad_logits,
                            const Impl::GradientScale<Scalar>& scale) {
    return Impl::GradientTask<Problem, typename GradLogits::value_type>{
        Impl::as_matrix(grad_logits), scale};
  }

  template <class Logits>
  static const Impl::Matrix<typename Logits::non_const_value_type>* no_gradient(const Logits&) {
    return nullptr;
  }

  ExecutionSpace m_exec;
  std::int64_t m_max_rows;
  std::int64_t m_num_classes;
  Options m_options;
  std::int64_t m_rows = -1;  // of the last forward pass; -1: none yet

  Kokkos::View<Scalar*, memory_space> m_row_max;
  Kokkos::View<Scalar*, memory_space> m_row_log_sum;
  Kokkos::View<double*, memory_space> m_constants;  // the mean's D; sum of class weights
  Kokkos::View<Impl::RowTotals*, memory_space> m_partial_totals;
  Kokkos::View<Impl::SoftmaxState<Scalar, true>*, memory_space> m_partial_states;
  Kokkos::View<int*, memory_space> m_swept_parts;
  Kokkos::View<int, memory_space> m_finished_teams;
  Kokkos::View<Scalar*, memory_space> m_host_scratch;

  Impl::ClassWeights<Scalar> m_weights{nullptr, 0, nullptr};
  std::any m_weights_owner;  // keeps the View of any type alive
};

/// The mean or sum over rows on the host: allocates, runs on exec, fences exec.
///
/// \param logits, targets  as for CrossEntropy::forward; Scalar is double for double logits
/// \throws std::invalid_argument  as there, and for Reduction::none
template <class ExecutionSpace, class Logits, class Targets>
auto cross_entropy(const ExecutionSpace& exec, const Logits& logits, const Targets& targets,
                   const Options& options = {}) {
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "KokkosXent::cross_entropy: exec must be a Kokkos execution space");
  static_assert(Impl::rank_of<Logits>() == 2,
                "KokkosXent::cross_entropy: logits must be a Kokkos::View of rank 2 (rows, "
                "classes)");
  using Scalar =
      std::conditional_t<Impl::computes_in_double<Impl::value_type_of<Logits>>(), double, float>;
  if (options.reduction == Reduction::none)
    throw std::invalid_argument(
        "KokkosXent::cross_entropy: reduction must be mean or sum; CrossEntropy gives row losses");
  CrossEntropy<ExecutionSpace, Scalar> ce(exec, Impl::extent_of(logits, 0),
                                          Impl::extent_of(logits, 1), options);
  const Kokkos::View<Scalar, typename ExecutionSpace::memory_space> loss(
      Kokkos::view_alloc(std::string("KokkosXent::loss"), exec, Kokkos::WithoutInitializing));
  ce.forward(logits, targets, loss);
  Scalar result = 0;
  Kokkos::deep_copy(exec, result, loss);
  exec.fence("KokkosXent::cross_entropy");
  return result;
}

}  // namespace KokkosXent

#undef KOKKOSXENT_ASSERT_GRAD_LOGITS
#undef KOKKOSXENT_ASSERT_LOSS
#undef KOKKOSXENT_ASSERT_TARGETS
#undef KOKKOSXENT_ASSERT_LOGITS
#undef KOKKOSXENT_ARGUMENT

#endif
