// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>
#include <iostream>

int main(int argc, char* argv[]) {
  Kokkos::ScopeGuard kokkos(argc, argv);
  const Kokkos::DefaultExecutionSpace exec;
  const std::int64_t tokens = 1024, vocabulary = 32000;
  Kokkos::View<float**, Kokkos::LayoutRight> logits("logits", tokens, vocabulary);
  Kokkos::View<std::int64_t*> targets("targets", tokens);  // the model fills these two
  Kokkos::View<float> loss("loss");

  KokkosXent::CrossEntropy cross_entropy(exec, tokens, vocabulary);
  cross_entropy.forward(logits, targets, loss);
  cross_entropy.backward(logits, targets, 1.0f, logits);  // in place: logits become a gradient

  float mean_loss = 0;
  Kokkos::deep_copy(exec, mean_loss, loss);
  exec.fence();
  std::cout << "mean loss " << mean_loss << '\n';
  return std::abs(mean_loss - std::log(32000.0f)) < 1e-4f ? 0 : 1;  // equal logits: log V
}
