// SPDX-FileCopyrightText: The KokkosXent authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KOKKOSXENT_OPTIONS_HPP
#define KOKKOSXENT_OPTIONS_HPP

#include <cstdint>
#include <stdexcept>
#include <string>

namespace KokkosXent {

/// How row losses become the loss: as they are, divided by the mean's denominator after adding
/// (class indices: the sum of the targets' class weights over rows that count; class
/// probabilities: the number of rows), or added.
enum class Reduction { none, mean, sum };

/// Options with the names, defaults and meaning of PyTorch's torch.nn.functional.cross_entropy.
struct Options {
  Reduction reduction = Reduction::mean;
  /// Class indices of this value mark rows that do not count. Any integer; not applied to class
  /// probabilities.
  std::int64_t ignore_index = -100;
  /// Share of a row's target mass that is spread evenly over all classes, in [0, 1].
  double label_smoothing = 0.0;
};

namespace Impl {

/// Throws std::invalid_argument unless 0 <= label_smoothing <= 1.
inline void check_options(const Options& options) {
  if (!(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0))
    throw std::invalid_argument("KokkosXent::Options: label_smoothing must be in [0, 1], but is " +
                                std::to_string(options.label_smoothing));
  switch (options.reduction) {
    case Reduction::none:
    case Reduction::mean:
    case Reduction::sum:
      return;
  }
  throw std::invalid_argument("KokkosXent::Options: reduction must be none, mean or sum");
}

}  // namespace Impl
}  // namespace KokkosXent

#endif
