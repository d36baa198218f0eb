#include "troupe/actors/model/loaded_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/layers.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;

// y = x w, and its greatest element; "count" adds to a variable.
SavedModel linear_model() {
  SavedModel out;
  out.graph = std::make_shared<Graph>();
  Graph& graph = *out.graph;
  const Output x = placeholder(graph, DType::f32, {kUnknown, 2}, "x"), by = placeholder(graph, DType::f32, {}, "by");
  const VariableRef w = variable(graph, {.name = "w", .shape = Shape{2, 16}});
  const VariableRef sum = variable(graph, {.name = "sum", .shape = Shape{}});
  const Output y = matmul(x, w.read(), {.name = "y"});
  max(y, {}, {.name = "best"});
  sum.assign_add(by);
  out.values = {{"w", Tensor::zeros(DType::f32, {2, 16})}, {"sum", Tensor::scalar(5.0f)}};
  std::ranges::copy(std::array{1.0f, 2.0f}, out.values["w"].mutable_data<float>() + 15);
  const ModelSignature::TensorSpec in{"x", DType::f32, Shape{kUnknown, 2}};
  out.signatures["predict"] = {.inputs = {{"examples", in}},
                               .outputs = {{"scores", {"y", DType::f32, Shape{kUnknown, 16}}}}};
  out.signatures["best"] = {.inputs = {{"examples", in}}, .outputs = {{"best", {"best", DType::f32, Shape{}}}}};
  out.assets = {{"words.txt", "one two"}};
  out.metadata = {{"author", "me"}};
  return out;
}

const Tensor& two_examples() {
  static const Tensor x = Tensor::of<float>({2, 2}, {1, 10, 2, 20});
  return x;
}

TEST(LoadedModels, RunSignaturesByNameAndByPosition) {
  const TemporaryDirectory directory;
  save_model(posix_file_system(), directory.file("m"), linear_model());
  const LoadedModel model = load_model(directory.file("m"));
  EXPECT_EQ(model.signatures().size(), 2u);
  EXPECT_EQ(model.assets().at("words.txt"), "one two");
  EXPECT_EQ(model.metadata().at("author"), "me");
  const auto results = model.run("predict", {{"examples", two_examples()}});
  ASSERT_EQ(results.size(), 1u);
  const Tensor& scores = results.at("scores");
  EXPECT_EQ(scores.shape(), (Shape{2, 16}));
  EXPECT_EQ(scores.data<float>()[0], 20);
  EXPECT_EQ(scores.data<float>()[15], 1);
  EXPECT_EQ(model.run("best", {{"examples", two_examples()}}).at("best").item<float>(), 40);
}

TEST(LoadedModels, ACallableKeepsItsModel) {
  ModelCallable best;
  {
    const LoadedModel model(linear_model());
    best = model.callable("best");
  }
  EXPECT_EQ(best({two_examples()})[0].item<float>(), 40);
  EXPECT_EQ(best.signature().inputs.begin()->first, "examples");
}

// No signature has a copy: all have views of the one file.
TEST(LoadedModels, ShareTheValuesOfAllSignatures) {
  const TemporaryDirectory directory;
  SavedModel given = linear_model();
  const Output rows = variable(*given.graph, {.name = "table", .shape = Shape{64, 16}}).read();
  given.values["table"] = Tensor::zeros(DType::f32, {64, 16});  // large enough to be shared
  const ModelSignature::TensorSpec table{rows.source().name, DType::f32, Shape{64, 16}};
  given.signatures["first"] = {.outputs = {{"table", table}}};
  given.signatures["second"] = {.outputs = {{"same", table}}};
  save_model(posix_file_system(), directory.file("m"), given);
  const SavedModel read = read_model(posix_file_system(), directory.file("m"));
  const LoadedModel model(read);
  const Tensor first = model.run("first", {}).at("table"), second = model.run("second", {}).at("same");
  EXPECT_EQ(first.buffer().get(), read.values.at("table").buffer().get());
  EXPECT_EQ(second.buffer().get(), first.buffer().get());
}

TEST(LoadedModels, ErrorsSayWhatIsExpected) {
  const LoadedModel model(linear_model());
  const auto error = [&](const std::string& name, const std::map<std::string, Tensor>& inputs) {
    return error_of([&] { model.run(name, inputs); }).to_string();
  };
  EXPECT_EQ(error("classify", {}), "not_found: the model has no signature 'classify'; it has 'best', 'predict'");
  EXPECT_EQ(error("predict", {{"x", two_examples()}}),
            "invalid_argument: signature 'predict' has no input 'x'; it takes 'examples' f32[?,2]");
  EXPECT_EQ(error("predict", {}), "invalid_argument: signature 'predict' was not given its input 'examples' f32[?,2]");
  EXPECT_EQ(error("predict", {{"examples", Tensor::zeros(DType::f64, {1, 2})}}),
            "invalid_argument: signature 'predict': input 'examples' f32[?,2] was given f64[1,2]");
  EXPECT_EQ(error("predict", {{"examples", Tensor::zeros(DType::f32, {1, 3})}}),
            "invalid_argument: signature 'predict': input 'examples' f32[?,2] was given f32[1,3]");
  EXPECT_EQ(error_of([&] { model.callable("best")({}); }).to_string(),
            "invalid_argument: signature 'best' takes 1 inputs, not 0: 'examples' f32[?,2]");
  EXPECT_EQ(error_of([] { LoadedModel(SavedModel{}); }).to_string(),
            "failed_precondition: the saved model has neither layers nor a graph: there is nothing to run");
  SavedModel without = linear_model();
  without.signatures.clear();
  EXPECT_EQ(error_of([&] { LoadedModel{without}; }).code(), Code::failed_precondition);
  without = linear_model();
  without.values.clear();
  EXPECT_EQ(error_of([&] { LoadedModel{without}; }).to_string(), "not_found: variable 'w' has no value to freeze");
}

TEST(LoadedModels, ThatAreNotFrozenChangeTheirVariables) {
  SavedModel given = linear_model();
  const Node* add = nullptr;
  for (int id = 0; id < given.graph->size(); ++id)
    if (given.graph->node(id).op->name == "AssignAddVariable") add = &given.graph->node(id);
  ASSERT_NE(add, nullptr);
  given.signatures["count"] = {.inputs = {{"by", {"by", DType::f32, Shape{}}}},
                               .outputs = {{"sum", {add->name, DType::f32, Shape{}}}}};
  const LoadedModel model(given, {.freeze = false});
  const ModelCallable count = model.callable("count");
  EXPECT_EQ(count({Tensor::scalar(1.0f)})[0].item<float>(), 6);
  EXPECT_EQ(count({Tensor::scalar(2.0f)})[0].item<float>(), 8);
  EXPECT_EQ(given.values.at("sum").item<float>(), 5) << "the caller's tensor was written to";
  EXPECT_EQ(model.run("best", {{"examples", two_examples()}}).at("best").item<float>(), 40);
}

TEST(LoadedModels, RunOnATaskOfTheProgram) {
  Task task(TaskOptions{.cpu_devices = 1});
  std::string placement;
  LoadedModelOptions options{.task = &task};
  options.session.on_placement = [&](const std::string& text) { placement = text; };
  const LoadedModel model(linear_model(), options);
  EXPECT_EQ(placement, "") << "signatures are compiled when they are first used";
  EXPECT_EQ(model.run("best", {{"examples", two_examples()}}).at("best").item<float>(), 40);
  EXPECT_NE(placement, "");
}

// Steps of several threads overlap, and the first of each signature compiles it.
TEST(LoadedModels, AreUsedByManyThreads) {
  const LoadedModel model(linear_model());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto x = Tensor::of<float>({1, 2}, {static_cast<float>(t), static_cast<float>(i)});
        const float best = model.run("best", {{"examples", x}}).at("best").item<float>();
        right += best == std::max(static_cast<float>(t), 2.0f * static_cast<float>(i));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
}

TEST(LoadedModels, OfLayersAloneGetTheirGraphFromThem) {
  const Symbol age = input("age", Shape{2}), price = input("price", Shape{1});
  const Symbol sum = layers::dense(1, Activation::none, {.use_bias = false})(age);
  SavedModel given{.network = Network({age, price}, {{"risk", sum}, {"same", price}}),
                   .values = {{"dense/kernel", Tensor::of<float>({2, 1}, {3, 4})}}};
  const Tensor ages = Tensor::of<float>({1, 2}, {1, 10}), prices = Tensor::of<float>({1, 1}, {7});
  const LoadedModel model(given);
  const auto all = model.run("predict", {{"age", ages}, {"price", prices}});
  EXPECT_EQ(all.at("risk").item<float>(), 43);
  EXPECT_EQ(all.at("same").item<float>(), 7);
  given.signatures["risk_of"] = {.inputs = {{"years", {"age", DType::f32, Shape{kUnknown, 2}, "in years"}}},
                                 .outputs = {{"it", {"risk", DType::f32, Shape{kUnknown, 1}}}}};
  const LoadedModel part(given);
  EXPECT_EQ(part.run("risk_of", {{"years", ages}}).at("it").item<float>(), 43);
  EXPECT_EQ(part.signatures().at("risk_of").inputs.at("years").description, "in years");
  given.signatures["risk_of"].outputs["it"].tensor = "price";
  EXPECT_EQ(error_of([&] { LoadedModel{given}; }).to_string(),
            "not_found: signature 'risk_of': 'it' is 'price', which is no input or result of the model's layers");
}

// What a trained model saves, with its preprocessing.
TEST(LoadedModels, OfTextsTakeStrings) {
  const TemporaryDirectory directory;
  const std::vector<std::string> words = {"good", "bad", "film"}, labels = {"down", "up"};
  SavedModel saved;
  saved.graph = std::make_shared<Graph>();
  Graph& graph = *saved.graph;
  VariablePool pool;
  LayerContext context{.graph = graph, .variables = pool};
  const Output text = placeholder(graph, DType::string, {kUnknown}, "text");
  const Output counts = Sequential({layers::text_vectorization(words, {.output = layers::TextOutput::count}),
                                    layers::dense(2, Activation::none, {.use_bias = false})})
                            .apply(context, text);
  const Output label =
      Sequential({layers::string_of_lookup(labels, {.out_of_vocabulary = 0})}).apply(context, arg_max(counts, 1));
  saved.signatures["classify"] = {
      .inputs = {{"text", {"text", DType::string, Shape{kUnknown}, "a review, in English"}}},
      .outputs = {{"label", {label.name(), DType::string, Shape{kUnknown}}}},
      .description = "Whether it is good."};
  saved.values = {{"dense/kernel", Tensor::of<float>({4, 2}, {0, 0, -1, 1, 2, -2, 0, 0})}};
  saved.assets = {{"words.txt", "good\nbad\nfilm\n"}};
  save_model(posix_file_system(), directory.file("m"), saved);

  const LoadedModel model = load_model(directory.file("m"));
  const Tensor texts = Tensor::of<std::string>(Shape{3}, {"A GOOD film!", "bad, bad film", "good good bad good"});
  const Tensor found = model.run("classify", {{"text", texts}}).at("label");
  EXPECT_THAT(found.values<std::string>(), ElementsAre("up", "down", "up"));
  EXPECT_EQ(model.assets().at("words.txt"), "good\nbad\nfilm\n");
  EXPECT_EQ(model.signatures().at("classify").description, "Whether it is good.");
}

TEST(LoadedModels, OfTrainedModelsPredictTheSame) {
  const TemporaryDirectory directory;
  Model trained({layers::dense(8, Activation::relu), layers::batch_norm(), layers::dense(3)}, Shape{4});
  trained.compile({.optimizer = optimizers::SGD{.learning_rate = 0.1}, .loss = Loss::mean_squared_error});
  Tensor x(DType::f32, {64, 4}), y(DType::f32, {64, 3});
  for (int i = 0; i < 256; ++i) x.mutable_data<float>()[i] = static_cast<float>(i * 37 % 64) / 64;
  for (int i = 0; i < 192; ++i) y.mutable_data<float>()[i] = static_cast<float>(i * 11 % 32) / 32;
  trained.fit(TensorDataset({{"x", x}, {"targets", y}}), {.epochs = 1, .batch = 16});
  trained.save(directory.file("m"));
  const Tensor want = trained.predict(x);
  const LoadedModel model = load_model(directory.file("m"));
  const ModelCallable predict = model.callable("predict");
  ASSERT_EQ(predict.signature().inputs.size(), 1u);
  const Tensor found = predict({x})[0];
  ASSERT_EQ(found.shape(), want.shape());
  for (int i = 0; i < 192; ++i) EXPECT_NEAR(found.data<float>()[i], want.data<float>()[i], 1e-5) << i;
  const LoadedModel exact = load_model(directory.file("m"), {.session = {.inference = std::nullopt}});
  EXPECT_TRUE(bitwise_equal(exact.callable("predict")({x})[0], want));
}

}  // namespace
}  // namespace troupe::testing
