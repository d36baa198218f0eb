#include "troupe/devices/storage/remote/read_only_file_system.hpp"

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

void ReadOnlyFileSystem::refuse_change(const char* what, const std::string& path) const {
  fail(Code::unimplemented,
       "cannot {} '{}': {} is read-only here: what is written must replace the old by an atomic rename, which it has "
       "not; write to a folder of this machine, and copy that",
       what, shown_path(path), scheme_);
}

std::unique_ptr<WritableFile> ReadOnlyFileSystem::create(const std::string& path) { refuse_change("create", path); }
void ReadOnlyFileSystem::rename(const std::string& from, const std::string&) { refuse_change("rename", from); }
void ReadOnlyFileSystem::exchange(const std::string& a, const std::string&) { refuse_change("exchange", a); }
void ReadOnlyFileSystem::remove(const std::string& file) { refuse_change("remove", file); }
void ReadOnlyFileSystem::make_directory(const std::string& path) { refuse_change("create folder", path); }
void ReadOnlyFileSystem::remove_directory(const std::string& path) { refuse_change("remove folder", path); }
void ReadOnlyFileSystem::sync_directory(const std::string& path) { refuse_change("sync folder", path); }

}  // namespace troupe
