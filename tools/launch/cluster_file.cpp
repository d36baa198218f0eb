#include "tools/launch/cluster_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "messages/error.hpp"
#include "tools/launch/process.hpp"

namespace troupe {

std::string random_token() {
  std::array<std::uint8_t, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail(Code::unavailable, "no random bytes for the token: {}", std::strerror(errno));
  }
  std::string token;
  for (const std::uint8_t byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

ClusterFile::ClusterFile(const ClusterDescription& cluster) {
  std::string directory = (std::filesystem::temp_directory_path() / "troupe-launch-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) {
    fail(Code::unavailable, "{}: cannot be made: {}", directory, std::strerror(errno));
  }
  directory_ = directory;
  const nlohmann::ordered_json json = {
      {"name", cluster.name}, {"token", cluster.token}, {"ps", cluster.ps}, {"worker", cluster.worker}};
  const std::string text = json.dump() + "\n";
  const FileDescriptor file(open(path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0 || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
    fail(Code::unavailable, "{}: cannot be written: {}", path(), std::strerror(error));
  }
}

ClusterFile::~ClusterFile() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

}  // namespace troupe
