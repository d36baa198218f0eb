#include "tests/chaos/faulty_file_system.hpp"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <troupe/messages/error.hpp>

namespace troupe::chaos {
namespace {

class FaultyFile final : public WritableFile {
 public:
  FaultyFile(FaultyFileSystem& disk, std::string path, std::unique_ptr<WritableFile> file)
      : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}
  void append(std::span<const std::byte> bytes) override {
    if (disk_.operation(path_, true)) {
      file_->append(bytes.first(bytes.size() / 2));
      disk_.die();
    }
    file_->append(bytes);
  }
  void sync() override {
    if (disk_.operation(path_, false)) disk_.die();
    file_->sync();
  }
  void close() override { file_->close(); }

 private:
  FaultyFileSystem& disk_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;
};

}  // namespace

bool FaultyFileSystem::operation(const std::string& path, bool needs_space) {
  const std::uint64_t number = ++operations_;
  if (needs_space && faults_.full_from > 0 && number >= faults_.full_from &&
      number < faults_.full_from + faults_.full_for)
    fail(Code::resource_exhausted, "'{}': no space left, as the harness wants it", path);
  return number == faults_.kill_at && !std::filesystem::exists(faults_.once);
}

void FaultyFileSystem::die() const {
  std::ofstream(faults_.once) << "killed\n";
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

std::unique_ptr<WritableFile> FaultyFileSystem::create(const std::string& path) {
  if (operation(path, true)) die();
  return std::make_unique<FaultyFile>(*this, path, files_.create(path));
}

void FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  if (operation(from, false)) die();
  files_.rename(from, to);
}

void FaultyFileSystem::remove(const std::string& file) {
  if (operation(file, false)) die();
  files_.remove(file);
}

void FaultyFileSystem::make_directory(const std::string& path) {
  if (operation(path, true)) die();
  files_.make_directory(path);
}

void FaultyFileSystem::remove_directory(const std::string& path) {
  if (operation(path, false)) die();
  files_.remove_directory(path);
}

void FaultyFileSystem::sync_directory(const std::string& path) {
  if (operation(path, false)) die();
  files_.sync_directory(path);
}

}  // namespace troupe::chaos
