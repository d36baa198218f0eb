// Models on a web server: loaded from there, never written there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/few_digits.hpp"
#include "tests/devices/storage/scripted_http_server.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/model.hpp>
#include <troupe/actors/model/values.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

class RemoteModel : public ::testing::Test {
 protected:
  static Model digits_model() {
    return Model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(10)}, Shape{28, 28, 1}, DType::u8);
  }

  testing::TemporaryDirectory directory_;
  // Serves the directory's files.
  testing::ScriptedHttpServer server_{[this](const testing::SeenRequest& request, int) {
    const std::string file = directory_.file(request.target.substr(1, request.target.find('?') - 1));
    if (!std::filesystem::is_regular_file(file)) return testing::http_answer(404, "", "");
    return testing::http_file_answer(request, testing::content_of(file));
  }};
};

TEST_F(RemoteModel, IsLoadedAndPredictsTheSame) {
  Model model = digits_model();
  model.compile(testing::classifying(optimizers::SGD{}));
  model.fit(testing::few_digits(), {.epochs = 1, .batch = 32, .quiet = true});
  const Tensor images = testing::few_digits().test.images.rows(0, 10).clone();
  model.save(directory_.file("m"));
  Model loaded = Model::load(server_.url("/m"));
  EXPECT_TRUE(bitwise_equal(loaded.predict(images), model.predict(images)));
  for (const char* const file : {"v.safetensors", "v.npz"}) {
    save_values(posix_file_system(), directory_.file(file), model.parameters());
    Model other = digits_model();
    other.load_values(server_.url("/") + file + "?signature=secret");
    EXPECT_TRUE(bitwise_equal(other.predict(images), model.predict(images))) << file;
  }
}

TEST_F(RemoteModel, ErrorsNameTheFileWithoutSecrets) {
  directory_.write("v.safetensors", "damaged");
  Model model = digits_model();
  for (const char* const file : {"v.safetensors", "none.npz"}) {
    const Error error = error_of([&] { model.load_values(server_.url("/") + file + "?signature=secret"); });
    EXPECT_THAT(error.message(), AllOf(HasSubstr(server_.url("/") + file), Not(HasSubstr("secret"))));
  }
  EXPECT_EQ(error_of([&] { Model::load(server_.url("/none")); }).code(), Code::not_found);
}

TEST_F(RemoteModel, NeitherModelsNorCheckpointsAreWrittenThere) {
  Model model = digits_model();
  model.compile(testing::classifying(optimizers::SGD{}));
  model.fit(testing::few_digits(), {.epochs = 1, .batch = 32, .quiet = true});
  const Error saved = error_of([&] { model.save(server_.url("/m")); });
  EXPECT_EQ(saved.code(), Code::unimplemented);
  EXPECT_THAT(saved.message(), HasSubstr("read-only"));
  TrainingOptions options{.epochs = 1, .batch = 32, .quiet = true};
  options.checkpoint = server_.url("/checkpoints");
  EXPECT_EQ(error_of([&] { model.fit(testing::few_digits(), options); }).code(), Code::unimplemented);
}

}  // namespace
}  // namespace troupe
