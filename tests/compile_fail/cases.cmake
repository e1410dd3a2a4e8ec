# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# must_not_compile(<name> <text after "KokkosXent::"> <call>)

must_not_compile(
  forward.logits_not_a_view
  "CrossEntropy::forward: logits must be a Kokkos::View"
  "ce.forward(1, targets, loss)")
must_not_compile(
  forward.logits_rank
  "CrossEntropy::forward: logits must have rank 2 (rows, classes)"
  "ce.forward(View<float*>(), targets, loss)")
must_not_compile(
  forward.logits_value_type
  "CrossEntropy::forward: logits must have a value type known to KokkosXent::ValueTypeTraits"
  "ce.forward(View<Unknown**>(), targets, loss)")
must_not_compile(
  forward.logits_double
  "CrossEntropy::forward: logits must have a value type whose arithmetic type fits Scalar (double logits need Scalar = double)"
  "ce.forward(View<double**>(), targets, loss)")
must_not_compile(
  forward.logits_unreachable
  "CrossEntropy::forward: logits must be accessible from the execution space"
  "ce.forward(FarAwayView<float**>(), targets, loss)")

must_not_compile(
  forward.targets_not_a_view
  "CrossEntropy::forward: targets must be a Kokkos::View"
  "ce.forward(logits, 1, loss)")
must_not_compile(
  forward.targets_rank
  "CrossEntropy::forward: targets must have rank 1 (class indices) or rank 2 (class probabilities)"
  "ce.forward(logits, View<int***>(), loss)")
must_not_compile(
  forward.targets_index_type
  "CrossEntropy::forward: targets of rank 1 must have value type int32_t or int64_t"
  "ce.forward(logits, View<std::int16_t*>(), loss)")
must_not_compile(
  forward.targets_unsigned
  "CrossEntropy::forward: targets of rank 1 must have value type int32_t or int64_t"
  "ce.forward(logits, View<std::uint64_t*>(), loss)")
must_not_compile(
  forward.targets_probability_type
  "CrossEntropy::forward: targets of rank 2 must have a floating value type known to KokkosXent::ValueTypeTraits"
  "ce.forward(logits, View<int**>(), loss)")
must_not_compile(
  forward.targets_unreachable
  "CrossEntropy::forward: targets must be accessible from the execution space"
  "ce.forward(logits, FarAwayView<int*>(), loss)")

must_not_compile(
  forward.loss_not_a_view
  "CrossEntropy::forward: loss must be a Kokkos::View"
  "ce.forward(logits, targets, 1)")
must_not_compile(
  forward.loss_rank
  "CrossEntropy::forward: loss must have rank 0 (mean, sum) or rank 1 (none)"
  "ce.forward(logits, targets, View<Scalar**>())")
must_not_compile(
  forward.loss_value_type
  "CrossEntropy::forward: loss must have value type Scalar"
  "ce.forward(logits, targets, View<double>())")
must_not_compile(
  forward.loss_const
  "CrossEntropy::forward: loss must not be const: it is written"
  "ce.forward(logits, targets, View<const Scalar>())")
must_not_compile(
  forward.loss_unreachable
  "CrossEntropy::forward: loss must be accessible from the execution space"
  "ce.forward(logits, targets, FarAwayView<Scalar>())")

must_not_compile(
  backward.logits_not_a_view
  "CrossEntropy::backward: logits must be a Kokkos::View"
  "ce.backward(1, targets, grad_output, grad_logits)")
must_not_compile(
  backward.logits_rank
  "CrossEntropy::backward: logits must have rank 2 (rows, classes)"
  "ce.backward(View<float*>(), targets, grad_output, grad_logits)")

must_not_compile(
  backward.targets_not_a_view
  "CrossEntropy::backward: targets must be a Kokkos::View"
  "ce.backward(logits, 1, grad_output, grad_logits)")
must_not_compile(
  backward.targets_rank
  "CrossEntropy::backward: targets must have rank 1 (class indices) or rank 2 (class probabilities)"
  "ce.backward(logits, View<int***>(), grad_output, grad_logits)")

must_not_compile(
  backward.grad_output_type
  "CrossEntropy::backward: grad_output must be a Scalar or a Kokkos::View"
  "ce.backward(logits, targets, \"one\", grad_logits)")
must_not_compile(
  backward.grad_output_rank
  "CrossEntropy::backward: grad_output must have rank 0 or rank 1 (none)"
  "ce.backward(logits, targets, View<Scalar**>(), grad_logits)")
must_not_compile(
  backward.grad_output_value_type
  "CrossEntropy::backward: grad_output must have value type Scalar"
  "ce.backward(logits, targets, View<double>(), grad_logits)")
must_not_compile(
  backward.grad_output_unreachable
  "CrossEntropy::backward: grad_output must be accessible from the execution space"
  "ce.backward(logits, targets, FarAwayView<Scalar>(), grad_logits)")
must_not_compile(
  backward.grad_logits_not_a_view
  "CrossEntropy::backward: grad_logits must be a Kokkos::View"
  "ce.backward(logits, targets, grad_output, 1)")
must_not_compile(
  backward.grad_logits_rank
  "CrossEntropy::backward: grad_logits must have rank 2 (rows, classes)"
  "ce.backward(logits, targets, grad_output, View<float*>())")
must_not_compile(
  backward.grad_logits_value_type
  "CrossEntropy::backward: grad_logits must have a value type known to KokkosXent::ValueTypeTraits"
  "ce.backward(logits, targets, grad_output, View<Unknown**>())")
must_not_compile(
  backward.grad_logits_double
  "CrossEntropy::backward: grad_logits must have a value type whose arithmetic type fits Scalar (double logits need Scalar = double)"
  "ce.backward(logits, targets, grad_output, View<double**>())")
must_not_compile(
  backward.grad_logits_unreachable
  "CrossEntropy::backward: grad_logits must be accessible from the execution space"
  "ce.backward(logits, targets, grad_output, FarAwayView<float**>())")
must_not_compile(
  backward.grad_logits_const
  "CrossEntropy::backward: grad_logits must not be const: it is written"
  "ce.backward(logits, targets, grad_output, View<const float**>())")

must_not_compile(
  forward_backward.logits_not_a_view
  "CrossEntropy::forward_backward: logits must be a Kokkos::View"
  "ce.forward_backward(1, targets, loss, grad_logits)")
must_not_compile(
  forward_backward.logits_rank
  "CrossEntropy::forward_backward: logits must have rank 2 (rows, classes)"
  "ce.forward_backward(View<float*>(), targets, loss, grad_logits)")

must_not_compile(
  forward_backward.targets_not_a_view
  "CrossEntropy::forward_backward: targets must be a Kokkos::View"
  "ce.forward_backward(logits, 1, loss, grad_logits)")
must_not_compile(
  forward_backward.targets_rank
  "CrossEntropy::forward_backward: targets must have rank 1 (class indices) or rank 2 (class probabilities)"
  "ce.forward_backward(logits, View<int***>(), loss, grad_logits)")

must_not_compile(
  forward_backward.loss_value_type
  "CrossEntropy::forward_backward: loss must have value type Scalar"
  "ce.forward_backward(logits, targets, View<double>(), grad_logits)")
must_not_compile(
  forward_backward.loss_const
  "CrossEntropy::forward_backward: loss must not be const: it is written"
  "ce.forward_backward(logits, targets, View<const Scalar>(), grad_logits)")

must_not_compile(
  forward_backward.grad_logits_not_a_view
  "CrossEntropy::forward_backward: grad_logits must be a Kokkos::View"
  "ce.forward_backward(logits, targets, loss, 1)")
must_not_compile(
  forward_backward.grad_logits_rank
  "CrossEntropy::forward_backward: grad_logits must have rank 2 (rows, classes)"
  "ce.forward_backward(logits, targets, loss, View<float*>())")
must_not_compile(
  forward_backward.grad_logits_const
  "CrossEntropy::forward_backward: grad_logits must not be const: it is written"
  "ce.forward_backward(logits, targets, loss, View<const float**>())")

must_not_compile(
  execution_space
  "CrossEntropy: ExecutionSpace must be a Kokkos execution space"
  "KokkosXent::CrossEntropy<Memory> bad(Memory(), 1, 1)")

must_not_compile(
  scalar
  "CrossEntropy: Scalar must be float or double"
  "KokkosXent::CrossEntropy<Exec, int> bad(Exec(), 1, 1)")

must_not_compile(
  class_weights.not_a_view
  "CrossEntropy::class_weights: weights must be a Kokkos::View"
  "ce.class_weights(1.0f)")
must_not_compile(
  class_weights.rank
  "CrossEntropy::class_weights: weights must have rank 1 (classes)"
  "ce.class_weights(View<Scalar**>())")
must_not_compile(
  class_weights.value_type
  "CrossEntropy::class_weights: weights must have value type Scalar"
  "ce.class_weights(View<double*>())")
must_not_compile(
  class_weights.unreachable
  "CrossEntropy::class_weights: weights must be accessible from the execution space"
  "ce.class_weights(FarAwayView<Scalar*>())")

must_not_compile(
  check_targets.execution_space
  "check_targets: exec must be a Kokkos execution space"
  "KokkosXent::check_targets(Memory(), targets, 1)")
must_not_compile(
  check_targets.not_a_view
  "check_targets: targets must be a Kokkos::View"
  "KokkosXent::check_targets(Exec(), 1, 1)")
must_not_compile(
  check_targets.rank
  "check_targets: targets must have rank 1 (class indices)"
  "KokkosXent::check_targets(Exec(), View<int**>(), 1)")
must_not_compile(
  check_targets.value_type
  "check_targets: targets must have value type int32_t or int64_t"
  "KokkosXent::check_targets(Exec(), View<float*>(), 1)")
must_not_compile(
  check_targets.unreachable
  "check_targets: targets must be accessible from the execution space"
  "KokkosXent::check_targets(Exec(), FarAwayView<int*>(), 1)")

must_not_compile(
  cross_entropy.execution_space
  "cross_entropy: exec must be a Kokkos execution space"
  "KokkosXent::cross_entropy(Memory(), logits, targets)")
must_not_compile(
  cross_entropy.logits
  "cross_entropy: logits must be a Kokkos::View of rank 2 (rows, classes)"
  "KokkosXent::cross_entropy(Exec(), 1, targets)")
