// The versions of a model that a path has.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <troupe/actors/serving/version_source.hpp>
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

// Ascending, with the bytes of their files: folders named by a number, and files NUMBER.onnx. A path that is itself a
// model is version 1. Throws FileSystem's errors; not_found if there is no version. `known_bytes`: of versions, by
// path, that are not counted again.
std::vector<FoundVersion> versions_at(FileSystem& files, const std::string& path,
                                      const std::map<std::string, std::size_t>& known_bytes = {});

}  // namespace troupe
