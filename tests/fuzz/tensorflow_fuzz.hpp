// What the fuzzer of TensorFlow's SavedModels, tensor bundles and recorded requests and its test share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Reads what an input stands for: its first byte says whether the rest is a saved_model.pb, the index of a bundle, an
// entry of an index whose checksums are right, or a record of a file of recorded requests. Aborts if anything but Error
// is thrown, or the graph or request that comes out cannot be written and read again. Returns how many nodes or tensors
// there are, 0 if it was refused.
std::size_t import_tensorflow_of_stranger(std::string_view input);
std::vector<std::string> tensorflow_seeds();

}  // namespace troupe
