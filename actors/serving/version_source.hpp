// Where versions of models come from. A server's source is asked again and again which versions there are; its own
// looks at paths, and a program may bring another (ModelServerOptions::source):
//
//   class Registry final : public VersionSource {
//     FoundVersions look(const ServedModel& model) override { return {.versions = {{.version = 1, .path = ...}}}; }
//   };
//
// Which of the versions are served is ServedModel::versions; what their paths mean is the loader's (model_loader.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct ServedModel;

// A version that a source has found.
struct FoundVersion {
  std::int64_t version = 0;
  std::string path{};     // for the loader
  std::size_t bytes = 0;  // of memory that it will need at least; 0: not known
};

struct FoundVersions {
  std::vector<FoundVersion> versions{};  // in any order; none: those that are served go
  // Of who publishes versions: requests that name no version get "stable", and LatestVersions means those with a label.
  // nullopt: nobody publishes.
  std::optional<std::map<std::string, std::int64_t>> labels{};
};

class VersionSource {
 public:
  virtual ~VersionSource() = default;
  // Called on the thread of the server's source, for one model after the other; may take its time. What it throws
  // changes nothing for a model that had versions once, and else is why the model has none. A version that is negative
  // or found twice is such an error.
  virtual FoundVersions look(const ServedModel& model) = 0;
};

// Looks at ServedModel::path, on the file system of its scheme, without trying again when that fails: finds folders
// named by a number, and files NUMBER.onnx; a path that is itself a model is version 1. Labels are those of its
// publication. Throws errors of the file system, and not_found if there is no version.
class PathSource final : public VersionSource {
 public:
  FoundVersions look(const ServedModel& model) override;

 private:
  std::map<std::string, std::map<std::string, std::size_t>> bytes_;  // of versions elsewhere, by their path, by model
};

}  // namespace troupe
