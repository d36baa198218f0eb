// What troupe-checkpoint does. Each command prints its results on stdout and returns the exit code. PATH is a directory
// of checkpoints or the folder of one, or a model that was saved. They throw Error for what they cannot look at.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/checkpoint/reader.hpp>

namespace troupe::checkpoints {

// The checkpoints of a directory, or the tensors of one checkpoint.
int list(FileSystem& files, const std::string& path, bool json);

// 0: all that were committed are whole, and there is one.
int verify(FileSystem& files, const std::string& path, bool json);

// Of two saved models, or of two checkpoints: of directories the newest that was committed. 0: equal in every bit of
// every variable, slot and state.
int diff(FileSystem& files, const std::string& first, const std::string& second, bool json);

// The elements of two tensors of one dtype and shape, compared by their bits.
struct Difference {
  std::int64_t elements = 0;  // that differ
  // The greatest of |a - b|; none for strings, NaN if one of a pair is none.
  std::optional<double> greatest;
};
Difference compare(const Tensor& a, const Tensor& b);

// The file of a model that was saved (Model::save): `path`, or model.troupe in it if it is a directory without
// checkpoints. None if there is neither.
std::optional<std::string> saved_model_at(FileSystem& files, const std::string& path);
// Read each byte of the file; throw data_loss if it is damaged.
int list_model(const std::string& file, bool json);
int verify_model(const std::string& file, bool json);

// The checkpoint in `path` (its version is not looked up), or those in the directory. Throws not_found if there is
// neither.
std::vector<ListedCheckpoint> checkpoints_at(FileSystem& files, const std::string& path);

// It had a manifest when it was listed, and has none any more: no damage, its job keeps newer ones.
bool removed_meanwhile(FileSystem& files, const ListedCheckpoint& checkpoint);

}  // namespace troupe::checkpoints
