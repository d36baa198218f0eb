// SavedModels that TensorFlow wrote, where it is installed (build/python): their signatures compute the same, and
// train.
#include "troupe/actors/model/tensorflow_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/error_of.hpp"
#include "tests/graph/formats/saved_model/model_text.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/kernels/readers/tensor_bundle.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

// Models, written once; none if there is no TensorFlow.
const std::string& tensorflow_models() {
  static const TemporaryDirectory directory;
  static const std::string path = [] {
    const char* python_given = std::getenv("TROUPE_TENSORFLOW_PYTHON");
    const std::string python = python_given ? python_given : source_file("build/python/bin/python3");
    const std::string script = python + " " + source_file("tests/actors/model/tensorflow_models.py");
    if (!std::filesystem::exists(python) || std::system((script + " 2>/dev/null").c_str()) != 0) return std::string();
    const std::string log = directory.file("log");
    if (std::system((script + " " + directory.path().string() + " >" + log + " 2>&1").c_str()) != 0)
      ADD_FAILURE() << content_of(log);
    return directory.path().string();
  }();
  return path;
}

class TensorflowModels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (tensorflow_models().empty()) GTEST_SKIP() << "no TensorFlow in build/python: tools/setup.sh --with-peers";
    directory_ = tensorflow_models() + "/" + GetParam();
  }
  std::string directory_;
};

void expect_near(const Tensor& found, const Tensor& wanted, const std::string& what) {
  ASSERT_EQ(found.dtype(), wanted.dtype()) << what;
  ASSERT_EQ(found.shape(), wanted.shape()) << what;
  if (found.dtype() != DType::f32) {
    EXPECT_TRUE(bitwise_equal(found, wanted)) << what << ": " << found.to_string() << " " << wanted.to_string();
    return;
  }
  for (std::int64_t i = 0; i < found.num_elements(); ++i) {
    const float a = found.data<float>()[i], b = wanted.data<float>()[i];
    ASSERT_NEAR(a, b, 1e-5f * std::max(1.0f, std::abs(b))) << what << " element " << i;
  }
}

TEST_P(TensorflowModels, ComputeTheSame) {
  const TensorflowModel model = import_tensorflow(directory_);
  TensorBundle examples(posix_file_system(), directory_ + "/examples");
  const Output initialize = initializer(*model.graph);
  Session session(*model.graph);
  session.run_targets({initialize});
  int compared = 0;
  for (const auto& [name, signature] : model.signatures) {
    Feeds feeds;
    for (const auto& [key, input] : signature.inputs)
      if (examples.has(name + "/in/" + key)) feeds.emplace_back(input, examples.read(name + "/in/" + key));
    if (feeds.empty()) continue;  // "serve" of Keras, which is "serving_default"
    for (const auto& [key, output] : signature.outputs) {
      expect_near(session.run(feeds, output), examples.read(name + "/out/" + key), name + "/" + key);
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

// The mean square of the first result falls.
TEST_P(TensorflowModels, TrainOn) {
  TensorflowModel model = import_tensorflow(directory_);
  const bool several = GetParam() == "several";
  const std::string name = several ? "product" : "serving_default";
  const TensorflowSignature& signature = model.signatures.at(name);
  TensorBundle examples(posix_file_system(), directory_ + "/examples");
  const auto& [key, input] = *signature.inputs.begin();
  const Output y = signature.outputs.rbegin()->second;
  const Output loss = mean(square(y - 0.25));
  const Output step = minimize(loss, optimizers::SGD{.learning_rate = 0.02});
  const Output initialize = initializer(*model.graph);
  Session session(*model.graph);
  session.run_targets({initialize});
  const Feeds feeds = {{input, examples.read(name + "/in/" + key)}};
  const float before = session.run(feeds, loss).item<float>();
  for (int i = 0; i < 5; ++i) session.run(feeds, {}, {step});
  const float after = session.run(feeds, loss).item<float>();
  EXPECT_LT(after, before);
  EXPECT_FALSE(model.variables.empty());
}

// A model whose table is read from an asset, in a directory of the test's own.
class TensorflowDirectories : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string initialize = function_text(
        "init", R"(input_arg { name: "t" type: 20 } input_arg { name: "file" type: 7 })",
        node_text("InitializeTableFromTextFileV2", "read", {"t", "file"},
                  R"(attr { key: "key_index" value { i: -1 } } attr { key: "value_index" value { i: -1 } })"),
        "");
    const std::string find = node_text("Cast", "number", {"x"}, R"(attr { key: "DstT" value { type: 9 } })") +
                             node_text("Const", "none", {}, R"(attr { key: "value" value { tensor { dtype: 9
                                 tensor_shape { } int64_val: -1 } } })") +
                             node_text("LookupTableFindV2", "find", {"w", "number:y:0", "none:output:0"});
    model_ = model_of(find, "find:values:0", initialize);
    auto& graph = *model_.mutable_meta_graphs(0);
    graph.add_asset_file_def();
    auto& objects = *graph.mutable_object_graph_def();
    objects.mutable_nodes(1)->mutable_resource();
    auto& child = *objects.mutable_nodes(1)->add_children();
    child.set_node_id(2);
    child.set_local_name("_initialize");
    objects.add_nodes()->mutable_function()->add_concrete_functions("init");
    objects.add_nodes()->mutable_asset();
    auto& bound = (*objects.mutable_concrete_functions())["init"];
    bound.add_bound_inputs(1);
    bound.add_bound_inputs(3);
    std::filesystem::create_directories(directory_.path() / "model/assets");
    std::filesystem::create_directories(directory_.path() / "model/variables");
    write_tensor_bundle(posix_file_system(), directory_.file("model/variables/variables"), {});
    directory_.write("model/assets/words.txt", "one\ntwo\n");
    directory_.write("secret.txt", "three\n");
  }
  Error error_with_asset(const std::string& name) {
    model_.mutable_meta_graphs(0)->mutable_asset_file_def(0)->set_filename(name);
    directory_.write("model/saved_model.pb", model_.SerializeAsString());
    return error_of([&] { import_tensorflow(directory_.file("model")); });
  }

  TemporaryDirectory directory_;
  tensorflow::SavedModel model_;
};

TEST_F(TensorflowDirectories, NothingElsewhereIsRead) {
  EXPECT_THAT(error_with_asset("missing.txt").message(), HasSubstr("missing.txt"));
  EXPECT_EQ(error_with_asset("missing.txt").code(), Code::not_found);
  EXPECT_EQ(error_with_asset("words.txt").to_string(), Error().to_string());
  std::filesystem::create_symlink("../../secret.txt", directory_.file("model/assets/link.txt"));
  for (const char* name : {"../../secret.txt", "../../../etc/passwd", "/etc/passwd", "link.txt", ""}) {
    const Error error = error_with_asset(name);
    EXPECT_EQ(error.code(), Code::invalid_argument) << name;
    EXPECT_THAT(error.message(), HasSubstr("is not in the directory of the model")) << name;
  }
}

TEST_F(TensorflowDirectories, ADirectoryWithoutAModelIsNamed) {
  EXPECT_THAT(error_of([&] { import_tensorflow(directory_.file("model")); }).message(), HasSubstr("saved_model.pb"));
}

INSTANTIATE_TEST_SUITE_P(, TensorflowModels,
                         ::testing::Values("mlp", "cnn", "lstm", "transformer", "text", "several", "version_1"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troupe::testing
