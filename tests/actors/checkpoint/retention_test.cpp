// Removal of old checkpoints: how many stay, and the newest whole one always does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/example.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::Example;
using testing::MemoryFileSystem;

std::vector<std::uint64_t> versions(FileSystem& files) {
  std::vector<std::uint64_t> out;
  for (const ListedCheckpoint& checkpoint : list_checkpoints(files, "/c")) out.push_back(checkpoint.version);
  return out;
}

class Retention : public ::testing::Test {
 protected:
  Retention() {
    for (const std::uint64_t version : {1, 2, 3, 4}) Example(version).save(files_, "/c", {version, 1}, 2);
  }
  void damage(std::uint64_t version) {
    files_.content(checkpoint_folder("/c", version) + "/shard-00001-of-00002-0000000000000001")[3] ^= 1;
  }
  void damage_manifest(std::uint64_t version) {
    files_.content(checkpoint_folder("/c", version) + "/MANIFEST")[30] ^= 1;
  }
  void leave_incomplete(std::uint64_t version) {
    write_shard(files_, "/c", {version, 1}, Example(version).contents(0, 2));
  }

  MemoryFileSystem files_;
};

TEST_F(Retention, KeepsTheNewest) {
  remove_old_checkpoints(files_, "/c", 2);
  EXPECT_THAT(versions(files_), ElementsAre(3, 4));
  remove_old_checkpoints(files_, "/c", 5);
  EXPECT_THAT(versions(files_), ElementsAre(3, 4));
  remove_old_checkpoints(files_, "/c", 1, 4);
  EXPECT_THAT(versions(files_), ElementsAre(4));
}

TEST_F(Retention, NeverRemovesTheNewestWholeOne) {
  damage(4);
  damage(3);
  remove_old_checkpoints(files_, "/c", 1);
  EXPECT_THAT(versions(files_), ElementsAre(2, 3, 4));
  auto found = newest_whole_checkpoint(files_, "/c");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->manifest().id.version, 2u);
}

TEST_F(Retention, OneThatCannotBeOpenedDoesNotCount) {
  damage_manifest(3);
  remove_old_checkpoints(files_, "/c", 2);
  EXPECT_THAT(versions(files_), ElementsAre(2, 4));
}

TEST_F(Retention, LeftoversOlderThanTheNewestWholeOneGo) {
  leave_incomplete(0);
  leave_incomplete(5);
  remove_old_checkpoints(files_, "/c", 3);
  EXPECT_THAT(versions(files_), ElementsAre(2, 3, 4, 5));
  Example(5).save(files_, "/c", {5, 2}, 2);
  EXPECT_EQ(newest_whole_checkpoint(files_, "/c")->manifest().id.version, 5u);
}

TEST_F(Retention, WhatIsNotACheckpointIsLeftAlone) {
  files_.make_directory("/c/mine");
  files_.make_directory("/c/checkpoint-1");
  files_.create("/c/checkpoint-000000000009");  // a file
  remove_old_checkpoints(files_, "/c", 1);
  EXPECT_EQ(files_.list("/c").size(), 4u);
  EXPECT_EQ(error_of([&] { remove_old_checkpoints(files_, "/c", 0); }).code(), Code::invalid_argument);
}

TEST_F(Retention, NothingIsRemovedWithoutOneThatIsWhole) {
  for (const std::uint64_t version : {1, 2, 3, 4}) damage(version);
  leave_incomplete(0);
  remove_old_checkpoints(files_, "/c", 1);
  EXPECT_THAT(versions(files_), ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace troupe
