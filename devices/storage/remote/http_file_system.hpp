// Files on web servers: paths are URLs of http and https.
//
// Read-only. There are no folders: list() is unimplemented. Errors show URLs without user, password and query.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/storage/remote/http_options.hpp>
#include <troupe/devices/storage/remote/read_only_file_system.hpp>

namespace troupe {

class RemoteClient;

class HttpFileSystem final : public ReadOnlyFileSystem {
 public:
  explicit HttpFileSystem(HttpOptions options = {});
  ~HttpFileSystem() override;
  std::unique_ptr<ReadableFile> open(const std::string& url) override;  // the file must not outlive this
  bool exists(const std::string& url) override;
  std::vector<DirectoryEntry> list(const std::string& url) override;

 private:
  const std::unique_ptr<RemoteClient> client_;
};

}  // namespace troupe
