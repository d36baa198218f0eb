#include "apps/mnist/options.hpp"

#include <fmt/core.h>

namespace troupe {
namespace {

constexpr const char* kMnistPurpose =
    "Trains a classifier of handwritten digits, alone or as one task of a cluster, and prints its accuracy.";
constexpr const char* kMnistExamples =
    R"(In this process, on built-in digits:
  troupe-mnist --epochs 5
  troupe-mnist --model cnn --replicas 2 --devices 2

On the MNIST files (train-images-idx3-ubyte and the other three, plain or .gz):
  troupe-mnist --data ~/mnist)";

CommandOption digits_option(DigitOptions& digits) {
  return {"--digits", "TRAIN,TEST", fmt::format("{},{}", digits.train, digits.test),
          "Built-in digits for training and testing", [&digits](const std::string& text) {
            const std::size_t comma = text.find(',');
            if (comma == std::string::npos) invalid_argument("expected TRAIN,TEST like 12000,2000, not '{}'", text);
            constexpr int kMost = 1'000'000;
            digits.train = parse_whole(text.substr(0, comma), 1, kMost);
            digits.test = parse_whole(text.substr(comma + 1), 1, kMost);
          }};
}

}  // namespace

std::string_view name(MnistModel model) { return model == MnistModel::mlp ? "mlp" : "cnn"; }

std::variant<MnistOptions, EarlyExit> parse_mnist_options(const std::vector<std::string>& arguments, bool launched) {
  MnistOptions options;
  const TrainingCommand command{
      .program = "troupe-mnist",
      .purpose = kMnistPurpose,
      .examples = kMnistExamples,
      .own = {text_option("--data", "DIR", options.data,
                          "Directory with the four MNIST files, plain or .gz (default: the built-in digits)"),
              digits_option(options.digits),
              choice_option("--model", options.model, by_name({MnistModel::mlp, MnistModel::cnn}),
                            "Model: a perceptron of 128 units, or a convolutional network")},
      .problem = [&](const CommandLine& line) -> std::optional<std::string> {
        if (!line.given("--digits") || options.data.empty()) return std::nullopt;
        return "--digits and --data cannot be combined: pass one of them";
      }};
  if (auto exit = parse_training_options(command, options, arguments, launched)) return *exit;
  return options;
}

}  // namespace troupe
