#include "troupe/devices/storage/remote/s3_file_system.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "tests/devices/storage/scripted_http_server.hpp"
#include "tests/error_of.hpp"
#include <troupe/devices/storage/file_pattern.hpp>
#include <troupe/devices/storage/remote/aws_signature.hpp>
#include <troupe/devices/storage/remote/url.hpp>

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string error_xml(const std::string& code, const std::string& more = "") {
  return fmt::format("<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>said</Message>{}</Error>", code, more);
}

// Objects of the bucket "data", with path-style addresses; pages have two entries.
class ObjectStore {
 public:
  std::map<std::string, std::string> objects;

  std::string answer(const SeenRequest& request) const {
    const std::size_t query = request.target.find('?');
    if (query != std::string::npos) return list(request.target.substr(query + 1));
    const auto found = objects.find(percent_decode(request.target.substr(std::string("/data/").size())));
    if (found == objects.end()) return http_answer(404, "", request.method == "HEAD" ? "" : error_xml("NoSuchKey"));
    return http_file_answer(request, found->second, "ETag: \"1\"\r\n");
  }

 private:
  static std::string value_of(const std::string& query, const std::string& name) {
    const std::size_t at = ("&" + query).find("&" + name + "=");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 1;
    return percent_decode(query.substr(begin, query.find('&', begin) - begin));
  }
  std::string list(const std::string& query) const {
    const std::string prefix = value_of(query, "prefix"), after = percent_decode(value_of(query, "continuation-token"));
    std::map<std::string, bool> entries;  // and whether it is a folder
    for (const auto& [key, unused] : objects) {
      if (!key.starts_with(prefix)) continue;
      const std::size_t slash = key.find('/', prefix.size());
      entries[slash == key.npos ? key : key.substr(0, slash + 1)] = slash != key.npos;
    }
    std::string xml =
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>data</Name>"
        "<EncodingType>url</EncodingType>";
    int count = 0;
    std::string last;
    bool truncated = false;
    for (const auto& [key, folder] : entries) {
      if (!after.empty() && key <= after) continue;
      if (count++ == 2) {
        truncated = true;
        break;
      }
      last = key;
      const std::string name = percent_encode(key, true);
      xml += folder ? fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", name)
                    : fmt::format("<Contents><Key>{}</Key><Size>3</Size><Owner><ID>1</ID></Owner></Contents>", name);
    }
    xml += fmt::format("<IsTruncated>{}</IsTruncated>", truncated);
    if (truncated) xml += fmt::format("<NextContinuationToken>{}</NextContinuationToken>", percent_encode(last));
    return http_answer(200, "", xml + "</ListBucketResult>");
  }
};

class S3Files : public ::testing::Test {
 protected:
  S3Files() {
    http_.wait = [](std::chrono::milliseconds) {};
    s3_.credentials = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
    s3_.now = [] { return std::chrono::system_clock::time_point(std::chrono::seconds(1369353600)); };
  }
  void serve(ScriptedHttpServer::Script script) {
    server_.emplace(std::move(script));
    s3_.endpoint = server_->url("");
    files_.emplace(s3_, http_);
  }
  void serve_store() {
    serve([this](const SeenRequest& request, int) { return store_.answer(request); });
  }
  Error error_of_opening() {
    return error_of([&] { files_->open("s3://data/a"); });
  }

  ObjectStore store_;
  S3Options s3_;
  HttpOptions http_;
  std::optional<ScriptedHttpServer> server_;
  std::optional<S3FileSystem> files_;
};

TEST_F(S3Files, AreReadWithSignedRequests) {
  store_.objects["a b/ü+.csv"] = "content";
  s3_.region = "eu-north-1";
  s3_.credentials.session_token = "token";
  serve_store();
  EXPECT_EQ(read_file(*files_, "s3://data/a b/ü+.csv", 100), "content");
  ASSERT_THAT(server_->seen(), SizeIs(2));
  for (const SeenRequest& seen : server_->seen()) {
    EXPECT_EQ(seen.target, "/data/a%20b/%C3%BC%2B.csv");
    EXPECT_EQ(seen.header("x-amz-date"), "20130524T000000Z");
    EXPECT_EQ(seen.header("x-amz-security-token"), "token");
    EXPECT_EQ(seen.header("host"), server_->address());
    const AwsRequest expected{.method = seen.method,
                              .path = "/data/a%20b/%C3%BC%2B.csv",
                              .headers = {{"host", server_->address()},
                                          {"x-amz-content-sha256", std::string(kSha256OfNothing)},
                                          {"x-amz-date", "20130524T000000Z"},
                                          {"x-amz-security-token", "token"}},
                              .payload_sha256 = std::string(kSha256OfNothing)};
    EXPECT_EQ(seen.header("authorization"),
              aws_authorization(expected, s3_.credentials, "eu-north-1", "s3", "20130524T000000Z"));
  }
}

TEST_F(S3Files, AreReadAnonymouslyWithoutKeys) {
  store_.objects["a"] = "content";
  s3_.credentials = {};
  serve_store();
  EXPECT_EQ(read_file(*files_, "s3://data/a", 100), "content");
  for (const char* const name : {"authorization", "x-amz-date", "x-amz-content-sha256"})
    EXPECT_EQ(server_->seen()[0].headers.count(name), 0u) << name;
}

TEST_F(S3Files, ListingsHaveSeveralPages) {
  for (const char* const key : {"d/1", "d/2 +&<", "d/3/x", "d/3/y", "d/4", "d/", "e/5", "d//6", "7"})
    store_.objects[key] = "abc";
  serve_store();
  EXPECT_THAT(files_->list("s3://data/d"), ElementsAre(DirectoryEntry{"1"}, DirectoryEntry{"2 +&<"},
                                                       DirectoryEntry{"3", true}, DirectoryEntry{"4"}));
  EXPECT_THAT(server_->seen(), SizeIs(3));
  EXPECT_EQ(server_->seen()[0].target, "/data/?delimiter=%2F&encoding-type=url&list-type=2&max-keys=1000&prefix=d%2F");
  EXPECT_EQ(
      server_->seen()[1].target,
      "/data/?continuation-token=d%252F%252F&delimiter=%2F&encoding-type=url&list-type=2&max-keys=1000&prefix=d%2F");
  const AwsRequest expected{.path = "/data/",
                            .query = server_->seen()[1].target.substr(std::string("/data/?").size()),
                            .headers = {{"host", server_->address()},
                                        {"x-amz-content-sha256", std::string(kSha256OfNothing)},
                                        {"x-amz-date", "20130524T000000Z"}},
                            .payload_sha256 = std::string(kSha256OfNothing)};
  EXPECT_EQ(server_->seen()[1].header("authorization"),
            aws_authorization(expected, s3_.credentials, "us-east-1", "s3", "20130524T000000Z"));
  for (const char* const bucket : {"s3://data", "s3://data/"})
    EXPECT_THAT(files_->list(bucket),
                ElementsAre(DirectoryEntry{"7"}, DirectoryEntry{"d", true}, DirectoryEntry{"e", true}));
  const Error error = error_of([&] { files_->list("s3://data/none"); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_THAT(error.message(), HasSubstr("begins with 'none/'"));
}

TEST_F(S3Files, ExistAsObjectsOrFolders) {
  store_.objects["d/1"] = "abc";
  serve_store();
  for (const char* const path : {"s3://data/d/1", "s3://data/d", "s3://data/d/", "s3://data", "s3://data/"})
    EXPECT_TRUE(files_->exists(path)) << path;
  for (const char* const path : {"s3://data/d/2", "s3://data/1", "s3://data/d/1/"})
    EXPECT_FALSE(files_->exists(path)) << path;
}

TEST_F(S3Files, AreFoundByPatterns) {
  for (const char* const key : {"d/train-1.csv", "d/train-2.csv", "d/test.csv", "e/train-3.csv", "train-4.csv"})
    store_.objects[key] = "abc";
  serve_store();
  EXPECT_THAT(files_matching(*files_, "s3://data/d/train-*.csv"),
              ElementsAre("s3://data/d/train-1.csv", "s3://data/d/train-2.csv"));
  EXPECT_THAT(files_matching(*files_, "s3://data/?/train-*"),
              ElementsAre("s3://data/d/train-1.csv", "s3://data/d/train-2.csv", "s3://data/e/train-3.csv"));
  EXPECT_THAT(files_matching(*files_, "s3://data/*.csv"), ElementsAre("s3://data/train-4.csv"));
  EXPECT_THAT(files_matching(*files_, "s3://data/d/test.csv"), ElementsAre("s3://data/d/test.csv"));
  EXPECT_EQ(error_of([&] { files_matching(*files_, "s3://data/none/*"); }).code(), Code::not_found);
  EXPECT_EQ(error_of([&] { files_matching(*files_, "s3://dat*/a"); }).code(), Code::invalid_argument);
}

TEST_F(S3Files, BucketsAreInTheHostOrInThePath) {
  serve_store();
  const auto asked_for = [&](const std::string& bucket, S3Options options) {
    options.endpoint = server_->url("/base/");
    server_->forget();
    S3FileSystem files(options, {.attempts = 1, .wait = http_.wait});
    error_of([&] { files.open("s3://" + bucket + "/a"); });
    return server_->seen().empty() ? "nobody" : server_->seen()[0].target;
  };
  EXPECT_EQ(asked_for("data", s3_), "/base/data/a");
  s3_.style = S3Options::Style::path;
  EXPECT_EQ(asked_for("data", s3_), "/base/data/a");
  s3_.style = S3Options::Style::host;  // data.127.0.0.1 is nobody's name
  EXPECT_EQ(asked_for("data", s3_), "nobody");
}

TEST_F(S3Files, ErrorsSayWhatToDo) {
  const auto error_for = [&](int status, const std::string& body, const std::string& headers = "") {
    serve([=](const SeenRequest& request, int) {
      if (request.method != "HEAD") return http_answer(status, headers, body);
      return http_answer(status, headers + fmt::format("Content-Length: {}\r\n", body.size()), "");
    });
    const Error error = error_of_opening();
    EXPECT_THAT(error.message(), HasSubstr("'s3://data/a'"));
    EXPECT_THAT(error.message(), Not(HasSubstr("wJalr")));
    return error.to_string();
  };
  EXPECT_THAT(error_for(301, error_xml("PermanentRedirect"), "x-amz-bucket-region: eu-west-3\r\n"),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("set AWS_REGION=eu-west-3")));
  EXPECT_THAT(error_for(400, error_xml("AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>")),
              HasSubstr("set AWS_REGION=eu-west-3"));
  EXPECT_THAT(error_for(307, ""), HasSubstr("set AWS_REGION"));
  EXPECT_THAT(error_for(403, error_xml("RequestTimeTooSkewed", "<ServerTime>2026-01-01T00:00:00Z</ServerTime>")),
              AllOf(HasSubstr("the clock of this machine"), HasSubstr("2026-01-01T00:00:00Z")));
  EXPECT_THAT(error_for(403, error_xml("SignatureDoesNotMatch", "<StringToSign>hidden</StringToSign>")),
              AllOf(HasSubstr("AWS_SECRET_ACCESS_KEY"), Not(HasSubstr("hidden"))));
  EXPECT_THAT(error_for(403, error_xml("InvalidAccessKeyId")), HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_THAT(error_for(400, error_xml("ExpiredToken")), HasSubstr("AWS_SESSION_TOKEN"));
  EXPECT_THAT(error_for(403, error_xml("AccessDenied")),
              AllOf(HasSubstr("permission_denied"), HasSubstr("s3:ListBucket"), HasSubstr("AccessDenied: said")));
  EXPECT_THAT(error_for(404, ""), AllOf(HasSubstr("not_found"), HasSubstr("no such object")));
  EXPECT_THAT(error_for(400, "<html>"), AllOf(HasSubstr("unavailable"), HasSubstr("400")));
  EXPECT_THAT(error_for(503, error_xml("SlowDown")), AllOf(HasSubstr("unavailable"), HasSubstr("after 6 attempts")));
  s3_.credentials = {};
  EXPECT_THAT(error_for(403, error_xml("AccessDenied")), HasSubstr("refuses anonymous access"));
}

TEST_F(S3Files, DamagedListingsAreErrors) {
  const auto error_for = [&](const std::string& xml) {
    serve([=](const SeenRequest&, int) { return http_answer(200, "", xml); });
    const Error error = error_of([&] { files_->list("s3://data/d"); });
    EXPECT_EQ(error.code(), Code::data_loss) << xml;
    return error.message();
  };
  EXPECT_THAT(error_for("<html>"), AllOf(HasSubstr("s3://data/d"), HasSubstr("byte 6")));
  EXPECT_THAT(error_for("<html/>"), HasSubstr("expected a ListBucketResult"));
  EXPECT_THAT(error_for("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
              HasSubstr("NextContinuationToken"));
  EXPECT_THAT(error_for("<ListBucketResult><Contents><Key>e/1</Key></Contents></ListBucketResult>"),
              HasSubstr("'e/1' does not begin with 'd/'"));
  EXPECT_THAT(error_for("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>d/%</Key></Contents>"
                        "</ListBucketResult>"),
              HasSubstr("hexadecimal"));
  EXPECT_THAT(error_for(std::string((16 << 20) + 1, ' ')), HasSubstr("more than 16777216 bytes"));
}

TEST_F(S3Files, ListingsThatNeverEndAreGivenUp) {
  serve([](const SeenRequest&, int) {
    return http_answer(200, "",
                       "<ListBucketResult><IsTruncated>true</IsTruncated>"
                       "<NextContinuationToken>again</NextContinuationToken></ListBucketResult>");
  });
  const Error error = error_of([&] { files_->list("s3://data/d"); });
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_THAT(error.message(), HasSubstr("the same page again"));
}

TEST_F(S3Files, PathsAreChecked) {
  serve_store();
  for (const char* const path : {"s3://", "s3://ab/key", "s3:///key", "s3://a b c/key", "data/key", "http://data/key",
                                 "s3://data:9/key", "s3://da%ta/key"})
    EXPECT_EQ(error_of([&] { files_->open(path); }).code(), Code::invalid_argument) << path;
  EXPECT_EQ(error_of([&] { files_->open("s3://data/" + std::string(1025, 'a')); }).code(), Code::invalid_argument);
  EXPECT_EQ(error_of([&] { files_->open("s3://data"); }).code(), Code::failed_precondition);
  EXPECT_EQ(error_of([&] { files_->create("s3://data/a"); }).code(), Code::unimplemented);
  EXPECT_THAT(server_->seen(), IsEmpty());
}

TEST(S3Options, AreThoseOfTheEnvironment) {
  std::map<std::string, std::string> variables;
  const auto variable = [&](const char* name) { return variables[name]; };
  const S3Options none = s3_options_of(variable);
  EXPECT_EQ(none.credentials.access_key_id, "");
  EXPECT_EQ(none.region, "us-east-1");
  EXPECT_EQ(none.endpoint, "");
  variables = {{"AWS_ACCESS_KEY_ID", "id"},
               {"AWS_SECRET_ACCESS_KEY", "secret"},
               {"AWS_SESSION_TOKEN", "token"},
               {"AWS_DEFAULT_REGION", "there"},
               {"AWS_ENDPOINT_URL", "http://all"}};
  S3Options options = s3_options_of(variable);
  EXPECT_EQ(options.credentials.access_key_id, "id");
  EXPECT_EQ(options.credentials.secret_access_key, "secret");
  EXPECT_EQ(options.credentials.session_token, "token");
  EXPECT_EQ(options.region, "there");
  EXPECT_EQ(options.endpoint, "http://all");
  variables["AWS_REGION"] = "here";
  variables["AWS_ENDPOINT_URL_S3"] = "https://s3:9000";
  options = s3_options_of(variable);
  EXPECT_EQ(options.region, "here");
  EXPECT_EQ(options.endpoint, "https://s3:9000");
}

TEST(S3Options, ThatDoNotFitAreRefused) {
  std::map<std::string, std::string> variables{{"AWS_SECRET_ACCESS_KEY", "secret"}};
  const auto error = [&] {
    return error_of([&] { s3_options_of([&](const char* name) { return variables[name]; }); });
  };
  EXPECT_EQ(error().code(), Code::invalid_argument);
  EXPECT_THAT(error().message(),
              AllOf(HasSubstr("AWS_ACCESS_KEY_ID is not"), Not(HasSubstr("secret:")), HasSubstr("set both")));
  variables = {{"AWS_ACCESS_KEY_ID", "id"}};
  EXPECT_THAT(error().message(), HasSubstr("AWS_SECRET_ACCESS_KEY is not"));
  for (const char* const endpoint : {"host:9000", "ftp://host", "http://", "http:///a", "http://h?a", "http://a@h"}) {
    variables = {{"AWS_ENDPOINT_URL", endpoint}};
    EXPECT_EQ(error().code(), Code::invalid_argument) << endpoint;
  }
}

}  // namespace
}  // namespace troupe::testing
