// troupe-recommend: two towers that find what packages depend on.
#include <fmt/core.h>

#include <cmath>

#include "apps/recommend/options.hpp"
#include "apps/training_app.hpp"
#include "apps/training_report.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace {

using namespace troupe;

constexpr std::int64_t kNamed = 20;    // recommendations that count
constexpr std::int64_t kRanked = 100;  // found, of which those that a package has are left out
constexpr std::int64_t kWords = 8;     // of a name

// A package's name and items that it is known to have -> its vector.
Network query_tower(const DependencyData& data, std::int64_t known, std::int64_t width) {
  using namespace layers;
  const Symbol name = input("name", Shape{}, DType::string);
  const Symbol items = input("known", Shape{known}, DType::i64);
  const Symbol ids = text_vectorization(data.vocabulary, {.length = kWords})(name);
  const Symbols words = embedding(std::ssize(data.vocabulary) + 2, width, {.mask_zero = true}).call({ids});
  const Symbols others = embedding(std::ssize(data.packages) + 1, width, {.mask_zero = true}).call({items});
  const Symbol of_name = global_average_pool()(words[0], words[1]);
  const Symbol of_items = global_average_pool()(others[0], others[1]);
  const Symbol joined = dense(2 * width, Activation::relu)(concatenate()(of_name, of_items));
  return Network({name, items}, {{"query", dense(width)(joined)}});
}

// The sampled softmax: each example's item among the negatives of the whole batch, with logits less the logarithm of
// how often an item is expected among those (Jean et al., "On using very large target vocabulary for neural machine
// translation", ACL 2015). Negatives are drawn evenly, so that this is one number for all.
Output sampled_softmax(Output query, Output items, Output biases, Output item, Output negatives) {
  const Output right_bias = gather(biases, item);
  const Output right = sum(query * gather(items, item), {1}, {.keep_dims = true}) + expand_dims(right_bias, {1});
  const Output wrong_items = gather(items, negatives);
  const Output wrong_bias = gather(biases, negatives);
  const Output products = matmul(query, wrong_items, {.transpose_b = true});
  const Output scores = products + wrong_bias;
  const double vocabulary = static_cast<double>(items.shape()[0]);
  const Output drawn = cast(element_count(negatives), scores.dtype());
  const Output expected = log(drawn * (1 / vocabulary));
  const Output is_right = equal(expand_dims(item, {1}), negatives);  // drawn by accident
  const Output corrected = scores - expected;
  const Output wrong = select(is_right, scalar_like(scores, -1e9), corrected);
  const Output logits = concat({right, wrong}, 1);
  return losses::sparse_softmax_cross_entropy(logits, zeros_like(item));
}

Program two_towers(const DependencyData& data, const RecommendOptions& options) {
  const Network tower = query_tower(data, options.pairs.known, options.width);
  const std::int64_t count = std::ssize(data.packages);
  return [=](ProgramContext& c) -> ProgramOutputs {
    LayerContext layers = c.layers();
    const Output query = tower.apply(layers, {{"name", c["name"]}, {"known", c["known"]}}).at("query");
    const WeightSpec table{.shape = Shape{count, options.width}};
    const Output items = c.variable("items", table, initializers::random_uniform()).read();
    const Output biases = c.variable("biases", {.shape = Shape{count}}, initializers::zeros()).read();
    const Output products = matmul(query, items, {.transpose_b = true});
    const TopK best = top_k(products + biases, std::min(kRanked, count));
    ProgramOutputs out{.predictions = {{"ranked", best.indices}}};
    if (!c.batch.contains("item")) return out;  // a query
    const Output negatives = reshape(c["negatives"], Shape{kUnknown});
    out.objectives = {{.loss = sampled_softmax(query, items, biases, c["item"], negatives),
                       .optimizer = optimizers::Adam{.learning_rate = options.learning_rate}}};
    return out;
  };
}

class Recommend final : public TrainingApp {
 public:
  std::string program() const override { return "troupe-recommend"; }

  std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, bool launched) override {
    auto parsed = parse_recommend_options(arguments, launched);
    if (auto* exit = std::get_if<EarlyExit>(&parsed)) return std::move(*exit);
    options_ = std::move(std::get<RecommendOptions>(parsed));
    return std::nullopt;
  }
  const TrainingAppOptions& options() const override { return options_; }

  std::string load() override {
    data_ = load_dependencies(options_.data + "/depends.tsv", options_.pairs);
    return fmt::format("two towers on {} pairs with {} packages, testing on {} pairs", data_.item.num_elements(),
                       data_.packages.size(), data_.held_out);
  }

  Model make_model(Task& task) override {
    Model model(two_towers(data_, options_));
    model.compile(options_.compiled, task);
    return model;
  }

  TrainingResult fit(Model& model, const TrainingOptions& options) override {
    return model.fit(data_.train(), options);
  }

  std::string epoch_json(const EpochLogs& epoch) const override { return figures_json(epoch); }

  void report(Model& model, const TrainingResult& result, Console& console) override {
    const double recall = recall_at(data_, model.predict(data_.queries()).at("ranked"), kNamed);
    const double frequent = recall_at(data_, most_frequent(data_), kNamed);
    if (options_.json)
      console.line(figures_json({{"recall_at_20", recall}, {"most_frequent_recall_at_20", frequent}}, result));
    else
      console.line(fmt::format(
          "{} steps in {:.2f} s, {:.0f} pairs/s, parameters {}\n"
          "Recall at 20: {:.4f}, of the most frequent: {:.4f}",
          result.steps, result.seconds, result.examples_per_second, result.params_sha256, recall, frequent));
  }

 private:
  RecommendOptions options_;
  DependencyData data_;
};

}  // namespace

int main(int argc, char** argv) {
  Recommend app;
  return run_training_app(app, argc, argv);
}
