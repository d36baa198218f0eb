// Paths of the REST door (rest_door.hpp), decoded.
//
//   /v1/models/NAME[/versions/N|/labels/L][:predict|:classify|:regress|/metadata]     TensorFlow Serving
//   /v1/models/NAME/files[/PATH]                                                      its files (shared_files.hpp)
//   /v2, /v2/health/live|ready, /v2/models/NAME[/versions/N][/ready|/infer]           Open Inference Protocol
//   /, /snapshot, /healthz, /readyz, /metrics, /monitoring/prometheus/metrics
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <troupe/scheduler/serving/version_choice.hpp>

namespace troupe {

struct RestRoute {
  enum class Kind {
    v1_status,
    v1_metadata,
    v1_predict,
    v1_other,  // :classify, :regress
    v1_files,
    v2_server,
    v2_model,
    v2_model_ready,
    v2_infer,
    live,
    ready,
    metrics,
    snapshot
  };
  Kind kind = Kind::live;
  std::string model{};
  VersionLabels::Wanted wanted{};
  std::string file{};  // of v1_files; "": the folder

  bool posts() const { return kind == Kind::v1_predict || kind == Kind::v1_other || kind == Kind::v2_infer; }
  // Without a model or its versions: answered to anybody.
  bool open() const { return kind == Kind::live || kind == Kind::ready; }
};

// Throws not_found for a path that there is not, with those that there are.
RestRoute parse_rest_path(std::string_view path);

}  // namespace troupe
