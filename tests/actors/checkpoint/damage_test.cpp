// Every byte of a checkpoint is flipped, and every file cut at every length: each damage is refused by a name, and the
// checkpoint before is used. No byte is without meaning: those between tensors must be zero.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/example.hpp"
#include "tests/actors/checkpoint/forwarding_file_system.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"

namespace troupe {
namespace {

using testing::error_of;
using testing::Example;
using ::testing::HasSubstr;
using testing::MemoryFileSystem;

constexpr std::uint32_t kDamagedShards = 2;

class Damage : public ::testing::Test {
 protected:
  Damage() {
    Example(1).save(files_, "/c", {1, 1}, kDamagedShards);
    Example(2).save(files_, "/c", {2, 1}, kDamagedShards);
    for (const DirectoryEntry& entry : files_.list(folder_)) paths_.push_back(join_path(folder_, entry.name));
  }

  // The damage done, the checkpoint is refused and the one before is found.
  void expect_refused(const std::string& path, const std::string& tensor, const std::string& how) {
    Error reason;
    int refused = 0;
    auto found = newest_whole_checkpoint(files_, "/c", [&](const std::string& folder, const Error& error) {
      EXPECT_EQ(folder, folder_);
      reason = error;
      ++refused;
    });
    ASSERT_EQ(refused, 1) << path << " " << how;
    EXPECT_EQ(reason.code(), Code::data_loss) << path << " " << how;
    EXPECT_THAT(reason.message(), HasSubstr(path)) << how;
    EXPECT_THAT(reason.message(), HasSubstr(tensor.empty() ? "" : "'" + tensor + "'")) << path << " " << how;
    ASSERT_TRUE(found) << path << " " << how;
    EXPECT_EQ(found->manifest().id.version, 1u);
    EXPECT_EQ(Example(1).difference(*found), "");
  }
  // The tensor that has the byte, or lies before it; "" in the manifest.
  static std::string tensor_at(const Checkpoint& checkpoint, const std::string& path, std::uint64_t at) {
    std::string name;
    for (const ShardManifest& shard : checkpoint.manifest().shards)
      for (const TensorEntry& entry : shard.tensors)
        if (path.ends_with(shard.file) && entry.offset <= at && entry.bytes > 0) name = entry.name;
    return name;
  }

  MemoryFileSystem files_;
  const std::string folder_ = checkpoint_folder("/c", 2);
  std::vector<std::string> paths_;
};

TEST_F(Damage, AFlippedBitInAnyByteIsRefused) {
  const Checkpoint whole = open_checkpoint(files_, folder_);
  std::size_t places = 0;
  for (const std::string& path : paths_) {
    std::string& content = files_.content(path);
    for (std::size_t i = 0; i < content.size(); ++i, ++places) {
      content[i] = static_cast<char>(content[i] ^ (1 << i % 8));
      expect_refused(path, tensor_at(whole, path, i), fmt::format("byte {}", i));
      content[i] = static_cast<char>(content[i] ^ (1 << i % 8));
    }
  }
  EXPECT_GE(places, 200u);
  EXPECT_EQ(newest_whole_checkpoint(files_, "/c")->manifest().id.version, 2u);
}

TEST_F(Damage, EveryTruncationIsRefused) {
  std::size_t places = 0;
  for (const std::string& path : paths_) {
    const std::string content = files_.content(path);
    for (std::size_t size = 0; size < content.size(); ++size, ++places) {
      files_.content(path) = content.substr(0, size);
      expect_refused(path, "", fmt::format("cut to {}", size));
    }
    files_.content(path) = content + '\0';
    expect_refused(path, "", "a byte more");
    files_.content(path) = content;
  }
  EXPECT_GE(places, 200u);
}

TEST_F(Damage, AFileThatIsMissingOrAnotherIsRefused) {
  const std::string shard = paths_.back();
  const std::string content = files_.content(shard);
  files_.remove(shard);
  expect_refused(shard, "", "missing");
  files_.make_directory(shard);
  expect_refused(shard, "", "a folder");
  files_.remove_directory(shard);
  files_.create(shard);
  files_.content(shard) = files_.content(checkpoint_folder("/c", 1) + "/" + shard.substr(shard.rfind('/') + 1));
  expect_refused(shard, "", "of another checkpoint");
}

TEST_F(Damage, TheManifestOfAnotherVersionIsRefused) {
  files_.content(folder_ + "/MANIFEST") = files_.content(checkpoint_folder("/c", 1) + "/MANIFEST");
  expect_refused(folder_ + "/MANIFEST", "", "of version 1");
}

TEST_F(Damage, ATensorIsCheckedWhenItIsRead) {
  Checkpoint checkpoint = open_checkpoint(files_, folder_);
  const StoredVariable::Part part = checkpoint.variable("dense/kernel").parts[1];
  const ShardManifest& shard = checkpoint.manifest().shards[part.shard];
  files_.content(join_path(folder_, shard.file))[shard.tensors[part.tensor].offset + 5] ^= 4;
  EXPECT_NO_THROW(checkpoint.read_rows("dense/kernel", 0, 5));
  EXPECT_EQ(
      error_of([&] { checkpoint.read("dense/kernel"); }).to_string(),
      fmt::format("data_loss: '{}/{}' is damaged: crc32c mismatch in variable 'dense/kernel'", folder_, shard.file));
}

TEST_F(Damage, WhatMayPassIsNoReasonToGoBack) {
  struct NoDescriptors final : testing::ForwardingFileSystem {
    using ForwardingFileSystem::ForwardingFileSystem;
    std::unique_ptr<ReadableFile> open(const std::string&) override {
      fail(Code::resource_exhausted, "too many open files");
    }
  };
  NoDescriptors files(files_);
  EXPECT_EQ(error_of([&] { newest_whole_checkpoint(files, "/c"); }).code(), Code::resource_exhausted);
  EXPECT_EQ(error_of([&] { remove_old_checkpoints(files, "/c", 1); }).code(), Code::resource_exhausted);
  EXPECT_EQ(list_checkpoints(files_, "/c").size(), 2u);
}

}  // namespace
}  // namespace troupe
