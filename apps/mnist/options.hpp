// The command line of troupe-mnist.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/training_options.hpp"
#include <troupe/kernels/readers/digits.hpp>

namespace troupe {

enum class MnistModel : std::uint8_t { mlp, cnn };
std::string_view name(MnistModel model);

struct MnistOptions : TrainingAppOptions {
  std::string data;  // a directory; empty: the built-in digits
  DigitOptions digits{.train = 12000, .test = 2000};
  MnistModel model = MnistModel::mlp;
};

std::variant<MnistOptions, EarlyExit> parse_mnist_options(const std::vector<std::string>& arguments, bool launched);

}  // namespace troupe
