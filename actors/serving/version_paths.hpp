// The versions of a model that a path has.
#pragma once

#include <string>
#include <vector>

#include <troupe/actors/serving/version_source.hpp>
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// Ascending, with the bytes of their files: folders named by a number, and files NUMBER.onnx. A path that is itself a
// model is version 1. Throws FileSystem's errors; not_found if there is no version.
std::vector<FoundVersion> versions_at(FileSystem& files, const std::string& path);

}  // namespace troupe
