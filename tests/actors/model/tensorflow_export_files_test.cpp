// The files of SavedModels: their bytes, and what crashes and full disks leave of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/model/tensorflow_model.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>

namespace troupe::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class SavedTensorflowModels : public ::testing::Test {
 protected:
  SavedTensorflowModels() { make_directories(files_, "/models"); }
  // Models 1 and 2 differ in each file.
  static void save(FileSystem& files, int number) {
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2}, "x");
    const Output w = variable(g, {.name = "w", .initial_value = constant(g, Tensor::vector<float>({1, 2}))}).read();
    const Parameters values{{"w", Tensor::vector<float>({static_cast<float>(number), 5})}};
    const Output y = number == 1 ? x * w : x + w;
    export_tensorflow(files, "/models/m/", g, {{"s", {{{"x", x}}, {{"y", y}}}}}, values);
  }
  static std::string files_of(FileSystem& files) {
    std::string out;
    for (const char* name : {"saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"})
      out += read_file(files, join_path("/models/m", name), 1 << 20);
    return out;
  }
  static std::string files_of_model(int number) {
    MemoryFileSystem files;
    make_directories(files, "/models");
    save(files, number);
    return files_of(files);
  }
  // Which model is there, in words.
  std::string found(FileSystem& files) const {
    std::string bytes;
    if (const Error error = error_of([&] { bytes = files_of(files); })) return error.to_string();
    return bytes == old_ ? "old" : bytes == new_ ? "new" : "a mixture";
  }

  MemoryFileSystem files_;
  const std::string old_ = files_of_model(1), new_ = files_of_model(2);
};

TEST_F(SavedTensorflowModels, EqualModelsHaveEqualBytes) {
  for (int i = 0; i < 3; ++i) {  // maps of protobuf have another order each time
    EXPECT_TRUE(files_of_model(1) == old_);
    EXPECT_TRUE(files_of_model(2) == new_);
  }
}

TEST_F(SavedTensorflowModels, ACrashAtAnyOperationLeavesTheOldOrTheNewOne) {
  save(files_, 1);
  std::uint64_t point = 0;
  for (bool complete = false; !complete; ++point) {
    MemoryFileSystem disk = files_.copy();
    disk.crash_at = point;
    complete = !error_of([&] { save(disk, 2); });
    for (int seed = 0; seed < 12; ++seed) {
      const auto survives = seed < 4 ? static_cast<Survives>(seed) : Survives::some;
      MemoryFileSystem after = disk.after_crash(survives, static_cast<std::uint64_t>(seed));
      EXPECT_THAT(found(after), AnyOf(complete ? "new" : "old", "new")) << point << ' ' << seed;
    }
  }
  EXPECT_GT(point, 15u);
}

TEST_F(SavedTensorflowModels, ACrashOfTheFirstSaveLeavesAllOrNothing) {
  std::uint64_t point = 0;
  for (bool complete = false; !complete; ++point) {
    MemoryFileSystem disk = files_.copy();
    disk.crash_at = point;
    complete = !error_of([&] { save(disk, 2); });
    for (int seed = 0; seed < 12; ++seed) {
      const auto survives = seed < 4 ? static_cast<Survives>(seed) : Survives::some;
      MemoryFileSystem after = disk.after_crash(survives, static_cast<std::uint64_t>(seed));
      if (!after.exists("/models/m"))
        EXPECT_FALSE(complete) << point;
      else
        EXPECT_EQ(found(after), "new") << point << ' ' << seed;
    }
  }
  EXPECT_GT(point, 10u);
}

TEST_F(SavedTensorflowModels, AFullDiskLeavesTheOldOne) {
  save(files_, 1);
  for (std::uint64_t point = 0;; ++point) {
    MemoryFileSystem disk = files_.copy();
    disk.full_at = point;
    const Error error = error_of([&] { save(disk, 2); });
    if (!error) break;
    EXPECT_EQ(error.code(), Code::resource_exhausted) << error.to_string();
    EXPECT_THAT(found(disk), AnyOf("old", "new")) << point;
  }
}

// What cannot be written is found before a file is touched.
TEST_F(SavedTensorflowModels, ARefusedModelLeavesNothing) {
  save(files_, 1);
  files_.start_counting();
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2}, "x");
  const Output w = variable(g, {.name = "w", .initial_value = constant(g, Tensor::vector<float>({1, 2}))}).read();
  EXPECT_THAT(error_of([&] {
                export_tensorflow(files_, "/models/m", g, {{"s", {{{"x", x}}, {{"y", x * w}}}}}, {});
              }).message(),
              HasSubstr("variable 'w' has no value"));
  EXPECT_EQ(files_.operations(), 0u);
  EXPECT_EQ(found(files_), "old");
}

}  // namespace
}  // namespace troupe::testing
