#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {
namespace {

using testing::content_of;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

class PosixFileSystem : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.file(name); }

  testing::TemporaryDirectory directory_;
  FileSystem& files_ = posix_file_system();
};

TEST_F(PosixFileSystem, WritesAndReadsRanges) {
  const auto file = files_.create(path("a"));
  file->append(bytes("hello "));
  file->append(bytes("world"));
  file->sync();
  file->close();
  EXPECT_EQ(content_of(path("a")), "hello world");
  const auto read = files_.open(path("a"));
  EXPECT_EQ(read->size(), 11u);
  std::string word(5, ' ');
  read->read(6, std::as_writable_bytes(std::span(word)));
  EXPECT_EQ(word, "world");
  EXPECT_EQ(error_of([&] { read->read(7, std::as_writable_bytes(std::span(word))); }).to_string(),
            "data_loss: '" + path("a") + "' ends before byte 12");
  EXPECT_EQ(error_of([&] { read->read(~0ull, std::as_writable_bytes(std::span(word))); }).code(), Code::data_loss);
  files_.create(path("a"))->close();
  EXPECT_EQ(content_of(path("a")), "");
}

TEST_F(PosixFileSystem, ListsByName) {
  files_.make_directory(path("b"));
  directory_.write("c", "");
  directory_.write("a", "");
  EXPECT_THAT(files_.list(path("")),
              ElementsAre(DirectoryEntry{"a", false}, DirectoryEntry{"b", true}, DirectoryEntry{"c", false}));
  EXPECT_TRUE(files_.exists(path("b")));
  EXPECT_FALSE(files_.exists(path("d")));
  EXPECT_FALSE(files_.exists(path("a/x")));
  files_.rename(path("a"), path("c"));
  files_.remove(path("c"));
  files_.remove_directory(path("b"));
  files_.sync_directory(path(""));
  EXPECT_THAT(files_.list(path("")), ElementsAre());
}

TEST_F(PosixFileSystem, MappedFilesOutliveTheirNames) {
  directory_.write("a", "content");
  EXPECT_FALSE(files_.open(directory_.write("empty", ""))->map()) << "no page to map";
  const BufferRef mapped = files_.open(path("a"))->map();
  ASSERT_TRUE(mapped);
  replace_file(files_, path("a"), "another", "x");
  files_.remove(path("a"));
  EXPECT_EQ(std::string_view(static_cast<const char*>(mapped->data()), mapped->size()), "content");
  EXPECT_FALSE(mapped->unique()) << "somebody would write to it";
}

TEST_F(PosixFileSystem, ListsLinksAsLinks) {
  files_.make_directory(path("b"));
  ASSERT_EQ(::symlink(path("b").c_str(), path("c").c_str()), 0);
  EXPECT_THAT(files_.list(path("")), ElementsAre(DirectoryEntry{"b", true, false}, DirectoryEntry{"c", false, true}));
}

TEST_F(PosixFileSystem, ErrorsNamePathAndReason) {
  directory_.write("file", "x");
  files_.make_directory(path("full"));
  files_.create(path("full/x"));
  const auto code = [](auto&& f) { return error_of(f).code(); };
  EXPECT_EQ(error_of([&] { files_.open(path("none")); }).to_string(),
            "not_found: cannot open '" + path("none") + "': No such file or directory");
  EXPECT_EQ(code([&] { files_.create(path("none/x")); }), Code::not_found);
  EXPECT_EQ(code([&] { files_.list(path("none")); }), Code::not_found);
  EXPECT_EQ(code([&] { files_.remove(path("none")); }), Code::not_found);
  EXPECT_EQ(code([&] { files_.rename(path("none"), path("other")); }), Code::not_found);
  EXPECT_EQ(code([&] { files_.make_directory(path("file")); }), Code::already_exists);
  EXPECT_EQ(code([&] { files_.remove_directory(path("full")); }), Code::failed_precondition);
  EXPECT_EQ(code([&] { files_.create(path("full")); }), Code::failed_precondition);
  EXPECT_EQ(code([&] { files_.open(path("full")); }), Code::failed_precondition);
  EXPECT_EQ(code([&] { files_.sync_directory(path("file")); }), Code::failed_precondition);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(code([&] { files_.open(path("pipe")); }), Code::failed_precondition) << "and does not wait";
}

TEST_F(PosixFileSystem, AFullDiskIsAnErrorThatSaysSo) {
  const Error error = error_of([&] { files_.create("/dev/full")->append(bytes("x")); });
  EXPECT_EQ(error.to_string(),
            "resource_exhausted: cannot write '/dev/full': No space left on device; free disk space");
}

TEST_F(PosixFileSystem, MakesFoldersAboveOne) {
  make_directories(files_, path("a/b/c"));
  make_directories(files_, path("a/b/c"));
  EXPECT_TRUE(files_.exists(path("a/b/c")));
  directory_.write("file", "x");
  EXPECT_THAT(error_of([&] { make_directories(files_, path("file/b")); }).message(), HasSubstr(path("file/b")));
}

TEST_F(PosixFileSystem, AFolderThatCannotBeMadeIsCalledAFolder) {
  const std::string message = error_of([&] { make_directories(files_, "/proc/x"); }).message();
  EXPECT_THAT(message, HasSubstr("cannot create folder '/proc/x': "));
  EXPECT_THAT(message, HasSubstr("pass a path where this program may create folders"));
}

TEST_F(PosixFileSystem, AFolderIsNotReplacedByAFile) {
  files_.make_directory(path("a"));
  EXPECT_EQ(error_of([&] { replace_file(files_, path("a"), "new", "1"); }).to_string(),
            "failed_precondition: cannot write file '" + path("a") + "': it is a folder; pass the path of a file");
  EXPECT_EQ(files_.list(path("")).size(), 1u);
}

TEST_F(PosixFileSystem, ReplacesAFileAtOnce) {
  replace_file(files_, path("a"), "old", "1");
  replace_file(files_, path("a"), "new", "1");
  EXPECT_EQ(content_of(path("a")), "new");
  EXPECT_EQ(files_.list(path("")).size(), 1u);
  EXPECT_EQ(read_file(files_, path("a"), 3), "new");
  EXPECT_EQ(error_of([&] { read_file(files_, path("a"), 2); }).to_string(),
            "resource_exhausted: '" + path("a") + "' has 3 bytes; the limit is 2");
}

TEST(Paths, JoinAndPart) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("a//b"), "a");
  EXPECT_EQ(parent_path("b"), ".");
  EXPECT_EQ(parent_path("/b"), "/");
  EXPECT_EQ(parent_path("/"), "/");
}

}  // namespace
}  // namespace troupe
