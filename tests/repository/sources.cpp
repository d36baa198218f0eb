#include "tests/repository/sources.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/paths.hpp"

namespace troupe::repository {
namespace {

namespace fs = std::filesystem;

bool is_source(const fs::path& file) {
  const std::string ending = file.extension().string();
  return ending == ".hpp" || ending == ".cpp" || ending == ".h" || ending == ".cu" || ending == ".cuh";
}

std::string read(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::map<std::string, std::string> read_sources() {
  std::map<std::string, std::string> out;
  for (const char* folder :
       {"messages", "graph", "devices", "kernels", "scheduler", "actors", "apps", "tools", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(testing::source_file()) / folder)) {
      const std::string path = entry.path().lexically_relative(testing::source_file()).string();
      if (is_source(entry.path()) && !path.starts_with("tests/consumer/")) out.emplace(path, read(entry.path()));
    }
  }
  out.emplace("troupe.hpp", read(testing::source_file("troupe.hpp")));
  return out;
}

}  // namespace

const std::map<std::string, std::string>& sources() {
  static const auto files = read_sources();
  return files;
}

}  // namespace troupe::repository
