#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include "tests/kernels/readers/hex.hpp"
#include <troupe/kernels/readers/tfrecord.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class TfRecords : public ::testing::Test {
 protected:
  TfRecords() { files_.create("/f"); }
  void put(std::string bytes) { files_.content("/f") = std::move(bytes); }
  std::string written(const std::vector<std::string>& records, TfRecordWriterOptions options = {}) {
    const auto file = files_.create("/written");
    TfRecordWriter writer(*file, options);
    for (const std::string& record : records) writer.append(record);
    writer.finish();
    return files_.content("/written");
  }
  std::vector<std::string> read(RecordOptions options = {}) {
    TfRecordStream stream(files_, "/f", options);
    std::vector<std::string> out;
    for (std::string_view record; stream.next(record);) out.emplace_back(record);
    skipped_ = stream.skipped();
    return out;
  }
  std::string refused(RecordOptions options = {}) {
    return error_of([&] { read(options); }).to_string();
  }

  MemoryFileSystem files_;
  std::uint64_t skipped_ = 0;
};

// The bytes of a record with checksums that are right, whatever the length says.
std::string frame_of(std::uint64_t length, std::string_view data) {
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  const std::uint32_t crc = masked_crc32c(out);
  out.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  return out.append(data);
}

// What TensorBoard's own functions make.
TEST_F(TfRecords, HaveTheChecksumsOfTensorBoard) {
  EXPECT_EQ(masked_crc32c(""), 0xa282ead8u);
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);
  EXPECT_EQ(hex_of(record_of("")), "000000000000000029039807d8ea82a2");
  EXPECT_EQ(hex_of(record_of("abc")), "0300000000000000b099490e6162636e57f121");
}

// Written by tf.io.TFRecordWriter of TensorFlow 2.21, without and with "GZIP".
TEST_F(TfRecords, OfTensorFlowAreReadAndWrittenWithTheSameBytes) {
  const std::string plain = bytes_of(
      "0500000000000000eab2043e666972737455ff23e5000000000000000029039807d8ea82a20e00000000000000c5e5693f0a0c0a0a0a0178"
      "12051a030a01015bcee9ef");
  const std::string packed = bytes_of(
      "1f8b080000000000000363658080579b58ecd2328b8a4b42ff2b3f858a316832cf60bff1aa69111f947ff469a63d170f171717638510ab14"
      "33172363f4b997ef01566c7fd443000000");
  const std::vector<std::string> records = {"first", "", bytes_of("0a0c0a0a0a017812051a030a0101")};
  put(plain);
  EXPECT_EQ(read(), records);
  put(packed);
  EXPECT_EQ(read(), records);
  EXPECT_EQ(written(records), plain);
  put(written(records, {.gzip = true}));
  EXPECT_EQ(ByteStream(files_, "/f").compression(), Compression::gzip);
  EXPECT_EQ(read(), records);
  put(zstd(plain));
  EXPECT_EQ(read(), records);
}

TEST_F(TfRecords, OfAnySizeAreReadAndWritten) {
  std::vector<std::string> records;
  for (std::size_t bytes = 0; bytes < 700'000; bytes = bytes * 3 + 1) {
    records.emplace_back(bytes, 'a');
    for (std::size_t i = 0; i < bytes; ++i) records.back()[i] = static_cast<char>(i * i * 2654435761u >> 16);
  }
  for (const bool gzip : {false, true}) {
    put(written(records, {.gzip = gzip}));
    EXPECT_TRUE(read() == records) << gzip;
  }
  put(written({}));
  EXPECT_THAT(read(), IsEmpty());
  put(written({}, {.gzip = true}));
  EXPECT_THAT(read(), IsEmpty());
}

TEST_F(TfRecords, AreFoundAgainAtTheirPositions) {
  const std::string plain = written({"zero", "one", "", "three"});
  for (const std::string& bytes : {plain, gzip(plain), zstd(plain)}) {
    put(bytes);
    TfRecordStream stream(files_, "/f");
    std::vector<std::uint64_t> positions = {stream.position()};
    std::string_view record;
    while (stream.next(record)) positions.push_back(stream.position());
    EXPECT_THAT(positions, ElementsAre(0, 20, 39, 55, 76));
    stream.seek(20);
    EXPECT_EQ(stream.position(), 20u);
    ASSERT_TRUE(stream.next(record));
    EXPECT_EQ(record, "one");
    stream.seek(55);
    ASSERT_TRUE(stream.next(record));
    EXPECT_EQ(record, "three");
    EXPECT_FALSE(stream.next(record));
    stream.seek(0);
    ASSERT_TRUE(stream.next(record));
    EXPECT_EQ(record, "zero");
  }
}

TEST_F(TfRecords, ErrorsSayWhichRecordAndWhy) {
  const std::string good = record_of("good");
  put(record_of("x").substr(0, 5));
  EXPECT_EQ(refused(), "data_loss: /f: record at byte 0: the file ends after 5 bytes of the 12 before the data");
  put("no TFRecord file");
  EXPECT_THAT(refused(), StartsWith("data_loss: /f: record at byte 0: the checksum of its length is 2064726f, but "));
  EXPECT_THAT(refused(), EndsWith(": is it a TFRecord file?"));
  put(good + record_of("cut").substr(0, 18));
  EXPECT_EQ(refused(), "data_loss: /f: record at byte 20: the file ends after 18 of its 19 bytes");
  put(good + frame_of(3, "abcdefg"));
  EXPECT_EQ(refused(),
            "data_loss: /f: record at byte 20: the checksum of its 3 bytes of data is 67666564, but must be 21f1576e");
  put(good);
  EXPECT_EQ(refused({.most_bytes = 3}),
            "data_loss: /f: record at byte 0: has 4 bytes of data, more than the limit of 3");
  const std::string packed = gzip(good + good);
  put(packed.substr(0, packed.size() - 10));
  EXPECT_THAT(refused(), HasSubstr("/f: the file ends within compressed data, at byte "));
  EXPECT_THAT(refused(), HasSubstr(", within the record at byte "));
}

TEST_F(TfRecords, ALengthThatIsNotThereTakesNoMemory) {
  for (const std::uint64_t length : {std::uint64_t{1} << 60, ~std::uint64_t{0}, ~std::uint64_t{0} - 15}) {
    put(record_of("good") + frame_of(length, "abc") + record_of("where 64 bits overflow"));
    EXPECT_THAT(refused(), StartsWith("data_loss: /f: record at byte 20: has "));
    EXPECT_THAT(refused({.most_bytes = ~std::uint64_t{0}}), StartsWith("data_loss: /f: record at byte 20: "));
    EXPECT_THAT(read({.skip_damaged = true, .most_bytes = ~std::uint64_t{0}}), ElementsAre("good"));
    EXPECT_EQ(skipped_, 1u);
    EXPECT_THAT(read({.skip_damaged = true}), ElementsAre("good"));
    EXPECT_EQ(skipped_, 1u);
  }
}

TEST_F(TfRecords, DamagedOnesAreLeftOutAndCounted) {
  const RecordOptions skip{.skip_damaged = true};
  const std::string good = record_of("good");
  std::string bad_data = record_of("bad!");
  bad_data[13] ^= 1;
  put(good + bad_data + bad_data + good);
  EXPECT_THAT(read(skip), ElementsAre("good", "good"));
  EXPECT_EQ(skipped_, 2u);
  put(good + record_of("too long") + good);
  EXPECT_THAT(read({.skip_damaged = true, .most_bytes = 7}), ElementsAre("good", "good"));
  EXPECT_EQ(skipped_, 1u);
  std::string bad_length = record_of("bad!");
  bad_length[8] ^= 1;
  for (const std::string& rest : {bad_length + good + good, good.substr(0, 3), good.substr(0, 19)}) {
    put(good + rest);
    EXPECT_THAT(read(skip), ElementsAre("good"));
    EXPECT_EQ(skipped_, 1u);
  }
  const std::string packed = zstd(good + good);
  put(zstd(good) + packed.substr(0, packed.size() - 3));
  EXPECT_THAT(read(skip), ElementsAre("good", "good", "good"));
  EXPECT_EQ(skipped_, 1u);
}

TEST_F(TfRecords, AStreamGoesBackFromWhereItGaveUp) {
  std::string bytes = record_of("one") + record_of("two");
  bytes[19] ^= 1;
  put(bytes);
  TfRecordStream stream(files_, "/f", {.skip_damaged = true});
  std::string_view record;
  EXPECT_TRUE(stream.next(record));
  EXPECT_FALSE(stream.next(record));
  EXPECT_FALSE(stream.next(record));
  EXPECT_EQ(stream.skipped(), 1u);
  stream.seek(0);
  ASSERT_TRUE(stream.next(record));
  EXPECT_EQ(record, "one");
}

class DamagedTfRecords : public TfRecords, public ::testing::WithParamInterface<Compression> {
 protected:
  static constexpr std::size_t kRecords = 3;
  const std::string plain_ = record_of("one") + record_of("") + record_of("three");
  const std::string whole_ = GetParam() == Compression::gzip   ? gzip(plain_)
                             : GetParam() == Compression::zstd ? zstd(plain_)
                                                               : plain_;
  // Returns whether the damage shows.
  bool is_refused_or_counted() {
    const Error error = error_of([&] { read(); });
    const auto found = read({.skip_damaged = true});
    if (error.ok()) return false;
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_THAT(error.message(), StartsWith("/f: "));
    EXPECT_THAT(error.message(), HasSubstr("record at byte "));
    EXPECT_GE(skipped_, 1u);
    EXPECT_LE(found.size(), kRecords);
    return true;
  }
};

TEST_P(DamagedTfRecords, EveryCutIsFound) {
  for (std::size_t bytes = 1; bytes < whole_.size(); ++bytes) {
    put(whole_.substr(0, bytes));
    const bool between = GetParam() == Compression::none && (bytes == 19 || bytes == 35);
    EXPECT_EQ(is_refused_or_counted(), !between) << bytes;
  }
}

// A flipped bit of a compressed file's header, as that of the time in gzip, need not matter: then all records are
// there.
TEST_P(DamagedTfRecords, EveryFlippedBitIsFound) {
  put(whole_);
  const auto records = read();
  ASSERT_EQ(records.size(), kRecords);
  for (std::size_t bit = 0; bit < 8 * whole_.size(); ++bit) {
    std::string bytes = whole_;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    put(bytes);
    if (is_refused_or_counted()) continue;
    EXPECT_NE(GetParam(), Compression::none) << bit;
    EXPECT_EQ(read(), records) << bit;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedTfRecords,
                         ::testing::Values(Compression::none, Compression::gzip, Compression::zstd),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace troupe::testing
