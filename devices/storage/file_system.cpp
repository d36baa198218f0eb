#include "troupe/devices/storage/file_system.hpp"

#include <algorithm>

#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

std::string join_path(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.empty() && out.back() != '/') out += '/';
  return out += name;
}

std::string parent_path(std::string_view path) {
  const std::size_t root = root_bytes(path);
  while (path.size() > std::max<std::size_t>(root, 1) && path.back() == '/') path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  path = path.substr(0, std::max(root, slash + 1));
  while (path.size() > std::max<std::size_t>(root, 1) && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

void make_directories(FileSystem& files, const std::string& path) {
  if (path == "." || root_bytes(path) == path.size()) return;
  bool made = false;
  if (!files.exists(path)) {
    make_directories(files, parent_path(path));
    try {
      files.make_directory(path);
      made = true;
    } catch (const Error& error) {
      if (error.code() != Code::already_exists) throw;  // another process made it first
    }
  }
  try {
    files.sync_directory(parent_path(path));  // even if it existed: its creator may not have synced it
  } catch (const Error& error) {
    if (made || error.code() != Code::permission_denied)
      throw;  // else: an existing folder in a parent that we may not open
  }
}

namespace {

void empty_directory(FileSystem& files, const std::string& directory) {
  for (const DirectoryEntry& entry : files.list(directory)) {
    const std::string path = join_path(directory, entry.name);
    if (!entry.is_directory) {
      files.remove(path);
    } else {
      empty_directory(files, path);
      files.remove_directory(path);
    }
  }
}

}  // namespace

void remove_tree(FileSystem& files, const std::string& path) {
  try {
    files.remove(path);
    return;
  } catch (const Error& error) {
    if (error.code() != Code::failed_precondition && error.code() != Code::permission_denied) throw;
  }
  empty_directory(files, path);
  files.remove_directory(path);
}

void replace_file(FileSystem& files, const std::string& path, std::string_view bytes, std::string_view suffix) {
  const auto write = [bytes](WritableFile& file) { file.append(std::as_bytes(std::span(bytes))); };
  replace_file(files, path, write, suffix);
}

void replace_file(FileSystem& files, const std::string& path, FunctionRef<void(WritableFile&)> write,
                  std::string_view suffix) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, suffix);
  bool created = false;
  try {
    const std::unique_ptr<WritableFile> file = files.create(temporary);
    created = true;
    write(*file);
    file->sync();
    file->close();
    files.rename(temporary, path);
  } catch (...) {
    try {
      if (created) files.remove(temporary);
    } catch (const Error&) {  // the first error is the cause
    }
    throw;
  }
  files.sync_directory(parent_path(path));
}

std::string read_file(FileSystem& files, const std::string& path, std::uint64_t limit) {
  const std::unique_ptr<ReadableFile> file = files.open(path);
  const std::uint64_t size = file->size();
  if (size > limit) fail(Code::resource_exhausted, "'{}' has {} bytes; the limit is {}", shown_path(path), size, limit);
  std::string bytes(size, '\0');
  file->read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace troupe
