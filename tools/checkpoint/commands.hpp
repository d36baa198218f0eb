// The commands of troupe-checkpoint. Each prints its results on stdout and returns the exit code. PATH is a directory
// of checkpoints, the folder of one, or a saved model. They throw Error for paths that they cannot read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/checkpoint/reader.hpp>

namespace troupe::checkpoints {

// Lists the checkpoints of a directory, or the tensors of one checkpoint.
int list(FileSystem& files, const std::string& path, bool json);

// 0: there is a committed checkpoint, and all committed ones are whole.
int verify(FileSystem& files, const std::string& path, bool json);

// Compares two saved models, or two checkpoints (of a directory, the newest committed one). 0: every variable, slot and
// state is bit-identical.
int diff(FileSystem& files, const std::string& first, const std::string& second, bool json);

// Bitwise comparison of the elements of two tensors of one dtype and shape.
struct Difference {
  std::int64_t elements = 0;  // that differ
  // The maximum of |a - b|; none for strings, NaN if either value of a pair is NaN.
  std::optional<double> greatest;
};
Difference compare(const Tensor& a, const Tensor& b);

// These are for the directory of a saved model (actors/model/saved_model.hpp), and read every byte of it.
int list_model(FileSystem& files, const std::string& path, bool json);
int verify_model(FileSystem& files, const std::string& path, bool json);

// The checkpoint in `path` (its version is not checked), or those in the directory. Throws not_found if there is
// neither.
std::vector<ListedCheckpoint> checkpoints_at(FileSystem& files, const std::string& path);

// Whether a checkpoint that had a manifest when listed has lost it: not damage, its job keeps newer ones.
bool removed_meanwhile(FileSystem& files, const ListedCheckpoint& checkpoint);

}  // namespace troupe::checkpoints
