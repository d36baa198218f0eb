#include "troupe/actors/serving/model_loader.hpp"

#include <utility>

#include <troupe/actors/model/recorded_requests.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>

namespace troupe {

ServableModel FormatLoader::load(const std::string& /*model*/, const FoundVersion& version) {
  FileSystem& files = file_system_of(version.path);
  ServableModel out{.model = read_any_model(files, version.path, {.ops = ops_})};
  const std::string file = recorded_requests_of(files, version.path);
  if (file.empty()) return out;
  out.warm_up_file = shown_path(file);
  for (RecordedRequest& request : read_recorded_requests(files, file))
    out.warm_up.push_back({.signature = std::move(request.signature), .inputs = std::move(request.inputs)});
  return out;
}

}  // namespace troupe
