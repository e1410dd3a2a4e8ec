// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <KokkosXent.hpp>
#include <Kokkos_Core.hpp>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/Space.hpp"
#include "support/Storage.hpp"

namespace KokkosXentTest {
namespace {

template <class Target>
class CheckTargets : public ::testing::Test {
 protected:
  /// The text of the error, or nothing.
  static std::string check(const std::vector<std::int64_t>& values, std::int64_t classes,
                           std::int64_t ignore_index = -100, std::int64_t stride = 1) {
    const List<Target, Kokkos::LayoutStride> targets("targets", values, stride);
    try {
      KokkosXent::check_targets(ExecutionSpace(), targets.view(), classes, ignore_index);
    } catch (const std::out_of_range& error) {
      return error.what();
    }
    return "";
  }

  static void expect_text(const std::string& text, const std::string& row,
                          const std::string& value) {
    EXPECT_NE(text.find("KokkosXent::check_targets"), std::string::npos) << text;
    EXPECT_NE(text.find("row " + row + " "), std::string::npos) << text;
    EXPECT_NE(text.find(" " + value + ","), std::string::npos) << text;
  }
};

using TargetTypes = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CheckTargets, TargetTypes);

TYPED_TEST(CheckTargets, AcceptsClassesAndIgnoreIndex) {
  EXPECT_EQ(this->check({0, 1, 2, -100, 2}, 3), "");
  EXPECT_EQ(this->check({0, 7, 7, 1}, 2, 7), "");
  EXPECT_EQ(this->check({0, 1, 0}, 2, 1), "");
}

TYPED_TEST(CheckTargets, AcceptsNoRows) {
  EXPECT_EQ(this->check({}, 3), "");
  EXPECT_EQ(this->check({}, 0), "");
}

TYPED_TEST(CheckTargets, NamesRowAndValue) {
  this->expect_text(this->check({0, 3, 1}, 3), "1", "3");
  this->expect_text(this->check({0, 1, -1}, 3), "2", "-1");
  this->expect_text(this->check({-100, 1, 2}, 3, -1), "0", "-100");
  this->expect_text(this->check({0}, 0), "0", "0");
}

TYPED_TEST(CheckTargets, NamesTheFirstOfSeveral) {
  std::vector<std::int64_t> targets(100000, 1);
  targets[99999] = 8;
  this->expect_text(this->check(targets, 3), "99999", "8");
  targets[70001] = 9;
  this->expect_text(this->check(targets, 3), "70001", "9");
  targets[5] = -7;
  this->expect_text(this->check(targets, 3), "5", "-7");
}

TYPED_TEST(CheckTargets, ReadsStridedTargets) {
  EXPECT_EQ(this->check({0, 1, 2}, 3, -100, 3), "");
  this->expect_text(this->check({0, 1, 4}, 3, -100, 3), "2", "4");
}

TEST(CheckTargetsWide, DoesNotNarrow) {
  const List<std::int64_t> targets("targets", std::vector<std::int64_t>{1, std::int64_t{1} << 32});
  try {
    KokkosXent::check_targets(ExecutionSpace(), targets.view(), 3);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::out_of_range& error) {
    EXPECT_NE(std::string(error.what()).find("4294967296"), std::string::npos) << error.what();
  }
}

TEST(CheckTargetsNarrow, IgnoreIndexIsNotNarrowed) {
  const List<std::int32_t> targets("targets", std::vector<std::int64_t>{1, -7});
  EXPECT_NO_THROW(KokkosXent::check_targets(ExecutionSpace(), targets.view(), 3, -7));
  EXPECT_THROW(
      KokkosXent::check_targets(ExecutionSpace(), targets.view(), 3, (std::int64_t{1} << 32) - 7),
      std::out_of_range);
}

}  // namespace
}  // namespace KokkosXentTest
