// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/RowMappings.hpp"

namespace KokkosXentTest {

using OneValueType = ::testing::Types<ScalarAndLogit<float, KokkosXent::bfloat16>>;

INSTANTIATE_TYPED_TEST_SUITE_P(ValueTypes, RowMappings, OneValueType, TypeNames);

}  // namespace KokkosXentTest
