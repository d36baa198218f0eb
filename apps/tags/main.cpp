// troupe-tags: learns the tags of packages from their names and descriptions.
#include <fmt/core.h>

#include <algorithm>

#include "apps/tags/encoder.hpp"
#include "apps/tags/options.hpp"
#include "apps/tags/tag_data.hpp"
#include "apps/training_app.hpp"
#include "apps/training_report.hpp"
#include <troupe/graph/metrics/classes.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace {

using namespace troupe;

constexpr std::int64_t kLongestText = 20;  // words; of 25,000 packages none has more
constexpr std::int64_t kUnits = 64, kHidden = 128, kHeads = 4;

// Text -> a logit for each tag.
Network make_network(TagsModel model, const std::vector<std::string>& vocabulary, std::int64_t tags) {
  using namespace layers;
  const Symbol text = input("text", Shape{}, DType::string);
  const Symbol ids = text_vectorization(vocabulary, {.length = kLongestText})(text);
  const Symbols words = embedding(std::ssize(vocabulary) + 2, kUnits, {.mask_zero = true}).call({ids});
  Symbol x = words[0];
  if (model == TagsModel::transformer)
    x = transformer_encoder(kHeads, kHidden)(
        position_embedding(kLongestText, {.initializer = initializers::random_uniform()})(x), words[1]);
  const Symbol hidden = dense(kHidden, Activation::relu)(global_average_pool()(x, words[1]));
  return Network({text}, {{"tags", dense(tags)(hidden)}});
}

class Tags final : public TrainingApp {
 public:
  std::string program() const override { return "troupe-tags"; }

  std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, bool launched) override {
    auto parsed = parse_tags_options(arguments, launched);
    if (auto* exit = std::get_if<EarlyExit>(&parsed)) return std::move(*exit);
    options_ = std::move(std::get<TagsOptions>(parsed));
    return std::nullopt;
  }
  const TrainingAppOptions& options() const override { return options_; }

  std::string load() override {
    const std::string test = options_.test.empty() ? options_.data + "/test.tsv" : options_.test;
    data_ = load_tags(options_.data + "/train.tsv", test, options_.vocabulary, !options_.stream);
    return fmt::format("{} on {} packages with {} tags, testing on {}", name(options_.model), data_.train_packages,
                       data_.labels.size(), data_.test_text.num_elements());
  }

  Model make_model(Task& task) override {
    std::optional<PretrainedEncoder> encoder;
    if (options_.model == TagsModel::encoder) encoder = tags_encoder(options_, data_.vocabulary);
    const std::int64_t tags = std::ssize(data_.labels);
    Model model(encoder ? tags_encoder_network(*encoder, options_, tags)
                        : make_network(options_.model, data_.vocabulary, tags));
    ModelOptions compiled = options_.compiled;
    compiled.optimizer = optimizers::Adam{.learning_rate = options_.learning_rate, .slot_updates = SlotUpdates::exact};
    compiled.loss = Loss::sigmoid_cross_entropy;
    compiled.metrics = {metrics::f1({.average = metrics::Average::micro, .threshold = 0.0, .name = "micro_f1"})};
    model.compile(compiled, task);
    if (encoder && !encoder->file.empty()) model.load_values(encoder->file, encoder->values);
    return model;
  }

  TrainingResult fit(Model& model, const TrainingOptions& options) override {
    if (options_.stream) return model.fit(PipelineSource(data_.stream(options.seed)), data_.test(), options);
    return model.fit(data_.train(), data_.test(), options);
  }

  std::string epoch_json(const EpochLogs& epoch) const override { return figures_json(epoch); }

  void report(Model& model, const TrainingResult& result, Console& console) override {
    const Tensor logits = model.predict(data_.test()).at("tags");
    const TagScores scores = score_tags(data_, logits);
    if (options_.json) {
      console.line(figures_json({{"micro_f1", scores.micro_f1}, {"macro_f1", scores.macro_f1}}, result));
      return;
    }
    for (std::int64_t i = 0; i < std::min<std::int64_t>(kExamples, logits.shape().dim(0)); ++i)
      console.line(describe_tags(data_, logits, i));
    console.line(fmt::format(
        "{} steps in {:.2f} s, {:.0f} packages/s, parameters {}\nMicro-F1: {:.4f}, macro-F1: {:.4f}", result.steps,
        result.seconds, result.examples_per_second, result.params_sha256, scores.micro_f1, scores.macro_f1));
  }

 private:
  static constexpr std::int64_t kExamples = 3;  // shown to people

  TagsOptions options_;
  TagData data_;
};

}  // namespace

int main(int argc, char** argv) {
  Tags app;
  return run_training_app(app, argc, argv);
}
