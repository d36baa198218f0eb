// Files open with a comment: headers with their contract, sources without a header of their own with what they hold.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/repository/sources.hpp"

namespace troupe::repository {
namespace {

bool ends_with_any(std::string_view path, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings)
    if (path.ends_with(ending)) return true;
  return false;
}

TEST(OpeningComments, HeadersAndSourcesWithoutOneHaveThem) {
  for (const auto& [path, text] : sources()) {
    if (path.starts_with("tests/") && ends_with_any(path, {".cpp"})) continue;
    const std::string stem = path.substr(0, path.rfind('.'));
    const bool has_header = ends_with_any(path, {".cpp", ".cu"}) &&
                            (sources().contains(stem + ".hpp") || sources().contains(stem + ".cuh"));
    EXPECT_TRUE(has_header || text.starts_with("//")) << path << " does not open with a comment";
  }
}

}  // namespace
}  // namespace troupe::repository
