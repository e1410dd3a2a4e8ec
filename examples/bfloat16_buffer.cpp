// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A framework's bfloat16 buffer used as it is, with class weights, label smoothing, an ignored row
// and one loss per row.

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>
#include <iostream>

using ExecutionSpace = Kokkos::DefaultExecutionSpace;
using MemorySpace    = ExecutionSpace::memory_space;
using Logits         = Kokkos::View<KokkosXent::bfloat16**, Kokkos::LayoutRight, MemorySpace,
                            Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

constexpr int rows               = 3;
constexpr int classes            = 4;
constexpr std::int64_t padding   = -1;
constexpr double label_smoothing = 0.1;

// Launches kernels and returns: nothing here waits for the device.
void loss_and_gradient(Logits logits, Kokkos::View<const std::int64_t*, MemorySpace> targets,
                       Kokkos::View<const float*, MemorySpace> weights,
                       KokkosXent::CrossEntropy<ExecutionSpace>& cross_entropy,
                       Kokkos::View<float*, MemorySpace> row_losses) {
  cross_entropy.class_weights(weights);
  cross_entropy.forward(logits, targets, row_losses);
  cross_entropy.backward(logits, targets, 1.0f / rows, logits);
}

// With equal logits every class has p = 1 / V, so the loss is log V times the row's target mass.
float expected_loss(float target_weight, float sum_of_weights) {
  const double target_mass =
      (1 - label_smoothing) * target_weight + label_smoothing / classes * sum_of_weights;
  return static_cast<float>(target_mass * std::log(classes));
}

int main(int argc, char* argv[]) {
  Kokkos::ScopeGuard kokkos(argc, argv);
  const ExecutionSpace exec;

  void* buffer =
      Kokkos::kokkos_malloc<MemorySpace>("logits", rows * classes * sizeof(KokkosXent::bfloat16));
  Logits logits(static_cast<KokkosXent::bfloat16*>(buffer), rows, classes);
  Kokkos::deep_copy(exec, logits, KokkosXent::bfloat16(2.0f));

  Kokkos::View<std::int64_t*, MemorySpace> targets("targets", rows);
  Kokkos::View<float*, MemorySpace> weights("weights", classes);
  auto host_targets = Kokkos::create_mirror_view(targets);
  auto host_weights = Kokkos::create_mirror_view(weights);
  for (int row = 0; row < rows; ++row) host_targets(row) = row;
  host_targets(1) = padding;
  for (int j = 0; j < classes; ++j) host_weights(j) = static_cast<float>(j + 1);
  Kokkos::deep_copy(exec, targets, host_targets);
  Kokkos::deep_copy(exec, weights, host_weights);

  KokkosXent::CrossEntropy<ExecutionSpace> cross_entropy(exec, rows, classes,
                                                         {.reduction = KokkosXent::Reduction::none,
                                                          .ignore_index    = padding,
                                                          .label_smoothing = label_smoothing});
  Kokkos::View<float*, MemorySpace> row_losses("row losses", rows);
  loss_and_gradient(logits, targets, weights, cross_entropy, row_losses);

  auto host_losses = Kokkos::create_mirror_view(row_losses);
  Kokkos::deep_copy(exec, host_losses, row_losses);
  exec.fence();
  Kokkos::kokkos_free<MemorySpace>(buffer);

  bool as_expected = true;
  for (int row = 0; row < rows; ++row) {
    const float expected = row == 1 ? 0.0f : expected_loss(host_weights(row), 10.0f);
    std::cout << "row " << row << " loss " << host_losses(row) << '\n';
    as_expected = as_expected && std::abs(host_losses(row) - expected) < 1e-4f;
  }
  std::cout << "kept between forward and backward: " << cross_entropy.saved_bytes() << " bytes\n";
  return as_expected ? 0 : 1;
}
