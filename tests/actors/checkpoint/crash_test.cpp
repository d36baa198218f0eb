// A save over an older checkpoint is cut off at every operation, with every kind of loss: what is found then is the old
// checkpoint or the new one, whole, and once the save has said that it is done, the new one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/cut_off.hpp"
#include "tests/actors/checkpoint/example.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"

namespace troupe {
namespace {

using testing::cut_off_everywhere;
using testing::CutOff;
using testing::Disk;
using testing::disks;
using testing::error_of;
using testing::Example;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryFileSystem;
using ::testing::Not;
using testing::save;
using testing::Survives;

constexpr const std::string& kDirectory = testing::kCutOffDirectory;
constexpr std::uint32_t kShards = testing::kCutOffShards;

class Crash : public ::testing::Test {
 protected:
  Crash() { old_state_.save(disk_, kDirectory, old_, kShards); }

  CutOff save_new(bool sync_files = true, bool sync_directories = true) {
    return cut_off_everywhere(disk_, old_, old_state_, new_, new_state_, sync_files, sync_directories);
  }

  const CheckpointId old_{10, 1}, new_{20, 2};
  const Example old_state_{1}, new_state_{2};
  MemoryFileSystem disk_;
};

TEST_F(Crash, AtAnyOperationLeavesTheOldOrTheNewOneWhole) {
  const CutOff outcome = save_new();
  EXPECT_THAT(outcome.broken, IsEmpty());
  EXPECT_GE(outcome.points, 50u);
  EXPECT_GT(outcome.old_found, 0u);
  EXPECT_GT(outcome.new_found, 0u);
  RecordProperty("points", static_cast<int>(outcome.points));
}

TEST_F(Crash, TheFirstSaveOfAJobIsThereOrIsNot) {
  std::uint64_t point = 0;
  for (bool complete = false; !complete; ++point) {
    MemoryFileSystem files;
    files.crash_at = point;
    bool done = false;
    complete = !error_of([&] { save(files, new_, new_state_, done); });
    for (const Disk& disk : disks()) {
      MemoryFileSystem after = files.after_crash(disk.survives, disk.seed);
      auto found = newest_whole_checkpoint(after, kDirectory);
      EXPECT_TRUE(found || !done) << point;
      EXPECT_EQ(found ? new_state_.difference(*found) : "", "") << point;
    }
  }
  EXPECT_GE(point, 50u);
}

TEST_F(Crash, SavingAVersionAgainReplacesItAtOnce) {
  const Example again(3);
  const CutOff outcome = cut_off_everywhere(disk_, old_, old_state_, {old_.version, 2}, again, true, true);
  EXPECT_THAT(outcome.broken, IsEmpty());
  EXPECT_GT(outcome.old_found, 0u);
}

TEST_F(Crash, LeftoversOfAnEarlierAttemptAreNoHindrance) {
  disk_.crash_at = disk_.operations() + 30;
  bool done = false;
  EXPECT_TRUE(error_of([&] { save(disk_, {new_.version, 3}, Example(4), done); }));
  for (const Survives survives : {Survives::names, Survives::everything}) {
    const MemoryFileSystem left = disk_.after_crash(survives);
    EXPECT_THAT(cut_off_everywhere(left, old_, old_state_, new_, new_state_, true, true).broken, IsEmpty())
        << (survives == Survives::names ? "the names survive" : "everything survives");
  }
}

TEST_F(Crash, RemovingLeavesNoHalfOfACheckpoint) {
  new_state_.save(disk_, kDirectory, new_, kShards);
  std::uint64_t point = 0;
  for (bool complete = false; !complete; ++point) {
    MemoryFileSystem files = disk_.copy();
    files.crash_at = point;
    complete = !error_of([&] { remove_old_checkpoints(files, kDirectory, 1); });
    for (const Disk& disk : disks()) {
      MemoryFileSystem after = files.after_crash(disk.survives, disk.seed);
      for (const ListedCheckpoint& checkpoint : list_checkpoints(after, kDirectory)) {
        const Error damage = error_of([&] { open_checkpoint(after, checkpoint.folder).verify(); });
        EXPECT_TRUE(!checkpoint.committed || !damage) << point << ": " << damage.to_string();
      }
    }
  }
  EXPECT_GE(point, kShards + 4u);
}

// That these tests would see it if anything were not synced.
TEST_F(Crash, WithoutSyncingFilesPromisesAreBroken) {
  const CutOff outcome = save_new(false, true);
  EXPECT_THAT(outcome.broken, Not(IsEmpty()));
  EXPECT_THAT(outcome.broken.front(), HasSubstr("was lost"));
  EXPECT_THAT(outcome.broken.back(), HasSubstr("none is whole"));
}

TEST_F(Crash, WithoutSyncingFoldersPromisesAreBroken) { EXPECT_THAT(save_new(true, false).broken, Not(IsEmpty())); }

TEST_F(Crash, AFullDiskIsAnErrorAndTheOldOneStays) {
  const MemoryFileSystem& before = disk_;
  std::uint64_t point = 0;
  for (bool complete = false; !complete; ++point) {
    MemoryFileSystem files = before.copy();
    files.full_at = point;
    bool done = false;
    const Error error = error_of([&] { save(files, new_, new_state_, done); });
    complete = files.operations() <= point;
    // Once committed, what is left is to tidy up: it may stay, and the next save will do it.
    EXPECT_TRUE(complete || done || error.code() == Code::resource_exhausted) << point << ": " << error.to_string();
    files.full_at = MemoryFileSystem::kNever;
    auto found = newest_whole_checkpoint(files, kDirectory);
    ASSERT_TRUE(found) << point;
    const bool is_new = found->manifest().id == new_;
    EXPECT_TRUE(is_new || !done) << point;
    EXPECT_EQ((is_new ? new_state_ : old_state_).difference(*found), "") << point;
    for (const ListedCheckpoint& checkpoint : list_checkpoints(files, kDirectory)) {
      const std::size_t left = files.list(checkpoint.folder).size();
      EXPECT_TRUE(checkpoint.committed || left <= kShards) << point << ": what was half written stays";
    }
    bool saved = false;
    save(files, {20, 3}, new_state_, saved);
    found = newest_whole_checkpoint(files, kDirectory);
    EXPECT_EQ(found->manifest().id, (CheckpointId{20, 3})) << point;
    EXPECT_EQ(files.list(kDirectory).size(), 1u) << point;
    EXPECT_EQ(files.list(found->folder()).size(), kShards + 1) << point;
  }
  EXPECT_GE(point, 50u);
}

}  // namespace
}  // namespace troupe
