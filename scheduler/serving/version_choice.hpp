// Which versions a source wants of those that are there, and which version a request means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

// As ServableVersionPolicy of TensorFlow Serving's configuration.
struct LatestVersions {
  std::size_t count = 1;
};
struct AllVersions {};
struct SpecificVersions {
  std::vector<std::int64_t> versions{};
};
using VersionPolicy = std::variant<LatestVersions, AllVersions, SpecificVersions>;

// Ascending. Specific versions that are not there are left out. Throws invalid_argument for a count below 1.
std::vector<std::int64_t> choose_versions(const VersionPolicy& policy, std::span<const std::int64_t> there);

// Names for versions of one model, for example "stable" and "canary".
class VersionLabels {
 public:
  // Throws failed_precondition, and changes nothing, if a label names a version that is not ready: requests for it
  // would fail. A label that does not move may name one that is not ready any more.
  void assign(std::map<std::string, std::int64_t> labels, std::span<const std::int64_t> ready);
  // Labels beside those, of who publishes versions (actors/model/publication.hpp): each moves as soon as its version is
  // ready.
  void follow(const std::map<std::string, std::int64_t>& published, std::span<const std::int64_t> ready);
  bool has_stable() const { return followed_.contains("stable"); }
  // Of both, where they are now.
  std::map<std::string, std::int64_t> all() const;

  // What a request asks for: a version, or a label, or neither: the published label "stable", or else the newest that
  // is ready.
  struct Wanted {
    std::optional<std::int64_t> version{};
    std::string label{};
  };
  // One of `ready`, ascending. Throws invalid_argument for a version and a label; not_found for a version that is not
  // ready or a label that nothing has; unavailable if no version is ready.
  std::int64_t resolve(std::string_view model, const Wanted& wanted, std::span<const std::int64_t> ready) const;

 private:
  std::map<std::string, std::int64_t> labels_, followed_;
};

}  // namespace troupe
