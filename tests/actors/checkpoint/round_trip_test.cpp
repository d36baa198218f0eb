// Checkpoints written and read back, on disk and in memory: every type, any cut, missing tensors, commits, retries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/example.hpp"
#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/messages/packed_strings.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::Example;
using ::testing::HasSubstr;
using testing::MemoryFileSystem;

constexpr CheckpointId kId{7, 0xabc};

std::vector<std::string> names_in(FileSystem& files, const std::string& directory) {
  std::vector<std::string> out;
  for (const DirectoryEntry& entry : files.list(directory)) out.push_back(entry.name);
  return out;
}

TEST(Checkpoint, ComesBackFromADiskBitByBit) {
  testing::TemporaryDirectory directory;
  FileSystem& files = posix_file_system();
  const std::string saves = directory.file("deep/saves");
  const Example example(3);
  example.save(files, saves, kId, 3);
  EXPECT_THAT(names_in(files, saves), ElementsAre("checkpoint-000000000007"));
  EXPECT_THAT(names_in(files, saves + "/checkpoint-000000000007"),
              ElementsAre("MANIFEST", "shard-00000-of-00003-0000000000000abc", "shard-00001-of-00003-0000000000000abc",
                          "shard-00002-of-00003-0000000000000abc"));
  auto found = newest_whole_checkpoint(files, saves);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->manifest().id, kId);
  EXPECT_EQ(example.difference(*found), "");
}

TEST(Checkpoint, KeepsEveryType) {
  MemoryFileSystem files;
  std::vector<Tensor> values = {Tensor::vector<float>({1e-40f, -0.0f, std::numeric_limits<float>::infinity()}),
                                Tensor::vector<double>({5e-324, std::numeric_limits<double>::quiet_NaN()}),
                                Tensor::vector<Half>({Half(1.5f)}),
                                Tensor::vector<BFloat16>({BFloat16(-3.0f), BFloat16(0.0f)}),
                                Tensor::vector<std::int8_t>({-128, 127}),
                                Tensor::vector<std::uint8_t>({255}),
                                Tensor::vector<std::int16_t>({-32768}),
                                Tensor::vector<std::int32_t>({-1, 1 << 30}),
                                Tensor::vector<std::int64_t>({std::numeric_limits<std::int64_t>::min()}),
                                Tensor::vector<bool>({true, false}),
                                Tensor::vector<std::string>({"", std::string("a\0b", 3), "\xff"})};
  ShardContents contents;
  for (const Tensor& value : values)
    contents.tensors.push_back({std::string(name(value.dtype())), TensorKind::variable, "", -1, 0, value});
  contents.tensors.push_back({"scalar", TensorKind::variable, "", -1, 0, Tensor::scalar<float>(2)});
  commit_checkpoint(files, "/c", {kId, "", 0, {}, {write_shard(files, "/c", kId, contents)}});
  Checkpoint checkpoint = open_checkpoint(files, checkpoint_folder("/c", 7));
  checkpoint.verify();
  for (const Tensor& value : values)
    EXPECT_TRUE(bitwise_equal(checkpoint.read(name(value.dtype())), value)) << name(value.dtype());
  EXPECT_TRUE(bitwise_equal(checkpoint.read("scalar"), Tensor::scalar<float>(2)));
}

TEST(PackedStrings, AreUnpackedOnlyIntoWhatTheyFill) {
  const Tensor packed = pack_strings(Tensor::vector<std::string>({"a", ""}));
  EXPECT_TRUE(bitwise_equal(unpack_strings({2, 1}, packed), Tensor::of<std::string>({2, 1}, {"a", ""})));
  for (const std::int64_t strings : {0, 1, 3, 1 << 30})
    EXPECT_EQ(error_of([&] { unpack_strings({strings}, packed); }).code(), Code::data_loss) << strings;
  EXPECT_EQ(error_of([&] { unpack_strings({1l << 55}, packed); }).code(), Code::data_loss) << "nothing is allocated";
}

TEST(Checkpoint, RowsAreReadHoweverTheyWereCut) {
  const Example example(11);
  const Tensor& kernel = example.variables().at("dense/kernel");
  for (const std::uint32_t shards : {1u, 2u, 3u, 4u, 13u}) {  // 13: some have no row
    MemoryFileSystem files;
    example.save(files, "/c", kId, shards);
    Checkpoint checkpoint = open_checkpoint(files, checkpoint_folder("/c", 7));
    for (std::int64_t begin = 0; begin <= 10; ++begin)
      for (std::int64_t end = begin; end <= 10; ++end)
        EXPECT_TRUE(bitwise_equal(checkpoint.read_rows("dense/kernel", begin, end), kernel.rows(begin, end)))
            << shards << ": " << begin << " " << end;
    EXPECT_TRUE(bitwise_equal(checkpoint.read_rows("labels", 1, 3), example.variables().at("labels").rows(1, 3)))
        << shards << " shards";
    EXPECT_EQ(example.difference(checkpoint), "") << shards << " shards";
  }
}

TEST(Checkpoint, SaysWhichVariablesThereAre) {
  MemoryFileSystem files;
  Example(1).save(files, "/c", kId, 2);
  const Checkpoint checkpoint = open_checkpoint(files, checkpoint_folder("/c", 7));
  const StoredVariable& slot = checkpoint.variable("dense/kernel/m");
  EXPECT_EQ(slot.kind, TensorKind::slot);
  EXPECT_EQ(slot.variable, "dense/kernel");
  EXPECT_EQ(slot.shape, (Shape{10, 3}));
  EXPECT_EQ(slot.parts.size(), 2u);
}

TEST(Checkpoint, WhatIsNotThereIsNamed) {
  MemoryFileSystem files;
  Example(1).save(files, "/c", kId, 2);
  Checkpoint checkpoint = open_checkpoint(files, checkpoint_folder("/c", 7));
  EXPECT_EQ(error_of([&] { checkpoint.read("none"); }).to_string(),
            "not_found: '/c/checkpoint-000000000007' has no variable or slot 'none'");
  EXPECT_EQ(error_of([&] { checkpoint.read_state(2, "seen"); }).code(), Code::not_found);
  EXPECT_EQ(error_of([&] { checkpoint.read_rows("scale", 0, 0); }).code(), Code::out_of_range);
  EXPECT_EQ(error_of([&] { checkpoint.read_rows("dense/kernel", 9, 11); }).to_string(),
            "out_of_range: 'dense/kernel' has rows [0, 10), requested [9, 11)");
  EXPECT_EQ(error_of([&] { open_checkpoint(files, "/c/none"); }).code(), Code::not_found);
  EXPECT_FALSE(newest_whole_checkpoint(files, "/none"));
}

TEST(Checkpoint, ProgressIsTold) {
  MemoryFileSystem files;
  ShardContents contents;
  contents.tensors.push_back(
      {"a", TensorKind::variable, "", -1, 0, Tensor::zeros(DType::f32, {700'000})});  // three chunks
  contents.tensors.push_back({"b", TensorKind::variable, "", -1, 0, Tensor::zeros(DType::f32, {10})});
  std::vector<std::uint64_t> done;
  const auto progress = [&](std::uint64_t now, std::uint64_t total) {
    EXPECT_EQ(total, 2'800'040u);
    done.push_back(now);
  };
  write_shard(files, "/c", kId, contents, progress);
  EXPECT_THAT(done, ElementsAre(1 << 20, 2 << 20, 2'800'000, 2'800'040));
}

TEST(Checkpoint, ASaveThatIsGivenUpLeavesNothing) {
  MemoryFileSystem files;
  const auto give_up = [](std::uint64_t, std::uint64_t) { fail(Code::cancelled, "the job ends"); };
  EXPECT_EQ(error_of([&] { write_shard(files, "/c", kId, Example(1).contents(0, 1), give_up); }).code(),
            Code::cancelled);
  EXPECT_THAT(names_in(files, "/c"), ElementsAre());
}

TEST(Checkpoint, TensorsThatCannotBeSavedAreNamed) {
  MemoryFileSystem files;
  const auto error_for = [&](SavedTensor tensor) {
    ShardContents contents;
    contents.tensors.push_back(std::move(tensor));
    return error_of([&] { write_shard(files, "/c", kId, contents); }).to_string();
  };
  EXPECT_EQ(error_for({"w", TensorKind::variable, "", -1, 0, Tensor()}),
            "invalid_argument: 'w' cannot be saved: it has no value");
  EXPECT_EQ(error_for({"w", TensorKind::variable, "", 5, 3, Tensor::zeros(DType::f32, {3})}),
            "invalid_argument: 'w' cannot be saved: 3 rows from row 3 exceed its 5 rows");
}

TEST(Commit, RefusesShardsThatDoNotMakeUpACheckpoint) {
  MemoryFileSystem files;
  const Example example(1);
  const ShardManifest first = write_shard(files, "/c", kId, example.contents(0, 2));
  const ShardManifest second = write_shard(files, "/c", kId, example.contents(1, 2));
  EXPECT_EQ(error_of([&] { commit_checkpoint(files, "/c", example.manifest(kId, {first})); }).to_string(),
            "data_loss: rows [5, 10) of 'dense/kernel' are on no shard");
  EXPECT_EQ(error_of([&] {
              commit_checkpoint(files, "/elsewhere", example.manifest(kId, {first, second}));
            }).to_string(),
            "data_loss: '/elsewhere/checkpoint-000000000007/shard-00000-of-00002-0000000000000abc' is missing: do all "
            "shards "
            "save to the same directory?");
  files.content("/c/checkpoint-000000000007/" + second.file).pop_back();
  EXPECT_THAT(error_of([&] {
                commit_checkpoint(files, "/c", example.manifest(kId, {first, second}));
              }).to_string(),
              HasSubstr("bytes, but its shard wrote"));
  EXPECT_FALSE(newest_whole_checkpoint(files, "/c"));
}

TEST(Commit, AShardTellsItsCoordinatorAllOfIt) {
  MemoryFileSystem files;
  const ShardManifest manifest = write_shard(files, "/c", kId, Example(5).contents(1, 3));
  EXPECT_EQ(decode_shard_manifest(encode(manifest)), manifest);
  const std::string bytes = encode(manifest);
  EXPECT_EQ(error_of([&] { decode_shard_manifest(std::string_view(bytes).substr(0, bytes.size() - 1)); }).code(),
            Code::data_loss);
}

TEST(Commit, AnotherAttemptReplacesTheFirstAndItsFiles) {
  MemoryFileSystem files;
  Example(1).save(files, "/c", {7, 1}, 3);
  write_shard(files, "/c", {7, 2}, Example(2).contents(0, 2));  // given up
  Example(3).save(files, "/c", {7, 3}, 2);
  auto found = newest_whole_checkpoint(files, "/c");
  ASSERT_TRUE(found);
  EXPECT_EQ(Example(3).difference(*found), "");
  EXPECT_THAT(
      names_in(files, "/c/checkpoint-000000000007"),
      ElementsAre("MANIFEST", "shard-00000-of-00002-0000000000000003", "shard-00001-of-00002-0000000000000003"));
}

TEST(Commit, AStaleWriterOfTheSameShardHarmsNothing) {
  MemoryFileSystem files;
  Example(1).save(files, "/c", {7, 2}, 1);
  write_shard(files, "/c", {7, 1}, Example(9).contents(0, 1));  // was stopped meanwhile, and goes on
  auto found = newest_whole_checkpoint(files, "/c");
  ASSERT_TRUE(found);
  EXPECT_EQ(Example(1).difference(*found), "");
}

}  // namespace
}  // namespace troupe
