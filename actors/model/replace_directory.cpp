#include "troupe/actors/model/replace_directory.hpp"

#include <troupe/kernels/readers/tensor_file.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Gives the folder `from` the name `to`; returns where what had the name before is now, "" if nothing.
std::string put_in_place(FileSystem& files, const std::string& from, const std::string& to) {
  if (!files.exists(to)) {
    files.rename(from, to);
    return "";
  }
  try {
    files.exchange(from, to);
    return from;
  } catch (const Error& error) {
    if (error.code() != Code::unimplemented) throw;
  }
  const std::string old = fmt::format("{}.old-{}", to, temporary_suffix());
  files.rename(to, old);
  try {
    files.rename(from, to);
  } catch (const Error&) {
    files.rename(old, to);
    throw;
  }
  return old;
}

void remove_quietly(FileSystem& files, const std::string& path) {
  try {
    remove_tree(files, path);
  } catch (const Error&) {  // left behind, where nothing reads it
  }
}

}  // namespace

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string temporary_directory(const std::string& directory) {
  return fmt::format("{}.tmp-{}", directory, temporary_suffix());
}

void check_entries(FileSystem& files, const std::string& directory, const std::set<std::string>& listed) {
  std::vector<DirectoryEntry> entries;
  try {
    entries = files.list(directory);
  } catch (const Error& error) {
    if (error.code() != Code::failed_precondition && error.code() != Code::not_found) throw;
    fail(Code::failed_precondition, "cannot save a model as '{}': it is a file; pass the name of a directory",
         directory);
  }
  for (const DirectoryEntry& entry : entries)
    if (!listed.contains(entry.name))
      fail(Code::failed_precondition,
           "cannot save a model as '{}': the directory has '{}', which is of no saved model, and would be lost; pass "
           "another name, or move that",
           directory, entry.name);
}

void replace_directory(FileSystem& files, const std::string& directory,
                       const std::function<void(const std::string& path)>& write) {
  make_directories(files, parent_path(directory));
  const std::string temporary = temporary_directory(directory);
  std::string old;
  try {
    write(temporary);
    old = put_in_place(files, temporary, directory);
  } catch (...) {
    remove_quietly(files, temporary);
    throw;
  }
  files.sync_directory(parent_path(directory));
  if (!old.empty()) remove_quietly(files, old);
}

}  // namespace troupe
