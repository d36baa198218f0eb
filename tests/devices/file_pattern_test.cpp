#include "troupe/devices/storage/file_pattern.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;

TEST(FilePattern, StarsAndQuestionMarksStandForBytes) {
  for (const char* const pattern : {"train-1.csv", "*", "train-?.csv", "*.csv", "t*-*", "train*1*csv", "**v"})
    EXPECT_TRUE(matches_pattern("train-1.csv", pattern)) << pattern;
  for (const char* const pattern : {"", "train-1.cs", "?", "train-??.csv", "*.tsv", "rain*", "*2*"})
    EXPECT_FALSE(matches_pattern("train-1.csv", pattern)) << pattern;
  EXPECT_TRUE(matches_pattern("", "*"));
  EXPECT_FALSE(matches_pattern(std::string(2000, 'a') + "b", std::string("*a*a*a*a*a*a*a*a*c")));
}

TEST(FilePattern, FindsFilesInAnyFolder) {
  MemoryFileSystem files;
  for (const char* const folder : {"/data", "/data/a", "/data/b", "/data/x.csv"}) files.make_directory(folder);
  for (const char* const file : {"/data/b/2.csv", "/data/b/1.csv", "/data/a/1.csv", "/data/a/1.tsv", "/data/3.csv"})
    files.create(file);
  EXPECT_THAT(files_matching(files, "/data/b/1.csv"), ElementsAre("/data/b/1.csv"));
  EXPECT_THAT(files_matching(files, "/data/*.csv"), ElementsAre("/data/3.csv"));  // no folder
  EXPECT_THAT(files_matching(files, "/data/*/1.*"), ElementsAre("/data/a/1.csv", "/data/a/1.tsv", "/data/b/1.csv"));
  EXPECT_THAT(files_matching(files, "/data//b/?.csv"), ElementsAre("/data/b/1.csv", "/data/b/2.csv"));
  const Error error = error_of([&] { files_matching(files, "/none/*.csv"); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_EQ(error.message(), "/none/*.csv: there is no such file");
}

}  // namespace
}  // namespace troupe::testing
