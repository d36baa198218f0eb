#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/training/parameters.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Parameters some() {
  return {{"b/kernel", Tensor::of<float>({2, 1}, {1, -2.5f})}, {"a", Tensor::scalar<std::int32_t>(7)}};
}

TEST(Parameters, TheHashIsSha256OverNamesTypesShapesAndElements) {
  // hashlib.sha256(b"a\0i32\0[]\0" + struct.pack("<i", 7) + b"b/kernel\0f32\0[2,1]\0" + struct.pack("<2f", 1, -2.5))
  EXPECT_EQ(params_sha256(some()), "a7c1bc4c72f4b087e67f5b731b43b03416f5df26d75149de58ccd53ec2e0e6a3");
  EXPECT_EQ(params_sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Parameters, TheHashSeesEachPart) {
  const std::string hash = params_sha256(some());
  Parameters other = some();
  other["b/kernel"] = Tensor::of<float>({1, 2}, {1, -2.5f});
  EXPECT_NE(params_sha256(other), hash);
  other["b/kernel"] = Tensor::of<std::int32_t>({2, 1}, {0x3f800000, static_cast<std::int32_t>(0xc0200000)});
  EXPECT_NE(params_sha256(other), hash);
  other = some();
  other["c"] = other["a"];
  other.erase("a");
  EXPECT_NE(params_sha256(other), hash);
}

TEST(Parameters, ComeBackFromAFileBitByBit) {
  testing::TemporaryDirectory directory;
  const std::string file = directory.file("p");
  save_parameters(file, some());
  const Parameters loaded = load_parameters(file);
  ASSERT_EQ(loaded.size(), 2u);
  for (const auto& [name, value] : some()) EXPECT_TRUE(bitwise_equal(loaded.at(name), value)) << name;
  save_parameters(file, {});
  EXPECT_TRUE(load_parameters(file).empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.file("")), {}), 1)
      << "a temporary file is left";
}

TEST(Parameters, EveryTruncationIsRefused) {
  testing::TemporaryDirectory directory;
  const std::string file = directory.file("p");
  save_parameters(file, some());
  const std::string whole = testing::content_of(file);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    directory.write("p", whole.substr(0, size));
    const Error error = error_of([&] { load_parameters(file); });
    EXPECT_EQ(error.code(), Code::data_loss) << size << ": " << error.to_string();
    EXPECT_THAT(error.message(), HasSubstr(file)) << size << " bytes";
  }
}

TEST(Parameters, AFlippedBitInAnyByteIsRefused) {
  testing::TemporaryDirectory directory;
  const std::string file = directory.file("p");
  // No scalar: its empty shape is as good unsaid, so that a bit of that field's tag may flip without harm.
  save_parameters(file,
                  {{"a", Tensor::of<std::int32_t>({1}, {7})}, {"b/kernel", Tensor::of<float>({2, 1}, {1, -2.5f})}});
  const std::string whole = testing::content_of(file);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    directory.write("p", damaged);
    const Error error = error_of([&] { load_parameters(file); });
    EXPECT_EQ(error.code(), Code::data_loss) << "byte " << i << ": " << error.to_string();
    EXPECT_THAT(error.message(), HasSubstr(file)) << "byte " << i;
  }
}

TEST(Parameters, AMissingFileOrDirectoryIsNamed) {
  testing::TemporaryDirectory directory;
  const std::string file = directory.file("none/p");
  const Error load = error_of([&] { load_parameters(file); });
  EXPECT_EQ(load.code(), Code::not_found);
  EXPECT_THAT(load.message(), HasSubstr(file));
  const Error save = error_of([&] { save_parameters(file, some()); });
  EXPECT_EQ(save.code(), Code::not_found);
  EXPECT_THAT(save.message(), HasSubstr(file));
  EXPECT_THAT(save.message(), HasSubstr("No such file or directory"));
  EXPECT_EQ(error_of([&] { load_parameters(directory.file("")); }).code(), Code::failed_precondition);  // a directory
}

TEST(Parameters, TheOldFileStaysWholeWhenSavingFails) {
  testing::TemporaryDirectory directory;
  const std::string file = directory.file("p");
  save_parameters(file, some());
  const std::string before = testing::content_of(file);
  // What is in the way of the temporary file stops even a superuser.
  std::filesystem::create_directory(fmt::format("{}.tmp-{}", file, ::getpid()));
  const Error error = error_of([&] { save_parameters(file, {}); });
  EXPECT_EQ(error.code(), Code::failed_precondition) << error.to_string();
  EXPECT_EQ(testing::content_of(file), before);
}

TEST(Parameters, NothingIsLeftBehindWhenTheFileCannotBeReplaced) {
  testing::TemporaryDirectory directory;
  const std::string taken = directory.file("taken");
  std::filesystem::create_directory(taken);
  EXPECT_EQ(error_of([&] { save_parameters(taken, some()); }).code(), Code::failed_precondition);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.file("")), {}), 1);
}

}  // namespace
}  // namespace troupe
