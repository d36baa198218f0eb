// The layout of all sources is that of .clang-format.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "tests/paths.hpp"

namespace troupe::repository {
namespace {

// What a command prints, and how it ended.
std::pair<std::string, int> run(const std::string& command) {
  std::string out;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out.push_back(static_cast<char>(c));
  return {out, pclose(pipe)};
}

TEST(Formatting, SourcesAreAsClangFormatLeavesThem) {
  // Other versions differ in details.
  if (run("clang-format --version").first.find(" version 14.") == std::string::npos)
    GTEST_SKIP() << "clang-format 14 is not installed";
  const auto [out, code] =
      run(fmt::format("cd '{}' && find -L messages graph devices kernels scheduler actors apps tools tests -type f "
                      R"(\( -name '*.?pp' -o -name '*.h' -o -name '*.cu*' \) -print0 | )"
                      "xargs -0 clang-format --dry-run -Werror",
                      testing::source_file()));
  EXPECT_EQ(code, 0) << out << "\nclang-format -i FILE... corrects that";
}

}  // namespace
}  // namespace troupe::repository
