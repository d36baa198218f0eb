// Directories of models that appear whole, beside readers and after crashes (actors/model/saved_model.hpp).
#pragma once

#include <functional>
#include <set>
#include <string>

#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

std::string without_slashes(std::string path);  // at its end

// "DIR.tmp-SUFFIX", another name in each call.
std::string temporary_directory(const std::string& directory);

// Throws failed_precondition, naming `directory`, which exists, if it is a file or has an entry that is not listed.
void check_entries(FileSystem& files, const std::string& directory, const std::set<std::string>& listed);

// Makes the folders around the directory; calls `write` with the name of a directory to make beside it, durably; then
// gives that its name, and removes what had the name before. After an error the directory is what it was.
void replace_directory(FileSystem& files, const std::string& directory,
                       const std::function<void(const std::string& path)>& write);

}  // namespace troupe
