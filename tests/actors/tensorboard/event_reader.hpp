// Reads event files back, and refuses what is not as it must be.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/proto/tensorboard.pb.h"
#include <troupe/devices/storage/crc32c.hpp>

// For GoogleTest, whose own way makes the compiler warn.
namespace troupe::proto::tensorboard {
inline void PrintTo(const Histogram& histogram, std::ostream* out) { *out << histogram.ShortDebugString(); }
}  // namespace troupe::proto::tensorboard

namespace troupe::testing {

// The event files of a directory, in the order in which TensorBoard reads them.
inline std::vector<std::string> event_files(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

inline std::vector<proto::tensorboard::Event> read_events(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::string_view left = bytes;
  const auto take = [&](std::size_t size) {
    if (left.size() < size) throw std::runtime_error(path + " ends within a record");
    const std::string_view out = left.substr(0, size);
    left.remove_prefix(size);
    return out;
  };
  const auto check = [&](std::string_view data) {
    std::uint32_t masked = 0;
    std::memcpy(&masked, take(4).data(), 4);
    if (crc32c(data) != std::rotl(masked - 0xa282ead8u, 15)) throw std::runtime_error(path + " has a wrong checksum");
  };
  std::vector<proto::tensorboard::Event> events;
  while (!left.empty()) {
    const std::string_view header = take(8);
    check(header);
    std::uint64_t size = 0;
    std::memcpy(&size, header.data(), 8);
    const std::string_view data = take(size);
    check(data);
    if (!events.emplace_back().ParseFromArray(data.data(), static_cast<int>(data.size())))
      throw std::runtime_error(path + " has a record that is no event");
  }
  return events;
}

// What a directory tells, as TensorBoard takes it: a START makes an end of what was told of its step and later ones
// before.
struct Curves {
  struct Scalar {
    std::int64_t step = 0;
    float value = 0;
    bool operator==(const Scalar&) const = default;
  };
  std::map<std::string, std::vector<Scalar>> scalars;
  std::map<std::string, std::vector<std::pair<std::int64_t, proto::tensorboard::Histogram>>> histograms;
  std::vector<std::int64_t> starts;
  proto::tensorboard::GraphDef graph;
};

inline Curves read_curves(const std::string& directory) {
  Curves out;
  for (const std::string& path : event_files(directory))
    for (const auto& event : read_events(path)) {
      const auto later = [&](const auto& point) {
        if constexpr (requires { point.step; })
          return point.step >= event.step();
        else
          return point.first >= event.step();
      };
      if (event.session_log().status() == proto::tensorboard::SessionLog::START) {
        out.starts.push_back(event.step());
        for (auto& [tag, points] : out.scalars) std::erase_if(points, later);
        for (auto& [tag, points] : out.histograms) std::erase_if(points, later);
      }
      if (!event.graph_def().empty() && !out.graph.ParseFromString(event.graph_def()))
        throw std::runtime_error(path + " has a graph that is none");
      for (const auto& value : event.summary().value())
        if (value.has_histo())
          out.histograms[value.tag()].emplace_back(event.step(), value.histo());
        else
          out.scalars[value.tag()].push_back({event.step(), value.simple_value()});
    }
  return out;
}

}  // namespace troupe::testing
