#include "troupe/devices/storage/remote/url.hpp"

#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/devices/storage/file_system.hpp>

namespace troupe::testing {
namespace {

TEST(Url, SchemesAreLowerCaseWords) {
  EXPECT_EQ(scheme_of("s3://bucket/key"), "s3");
  for (const char* const path : {"data.csv", "/a://b", "://a", "A://b", "a:/b", ""})
    EXPECT_EQ(scheme_of(path), "") << path;
  EXPECT_TRUE(is_http("http://a") && is_http("https://a"));
  EXPECT_FALSE(is_http("s3://a") || is_http("httpx://a"));
}

TEST(Url, IsShownWithoutWhatMayBeSecret) {
  EXPECT_EQ(shown_path("https://me:word@host:8/a/b@c?key=word#word"), "https://host:8/a/b@c");
  EXPECT_EQ(shown_path("http://host?word"), "http://host");
  EXPECT_EQ(shown_path("http://a@b@host/"), "http://host/");
  EXPECT_EQ(shown_path("/data?.csv"), "/data?.csv");
  EXPECT_EQ(shown_path("s3://bucket/a?b"), "s3://bucket/a?b");
}

TEST(Url, RootsAreAboveAllFolders) {
  EXPECT_EQ(root_bytes("a/b"), 0u);
  EXPECT_EQ(root_bytes("/a"), 1u);
  EXPECT_EQ(root_bytes("s3://bucket/a/b"), std::string("s3://bucket/").size());
  EXPECT_EQ(root_bytes("https://host"), std::string("https://host").size());
  EXPECT_EQ(root_bytes("file:///a"), std::string("file:///").size());
  for (const auto& [path, parent] :
       {std::pair("s3://bucket/a/b", "s3://bucket/a"), std::pair("s3://bucket/a/", "s3://bucket/"),
        std::pair("s3://bucket/", "s3://bucket/"), std::pair("s3://bucket", "s3://bucket"),
        std::pair("file:///a", "file:///"), std::pair("/a", "/"), std::pair("/", "/"), std::pair("a/b//", "a"),
        std::pair("a", "."), std::pair("//a", "/")})
    EXPECT_EQ(parent_path(path), parent) << path;
}

TEST(Url, TextsThatQuoteUrlsShowNoSecrets) {
  const std::string url = "https://user:key@host/a";
  EXPECT_EQ(without_secrets(url + "/b: no " + url, url), "https://host/a/b: no https://host/a");
  EXPECT_EQ(without_secrets("user:key", url), "user:key");
  EXPECT_EQ(without_secrets("https://host/a@b", "https://host/a@b"), "https://host/a@b");
  EXPECT_EQ(without_secrets("s3://a@b", "s3://a@b"), "s3://a@b");
}

TEST(Url, SuffixesAreBeforeTheQuery) {
  EXPECT_EQ(with_suffix("https://host/a.csv?key=1", ".index"), "https://host/a.csv.index?key=1");
  EXPECT_EQ(with_suffix("https://host/a.csv", ".index"), "https://host/a.csv.index");
  EXPECT_EQ(with_suffix("/a?b", ".index"), "/a?b.index");
}

TEST(Url, BytesArePercentEncoded) {
  EXPECT_EQ(percent_encode("aZ09-._~/ +\xff"), "aZ09-._~%2F%20%2B%FF");
  EXPECT_EQ(percent_encode("a/b c", true), "a/b%20c");
  EXPECT_EQ(percent_decode("a%2Fb+c%2b%fF"), "a/b c+\xff");
  for (const char* const text : {"%", "a%2", "%g0", "%0g", "%%"})
    EXPECT_EQ(error_of([&] { percent_decode(text); }).code(), Code::data_loss) << text;
}

}  // namespace
}  // namespace troupe::testing
