// Elements kept in memory and in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include <troupe/devices/storage/crc32c.hpp>
#include <troupe/messages/body_codec.hpp>
#include <troupe/scheduler/data/cache_file.hpp>
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/element_table.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Squares of 0 .. 19 and texts of other lengths; another result in each epoch.
class CacheTest : public ::testing::Test {
 protected:
  data::Pipeline squares(bool addressable) {
    const data::Pipeline numbers = data::range(0, 20);
    const BatchSchema schema = {{"square", DType::i64, Shape{}}, {"texts", DType::string, Shape{kUnknown}}};
    const auto square = [this](const data::Element& e, const data::ElementContext& c) -> data::Element {
      ++made_;
      const auto n = e[0].item<std::int64_t>();
      Tensor texts(DType::string, Shape{n % 3});
      for (std::int64_t i = 0; i < n % 3; ++i)
        texts.mutable_data<std::string>()[i] = std::string(static_cast<std::size_t>(n), 'x');
      return {Tensor::scalar(n * n + static_cast<std::int64_t>(1000 * c.epoch)), texts};
    };
    return (addressable ? numbers : numbers.filter("all", [](const data::Element&) { return true; }))
        .map("square", schema, square);
  }
  data::Pipeline kept() { return data::cache_file(squares(false), "/cache", {.files = &files_}); }
  std::string refused() {
    return error_of([&] { kept(); }).to_string();
  }
  static std::int64_t sum_of(const PipelineSource& source, std::uint32_t epoch) {
    const auto reader = source.open({.batch = 4, .slots = 1});
    std::int64_t sum = 0;
    for (std::uint64_t step = 0; const auto batch = reader->read(epoch, step, 0); ++step)
      for (const std::int64_t x : batch->components[0].values<std::int64_t>()) sum += x;
    return sum;
  }

  static constexpr std::int64_t kSum = 2470;  // of the squares
  MemoryFileSystem files_;
  std::atomic<int> made_ = 0;
};

TEST_F(CacheTest, MakesEachElementOnceForAllReadersAndEpochs) {
  for (const bool addressable : {true, false}) {
    const data::Pipeline pipeline = squares(addressable).cache().padded_batch(4);
    made_ = 0;
    const PipelineSource source(pipeline);
    for (const std::uint32_t epoch : {1u, 0u, 5u}) EXPECT_EQ(sum_of(source, epoch), kSum);
    EXPECT_EQ(sum_of(PipelineSource(pipeline), 2), kSum);
    EXPECT_EQ(made_, 20);
    const auto figures = source.statistics().snapshot();
    EXPECT_EQ(figures[figures.size() - 2].held_bytes,
              20u * 8 + (1 + 4 + 7 + 10 + 13 + 16 + 19) + 2 * (2 + 5 + 8 + 11 + 14 + 17));
  }
}

TEST_F(CacheTest, ElementsThatNobodyMadeAreReadAgain) {
  const auto stream = open_stream(squares(false).cache().stage());
  for (const std::uint64_t epoch : {0u, 1u}) {
    stream->start(epoch);
    for (int i = 0; i < 5; ++i) stream->next_pending();
    EXPECT_TRUE(stream->skip());
    EXPECT_EQ(made_, 0);
  }
  stream->start(2);
  EXPECT_EQ(stream->next()->at(0).item<std::int64_t>(), 0);
  EXPECT_EQ(stream->next()->at(0).item<std::int64_t>(), 1);
}

TEST_F(CacheTest, KeepsNoMoreThanItsLimit) {
  for (const bool addressable : {true, false}) {
    const PipelineSource source(squares(addressable).cache(100).padded_batch(4));
    const Error error = error_of([&] { sum_of(source, 0); });
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("stage 'cache'"), HasSubstr("the limit is 100")));
  }
}

TEST_F(CacheTest, AFileIsWrittenOnceAndReadByNumber) {
  const data::Pipeline first = kept();
  EXPECT_EQ(made_, 20);
  const data::Pipeline second = kept();
  EXPECT_EQ(made_, 20);
  EXPECT_EQ(second.size(), 20u);
  EXPECT_TRUE(second.addressable());
  EXPECT_EQ(sum_of(PipelineSource(second.shuffle(1).padded_batch(4)), 3), kSum);
  const auto table = open_table(second.stage());
  for (const std::uint64_t i : {17u, 0u, 19u, 3u}) {
    const data::Element element = table->read(9, i);
    EXPECT_EQ(element.at(0).item<std::int64_t>(), static_cast<std::int64_t>(i * i));
    EXPECT_EQ(element.at(1).shape(), Shape{static_cast<std::int64_t>(i % 3)});
    for (const std::string& text : element.at(1).values<std::string>()) EXPECT_EQ(text, std::string(i, 'x'));
  }
}

TEST_F(CacheTest, AFileOfAnotherPipelineIsRefused) {
  kept();
  EXPECT_THAT(error_of([&] { data::cache_file(squares(false).take(3), "/cache", {.files = &files_}); }).to_string(),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("/cache"), HasSubstr("another pipeline")));
}

TEST_F(CacheTest, APassThatFailsLeavesNoFile) {
  const data::Pipeline fails = squares(false).filter("fails", [](const data::Element& e) -> bool {
    if (e[0].item<std::int64_t>() == 81) fail(Code::unavailable, "not now");
    return true;
  });
  EXPECT_EQ(error_of([&] { data::cache_file(fails, "/cache", {.files = &files_}); }).code(), Code::unavailable);
  EXPECT_FALSE(files_.exists("/cache"));
}

// Every byte changed, and the file cut anywhere: an error, or the same elements.
TEST_F(CacheTest, ADamagedFileIsAnError) {
  kept();
  const std::string good = files_.content("/cache");
  const auto read = [&] {
    const auto table = open_table(kept().stage());
    for (std::uint64_t i = 0; i < 20; ++i)
      if (table->read(0, i).at(0).item<std::int64_t>() != static_cast<std::int64_t>(i * i))
        fail(Code::internal, "another element");
  };
  read();
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string& bytes = files_.content("/cache");
    bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    EXPECT_EQ(error_of(read).code(), Code::data_loss) << at;
    bytes = good.substr(0, at);
    EXPECT_EQ(error_of(read).code(), Code::data_loss) << at;
  }
}

// With right checksums: sizes are checked against the bytes that there are.
TEST_F(CacheTest, AnElementThatDoesNotFitItsBytesIsAnError) {
  kept();
  const std::string good = files_.content("/cache");
  const std::size_t list_at = good.size() - 28 - 20 * 12;
  const auto with = [&](std::uint64_t number, std::size_t at, std::uint64_t value) {
    std::string bytes = good;
    const auto offset = [&](std::uint64_t i) { return read_little_endian<std::uint64_t>(&bytes[list_at + i * 12]); };
    write_little_endian(&bytes[offset(number) + at], value);
    const std::string_view element(&bytes[offset(number)], offset(number + 1) - offset(number));
    write_little_endian(&bytes[list_at + number * 12 + 8], crc32c(element));
    write_little_endian(&bytes[bytes.size() - 12], crc32c(std::string_view(&bytes[list_at], 20 * 12)));
    files_.content("/cache") = bytes;
    return error_of([&] { open_table(kept().stage())->read(0, number); }).to_string();
  };
  // Element 4: the square, the number of texts, the length of the only one.
  EXPECT_THAT(with(4, 8, 1000),
              AllOf(HasSubstr("data_loss"), HasSubstr("/cache"), HasSubstr("element 4"), HasSubstr("'texts'")));
  EXPECT_THAT(with(4, 8, ~std::uint64_t{0}), HasSubstr("dimension 0 of 'texts'"));
  EXPECT_THAT(with(4, 8, 0), HasSubstr("bytes behind"));
  EXPECT_THAT(with(4, 16, 5), HasSubstr("needs 5 bytes, but 4 are left"));
}

}  // namespace
}  // namespace troupe::testing
