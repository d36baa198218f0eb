#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/kernels/readers/byte_stream.hpp>

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

// So many bytes that do not repeat soon.
std::string text_of(std::size_t bytes) {
  std::string out;
  for (std::uint64_t i = 0; out.size() < bytes; ++i) out += std::to_string(i * i * 2654435761u) + ",";
  out.resize(bytes);
  return out;
}

class ByteStreamTest : public ::testing::TestWithParam<Compression> {
 protected:
  std::string packed(std::string_view bytes) const {
    return GetParam() == Compression::gzip   ? gzip(bytes)
           : GetParam() == Compression::zstd ? zstd(bytes)
                                             : std::string(bytes);
  }
  void put(std::string bytes) {
    files_.create("/f");
    files_.content("/f") = std::move(bytes);
  }
  MemoryFileSystem files_;
};

TEST_P(ByteStreamTest, GivesAllBytesInPiecesOfAnySize) {
  const std::string text = text_of(700'000);
  put(packed(text));
  ByteStream stream(files_, "/f");
  EXPECT_EQ(stream.compression(), GetParam());
  std::string got;
  for (std::size_t want = 1; !stream.at_end(); want = want * 7 % 300'007 + 1) {
    EXPECT_EQ(stream.offset(), got.size());
    const std::string_view seen = stream.peek(want);
    ASSERT_TRUE(seen.size() >= want || got.size() + seen.size() == text.size());
    const std::size_t taken = std::min(want, seen.size());
    got += seen.substr(0, taken);
    stream.skip(taken);
  }
  EXPECT_EQ(got, text);
}

TEST_P(ByteStreamTest, GoesToAnyOffset) {
  const std::string text = text_of(400'000);
  put(packed(text));
  ByteStream stream(files_, "/f");
  for (const std::size_t at : {300'000u, 0u, 399'999u, 17u, 400'000u}) {
    stream.seek(at);
    EXPECT_EQ(stream.offset(), at);
    EXPECT_EQ(stream.peek(50).substr(0, 50), text.substr(at, 50));
  }
  EXPECT_TRUE(stream.at_end());
  const Error error = error_of([&] { stream.seek(400'001); });
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.message(), HasSubstr("/f: has 400000 bytes, but must have at least 400001"));
}

TEST_P(ByteStreamTest, AnEmptyFileHasNoBytes) {
  put(packed(""));
  EXPECT_TRUE(ByteStream(files_, "/f").at_end());
}

TEST_P(ByteStreamTest, MembersFollowEachOther) {
  if (GetParam() == Compression::none) return;
  put(packed("one,") + packed("") + packed("two"));
  ByteStream stream(files_, "/f");
  EXPECT_EQ(stream.peek(100), "one,two");
}

TEST_P(ByteStreamTest, DamagedAndCutFilesAreNamedWithTheByte) {
  if (GetParam() == Compression::none) return;
  const std::string whole = packed(text_of(500'000));
  const auto read_all = [&] {
    ByteStream stream(files_, "/f");
    while (!stream.at_end()) stream.skip(stream.peek(1).size());
  };
  put(whole.substr(0, whole.size() / 2));
  Error error = error_of(read_all);
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.message(),
              HasSubstr("/f: the file ends within compressed data, at byte " + std::to_string(whole.size() / 2)));
  std::string flipped = whole;
  for (std::size_t i = whole.size() / 2; i < whole.size() / 2 + 64; ++i) flipped[i] = static_cast<char>(~flipped[i]);
  put(flipped);
  error = error_of(read_all);
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.message(), HasSubstr("/f: before byte "));
}

TEST_P(ByteStreamTest, WhatExpandsALotTakesAWindowOfMemory) {
  put(packed(std::string(64 << 20, 'a')));
  ByteStream stream(files_, "/f");
  std::uint64_t bytes = 0;
  while (!stream.at_end()) {
    const std::size_t seen = stream.peek(1).size();
    ASSERT_LE(seen, 256u << 10);
    stream.skip(seen);
    bytes += seen;
  }
  EXPECT_EQ(bytes, 64u << 20);
}

INSTANTIATE_TEST_SUITE_P(All, ByteStreamTest,
                         ::testing::Values(Compression::none, Compression::gzip, Compression::zstd),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(ByteStream, AMissingFileIsNamed) {
  MemoryFileSystem files;
  EXPECT_EQ(error_of([&] { ByteStream(files, "/none"); }).code(), Code::not_found);
}

}  // namespace
}  // namespace troupe::testing
