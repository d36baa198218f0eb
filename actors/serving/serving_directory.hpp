// Lists the versions that are ready, and labels. Readers ask no actor.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/serving/servable.hpp>
#include <troupe/scheduler/serving/version_choice.hpp>

namespace troupe {

// Restricts the versions that labels of a new configuration may name.
enum class LabelRule {
  ready,  // versions that are ready, if any of the model is
  any,    // requests for the label find nothing until its version is ready
};

// Thread-safe.
class ServingDirectory {
 public:
  // The models that are configured, with their labels; those of others are forgotten. Throws failed_precondition, and
  // changes nothing, for a label that moves to a version that is not ready, unless the model has no ready version.
  void configure(const std::map<std::string, std::map<std::string, std::int64_t>>& labels_by_model,
                 LabelRule rule = LabelRule::ready);
  // Throws what configure() would.
  void check(const std::map<std::string, std::map<std::string, std::int64_t>>& labels_by_model) const;
  // The versions of a model that are ready; `why`: none is, for this reason; `labels`: VersionLabels::follow();
  // `usual`: the version of requests that name none, instead of the newest, where no label says. Ignored for a model
  // that is not configured.
  void publish(const std::string& model, std::map<std::int64_t, ServableHandle> ready, Error why,
               const std::map<std::string, std::int64_t>& labels, std::optional<std::int64_t> usual = {});
  // Of a model, where they are now; none of one that is not configured.
  std::map<std::string, std::int64_t> labels(const std::string& model) const;
  // ModelServer::find().
  ServableHandle find(std::string_view model, const VersionLabels::Wanted& wanted) const;
  bool all_ready() const;

 private:
  struct Model {
    std::map<std::int64_t, ServableHandle> handles{};
    std::vector<std::int64_t> ready{};  // ascending
    VersionLabels labels{};
    std::optional<std::int64_t> usual{};
    Error why{};
  };
  using Models = std::map<std::string, std::shared_ptr<const Model>, std::less<>>;

  std::shared_ptr<const Models> current() const;
  static std::shared_ptr<const Models> configured(
      const Models& before, const std::map<std::string, std::map<std::string, std::int64_t>>& labels_by_model,
      LabelRule rule);
  void replace(std::shared_ptr<const Models> models);

  std::mutex writing_;  // by one at a time
  // Guards the pointer, while it is copied: g++ 12's std::atomic<std::shared_ptr> is locked, too, but unlocks after a
  // read without ordering it before the next write (GCC's bug 101761).
  mutable std::mutex pointer_;
  std::shared_ptr<const Models> models_ = std::make_shared<const Models>();
};

}  // namespace troupe
