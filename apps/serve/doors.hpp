// The doors of troupe-serve, as its options say.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/serve/grpc_door.hpp"
#include "apps/serve/options.hpp"
#include "apps/serve/report.hpp"
#include "apps/serve/request_log.hpp"
#include "apps/serve/rest_door.hpp"
#include "apps/serve/served_models.hpp"
#include <troupe/actors/cluster/task.hpp>

namespace troupe {

class Doors {
 public:
  // Opens them. All must outlive it. Throws errors of the doors, and of the log's file.
  Doors(const ServeOptions& options, ServedModels models, Task& task, ServeReport& report);
  ~Doors();
  Doors(const Doors&) = delete;
  Doors& operator=(const Doors&) = delete;

  // Models have come, gone or become ready.
  void refresh_health(const std::vector<std::string>& models);
  // {"event":"ready","rest_port":P,"grpc_port":P}
  nlohmann::json ready_event() const;
  // False: requests were cut off.
  bool drain();

 private:
  const ServeOptions& options_;
  Task& task_;
  std::unique_ptr<RequestLog> log_;
  std::unique_ptr<RestDoor> rest_;
  std::unique_ptr<GrpcDoor> grpc_;
};

}  // namespace troupe
