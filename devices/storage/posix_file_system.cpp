// The POSIX implementation of FileSystem.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

Code code_of(int number) {
  switch (number) {
    case ENOENT:
      return Code::not_found;
    case EEXIST:
      return Code::already_exists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::resource_exhausted;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
      return Code::failed_precondition;
    case EIO:
      return Code::data_loss;
    default:
      return Code::unavailable;
  }
}

std::string_view advice(int number) {
  switch (number) {
    case ENOSPC:
      return "; free disk space";
    case EDQUOT:
      return "; free space, or raise the quota";
    case EMFILE:
      return "; raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

[[noreturn]] void file_error(std::string_view what, const std::string& path) {
  const int number = errno;
  fail(code_of(number), "cannot {} '{}': {}{}", what, path, std::strerror(number), advice(number));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, std::string_view what)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) file_error(what, path);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class PosixWritableFile final : public WritableFile {
 public:
  explicit PosixWritableFile(const std::string& path)
      : path_(path), fd_(path, O_WRONLY | O_CREAT | O_TRUNC, "create") {}

  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) file_error("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void sync() override {
    if (::fsync(fd_.get()) != 0) file_error("sync", path_);
  }
  void close() override {
    if (::close(fd_.release()) != 0) file_error("close", path_);
  }

 private:
  std::string path_;
  Descriptor fd_;
};

// Pages of a file. They belong to all who have the file open: nobody writes to them.
class MappedBuffer final : public Buffer {
 public:
  MappedBuffer(void* data, std::size_t bytes) : Buffer(data, bytes, {}, Sharing::borrowed) {}
  ~MappedBuffer() override { ::munmap(data(), size()); }
};

class PosixReadableFile final : public ReadableFile {
 public:
  explicit PosixReadableFile(const std::string& path)
      : path_(path), fd_(path, O_RDONLY | O_NONBLOCK, "open") {  // opening a pipe would block
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) file_error("stat", path);
    if (!S_ISREG(status.st_mode)) fail(Code::failed_precondition, "cannot open '{}': not a regular file", path);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::uint64_t size() override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> out) override {
    const bool beyond = offset > size_ || out.size() > size_ - offset;
    while (!beyond && !out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) file_error("read", path_);
      if (n == 0) break;  // the file was truncated meanwhile
      out = out.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
    if (beyond || !out.empty()) fail(Code::data_loss, "'{}' ends before byte {}", path_, offset + out.size());
  }
  BufferRef map() override {
    if (size_ == 0) return {};
    void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_.get(), 0);
    if (data != MAP_FAILED) return BufferRef(new MappedBuffer(data, size_));
    if (errno == ENODEV) return {};  // a file system without mapping
    file_error("map", path_);
  }

 private:
  std::string path_;
  Descriptor fd_;
  std::uint64_t size_ = 0;
};

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<PosixWritableFile>(path);
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    return std::make_unique<PosixReadableFile>(path);
  }

  bool exists(const std::string& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return true;
    if (errno != ENOENT && errno != ENOTDIR) file_error("stat", path);
    return false;
  }

  std::vector<DirectoryEntry> list(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), ::closedir);
    if (!open) file_error("list", directory);
    std::vector<DirectoryEntry> out;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(open.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat status {};
      if (::fstatat(::dirfd(open.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // removed meanwhile
        file_error("stat", join_path(directory, name));
      }
      out.push_back({std::string(name), S_ISDIR(status.st_mode), S_ISLNK(status.st_mode)});
    }
    if (errno != 0) file_error("list", directory);
    std::ranges::sort(out, {}, &DirectoryEntry::name);
    return out;
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return;
    if (errno == EISDIR)
      fail(Code::failed_precondition, "cannot write file '{}': it is a folder; pass the path of a file", to);
    file_error(fmt::format("rename '{}' to", from), to);
  }
  void exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
    if (errno == EINVAL || errno == ENOSYS)
      fail(Code::unimplemented, "cannot exchange '{}' and '{}': this file system exchanges no names", a, b);
    file_error(fmt::format("exchange '{}' and", a), b);
  }
  void remove(const std::string& file) override {
    if (::unlink(file.c_str()) != 0) file_error("remove", file);
  }
  void make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return;
    if (errno == ENOENT || errno == EACCES || errno == EPERM || errno == EROFS) {
      const int number = errno;  // /proc reports ENOENT
      fail(code_of(number), "cannot create folder '{}': {}; pass a path where this program may create folders", path,
           std::strerror(number));
    }
    file_error("create folder", path);
  }
  void remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) {
      if (errno == EEXIST) errno = ENOTEMPTY;  // POSIX allows both
      file_error("remove", path);
    }
  }
  void sync_directory(const std::string& path) override {
    const Descriptor directory(path, O_RDONLY | O_DIRECTORY, "open");
    if (::fsync(directory.get()) != 0) file_error("sync", path);
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace troupe
