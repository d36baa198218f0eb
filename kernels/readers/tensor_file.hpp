// Common to files of tensors: .safetensors, .npz and .npy.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// A tensor of a file, before it is read.
struct TensorInfo {
  std::string name{};
  DType dtype = DType::invalid;  // invalid: one that Troupe does not have, see stored_type
  Shape shape{};
  std::string stored_type{};  // as the file spells it: "BF16", "<f4"
};

struct NamedTensor {
  std::string name{};
  Tensor tensor{};
};

// What is to be written, one after another, so that not all tensors need to be in memory at once.
struct TensorSource {
  std::vector<TensorInfo> infos{};
  std::function<Tensor(std::size_t)> tensor{};  // of infos[i], on the host; called once for each, in any order

  static TensorSource of(std::span<const NamedTensor> tensors);
};

// The place of a name in `infos`. Throws not_found that names the file and what it has.
std::size_t index_of(const std::vector<TensorInfo>& infos, std::string_view name, const std::string& file);

// Throws invalid_argument, naming the file, for a name that comes twice.
void check_names(const std::vector<TensorInfo>& infos, const std::string& file);
// The tensor of the source. Throws invalid_argument unless it is as its info says, and on the host.
Tensor taken_from(const TensorSource& source, std::size_t i, const std::string& file);

// A suffix for replace_file(), different in each call on any machine.
std::string temporary_suffix();

// Throws data_loss if an element of a tensor of bool is neither 0 nor 1.
void check_booleans(const Tensor& tensor, const std::string& file, std::string_view name);

}  // namespace troupe
