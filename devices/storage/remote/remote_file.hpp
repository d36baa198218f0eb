// A file on a server, read by requests for ranges of it.
//
// Readers that go on where they ended get large requests, others small ones (HttpOptions). All bytes are of one version
// of the file: data_loss if the server's has changed since it was opened, by its ETag, Last-Modified or size; requests
// name the ETag (If-Match, If-Range), so that servers send nothing of another version. What breaks midway goes on where
// it ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/devices/storage/remote/remote_client.hpp>

namespace troupe {

class RemoteFile final : public ReadableFile {
 public:
  // Asks for the size. Throws not_found, permission_denied, unavailable. `client` outlives the file.
  RemoteFile(RemoteClient& client, RemoteRequest file);

  std::uint64_t size() override { return size_; }
  // Throws data_loss if the file ends first or has changed, unimplemented if the server cannot give ranges of a file
  // that is too large to be read as a whole, and what the constructor throws.
  void read(std::uint64_t offset, std::span<std::byte> out) override;

 private:
  void find_size_by_range();
  void keep_whole(const RemoteAnswer& answer);
  void fetch(std::uint64_t offset, std::span<std::byte> out);
  std::size_t accept_part(const RemoteAnswer& answer, std::uint64_t offset, std::size_t wanted) const;
  RemoteRequest range_request(std::uint64_t offset, std::span<std::byte> out) const;
  bool has_strong_tag() const;
  void remember_version(const RemoteAnswer& answer);
  void check_version(const RemoteAnswer& answer) const;
  [[noreturn]] void refuse_whole(std::string_view bytes) const;

  RemoteClient& client_;
  const RemoteRequest file_;
  std::uint64_t size_ = 0;
  std::string etag_{}, last_modified_{};    // "": the server told none
  std::vector<std::byte> ahead_{};          // what was read, of it and behind
  std::uint64_t ahead_at_ = 0;              // where that is in the file
  std::uint64_t next_ = ~std::uint64_t{0};  // the byte behind the last that was asked for
  std::size_t request_ = 0;                 // bytes of the last request
};

}  // namespace troupe
