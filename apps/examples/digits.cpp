// Trains a classifier of handwritten digits in this process. Downloads nothing: Troupe generates the digits.
//   example_digits
#include <fmt/core.h>

#include <troupe/troupe.hpp>

int main() {
  using namespace troupe;
  try {
    const DataSplits data = draw_digits({.train = 4000, .test = 500});  // or load_mnist("directory")
    Model model(
        {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(64, Activation::relu), layers::dense(10)},
        Shape{28, 28, 1}, DType::u8);
    model.compile({.optimizer = optimizers::Adam{.learning_rate = 2e-3},
                   .loss = Loss::sparse_softmax_cross_entropy,
                   .metrics = {metrics::accuracy()}});
    fmt::print("{}\n", model.summary());
    model.fit(data, {.epochs = 4, .on_epoch = [](const EpochLogs& done) {
                       fmt::print("epoch {}: loss {:.2f}\n", done.epoch + 1, done["loss"]);
                     }});
    fmt::print("Test accuracy: {:.2f}\n", model.evaluate(data.test)["accuracy"]);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  }
}
