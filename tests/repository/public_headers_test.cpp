// What users include: the list in tools/cmake/PublicHeaders.cmake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.hpp"

namespace troupe::repository {
namespace {

using ::testing::Contains;

std::string read(const std::string& path) {
  std::ifstream file(testing::source_file(path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern, std::regex::multiline);
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

std::vector<std::string> public_headers() {
  return matches(read("tools/cmake/PublicHeaders.cmake"), R"(^  ([a-z_/0-9]+\.hpp)\)?$)");
}

TEST(PublicHeaders, IncludeNothingThatIsNotInstalled) {
  const auto headers = public_headers();
  ASSERT_GT(headers.size(), 40u);
  for (const std::string& header : headers) {
    const std::string text = read(header);
    ASSERT_FALSE(text.empty()) << header << " is listed, but does not exist";
    for (const std::string& included : matches(text, R"(^#include [<"]([^>"]+)[>"])")) {
      if (included.starts_with("troupe/")) {
        EXPECT_THAT(headers, Contains(included.substr(7))) << header << " includes it";
      } else if (included.find('/') != included.npos || included.find('.') != included.npos) {
        EXPECT_EQ(included, "fmt/core.h") << header << " includes it";
      }
    }
  }
}

TEST(PublicHeaders, HaveAllThatTheUmbrellaIncludes) {
  const auto headers = public_headers();
  EXPECT_TRUE(std::ranges::is_sorted(headers));
  EXPECT_THAT(headers, Contains("troupe.hpp"));
}

}  // namespace
}  // namespace troupe::repository
