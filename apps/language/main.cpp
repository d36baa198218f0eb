// troupe-language: a character model of descriptions, which also writes some.
#include <fmt/core.h>

#include <cmath>

#include "apps/language/options.hpp"
#include "apps/language/text_data.hpp"
#include "apps/training_app.hpp"
#include "apps/training_report.hpp"

namespace {

using namespace troupe;

// Characters [steps] -> logits of the character behind each.
Network make_network(const LanguageOptions& options, std::int64_t tokens) {
  constexpr std::int64_t kHeads = 4;
  using namespace layers;
  const Symbol text = input("text", Shape{kUnknown}, DType::i64);
  Symbol x = embedding(tokens, options.width)(text);
  for (std::int64_t i = 0; i < options.layers; ++i)
    x = transformer_encoder(kHeads, 4 * options.width, {.norm_first = true, .causal = true, .rotary_base = 10000})(x);
  return Network({text}, {{"next", dense(tokens)(layer_norm()(x))}});
}

class Language final : public TrainingApp {
 public:
  std::string program() const override { return "troupe-language"; }

  std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, bool launched) override {
    auto parsed = parse_language_options(arguments, launched);
    if (auto* exit = std::get_if<EarlyExit>(&parsed)) return std::move(*exit);
    options_ = std::move(std::get<LanguageOptions>(parsed));
    return std::nullopt;
  }
  const TrainingAppOptions& options() const override { return options_; }

  std::string load() override {
    const std::string test = options_.test.empty() ? options_.data + "/test.tsv" : options_.test;
    data_ = load_characters(options_.data + "/train.tsv", test, options_.window);
    network_ = make_network(options_, data_.alphabet.tokens());
    return fmt::format("{} blocks on {} characters, testing on {}", options_.layers, data_.train_text.num_elements(),
                       data_.test_text.num_elements());
  }

  Model make_model(Task& task) override {
    task_ = &task;
    Model model(network_);
    ModelOptions compiled = options_.compiled;
    compiled.optimizer = optimizers::Adam{.learning_rate = options_.learning_rate};
    compiled.loss = Loss::sparse_softmax_cross_entropy;
    model.compile(compiled, task);
    return model;
  }

  TrainingResult fit(Model& model, const TrainingOptions& options) override {
    return model.fit(data_.train(), data_.test(), options);
  }

  std::string epoch_json(const EpochLogs& epoch) const override { return figures_json(epoch); }

  void report(Model& model, const TrainingResult& result, Console& console) override {
    if (options_.generate.tokens > 0 && !options_.json) console.line(write(model));
    const double bits = result["val_loss"] / std::log(2.0);
    if (options_.json)
      console.line(figures_json({{"bits_per_character", bits}, {"bigram_entropy", data_.bigram_entropy}}, result));
    else
      console.line(fmt::format(
          "{} steps in {:.2f} s, {:.0f} windows/s, parameters {}\n"
          "Bits per character: {:.4f}, of pairs of characters: {:.4f}",
          result.steps, result.seconds, result.examples_per_second, result.params_sha256, bits, data_.bigram_entropy));
  }

 private:
  std::string write(Model& model) const {
    const std::vector<std::int64_t> prompt = data_.alphabet.encode(options_.prompt);
    Generator generator(*task_, network_, model.parameters(), std::ssize(prompt) + options_.generate.tokens);
    return options_.prompt + data_.alphabet.decode(generator.generate(prompt, options_.generate));
  }

  LanguageOptions options_;
  CharacterData data_;
  Network network_;
  Task* task_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  Language app;
  return run_training_app(app, argc, argv);
}
