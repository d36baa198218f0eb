#include "troupe/devices/storage/file_systems.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/devices/storage/scripted_http_server.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/devices/storage/file_pattern.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FileSystems, AreChosenByScheme) {
  EXPECT_EQ(&file_system_of("data/train.csv"), &posix_file_system());
  EXPECT_EQ(&file_system_of("/a/b://c"), &posix_file_system());
  FileSystem& web = file_system_of("https://host/a");
  EXPECT_EQ(&web, &file_system_of("http://other/b"));
  FileSystem& store = file_system_of("s3://bucket/a");
  EXPECT_EQ(&store, &file_system_of("s3://other/b"));
  EXPECT_NE(&store, &web);
  EXPECT_NE(&file_system_of("https://host/a", RemoteAttempts::once), &web);
  const Error error = error_of([] { file_system_of("gs://bucket/a"); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("'gs'"), HasSubstr("s3://")));
}

TEST(FileSystems, AskOnceWhereTheCallerComesAgain) {
  const ScriptedHttpServer server([](const SeenRequest&, int) { return http_answer(503, "", ""); });
  EXPECT_EQ(error_of([&] { file_system_of("http://a", RemoteAttempts::once).list(server.url("/a")); }).code(),
            Code::unavailable);
  EXPECT_EQ(server.seen().size(), 1u);
}

TEST(FileSystems, OfAllPathsTakeEachByItsScheme) {
  const ScriptedHttpServer server([](const SeenRequest& request, int) { return http_file_answer(request, "there"); });
  const TemporaryDirectory directory;
  const std::string here = directory.write("a", "here");
  FileSystem& files = all_file_systems();
  EXPECT_EQ(read_file(files, here, 100), "here");
  EXPECT_EQ(read_file(files, "file://" + here, 100), "here");
  EXPECT_EQ(read_file(files, server.url("/a"), 100), "there");
  files.rename(here, "file://" + directory.file("b"));
  EXPECT_TRUE(files.exists(directory.file("b")));
  const Error error = error_of([&] { files.rename(directory.file("b"), server.url("/a?secret")); });
  EXPECT_EQ(error.code(), Code::unimplemented);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("different file systems"), ::testing::Not(HasSubstr("secret"))));
  EXPECT_EQ(error_of([&] { files.exists("gs://bucket/a"); }).code(), Code::invalid_argument);
}

TEST(FileSystems, UrlsOfFilesAreFilesOfThisMachine) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("a 1.csv", "content"), url = "file://" + path;
  FileSystem& files = file_system_of(url);
  EXPECT_EQ(read_file(files, url, 100), "content");
  EXPECT_EQ(read_file(files, "file://localhost" + path, 100), "content");
  EXPECT_TRUE(files.exists(url));
  EXPECT_THAT(files_matching(files, "file://" + directory.file("a*.csv")), ElementsAre(url));
  replace_file(files, url, "new", "x");
  make_directories(files, "file://" + directory.file("b"));
  files.rename(url, "file://" + directory.file("b/c"));
  EXPECT_EQ(content_of(directory.file("b/c")), "new");
  remove_tree(files, "file://" + directory.file("b"));
  EXPECT_TRUE(files.list("file://" + directory.file("")).empty());
  EXPECT_EQ(error_of([&] { files.open("file://host/a"); }).code(), Code::invalid_argument);
}

TEST(FileSystems, FilesOnTheWebAreFoundByTheirUrlAlone) {
  ScriptedHttpServer server([](const SeenRequest& request, int) {
    return request.target.starts_with("/there") ? http_file_answer(request, "content") : http_answer(404, "", "");
  });
  const std::string there = server.url("/there?a=*&b=?"), gone = server.url("/gone?secret");
  FileSystem& files = file_system_of(there);
  EXPECT_THAT(files_matching(files, there), ElementsAre(there));
  EXPECT_EQ(read_file(files, there, 100), "content");
  const Error error = error_of([&] { files_matching(files, gone); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_EQ(error.message(), server.url("/gone") + ": there is no such file");
  const Error pattern = error_of([&] { files_matching(files, server.url("/there*")); });
  EXPECT_EQ(pattern.code(), Code::unimplemented);
  EXPECT_THAT(pattern.message(), HasSubstr("may list no folders; name each file"));
}

}  // namespace
}  // namespace troupe::testing
