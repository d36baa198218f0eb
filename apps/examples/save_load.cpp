// Trains a model, saves it as a directory, and loads it without the code that made it: it makes the same predictions.
//   example_save_load DIRECTORY
#include <fmt/core.h>

#include <algorithm>

#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

void run(const char* directory) {
  const DataSplits data = draw_digits({.train = 2000, .test = 500});
  const Sequential layers(
      {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(32, Activation::relu), layers::dense(10)});
  Model trained(layers, Shape{28, 28, 1}, DType::u8);
  const ModelOptions options{.optimizer = optimizers::Adam{.learning_rate = 2e-3},
                             .loss = Loss::sparse_softmax_cross_entropy,
                             .metrics = {metrics::accuracy()}};
  trained.compile(options);
  trained.fit(data, {.epochs = 3});
  trained.save(directory);
  Model loaded = Model::load(directory);
  loaded.compile(options);  // to evaluate it, or to go on with its training
  const Tensor digit = Tensor::zeros(DType::u8, {1, 28, 28, 1});
  const bool same = std::ranges::equal(trained.predict(digit).values<float>(), loaded.predict(digit).values<float>());
  fmt::print("trained: accuracy {:.2f}\n", trained.evaluate(data.test)["accuracy"]);
  fmt::print("loaded:  accuracy {:.2f}\n", loaded.evaluate(data.test)["accuracy"]);
  fmt::print("the same parameters: {}, the same predictions: {}\n",
             trained.params_sha256() == loaded.params_sha256() ? "yes" : "no", same ? "yes" : "no");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "Usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
