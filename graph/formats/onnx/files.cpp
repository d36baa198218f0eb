// Files of ONNX: models, their external data, and test data.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

// Reads files of the folder of a model, and of folders below it.
ReadExternal reader_of(const std::string& folder) {
  return [folder](const std::string& file, std::uint64_t offset, std::uint64_t length) {
    namespace fs = std::filesystem;
    const fs::path relative(file);
    const bool outside = file.empty() || file.find('\0') != file.npos || relative.is_absolute() ||
                         std::ranges::find(relative, fs::path("..")) != relative.end();
    std::error_code error;
    const fs::path base = fs::weakly_canonical(folder.empty() ? "." : folder, error);
    const fs::path path = error ? fs::path() : fs::weakly_canonical(base / relative, error);
    const auto [end, unused] = std::ranges::mismatch(base, path);
    if (outside || error || end != base.end())
      invalid_argument("external data '{}' are not in the folder of the model", file);
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    const auto size = in ? static_cast<std::uint64_t>(in.tellg()) : 0;
    if (!in || offset > size || length > size - offset)
      fail(Code::data_loss, "external data '{}' have {} bytes; {} from {} are needed", path.string(), size, length,
           offset);
    std::string bytes(length, '\0');
    in.seekg(static_cast<std::streamoff>(offset));
    if (!in.read(bytes.data(), static_cast<std::streamsize>(length)))
      fail(Code::data_loss, "cannot read {} bytes of '{}'", length, path.string());
    return bytes;
  };
}

// ONNX's test data have the bits of bf16 elements as u16.
Tensor tensor_of(const onnx::Tensor& tensor, DType wanted) {
  const Tensor found = from_onnx_tensor(tensor);
  return wanted == DType::bf16 && found.dtype() == DType::u16 ? Tensor(wanted, found.shape(), found.buffer()) : found;
}

Tensor list_of(const onnx::Sequence& sequence, DType wanted) {
  std::vector<Tensor> items;
  for (const onnx::Tensor& item : sequence.tensor_values()) items.push_back(tensor_of(item, wanted));
  for (const onnx::Sequence& item : sequence.sequence_values()) items.push_back(list_of(item, wanted));
  return make_list(std::move(items));
}

Tensor list_of(const onnx::Optional& optional, DType wanted) {
  std::vector<Tensor> items;
  if (optional.has_tensor_value()) items.push_back(tensor_of(optional.tensor_value(), wanted));
  if (optional.has_sequence_value()) items.push_back(list_of(optional.sequence_value(), wanted));
  if (optional.has_optional_value()) items.push_back(list_of(optional.optional_value(), wanted));
  return make_list(std::move(items));
}

void put_sequence(const Tensor& list, const OnnxType& type, onnx::Sequence& out) {
  const bool nested = type.lists.size() > 1;
  if (nested && type.lists[1] != OnnxType::List::sequence)
    fail(Code::unimplemented, "sequences of optional values cannot be written");
  out.set_elem_type(nested ? onnx::Sequence::SEQUENCE : onnx::Sequence::TENSOR);
  for (const Tensor& item : list_items(list))
    nested ? put_sequence(item, type.item(), *out.add_sequence_values())
           : to_onnx_tensor(item, "", *out.add_tensor_values());
}

void put_optional(const Tensor& list, const OnnxType& type, onnx::Optional& out) {
  const bool nested = type.lists.size() > 1;
  if (nested && type.lists[1] != OnnxType::List::sequence)
    fail(Code::unimplemented, "optional values of optional values cannot be written");
  out.set_elem_type(nested ? onnx::Sequence::SEQUENCE : onnx::Sequence::TENSOR);
  for (const Tensor& item : list_items(list))
    nested ? put_sequence(item, type.item(), *out.mutable_sequence_value())
           : to_onnx_tensor(item, "", *out.mutable_tensor_value());
}

template <class Message>
Message parsed(std::string_view bytes, std::string_view what) {
  Message out;
  if (bytes.size() > 0x7fffffffu || !out.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "not a {} of ONNX's test data, or a damaged one", what);
  return out;
}

}  // namespace

OnnxModel parse_onnx(std::string_view bytes, const OnnxImportOptions& options,
                     const std::optional<std::string>& folder) {
  onnx::Model model;
  if (bytes.size() > 0x7fffffffu) invalid_argument("a model file has at most 2 GiB: keep its tensors in other files");
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(Code::data_loss, "not an ONNX model, or a damaged one");
  return import_onnx_model(model, options, folder ? reader_of(*folder) : ReadExternal());
}

OnnxModel import_onnx(const std::string& path, const OnnxImportOptions& options) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) fail(Code::not_found, "cannot open '{}'", path);
  const auto size = in.tellg();
  std::string bytes(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  in.seekg(0);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    fail(Code::data_loss, "cannot read '{}'", path);
  try {
    return parse_onnx(bytes, options, std::filesystem::path(path).parent_path().string());
  } catch (...) {
    throw current_error().within(path);
  }
}

Tensor parse_onnx_value(std::string_view bytes, const OnnxType& type) {
  if (!type.is_list()) return tensor_of(parsed<onnx::Tensor>(bytes, "tensor"), type.dtype);
  return type.lists.front() == OnnxType::List::sequence
             ? list_of(parsed<onnx::Sequence>(bytes, "sequence"), type.dtype)
             : list_of(parsed<onnx::Optional>(bytes, "optional value"), type.dtype);
}

std::string to_onnx_value(const Tensor& value, std::string_view name, const OnnxType& type) {
  if (!type.is_list()) {
    onnx::Tensor out;
    to_onnx_tensor(value, name, out);
    return out.SerializeAsString();
  }
  if (type.lists.front() == OnnxType::List::optional) {
    onnx::Optional out;
    put_optional(value, type, out);
    out.set_name(std::string(name));
    return out.SerializeAsString();
  }
  onnx::Sequence out;
  put_sequence(value, type, out);
  out.set_name(std::string(name));
  return out.SerializeAsString();
}

}  // namespace troupe
