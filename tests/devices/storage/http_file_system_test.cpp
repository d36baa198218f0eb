#include "troupe/devices/storage/remote/http_file_system.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/actors/wire/certificates.hpp"
#include "tests/devices/storage/scripted_http_server.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/devices/storage/remote/http_listing.hpp>

namespace troupe::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

std::string some_bytes(std::size_t size) {
  std::string out(size, '\0');
  std::uint32_t x = 1;
  for (char& c : out) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return out;
}

std::string read_at(ReadableFile& file, std::uint64_t offset, std::size_t bytes) {
  std::string out(bytes, '\0');
  file.read(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

class HttpFiles : public ::testing::Test {
 protected:
  HttpFiles() {
    options_.wait = [this](std::chrono::milliseconds wait) { waits_.push_back(wait); };
  }
  void serve(ScriptedHttpServer::Script script) {
    server_.emplace(std::move(script));
    files_.emplace(options_);
  }
  // A right server but for the requests that `fault` answers; "" : answers as it should.
  void serve_but(ScriptedHttpServer::Script fault) {
    serve([this, fault](const SeenRequest& request, int number) {
      const std::string wrong = fault(request, number);
      return wrong.empty() ? http_file_answer(request, content_, "ETag: \"1\"\r\n") : wrong;
    });
  }
  void serve_rightly() {
    serve_but([](const SeenRequest&, int) { return std::string(); });
  }
  std::string url() const { return server_->url("/data"); }
  std::string read_all() { return read_file(*files_, url(), 1 << 30); }
  Error error_of_reading() {
    return error_of([&] { read_all(); });
  }
  std::vector<std::string> ranges() const {
    std::vector<std::string> out;
    for (const SeenRequest& request : server_->seen()) out.push_back(request.method + " " + request.header("range"));
    return out;
  }

  HttpOptions options_;
  std::vector<std::chrono::milliseconds> waits_;
  std::string content_ = some_bytes(1000);
  std::optional<ScriptedHttpServer> server_;
  std::optional<HttpFileSystem> files_;
};

TEST_F(HttpFiles, AreReadByRanges) {
  serve_rightly();
  const auto file = files_->open(url());
  EXPECT_EQ(file->size(), 1000u);
  EXPECT_EQ(read_at(*file, 10, 20), content_.substr(10, 20));
  EXPECT_EQ(read_at(*file, 900, 100), content_.substr(900));
  EXPECT_THAT(ranges(), ElementsAre("HEAD ", "GET bytes=10-999"));
  for (const char* header : {"if-match", "if-range"}) EXPECT_EQ(server_->seen()[1].header(header), "\"1\"") << header;
  const Error error = error_of([&] { read_at(*file, 990, 11); });
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.message(), HasSubstr("ends before byte 1001"));
}

TEST_F(HttpFiles, ReadersThatGoOnGetLargerRequests) {
  options_.first_request = 16;
  options_.most_read_ahead = 256;
  serve_rightly();
  const auto file = files_->open(url());
  std::string all;
  for (std::size_t at = 0; at < 1000; at += 8) all += read_at(*file, at, 8);
  EXPECT_EQ(all, content_);
  EXPECT_THAT(ranges(), ElementsAre("HEAD ", "GET bytes=0-15", "GET bytes=16-79", "GET bytes=80-335",
                                    "GET bytes=336-591", "GET bytes=592-847", "GET bytes=848-999"));
}

TEST_F(HttpFiles, ReadsElsewhereGetSmallRequests) {
  options_.first_request = 16;
  serve_rightly();
  const auto file = files_->open(url());
  for (const std::size_t at : {500, 100, 900}) EXPECT_EQ(read_at(*file, at, 4), content_.substr(at, 4));
  EXPECT_THAT(ranges(), ElementsAre("HEAD ", "GET bytes=500-515", "GET bytes=100-115", "GET bytes=900-915"));
}

TEST_F(HttpFiles, LongReadsAreSeveralRequests) {
  options_.first_request = 16;
  options_.most_request = 400;
  serve_rightly();
  EXPECT_EQ(read_all(), content_);
  EXPECT_THAT(ranges(), ElementsAre("HEAD ", "GET bytes=0-399", "GET bytes=400-799", "GET bytes=800-999"));
}

TEST_F(HttpFiles, AreEmptyWhereTheServerSaysSo) {
  content_.clear();
  serve_rightly();
  EXPECT_EQ(files_->open(url())->size(), 0u);
  EXPECT_EQ(read_all(), "");
  serve_but([](const SeenRequest& request, int) {
    return http_answer(request.method == "HEAD" ? 200 : 416, "", "");  // as object stores do
  });
  EXPECT_EQ(read_all(), "");
}

TEST_F(HttpFiles, TellTheirSizeWhereHeadIsRefused) {
  for (const int status : {403, 405, 501}) {
    serve_but([&](const SeenRequest& request, int) {
      return request.method == "HEAD" ? http_answer(status, "", "") : std::string();
    });
    EXPECT_EQ(read_all(), content_) << status;
    EXPECT_THAT(ranges(), ElementsAre("HEAD ", "GET bytes=0-65535")) << status;
  }
}

TEST_F(HttpFiles, TellTheirSizeWhereHeadDoesNot) {
  for (const char* const length : {"Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n"}) {
    serve_but([&](const SeenRequest& request, int) {
      if (request.method != "HEAD") return std::string();
      return fmt::format("HTTP/1.1 200 OK\r\nConnection: close\r\n{}\r\n", length);
    });
    EXPECT_EQ(read_all(), content_) << length;
  }
}

TEST_F(HttpFiles, GoOnWhereAConnectionBroke) {
  serve_but([&](const SeenRequest& request, int number) {
    const std::string whole = http_file_answer(request, content_);
    return number == 1 || number == 2 ? whole.substr(0, whole.size() - 600 / number) : std::string();
  });
  EXPECT_EQ(read_all(), content_);
  EXPECT_THAT(ranges(), ElementsAre("HEAD ", "GET bytes=0-999", "GET bytes=400-999", "GET bytes=700-999"));
  EXPECT_THAT(waits_, SizeIs(2));
}

TEST_F(HttpFiles, AreTriedAgainWhereHeadersBroke) {
  std::size_t bytes = 0;
  serve_but([&](const SeenRequest& request, int number) {
    return number == 1 ? http_file_answer(request, content_).substr(0, bytes) : std::string();
  });
  for (bytes = 1; bytes < 100; ++bytes) {
    server_->forget();
    EXPECT_EQ(read_all(), content_) << bytes;
  }
  EXPECT_THAT(waits_, SizeIs(99));
}

TEST_F(HttpFiles, ShorterRangesThanAskedForAreGoneOnWith) {
  serve_but([&](const SeenRequest&, int number) {
    return number == 1 ? http_answer(206, "Content-Range: bytes 0-99/1000\r\n", content_.substr(0, 100)) : "";
  });
  EXPECT_EQ(read_all(), content_);
  EXPECT_THAT(ranges(), ElementsAre("HEAD ", "GET bytes=0-999", "GET bytes=100-999"));
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(HttpFiles, AreTriedAgainWhileTheServerIsBusy) {
  for (const int status : {429, 500, 502, 503, 504}) {
    waits_.clear();
    serve_but([&](const SeenRequest&, int number) { return number < 3 ? http_answer(status, "", "") : ""; });
    EXPECT_EQ(read_all(), content_) << status;
    EXPECT_THAT(waits_,
                ElementsAre(AllOf(Ge(250ms), Le(500ms)), AllOf(Ge(500ms), Le(1000ms)), AllOf(Ge(1000ms), Le(2000ms))));
  }
}

TEST_F(HttpFiles, AreGivenUpAfterSomeAttempts) {
  serve_but([](const SeenRequest&, int) { return http_answer(503, "", ""); });
  const Error error = error_of_reading();
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_EQ(error.message(),
            "cannot read '" + url() + "': HTTP status 503: the server cannot answer now; try later, after 6 attempts");
  EXPECT_THAT(server_->seen(), SizeIs(6));
  EXPECT_THAT(waits_, SizeIs(5));
}

TEST_F(HttpFiles, WaitAsLongAsTheServerSaysWithinReason) {
  serve_but([](const SeenRequest&, int number) {
    return number == 0   ? http_answer(503, "Retry-After: 7\r\n", "")
           : number == 1 ? http_answer(429, "Retry-After: 9999\r\n", "")
                         : "";
  });
  EXPECT_EQ(read_all(), content_);
  EXPECT_THAT(waits_, ElementsAre(7s, 30s));
}

TEST_F(HttpFiles, ConnectionsThatAreClosedAtOnceAreTriedAgain) {
  serve_but([](const SeenRequest&, int number) { return number == 2 ? "" : std::string(number < 2 ? "\r\n" : ""); });
  EXPECT_EQ(error_of_reading().code(), Code::unavailable);  // "\r\n" is no HTTP: not tried again
  EXPECT_THAT(server_->seen(), SizeIs(1));
  serve([&](const SeenRequest& request, int number) {
    return number == 0 ? std::string() : http_file_answer(request, content_);
  });
  EXPECT_EQ(read_all(), content_);
  EXPECT_THAT(waits_, SizeIs(1));
}

TEST_F(HttpFiles, NobodyWhoListensIsAnErrorOfSeveralAttempts) {
  serve_rightly();
  const std::string gone = url();
  server_.reset();
  const Error error = error_of([&] { files_->open(gone); });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_THAT(error.message(), AllOf(HasSubstr(gone), HasSubstr("connect"), HasSubstr("after 6 attempts")));
}

TEST_F(HttpFiles, RefusalsAreNotTriedAgain) {
  for (const auto& [status, code] :
       {std::pair(404, Code::not_found), std::pair(410, Code::not_found), std::pair(401, Code::permission_denied),
        std::pair(403, Code::permission_denied), std::pair(418, Code::unavailable)}) {
    serve_but([status = status](const SeenRequest&, int) { return http_answer(status, "", ""); });
    const Error error = error_of_reading();
    EXPECT_EQ(error.code(), code) << status;
    EXPECT_THAT(error.message(), AllOf(HasSubstr(url()), HasSubstr(std::to_string(status))));
    EXPECT_THAT(waits_, IsEmpty());
  }
  EXPECT_THAT(error_of([&] {
                serve_but([](const SeenRequest&, int) { return http_answer(404, "", ""); });
                files_->open(url());
              }).message(),
              HasSubstr("there is no such file"));
  EXPECT_FALSE(files_->exists(url()));
}

TEST_F(HttpFiles, OtherBytesThanAskedForAreDamage) {
  for (const char* const range : {"bytes 1-1000/1000", "bytes 0-999", "0-999/1000", "bytes 0-998/1000",
                                  "bytes 9-0/1000", "bytes 1-999/1000", "", "bytes 0-99999999999999999999999/1000"}) {
    serve_but([&](const SeenRequest&, int number) {
      return number == 1 ? http_answer(206, fmt::format("Content-Range: {}\r\n", range), content_) : std::string();
    });
    const Error error = error_of_reading();
    EXPECT_EQ(error.code(), Code::data_loss) << range;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("asked for bytes 0-999"), HasSubstr(range)));
  }
}

TEST_F(HttpFiles, LongerRangesThanAskedForAreDamage) {
  options_.first_request = 16;
  serve_but([&](const SeenRequest&, int number) {
    return number == 1 ? http_answer(206, "Content-Range: bytes 0-99/1000\r\n", content_.substr(0, 16)) : std::string();
  });
  const auto file = files_->open(url());
  EXPECT_EQ(error_of([&] { read_at(*file, 0, 4); }).code(), Code::data_loss);
}

TEST_F(HttpFiles, SmallFilesOfServersWithoutRangesAreReadAsAWhole) {
  serve([&](const SeenRequest& request, int) {
    return http_answer(200, fmt::format("Content-Length: {}\r\n", content_.size()),
                       request.method == "HEAD" ? "" : content_);
  });
  const auto file = files_->open(url());
  EXPECT_EQ(read_at(*file, 500, 100), content_.substr(500, 100));
  EXPECT_EQ(read_at(*file, 0, 1000), content_);
  EXPECT_THAT(server_->seen(), SizeIs(2));  // kept
}

TEST_F(HttpFiles, LargeFilesOfServersWithoutRangesAreRefused) {
  options_.most_without_ranges = 999;
  serve([&](const SeenRequest& request, int) {
    return http_answer(200, fmt::format("Content-Length: {}\r\n", content_.size()),
                       request.method == "HEAD" ? "" : content_);
  });
  const Error error = error_of_reading();
  EXPECT_EQ(error.code(), Code::unimplemented);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("ignores Range"), HasSubstr("1000 bytes"), HasSubstr("copy it")));
  serve_but([&](const SeenRequest& request, int) {
    return request.method == "HEAD" ? http_answer(405, "", "") : http_answer(200, "", content_);
  });
  EXPECT_EQ(error_of_reading().code(), Code::unimplemented);
}

TEST_F(HttpFiles, FilesThatChangeMeanwhileAreDamage) {
  const auto error_after = [&](const std::string& content, const char* headers, bool whole) {
    serve([&, content, headers, whole](const SeenRequest& request, int number) {
      if (number < 2) return http_file_answer(request, content_, "ETag: \"1\"\r\nLast-Modified: yesterday\r\n");
      return whole ? http_answer(200, headers, content) : http_file_answer(request, content, headers);
    });
    options_.first_request = 16;
    files_.emplace(options_);
    const auto file = files_->open(url());
    read_at(*file, 0, 4);
    const Error error = error_of([&] { read_at(*file, 500, 4); });
    EXPECT_EQ(error.code(), Code::data_loss) << headers;
    EXPECT_THAT(error.message(), HasSubstr("has changed since it was opened"));
    EXPECT_THAT(waits_, IsEmpty());
    return error.message();
  };
  EXPECT_THAT(error_after(content_, "ETag: \"2\"\r\n", false), HasSubstr("its ETag was \"1\", now it is \"2\""));
  EXPECT_THAT(error_after(content_, "ETag: \"2\"\r\n", true), HasSubstr("its ETag was \"1\", now it is \"2\""));
  EXPECT_THAT(error_after(content_, "Last-Modified: today\r\n", false), HasSubstr("its Last-Modified was yesterday"));
  EXPECT_THAT(error_after(content_ + "x", "ETag: \"1\"\r\n", false), HasSubstr("had 1000 bytes, now it has 1001"));
  EXPECT_THAT(error_after(content_ + "x", "", true), HasSubstr("had 1000 bytes"));
  EXPECT_THAT(error_after("short", "ETag: \"1\"\r\n", false), HasSubstr("no byte 500 now"));
}

TEST_F(HttpFiles, ThatTheServerSaysHaveChangedAreDamage) {
  for (const bool strong : {true, false}) {
    serve([&](const SeenRequest& request, int number) {
      if (number > 0) return http_answer(412, "", "");
      return http_file_answer(request, content_, strong ? "ETag: \"1\"\r\n" : "ETag: W/\"1\"\r\n");
    });
    const Error error = error_of_reading();
    EXPECT_EQ(error.code(), strong ? Code::data_loss : Code::unavailable);
    EXPECT_THAT(error.message(), HasSubstr(strong ? "has changed since it was opened: its ETag is not \"1\" any more"
                                                  : "HTTP status 412"));
    EXPECT_EQ(server_->seen()[1].header("if-match"), strong ? "\"1\"" : "");
    EXPECT_THAT(waits_, IsEmpty());
  }
}

TEST_F(HttpFiles, BodiesLongerThanTheirRangeAreDamage) {
  serve_but([&](const SeenRequest&, int number) {
    return number == 1 ? http_answer(206, "Content-Range: bytes 0-999/1000\r\n", content_ + "more") : std::string();
  });
  EXPECT_THAT(error_of_reading().message(), HasSubstr("more bytes than that"));
}

TEST_F(HttpFiles, RedirectsAreFollowedSomeTimes) {
  serve_but([&](const SeenRequest& request, int) {
    if (request.target == "/data") return http_answer(302, "Location: /elsewhere\r\nETag: \"of this\"\r\n", "gone");
    return request.target == "/round" ? http_answer(302, "Location: /round\r\n", "") : std::string();
  });
  EXPECT_EQ(read_all(), content_);
  EXPECT_EQ(server_->seen().back().target, "/elsewhere");
  const Error error = error_of([&] { files_->open(server_->url("/round")); });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_THAT(error.message(), HasSubstr("redirects more than 5 times"));
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(HttpFiles, GiantHeadersAreRefused) {
  for (const int lines : {1, 100}) {
    serve_but([&](const SeenRequest&, int) {
      std::string headers;
      for (int i = 0; i < lines; ++i) headers += fmt::format("X-{}: {}\r\n", i, std::string(90'000 / lines, 'x'));
      return http_answer(200, headers, "");
    });
    const Error error = error_of_reading();
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_THAT(error.message(), HasSubstr("more than 65536 bytes of headers"));
    EXPECT_THAT(waits_, IsEmpty());
  }
}

TEST_F(HttpFiles, ErrorsShowNoSecrets) {
  serve_but([](const SeenRequest&, int) { return http_answer(403, "", "secret"); });
  const std::string secret =
      "http://user:secret@" + server_->address() + "/data?X-Amz-Signature=secret&X-Amz-Credential=secret#secret";
  for (const Error& error : {error_of([&] { files_->open(secret); }), error_of([&] { files_->list(secret); }),
                             error_of([&] { files_->create(secret); })}) {
    EXPECT_THAT(error.message(), HasSubstr(server_->url("/data")));
    EXPECT_THAT(error.message(), Not(HasSubstr("secret")));
  }
  EXPECT_EQ(server_->seen()[0].header("authorization"), "Basic dXNlcjpzZWNyZXQ=");
}

TEST_F(HttpFiles, NothingIsWritten) {
  serve_rightly();
  const auto refused = [&](auto&& change) {
    const Error error = error_of(change);
    EXPECT_EQ(error.code(), Code::unimplemented);
    EXPECT_THAT(error.message(), AllOf(HasSubstr(url()), HasSubstr("http")));
  };
  refused([&] { files_->create(url()); });
  refused([&] { files_->rename(url(), url()); });
  refused([&] { files_->exchange(url(), url()); });
  refused([&] { files_->remove(url()); });
  refused([&] { files_->make_directory(url()); });
  refused([&] { files_->remove_directory(url()); });
  refused([&] { files_->sync_directory(url()); });
  EXPECT_THAT(error_of([&] { files_->create(url()); }).message(), HasSubstr("atomic rename"));
  EXPECT_THAT(server_->seen(), IsEmpty());
}

TEST_F(HttpFiles, FoldersAreListedWhereTheServerDoes) {
  std::string listing = R"(<?xml version="1.0"?>
<list>
<directory mtime="2024-01-01T00:00:00Z">variables</directory>
<file mtime="2024-01-01T00:00:00Z" size="5">model.pb</file>
<file mtime="2024-01-01T00:00:00Z" size="5">a &lt;b&gt; %</file>
<directory mtime="2024-01-01T00:00:00Z">..</directory>
<file mtime="2024-01-01T00:00:00Z" size="5">up/model.pb</file>
</list>
)";
  serve([&](const SeenRequest&, int) { return http_answer(200, "", listing); });
  const std::vector<DirectoryEntry> entries = files_->list(url());
  EXPECT_THAT(entries, ElementsAre(DirectoryEntry{"a%20%3Cb%3E%20%25"}, DirectoryEntry{"model.pb"},
                                   DirectoryEntry{"variables", true}));
  files_->list(url() + "/?key=1");
  files_->list(url() + "?key=1");
  const std::vector<SeenRequest> seen = server_->seen();
  EXPECT_EQ(seen[0].target, "/data/");
  EXPECT_EQ(seen[1].target, "/data/?key=1");
  EXPECT_EQ(seen[2].target, "/data/?key=1");
  const DirectoryEntry odd[] = {{"<&>", true}, {"b"}};
  listing = print_http_listing(odd);
  EXPECT_THAT(files_->list(url()), ElementsAre(DirectoryEntry{"%3C%26%3E", true}, DirectoryEntry{"b"}));
  listing = print_http_listing({});
  EXPECT_THAT(files_->list(url()), IsEmpty());
  for (const char* other : {"<html><body>Index of /</body></html>", "", "[]", "<list><directory>1</list>"}) {
    listing = other;
    const Error error = error_of([&] { files_->list(url()); });
    EXPECT_EQ(error.code(), Code::unimplemented) << other;
    EXPECT_THAT(error.message(), AllOf(HasSubstr(url()), HasSubstr("autoindex_format xml"))) << other;
  }
  serve([&](const SeenRequest&, int) { return http_answer(404, "", ""); });
  EXPECT_EQ(error_of([&] { files_->list(url()); }).code(), Code::not_found);
  serve([&](const SeenRequest&, int) { return http_answer(200, "", std::string((16 << 20) + 1, ' ')); });
  EXPECT_EQ(error_of([&] { files_->list(url()); }).code(), Code::resource_exhausted);
}

TEST_F(HttpFiles, ManyThreadsReadAtOnce) {
  content_ = some_bytes(300'000);
  serve_rightly();
  std::atomic<int> equal = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { equal += read_all() == content_; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 8);
}

TEST_F(HttpFiles, TlsProvesTheServer) {
  const TemporaryDirectory directory;
  Authority authority(directory.path(), "ca"), other(directory.path(), "other");
  const TlsFiles here = authority.issue("127.0.0.1"), elsewhere = authority.issue("elsewhere");
  const auto script = [&](const SeenRequest& request, int) {
    if (request.target == "/plain") return http_answer(302, "Location: http://127.0.0.1:1/\r\n", "");
    return http_file_answer(request, content_);
  };
  server_.emplace(script, here.certificate, here.key);
  options_.ca_bundle = authority.ca_file();
  files_.emplace(options_);
  EXPECT_EQ(read_all(), content_);

  const Error plain = error_of([&] { files_->open(server_->url("/plain")); });
  EXPECT_EQ(plain.code(), Code::unavailable);
  EXPECT_THAT(plain.message(), HasSubstr("redirects from https to another protocol, which is refused"));

  options_.ca_bundle = other.ca_file();
  files_.emplace(options_);
  const Error untrusted = error_of_reading();
  EXPECT_EQ(untrusted.code(), Code::unavailable);
  EXPECT_THAT(untrusted.message(), AllOf(HasSubstr("TLS cannot verify"), HasSubstr("CURL_CA_BUNDLE")));

  options_.ca_bundle = directory.file("none.pem");
  files_.emplace(options_);
  EXPECT_THAT(error_of_reading().message(), HasSubstr("none.pem"));

  server_.emplace(script, elsewhere.certificate, elsewhere.key);
  options_.ca_bundle = authority.ca_file();
  files_.emplace(options_);
  EXPECT_THAT(error_of_reading().message(), HasSubstr("TLS cannot verify"));
  EXPECT_THAT(waits_, IsEmpty());
}

}  // namespace
}  // namespace troupe::testing
