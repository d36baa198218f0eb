// Pipelines of files on a web server: the same elements as of the files here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/actors/checkpoint/memory_file_system.hpp"
#include "tests/devices/storage/scripted_http_server.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/readers/compressed.hpp"
#include <troupe/devices/storage/remote/http_file_system.hpp>
#include <troupe/kernels/readers/npy.hpp>
#include <troupe/kernels/readers/npz.hpp>
#include <troupe/kernels/readers/record_formats.hpp>
#include <troupe/kernels/readers/record_index.hpp>
#include <troupe/kernels/readers/text_table.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> records_in(const data::Pipeline& pipeline) {
  const PipelineSource source(pipeline);
  const auto reader = source.open({.batch = 7, .shuffle = false, .last = LastStep::keep});
  std::vector<std::string> out;
  for (std::uint64_t step = 0;; ++step) {
    const std::optional<Batch> batch = reader->read(0, step, 0);
    if (!batch) return out;
    const auto records = batch->components.at(0).values<std::string>();
    out.insert(out.end(), records.begin(), records.end());
  }
}

class RemoteRecords : public ::testing::Test {
 protected:
  RemoteRecords()
      : server_([this](const SeenRequest& request, int number) {
          const auto found = content_.find(request.target.substr(0, request.target.find('?')));
          if (found == content_.end()) return http_answer(404, "", "");
          const std::string right = http_file_answer(request, found->second, "ETag: \"1\"\r\n");
          // Every third connection breaks, every fifth request is refused for now.
          if (number % 5 == 4) return http_answer(503, "", "");
          return number % 3 == 2 && request.method == "GET" ? right.substr(0, right.size() * 2 / 3) : right;
        }),
        web_({.attempts = 10, .wait = [](std::chrono::milliseconds) {}, .first_request = 512}) {}

  void put(const std::string& name, const std::string& bytes) {
    content_[name] = bytes;
    here_.create(name);
    here_.content(name) = bytes;
  }
  std::string url(const std::string& name) const { return server_.url(name); }

  std::map<std::string, std::string> content_;
  MemoryFileSystem here_;
  ScriptedHttpServer server_;
  HttpFileSystem web_;
};

TEST_F(RemoteRecords, AreThoseOfTheFilesHere) {
  std::vector<std::string> names, urls;
  for (int file = 0; file < 3; ++file) {
    std::string bytes;
    for (int i = 0; i < 200; ++i) bytes += record_of(fmt::format("{} {} {}", file, i, std::string(i % 97, 'x')));
    names.push_back(fmt::format("/{}.tfrecord", file));
    put(names.back(), file == 1 ? gzip(bytes) : bytes);
    urls.push_back(url(names.back()) + "?secret=1");
  }
  const auto here = data::records(names, tfrecord_format(), nullptr, {.files = &here_}).shuffle(7);
  const auto there = data::records(urls, tfrecord_format(), nullptr, {.files = &web_}).shuffle(7);
  const std::vector<std::string> expected = records_in(here);
  EXPECT_EQ(expected.size(), 600u);
  EXPECT_EQ(records_in(there), expected);
  EXPECT_THAT(there.describe(), Not(HasSubstr("secret")));
}

TEST_F(RemoteRecords, AreReadByNumberWithAnIndexBesideOrWithout) {
  std::string bytes;
  for (int i = 0; i < 120; ++i) bytes += record_of(std::string(static_cast<std::size_t>(4 * i), 'a'));
  put("/a", bytes);
  const data::FilesOptions options{.files = &web_, .addressable = true};
  const auto expected =
      records_in(data::records("/a", tfrecord_format(), nullptr, {.files = &here_, .addressable = true}).shuffle(1));
  EXPECT_EQ(records_in(data::records(url("/a?secret"), tfrecord_format(), nullptr, options).shuffle(1)), expected);
  content_["/a.index"] = here_.content("/a.index");
  server_.forget();
  const auto indexed = data::records(url("/a?secret"), tfrecord_format(), nullptr, options);
  for (const SeenRequest& request : server_.seen())  // what builds an index reads all records
    EXPECT_TRUE(request.target.starts_with("/a.index") || request.header("range") != "bytes=512-2559");
  EXPECT_EQ(records_in(indexed.shuffle(1)), expected);
}

TEST_F(RemoteRecords, ErrorsNameTheFileWithoutSecrets) {
  std::string bytes = record_of("one") + record_of("two");
  bytes[bytes.size() - 1] ^= 1;
  put("/a", bytes);
  const auto records = data::records(url("/a?secret"), tfrecord_format(), nullptr, {.files = &web_});
  const Error error = error_of([&] { records_in(records); });
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.message(), AllOf(HasSubstr(url("/a") + ": record at byte 19"), Not(HasSubstr("secret"))));
  put("/b.npy", "damaged");
  EXPECT_THAT(error_of([&] { read_npy(web_, url("/b.npy?secret")); }).message(),
              AllOf(HasSubstr(url("/b.npy")), Not(HasSubstr("secret"))));
}

TEST_F(RemoteRecords, TablesAndTensorsAreReadToo) {
  content_["/table.tsv.gz"] = gzip("a\tb\nc\td\n");
  const std::vector<TableRow> rows = read_table(url("/table.tsv?key=1"), 2);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1][1], "d");
  const Tensor tensor = Tensor(DType::f32, Shape{5000});
  write_npz(here_, "/a.npz", std::vector<NamedTensor>{{"x", tensor}, {"y", tensor}});
  content_["/a.npz"] = here_.content("/a.npz");
  NpzFile npz(web_, url("/a.npz"));
  EXPECT_TRUE(bitwise_equal(npz.read("y"), tensor));
  content_["/rows.csv"] = "x,y\n1,one\n2,two\n";
  const auto csv = data::csv(std::vector<std::string>{url("/rows.csv"), url("/rows.csv")}, {}, {.files = &web_});
  const PipelineSource source(csv);
  const std::optional<Batch> batch = source.open({.batch = 4, .shuffle = false})->read(0, 0, 0);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->components.at(1).values<std::string>()[3], "two");
}

}  // namespace
}  // namespace troupe::testing
