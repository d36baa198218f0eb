#include "tools/launch/cluster_file.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include <troupe/messages/error.hpp>

namespace troupe {

std::string random_token() {
  std::array<std::uint8_t, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail(Code::unavailable, "cannot get random bytes for the token: {}", std::strerror(errno));
  }
  std::string token;
  for (const std::uint8_t byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

ClusterFile::ClusterFile(const ClusterDescription& cluster) : file_(memfd_create("cluster.json", MFD_CLOEXEC)) {
  nlohmann::ordered_json json = {{"name", cluster.name}, {"token", cluster.token}};
  for (const auto& [job, addresses] : cluster.jobs) json[job] = addresses;
  if (cluster.max_workers > 0) json["max_workers"] = cluster.max_workers;
  const std::string text = json.dump() + "\n";
  if (!file_.open() || fchmod(file_.get(), 0600) != 0 ||
      write(file_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(Code::unavailable, "cannot write the cluster file: {}", std::strerror(errno));
}

std::string ClusterFile::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), file_.get()); }

}  // namespace troupe
