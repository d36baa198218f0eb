// The versions of a model that a path has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// A version that a source has found.
struct FoundVersion {
  std::int64_t version = 0;
  std::string path{};
  std::size_t bytes = 0;  // of its files
};

// Ascending: folders named by a number, and files NUMBER.onnx. A path that is itself a model is version 1. Throws
// FileSystem's errors; not_found if there is no version.
std::vector<FoundVersion> versions_at(FileSystem& files, const std::string& path);

}  // namespace troupe
