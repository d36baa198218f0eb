#include "troupe/devices/storage/remote/aws_signature.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::testing {
namespace {

using ::testing::EndsWith;

// The examples of docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
const AwsCredentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
const std::vector<std::pair<std::string, std::string>> kHeaders = {
    {"host", "examplebucket.s3.amazonaws.com"},
    {"x-amz-content-sha256", std::string(kSha256OfNothing)},
    {"x-amz-date", "20130524T000000Z"}};

std::string authorization(const AwsRequest& request) {
  return aws_authorization(request, kExample, "us-east-1", "s3", "20130524T000000Z");
}

TEST(AwsSignature, IsThatOfTheExampleGetObject) {
  AwsRequest request{.path = "/test.txt", .headers = kHeaders, .payload_sha256 = std::string(kSha256OfNothing)};
  request.headers.emplace_back("range", "bytes=0-9");
  EXPECT_EQ(aws_canonical_request(request),
            "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n"
            "x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
            "x-amz-date:20130524T000000Z\n\nhost;range;x-amz-content-sha256;x-amz-date\n"
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(authorization(request),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(AwsSignature, IsThatOfTheExampleListObjects) {
  const AwsRequest request{.query = aws_query({{"prefix", "J"}, {"max-keys", "2"}}),
                           .headers = kHeaders,
                           .payload_sha256 = std::string(kSha256OfNothing)};
  EXPECT_THAT(authorization(request),
              EndsWith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(AwsSignature, IsThatOfTheExampleOfAQueryWithoutValue) {
  const AwsRequest request{
      .query = aws_query({{"lifecycle", ""}}), .headers = kHeaders, .payload_sha256 = std::string(kSha256OfNothing)};
  EXPECT_THAT(authorization(request),
              EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

// "get-vanilla" of the test suite of Signature Version 4.
TEST(AwsSignature, IsThatOfTheTestSuite) {
  const AwsRequest request{.headers = {{"x-amz-date", "20150830T123600Z"}, {"host", "example.amazonaws.com"}},
                           .payload_sha256 = std::string(kSha256OfNothing)};
  EXPECT_EQ(aws_authorization(request, {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, "us-east-1",
                              "service", "20150830T123600Z"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request,"
            "SignedHeaders=host;x-amz-date,Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST(AwsSignature, QueriesAreSortedAndEncoded) {
  EXPECT_EQ(aws_query({{"prefix", "a b/ü+"}, {"a", "=&"}, {"A", ""}}), "A=&a=%3D%26&prefix=a%20b%2F%C3%BC%2B");
  EXPECT_EQ(aws_query({}), "");
}

TEST(AwsSignature, TimesAreOfUtc) {
  EXPECT_EQ(aws_time(std::chrono::system_clock::time_point(std::chrono::seconds(1369353600))), "20130524T000000Z");
}

}  // namespace
}  // namespace troupe::testing
