// Files of arrays as a pipeline's source: their rows are the elements.
//
//   const auto x = data::npy("x-*.npy", {.component = "x"});               // x-0.npy f32[1000,8]: x f32[8]
//   const auto digits = data::npz("digits.npz", {.arrays = {"x", "y"}});   // arrays with equal first dimensions
//   const auto mnist = data::idx({{"image", "train-images-idx3-ubyte.gz"}, {"label", "train-labels-idx1-ubyte.gz"}});
//
// .npy, stored members of .npz (numpy.savez) and IDX files are addressable: only the rows that are asked for are read,
// without the checksum of the archive. Deflated members (numpy.savez_compressed) and files compressed by gzip or zstd
// are forward, each file a split. Big-endian arrays are converted. Arrays stored by columns (Fortran's order) are
// loaded and converted, up to 1 GiB. Array files of other dtypes than Troupe's are refused, naming the dtype:
// unimplemented.
//
// Headers are read when the pipeline is built, and decide its schema and size. Errors name the file: those of the file
// system, data_loss for damage and for files that do not fit each other, invalid_argument for arrays of different
// first dimensions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/graph/data/pipeline.hpp>

namespace troupe::data {

struct ArrayOptions {
  FileSystem* files = nullptr;           // null: those of this machine; outlives the pipeline
  std::string component = "array";       // of npy()
  std::vector<std::string> arrays = {};  // of npz(): which; none: all
  SplitsOptions splits{};                // of files that are read in order
};

// The rows of the arrays of the files that match (devices/storage/file_pattern.hpp), in the order of their names.
Pipeline npy(const std::string& pattern, const ArrayOptions& options = {});
// Likewise; each array is a component of its name.
Pipeline npz(const std::string& pattern, const ArrayOptions& options = {});
// The rows of IDX files (MNIST's format), each a component: (name, path).
Pipeline idx(const std::vector<std::pair<std::string, std::string>>& components, const ArrayOptions& options = {});

}  // namespace troupe::data
