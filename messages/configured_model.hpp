// The models that replicas serve, as a router tells them: what a configuration says, with paths as replicas see them.
// How requests are joined to batches is each replica's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/messages/fields.hpp>

namespace troupe {

struct ConfiguredModel {
  std::string name{};
  std::string path{};
  std::uint64_t latest = 0;              // so many of the newest versions; 0: those below
  bool all = false;                      // all versions; false: those below
  std::vector<std::int64_t> versions{};  // these
  std::vector<std::string> labels{};
  std::vector<std::int64_t> labelled{};  // the version of each label
  bool operator==(const ConfiguredModel&) const = default;
  TROUPE_FIELDS(name, path, latest, all, versions, labels, labelled)
};

struct ModelConfiguration {
  std::uint64_t number = 0;  // larger ones are newer; 0: no router's, but that of the command line
  std::vector<ConfiguredModel> models{};
  bool operator==(const ModelConfiguration&) const = default;
  TROUPE_FIELDS(number, models)
};

}  // namespace troupe
