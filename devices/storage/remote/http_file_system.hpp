// Files on web servers: paths are URLs of http and https.
//
// Read-only. Folders are listed where the server does (http_listing.hpp): nginx with "autoindex on; autoindex_format
// xml;", troupe-serve --share-models; elsewhere list() is unimplemented. Names of entries are as they stand in URLs. A
// user and password in a URL are sent to its host alone; errors show URLs without them, and without the query.
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
