// The source that looks at paths.
#include <troupe/actors/model/publication.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/serving/version_paths.hpp>
#include <troupe/actors/serving/version_source.hpp>
#include <troupe/devices/storage/file_systems.hpp>

namespace troupe {

FoundVersions PathSource::look(const ServedModel& model) {
  FileSystem& files = file_system_of(model.path);
  FoundVersions out{.versions = versions_at(files, model.path)};
  if (const auto publication = read_publication(files, model.path)) out.labels = labels_of(*publication);
  return out;
}

}  // namespace troupe
