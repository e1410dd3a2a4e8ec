// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <impl/KokkosXent_SoftmaxState.hpp>

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/SplitMix.hpp"
#include "support/Storage.hpp"
#include "support/Tolerance.hpp"

// The merge that all mappings rest on: of parts that are empty, -inf only, or hold a NaN, in any
// order, and by a team of any size.
namespace KokkosXentTest {

using State = KokkosXent::Impl::SoftmaxState<float, false>;

/// One logit as a part of a row.
KOKKOS_INLINE_FUNCTION State part_of(float z) {
  State part;
  if (z == z) {
    part.max = z;
  } else {
    part.rest = z;
  }
  return part;
}

/// Every member of a team holds some logits; a reduction merges them.
struct MergeInTeam {
  Kokkos::View<const float*, MemorySpace> logits;
  Kokkos::View<State, MemorySpace> merged;

  using Member = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    State all;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, static_cast<int>(logits.extent(0))),
        [&](int j, State& partial) { partial.merge(part_of(logits(j))); },
        KokkosXent::Impl::MergeStates<State>(all));
    Kokkos::single(Kokkos::PerTeam(team), [&]() { merged() = all; });
  }
};

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan      = std::numeric_limits<float>::quiet_NaN();

State merge_in_order(const std::vector<float>& logits) {
  State all;
  for (const float z : logits) all.merge(part_of(z));
  return all;
}

/// m and log d, from the formula.
void expect_state(const State& state, const std::vector<float>& logits) {
  double m = -infinity;
  for (const float z : logits) m = std::max(m, static_cast<double>(z));
  double d = 0.0;
  for (const float z : logits) d += std::exp(static_cast<double>(z) - m);
  EXPECT_EQ(static_cast<double>(state.max), m);
  EXPECT_NEAR(static_cast<double>(state.log_sum()), std::log(d), 1e-5 * std::log(d) + 1e-7);
}

/// Small integers, so that maxima tie, and here and there -inf.
std::vector<float> some_logits(std::int64_t size, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<float> logits;
  for (std::int64_t j = 0; j < size; ++j) {
    logits.push_back(random.one_in(5) ? -infinity : static_cast<float>(random.below(9) - 4));
  }
  return logits;
}

TEST(SoftmaxState, OfAnEmptyPartChangesNothing) {
  const State whole = merge_in_order({1.0f, 2.0f, 3.0f});
  for (const State& nothing : {State(), merge_in_order({-infinity, -infinity})}) {
    State left = nothing, right = whole;
    left.merge(whole);
    right.merge(nothing);
    EXPECT_EQ(left.max, whole.max);
    EXPECT_EQ(left.rest, whole.rest);
    EXPECT_EQ(right.max, whole.max);
    EXPECT_EQ(right.rest, whole.rest);
  }
}

TEST(SoftmaxState, OfPartsWithoutAnythingIsEmpty) {
  State nothing;
  nothing.merge(State());
  nothing.merge(part_of(-infinity));
  EXPECT_EQ(nothing.max, -infinity);
  EXPECT_EQ(nothing.rest, 0.0f);
  EXPECT_TRUE(std::isnan(nothing.log_sum()));
}

TEST(SoftmaxState, KeepsNaNInAnyOrder) {
  for (std::size_t place = 0; place < 4; ++place) {
    std::vector<float> logits{1.0f, -infinity, 3.0f};
    logits.insert(logits.begin() + static_cast<std::ptrdiff_t>(place), nan);
    EXPECT_TRUE(std::isnan(merge_in_order(logits).log_sum())) << place;
    logits[place] = infinity;
    EXPECT_TRUE(std::isnan(merge_in_order(logits).log_sum())) << place;
  }
}

TEST(SoftmaxState, DoesNotDependOnHowTheRowIsSplit) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto logits = some_logits(40, seed);
    SplitMix random(seed);
    State parts[5];
    for (const float z : logits) parts[random.below(5)].merge(part_of(z));
    State all;
    for (const int i : {3, 0, 4, 2, 1}) all.merge(parts[i]);
    expect_state(all, logits);
  }
}

/// log(1 + 2e-9) is 0 in float32 unless d - 1 is kept apart from the maximum's own 1.
TEST(SoftmaxState, KeepsWhatAConfidentRowIsUnsureOf) {
  for (const auto& logits : {std::vector<float>{20.0f, 0.0f}, std::vector<float>{0.0f, 20.0f}}) {
    EXPECT_NEAR(static_cast<double>(merge_in_order(logits).log_sum()), 2.0611536e-9, 1e-15);
  }
}

/// O1 and O3: a reduction of a struct by teams of all sizes, not only powers of two.
TEST(SoftmaxState, O3_TeamsOfEverySizeAgree) {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  const Kokkos::View<State, MemorySpace> merged("merged");
  for (const std::int64_t size : {0, 1, 2, 31, 33, 700}) {
    auto logits = some_logits(size, 7);
    if (size > 0) logits[0] = 4.0f;
    const List<float> list("logits", std::vector<double>(logits.begin(), logits.end()));
    const MergeInTeam merge{list.view(), merged};
    const int largest =
        Policy(ExecutionSpace(), 1, 1).team_size_max(merge, Kokkos::ParallelForTag());
    for (int team = 1; team <= largest; team += team < 9 ? 1 : 23) {
      SCOPED_TRACE(::testing::Message() << size << " logits, team of " << team);
      Kokkos::parallel_for("KokkosXentTest::merge", Policy(ExecutionSpace(), 1, team), merge);
      State state;
      Kokkos::deep_copy(state, merged);
      if (size == 0) {
        EXPECT_EQ(state.max, -infinity);
        EXPECT_EQ(state.rest, 0.0f);
      } else {
        expect_state(state, logits);
      }
    }
  }
}

}  // namespace
}  // namespace KokkosXentTest
