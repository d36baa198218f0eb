// Objects of another program's store: moto, which checks signatures with AWS's own code. Skipped where build/python
// has none (tools/setup.sh --with-peers).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/processes/child.hpp"
#include <troupe/devices/storage/file_pattern.hpp>
#include <troupe/devices/storage/remote/s3_file_system.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ObjectStore, OfAnotherProgramIsRead) {
  const char* const given = std::getenv("TROUPE_MOTO_PYTHON");
  const std::string python = given ? given : source_file("build/python/bin/python3");
  const std::string script = source_file("tests/devices/storage/object_store.py");
  if (!std::filesystem::exists(python) || std::system((python + " " + script + " check 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no moto in build/python: tools/setup.sh --with-peers";
  ::setenv("no_proxy", "127.0.0.1", 1);
  Child store({python, script});
  std::string said;
  while (store.out_fd() >= 0 && said.find('\n') == said.npos) store.read_out(said);
  if (said.find('\n') == said.npos) {
    while (store.err_fd() >= 0) store.read_err(said);
    FAIL() << said;
  }
  S3Options options;
  std::istringstream(said) >> options.endpoint >> options.credentials.access_key_id >>
      options.credentials.secret_access_key;
  const HttpOptions http{.wait = [](std::chrono::milliseconds) {}};
  S3FileSystem files(options, http);

  for (const std::string folder : {"train", "odd names +&<ü"}) {
    const std::vector<std::string> found = files_matching(files, "s3://data/" + folder + "/0*.bin");
    ASSERT_THAT(found, SizeIs(10)) << folder;
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(read_file(files, found[i], 1 << 20), std::string(1000 * i, static_cast<char>(i))) << found[i];
    EXPECT_THAT(files.list("s3://data/" + folder), SizeIs(12));
  }
  EXPECT_THAT(files.list("s3://data"), ElementsAre(DirectoryEntry{"odd names +&<ü", true}, DirectoryEntry{"top.bin"},
                                                   DirectoryEntry{"train", true}));
  EXPECT_TRUE(files.exists("s3://data/train"));
  EXPECT_FALSE(files.exists("s3://data/none"));
  EXPECT_EQ(error_of([&] { files.open("s3://data/none"); }).code(), Code::not_found);
  EXPECT_EQ(error_of([&] { files.list("s3://none/a"); }).code(), Code::not_found);

  options.credentials.secret_access_key += "x";
  S3FileSystem wrong(options, http);
  const Error error = error_of([&] { wrong.open("s3://data/top.bin"); });
  EXPECT_EQ(error.code(), Code::permission_denied);
  EXPECT_THAT(error.message(), HasSubstr("AWS_SECRET_ACCESS_KEY is not the secret of AWS_ACCESS_KEY_ID"));
}

}  // namespace
}  // namespace troupe::testing
