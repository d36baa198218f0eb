#include "tools/top/source.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace troupe::top {

RecordedSource RecordedSource::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(Code::not_found, "{}: {}", path, std::strerror(errno));
  std::vector<ClusterSnapshot> snapshots;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    try {
      snapshots.push_back(parse_cluster_snapshot(line));
    } catch (const Error& error) {
      throw error.within(fmt::format("{}, line {}", path, number));
    }
  }
  if (snapshots.empty()) invalid_argument("{}: no snapshots in the file; troupe-top --json prints them", path);
  return RecordedSource(std::move(snapshots));
}

void RecordedSource::keep_last(std::size_t count) {
  if (snapshots_.size() > count)
    snapshots_.erase(snapshots_.begin(), snapshots_.end() - static_cast<std::ptrdiff_t>(count));
}

ClusterSnapshot RecordedSource::cluster() {
  if (!ended()) ++next_;
  return snapshots_[next_ - 1];
}

}  // namespace troupe::top
