// troupe-mnist: trains a classifier of digits in one process or as one task of a cluster.
#include <fmt/core.h>

#include "apps/mnist/options.hpp"
#include "apps/mnist/report.hpp"
#include "apps/training_app.hpp"
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/kernels/readers/idx.hpp>

namespace {

using namespace troupe;

Sequential make_layers(MnistModel model) {
  using namespace layers;
  if (model == MnistModel::mlp)
    return Sequential({rescaling(1 / 255.0), flatten(), dense(128, Activation::relu), dense(10)});
  return Sequential({rescaling(1 / 255.0), conv2d(32, 3, Activation::relu), max_pool(2),
                     conv2d(64, 3, Activation::relu), max_pool(2), flatten(), dense(128, Activation::relu), dense(10)});
}

class Mnist final : public TrainingApp {
 public:
  std::string program() const override { return "troupe-mnist"; }

  std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, bool launched) override {
    auto parsed = parse_mnist_options(arguments, launched);
    if (auto* exit = std::get_if<EarlyExit>(&parsed)) return std::move(*exit);
    options_ = std::move(std::get<MnistOptions>(parsed));
    return std::nullopt;
  }
  const TrainingAppOptions& options() const override { return options_; }

  std::string load() override {
    data_ = options_.data.empty() ? draw_digits(options_.digits) : load_mnist(options_.data);
    return fmt::format("{} on {} {}, testing on {}", name(options_.model), data_.train.size(),
                       options_.data.empty() ? "built-in digits" : fmt::format("images of {}", options_.data),
                       data_.test.size());
  }

  Model make_model(Task& task) override {
    Model model(make_layers(options_.model), Shape{28, 28, 1}, DType::u8);
    ModelOptions compiled = options_.compiled;
    compiled.optimizer = optimizers::Adam{.learning_rate = options_.learning_rate};
    compiled.loss = Loss::sparse_softmax_cross_entropy;
    compiled.metrics = {metrics::accuracy()};
    model.compile(compiled, task);
    return model;
  }

  TrainingResult fit(Model& model, const TrainingOptions& options) override { return model.fit(data_, options); }

  std::string epoch_json(const EpochLogs& epoch) const override { return troupe::epoch_json(epoch); }

  void report(Model&, const TrainingResult& result, Console& console) override {
    console.line(options_.json ? final_json(result) : final_text(result));
  }

 private:
  MnistOptions options_;
  DataSplits data_;
};

}  // namespace

int main(int argc, char** argv) {
  Mnist app;
  return run_training_app(app, argc, argv);
}
