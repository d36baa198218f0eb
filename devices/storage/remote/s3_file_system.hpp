// Files in object stores of S3's interface (AWS, MinIO, Ceph ...): paths are s3://BUCKET/KEY.
//
// Read-only. A folder is what the keys up to a '/' have in common: it exists if a key begins with it. Requests are
// signed (aws_signature.hpp), or anonymous without credentials.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/remote/http_options.hpp>
#include <troupe/devices/storage/remote/read_only_file_system.hpp>
#include <troupe/devices/storage/remote/s3_options.hpp>

namespace troupe {

class RemoteClient;

// Besides FileSystem's errors, those of answers: failed_precondition for a bucket of another region.
class S3FileSystem final : public ReadOnlyFileSystem {
 public:
  // Throws invalid_argument for an endpoint that is no address.
  explicit S3FileSystem(S3Options s3, HttpOptions http = {});
  ~S3FileSystem() override;
  std::unique_ptr<ReadableFile> open(const std::string& path) override;  // the file must not outlive this
  bool exists(const std::string& path) override;
  std::vector<DirectoryEntry> list(const std::string& directory) override;

 private:
  // Of a path; the key is "" for the bucket itself. Throws invalid_argument for what is no such path.
  struct Place {
    std::string bucket, key;
  };
  static Place place_of(const std::string& path);
  std::string url_of(const Place& place) const;
  // One page of a folder's entries; sets `token` to the next one's.
  std::vector<DirectoryEntry> page(const std::string& path, const std::string& prefix, int most, std::string& token);

  const S3Options s3_;
  const std::unique_ptr<RemoteClient> client_;
};

}  // namespace troupe
