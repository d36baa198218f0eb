#include "apps/serve/serving_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

class ServingConfig : public ::testing::Test {
 protected:
  std::string written(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  // "invalid_argument: ...", without the file's path.
  template <class Read>
  std::string refusal(const Read& read, const std::string& text) const try {
    read(written(text));
    return "accepted";
  } catch (const Error& error) {
    std::string out = error.to_string();
    const std::size_t at = out.find(path_);
    return at == std::string::npos ? "without its path: " + out : out.replace(at, path_.size(), "FILE");
  }
  std::string models_refused(const std::string& text) const { return refusal(read_serving_config, text); }
  std::string batching_refused(const std::string& text) const { return refusal(read_batching_parameters, text); }

  const std::string path_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt";
};

TEST_F(ServingConfig, NestingIsBounded) {
  const auto nested = [](int depth) {
    std::string begin, end;
    for (int i = 0; i < depth; ++i) {
      begin += "custom_model_config { [type.googleapis.com/tensorflow.serving.ModelServerConfig] {";
      end += "} }";
    }
    return begin + end;
  };
  EXPECT_THAT(models_refused(nested(10)), HasSubstr("unimplemented: FILE: custom_model_config"));
  for (const int depth : {100, 100'000})  // the second is more than a stack holds
    EXPECT_THAT(models_refused(nested(depth)), AllOf(StartsWith("invalid_argument: FILE:1:"),
                                                     HasSubstr("Message is too deep"), HasSubstr("limit of 32")))
        << depth;
}

TEST_F(ServingConfig, ModelsArePoliciesLabelsAndPaths) {
  const std::vector<ServedModel> models = read_serving_config(written(R"(
# Two models.
model_config_list {
  config {
    name: 'digits'
    base_path: '/models/digits'
    model_platform: "tensorflow"
    model_version_policy { specific { versions: 2 versions: 3 } }
    version_labels { key: 'stable' value: 2 }
    version_labels { key: 'canary' value: 3 }
  }
  config: { name: "tags", base_path: "tags" model_version_policy: { latest { num_versions: 4 } } },
  config { name: "all" base_path: "b" model_version_policy { all {} } }
  config { name: "usual" base_path: "c" model_platform: "onnx" }
  config { name: "latest" base_path: "d" model_version_policy { latest {} } }
}
)"));
  ASSERT_EQ(models.size(), 5u);
  EXPECT_EQ(models[0].name, "digits");
  EXPECT_EQ(models[0].path, "/models/digits");
  EXPECT_THAT(std::get<SpecificVersions>(models[0].versions).versions, ElementsAre(2, 3));
  EXPECT_THAT(models[0].labels, ElementsAre(Pair("canary", 3), Pair("stable", 2)));
  EXPECT_EQ(std::get<LatestVersions>(models[1].versions).count, 4u);
  EXPECT_TRUE(std::holds_alternative<AllVersions>(models[2].versions));
  EXPECT_EQ(std::get<LatestVersions>(models[3].versions).count, 1u);
  EXPECT_EQ(std::get<LatestVersions>(models[4].versions).count, 1u);
  EXPECT_FALSE(models[0].batching);
}

TEST_F(ServingConfig, ModelsThatAreWrongAreNamedWithTheirPlace) {
  EXPECT_THAT(models_refused("model_config_list {\n  config { nam: 'x' }\n}"),
              StartsWith("invalid_argument: FILE:2:15: Message type \"tensorflow.serving.ModelConfig\" has no field "
                         "named \"nam\""));
  EXPECT_THAT(models_refused("model_config_list {"), StartsWith("invalid_argument: FILE:1:20: "));
  EXPECT_THAT(models_refused(""), HasSubstr("it lists no models"));
  EXPECT_THAT(models_refused("model_config_list { config { base_path: 'x' } }"),
              EndsWith("FILE: model 1 (''): it has no name"));
  EXPECT_THAT(models_refused("model_config_list { config { name: 'x' } }"),
              EndsWith("FILE: model 1 ('x'): it has no base_path"));
  EXPECT_THAT(models_refused("model_config_list { config { name: 'x' base_path: 'y' } config { name: 'x' base_path: "
                             "'z' } }"),
              EndsWith("('x'): another has its name"));
  EXPECT_THAT(models_refused("model_config_list { config { name: 'x' base_path: 'y' model_version_policy { specific {} "
                             "} } }"),
              EndsWith("model_version_policy.specific lists no versions"));
  EXPECT_THAT(models_refused("model_config_list { config { name: 'x' base_path: 'y' model_platform: 'caffe' } }"),
              HasSubstr("unimplemented: FILE: model 1 ('x'): model_platform 'caffe'"));
  EXPECT_THAT(models_refused("custom_model_config { }"), HasSubstr("unimplemented: FILE: custom_model_config"));
  EXPECT_THROW(read_serving_config(path_ + ".none"), Error);
}

TEST_F(ServingConfig, BatchingParametersBecomeTheBatchersOptions) {
  const BatchQueue::Options options = read_batching_parameters(written(R"(
max_batch_size { value: 16 }
batch_timeout_micros { value: 500 }
max_enqueued_batches { value: 10 }
num_batch_threads { value: 2 }
allowed_batch_sizes: 4
allowed_batch_sizes: 16
)"));
  EXPECT_EQ(options.most_rows, 16);
  EXPECT_EQ(options.timeout, 500'000);
  EXPECT_EQ(options.most_waiting, 160);
  EXPECT_EQ(options.at_once, 2u);
  EXPECT_THAT(options.allowed_sizes, ElementsAre(4, 16));
  const BatchQueue::Options usual = read_batching_parameters(written(""));
  EXPECT_EQ(usual.most_rows, BatchQueue::Options{}.most_rows);
  EXPECT_EQ(usual.timeout, BatchQueue::Options{}.timeout);
}

TEST_F(ServingConfig, BatchingParametersThatAreWrongAreNamed) {
  EXPECT_EQ(batching_refused("max_batch_size { value: 0 }"), "invalid_argument: FILE: max_batch_size: 0 is below 1");
  EXPECT_EQ(batching_refused("batch_timeout_micros { value: -1 }"),
            "invalid_argument: FILE: batch_timeout_micros: -1 is below 0");
  EXPECT_THAT(batching_refused("batch_timeout_micros { value: 60000001 }"), HasSubstr("is over a minute"));
  EXPECT_THAT(batching_refused("max_enqueued_batches { value: 9223372036854775807 }"), HasSubstr("are too many"));
  EXPECT_THAT(batching_refused("max_batch_size { value: 8 } allowed_batch_sizes: 4"), StartsWith("invalid_argument"));
  EXPECT_THAT(batching_refused("max_batch_size: 8"), StartsWith("invalid_argument: FILE:1:"));
}

}  // namespace
}  // namespace troupe
