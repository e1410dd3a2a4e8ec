// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// All kernels of one type of logits in one space, for check_instructions.py to read.
#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstdint>

using Space  = KOKKOSXENT_TEST_EXECUTION_SPACE;
using Value  = KOKKOSXENT_TEST_VALUE_TYPE;
using Scalar = KokkosXent::ValueTypeTraits<Value>::arithmetic_type;

template <class DataType>
using View         = Kokkos::View<DataType, Kokkos::LayoutRight, Space::memory_space>;
using CrossEntropy = KokkosXent::CrossEntropy<Space, Scalar>;

void forward(CrossEntropy& cross_entropy, const View<const Value**>& logits,
             const View<const std::int64_t*>& targets, const View<Scalar>& loss) {
  cross_entropy.forward(logits, targets, loss);
}

void backward(CrossEntropy& cross_entropy, const View<Value**>& logits,
              const View<const std::int64_t*>& targets) {
  cross_entropy.backward(logits, targets, Scalar(1), logits);
}

void forward_backward(CrossEntropy& cross_entropy, const View<Value**>& logits,
                      const View<const std::int64_t*>& targets, const View<Scalar>& loss) {
  cross_entropy.forward_backward(logits, targets, loss, logits);
}
