// The source that looks at paths.
#include <utility>

#include <troupe/actors/model/publication.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/serving/version_paths.hpp>
#include <troupe/actors/serving/version_source.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/devices/storage/remote/url.hpp>

namespace troupe {

FoundVersions PathSource::look(const ServedModel& model) {
  FileSystem& files = file_system_of(model.path, RemoteAttempts::once);
  // Asking for the size of each file takes long elsewhere; versions stay what they are.
  const bool elsewhere = &files != &posix_file_system() && scheme_of(model.path) != "file";
  std::map<std::string, std::size_t> known;
  if (elsewhere) known = std::move(bytes_[model.name]);
  FoundVersions out{.versions = versions_at(files, model.path, known)};
  if (elsewhere)
    for (const FoundVersion& found : out.versions) bytes_[model.name][found.path] = found.bytes;
  if (const auto publication = read_publication(files, model.path)) out.labels = labels_of(*publication);
  return out;
}

}  // namespace troupe
