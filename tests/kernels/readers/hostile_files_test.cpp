// Files made to take memory or time from who reads them: what each format's own tests do not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/kernels/readers/array_files.hpp>
#include <troupe/kernels/readers/example.hpp>
#include <troupe/kernels/readers/json_lines.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/kernels/readers/zip.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HostileFiles : public ::testing::Test {
 protected:
  void put(const std::string& bytes) {
    if (!files_.exists("/f")) files_.create("/f");
    files_.content("/f") = bytes;
  }
  // The error of reading all records.
  std::string refused(const RecordFormat& format, std::shared_ptr<const RecordParser> parser = nullptr) {
    return error_of([&] {
             const RecordFiles source(files_, {"/f"}, format, std::move(parser));
             std::vector<Tensor> element;
             const auto cursor = source.open(0);
             while (cursor->next(element)) {
             }
           })
        .to_string();
  }

  MemoryFileSystem files_;
};

TEST_F(HostileFiles, RecordsThatExpandBeyondTheirLimitAreRefused) {
  constexpr std::uint64_t kLimit = 1 << 20;
  const std::string long_line(16 << 20, 'x');
  for (const auto& compress : {gzip, zstd}) {
    put(compress(long_line));
    ASSERT_LT(files_.content("/f").size(), 100'000u);
    EXPECT_THAT(refused(lines_format({.records = {.most_bytes = kLimit}})),
                AllOf(StartsWith("data_loss: /f: byte 0: "), HasSubstr("1048576")));
    put(compress(record_of(long_line)));
    EXPECT_THAT(refused(tfrecord_format({.most_bytes = kLimit})),
                AllOf(StartsWith("data_loss: /f: "), HasSubstr("byte 0"), HasSubstr("1048576")));
  }
}

TEST_F(HostileFiles, ManyFieldsOfJsonOrOfAnExampleAreRead) {
  std::string json = "{";
  for (int i = 0; i < 50'000; ++i) json += fmt::format("\"{}\":0,", i);
  put(json + "\"x\":1}\n");
  const auto fields = std::make_shared<JsonLinesParser>(std::vector<JsonField>{{.name = "x", .dtype = DType::i64}});
  EXPECT_EQ(refused(lines_format(), fields), "ok: ");
  put("{\"x\":[" + std::string(400'000, '[') + "\n");
  EXPECT_THAT(refused(lines_format(), fields), AllOf(StartsWith("data_loss: /f: byte 0: "), HasSubstr("64 levels")));
  std::vector<NamedTensor> features{{"x", Tensor::scalar<std::int64_t>(1)}};
  for (int i = 0; i < 50'000; ++i) features.push_back({std::to_string(i), Tensor::scalar<std::int64_t>(0)});
  put(record_of(example_of(features)));
  const auto examples =
      std::make_shared<ExampleParser>(std::vector<ExampleFeature>{{.name = "x", .dtype = DType::i64}});
  EXPECT_EQ(refused(tfrecord_format(), examples), "ok: ");
}

// The whole is not unpacked for a row.
TEST_F(HostileFiles, ADeflatedArrayThatClaimsMoreThanItHasIsRefusedWithoutRoomForIt) {
  const std::string text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 900000000), }\n";
  std::string head("\x93NUMPY\1\0", 8);
  head += {static_cast<char>(text.size()), '\0'};
  head += text;
  const std::string body(1 << 20, '\0');
  const auto archive = [&] {
    const auto file = files_.create("/f");
    ZipWriter zip(*file, "/f", {.compress = true});
    zip.add("x.npy", std::as_bytes(std::span(head)), std::as_bytes(std::span(body)));
    zip.finish();
  };
  archive();
  EXPECT_EQ(error_of([&] { data::npz("/f", {.files = &files_}); }).to_string(),
            "data_loss: '/f:x.npy': byte 78: |u1[1,900000000] needs 900000000 bytes, but 1048576 follow the header");
  // The archive's directory claims the same.
  std::string& bytes = files_.content("/f");
  const std::size_t entry = bytes.find("PK\1\2");
  const std::uint32_t claimed = 900'000'000 + static_cast<std::uint32_t>(head.size());
  for (std::size_t i = 0; i < 4; ++i) bytes[entry + 24 + i] = static_cast<char>(claimed >> (8 * i));
  EXPECT_THAT(error_of([&] { data::npz("/f", {.files = &files_}); }).to_string(),
              AllOf(StartsWith("data_loss: '/f': zip archive: "), HasSubstr("cannot unpack to 900000078")));
}

}  // namespace
}  // namespace troupe::testing
