// Models on a disk: files of tensors are mapped, and links are not followed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/model/saved_model.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

class MappedModels : public ::testing::Test {
 protected:
  // "large" and "flags" have a multiple of 64 bytes, "first" is the first of the others.
  static Parameters values_of(float number) {
    Tensor large = Tensor::zeros(DType::f32, {4, 16});
    std::ranges::fill(large.mutable_values<float>(), number);
    Tensor flags = Tensor::zeros(DType::boolean, {64});
    return {{"flags", flags},
            {"large", large},
            {"first", Tensor::vector<std::int64_t>({7, 8, 9})},
            {"unaligned", Tensor::vector<float>({number, 2})}};
  }
  void save(float number) { save_model(files_, path_, {.values = values_of(number), .assets = {{"a", "text"}}}); }
  Error refused(const LoadModelOptions& options = {}) {
    return error_of([&] { read_model(files_, path_, options); });
  }
  void change(const std::string& name, const std::function<void(std::string&)>& how) {
    std::string bytes = content_of(join_path(path_, name));
    how(bytes);
    replace_file(files_, join_path(path_, name), bytes, "test");
  }

  FileSystem& files_ = posix_file_system();
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.file("m");
};

TEST_F(MappedModels, AreViewsOfTheFileThatNobodyWritesTo) {
  save(1);
  const SavedModel model = read_model(files_, path_);
  EXPECT_EQ(params_sha256(model.values), params_sha256(values_of(1)));
  const Tensor &large = model.values.at("large"), &first = model.values.at("first");
  EXPECT_EQ(large.buffer().get(), model.values.at("flags").buffer().get());
  EXPECT_EQ(large.buffer().get(), first.buffer().get());
  EXPECT_TRUE(large.aligned() && first.aligned());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.raw()) % kBufferAlignment, 0u);
  EXPECT_NE(large.buffer().get(), model.values.at("unaligned").buffer().get());
  Tensor alone = read_model(files_, path_).values.at("large");
  EXPECT_FALSE(alone.unique()) << "a kernel would write in place";
  const SavedModel copied = read_model(files_, path_, {.map_values = false});
  EXPECT_TRUE(copied.values.at("large").unique());
  EXPECT_EQ(params_sha256(copied.values), params_sha256(values_of(1)));
}

TEST_F(MappedModels, KeepTheirValuesWhenTheDirectoryIsReplacedOrRemoved) {
  save(1);
  const SavedModel first = read_model(files_, path_);
  save(2);
  const SavedModel second = read_model(files_, path_);
  remove_tree(files_, path_);
  EXPECT_EQ(params_sha256(first.values), params_sha256(values_of(1)));
  EXPECT_EQ(params_sha256(second.values), params_sha256(values_of(2)));
}

TEST_F(MappedModels, AreReadToTheEndOnlyOnRequest) {
  save(1);
  change("values.safetensors", [](std::string& bytes) { bytes.back() ^= 1; });
  EXPECT_TRUE(refused().ok());
  EXPECT_THAT(refused({.verify_values = true}).message(), HasSubstr("values.safetensors' is damaged: its SHA-256 is "));
  EXPECT_EQ(refused({.map_values = false}).code(), Code::data_loss);
  EXPECT_TRUE(refused({.map_values = false, .verify_values = false}).ok());
  change("values.safetensors", [](std::string& bytes) { bytes.pop_back(); });
  EXPECT_THAT(refused().message(), HasSubstr("values.safetensors' is damaged: it has "));
}

TEST_F(MappedModels, HaveFlagsThatAreTrueOrFalse) {
  save(1);
  change("values.safetensors", [](std::string& bytes) { bytes[bytes.size() - 24 - 8 - 1] = 2; });
  EXPECT_THAT(refused().message(), HasSubstr("'flags'"));
}

// While its values are not read to the end, only metadata.json tells that they are of another model.
TEST_F(MappedModels, AReaderOfAReplacedModelReadsAgain) {
  class Replaced final : public ForwardingFileSystem {
   public:
    Replaced(FileSystem& files, int times, std::function<void(int)> save)
        : ForwardingFileSystem(files), times_(times), save_(std::move(save)) {}
    std::unique_ptr<ReadableFile> open(const std::string& path) override {
      if (path.ends_with("values.safetensors") && times_ > 0) save_(times_--);
      return ForwardingFileSystem::open(path);
    }

   private:
    int times_;
    std::function<void(int)> save_;
  };
  save(9);
  Replaced once(files_, 1, [&](int) { save(1); });
  EXPECT_EQ(params_sha256(read_model(once, path_).values), params_sha256(values_of(1)));
  Replaced always(files_, 100, [&](int number) { save(static_cast<float>(number)); });
  EXPECT_EQ(error_of([&] { read_model(always, path_); }).to_string(),
            fmt::format("unavailable: the saved model '{}' was replaced 4 times while it was read: try again", path_));
}

TEST_F(MappedModels, LinksAreNotFollowed) {
  const std::string secret = directory_.write("secret", "text");
  save(1);
  for (const char* name : {"assets/a", "model.pb", "values.safetensors", "assets"}) {
    save(1);
    const std::string path = join_path(path_, name), moved = directory_.file(fmt::format("moved{}", name[0]));
    std::filesystem::rename(path, moved);
    std::filesystem::create_symlink(name == std::string("assets/a") ? secret : moved, path);
    EXPECT_EQ(refused().to_string(),
              fmt::format("data_loss: '{}' is a symbolic link: the files of a saved model lie in its directory", path));
    std::filesystem::remove_all(path_);
    std::filesystem::remove_all(moved);
  }
  save(1);
  std::filesystem::create_directory_symlink(path_, directory_.file("current"));
  EXPECT_TRUE(error_of([&] { read_model(files_, directory_.file("current")); }).ok()) << "the user's own link";
}

}  // namespace
}  // namespace troupe::testing
