// Values of variables in files that others read and write, too (.safetensors and .npz), in saved models and in
// checkpoints.
//
//   save_values(posix_file_system(), "digits.safetensors", values);
//   Parameters encoder = load_values(file_system_of("s3://models/other"), "s3://models/other",
//                                    {.only = {"body/encoder/*"}, .prefixes = {{"body/", ""}}});
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/training/parameters.hpp>
#include <troupe/devices/storage/file_systems.hpp>

namespace troupe {

// Which values of a file are taken, and their names.
struct ValueChoice {
  std::vector<std::string> only{};    // patterns of names in the file, like "encoder/*" or "*/bias"; none: all
  std::vector<std::string> except{};  // of names that are not taken, even if in `only`
  // A name that begins with the first of a pair gets the second instead; the first pair that fits counts.
  std::vector<std::pair<std::string, std::string>> prefixes{};
  // Patterns of names in the file, of matrices that become [b, a] from [a, b].
  std::vector<std::string> transposed{};
};

// Writes durably and atomically, in the format of the path's ending. Throws FileSystem's errors, invalid_argument for
// another ending, and those of the format: .npz has no bf16, neither has strings.
void save_values(FileSystem& files, const std::string& path, const Parameters& values);

// Reads the chosen values of a file, of a saved model (actors/model/saved_model.hpp), or of a checkpoint of a job or
// Saver: its folder, or the directory, of which the newest intact one counts. Tables on demand are in no checkpoint as
// a whole: unimplemented, unless they are left out. Throws FileSystem's errors, data_loss for a damaged file,
// invalid_argument for another ending or two values that get the same name or one that cannot be transposed, and
// not_found for a pattern of `only` that no name matches.
Parameters load_values(FileSystem& files, const std::string& path, const ValueChoice& choice = {});

// Replaces the values of those names in `values`. Throws, naming `source`, not_found for a name that `values` lacks and
// invalid_argument for another dtype or shape; then nothing is replaced.
void replace_values(Parameters& values, const Parameters& by, const std::string& source);

}  // namespace troupe
