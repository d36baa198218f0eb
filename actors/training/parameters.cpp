#include "actors/training/parameters.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "graph/serialize.hpp"

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are hashed as they lie in memory");

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) { check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr)); }
  void add(const void* data, std::size_t size) { check(EVP_DigestUpdate(context_.get(), data, size)); }
  void add_text(std::string_view text) {
    add(text.data(), text.size());
    add("", 1);
  }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size));
    std::string out;
    for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
    return out;
  }

 private:
  static void check(int result) {
    if (result != 1) fail(Code::internal, "OpenSSL cannot compute SHA-256");
  }
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

[[noreturn]] void file_error(const std::string& path, std::string_view what) {
  fail(Code::unavailable, "cannot {} '{}': {}", what, path, std::strerror(errno));
}

void write_synced(const std::string& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) file_error(path, "create");
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd, [](const int* f) { ::close(*f); });
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) file_error(path, "write");
    done += static_cast<std::size_t>(n);
  }
  if (::fsync(fd) != 0) file_error(path, "sync");
}

void sync_directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) file_error(directory, "open");
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) file_error(directory, "sync");
}

}  // namespace

std::string params_sha256(const Parameters& parameters) {
  Sha256 hash;
  for (const auto& [name, value] : parameters) {
    hash.add_text(name);
    hash.add_text(troupe::name(value.dtype()));
    hash.add_text(value.shape().to_string());
    hash.add(value.raw(), value.num_bytes());
  }
  return hash.hex();
}

void save_parameters(const std::string& path, const Parameters& parameters) {
  proto::Parameters message;
  message.set_version(1);
  message.set_sha256(params_sha256(parameters));
  for (const auto& [name, value] : parameters) {
    proto::NamedTensor& entry = *message.add_parameter();
    entry.set_name(name);
    *entry.mutable_value() = to_proto(value);
  }
  std::string bytes;
  if (!message.SerializeToString(&bytes)) fail(Code::resource_exhausted, "the parameters are larger than 2 GiB: '{}'", path);
  const std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  try {
    write_synced(temporary, bytes);
    if (::rename(temporary.c_str(), path.c_str()) != 0) file_error(path, "rename to");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory_of(path);
}

Parameters load_parameters(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(Code::not_found, "cannot read '{}': {}", path, std::strerror(errno));
  std::stringstream bytes;
  bytes << file.rdbuf();
  proto::Parameters message;
  if (!message.ParseFromString(bytes.str()) || message.version() != 1)
    fail(Code::data_loss, "'{}' is not a file of parameters, or is damaged", path);
  Parameters out;
  for (const proto::NamedTensor& entry : message.parameter()) {
    try {
      out.emplace(entry.name(), from_proto(entry.value()));
    } catch (const Error& error) {
      fail(Code::data_loss, "'{}' is damaged: parameter '{}': {}", path, entry.name(), error.message());
    }
  }
  if (params_sha256(out) != message.sha256()) fail(Code::data_loss, "'{}' is damaged: its checksum does not fit", path);
  return out;
}

}  // namespace troupe
