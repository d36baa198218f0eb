#include "troupe/kernels/readers/tensor_file.hpp"

#include <algorithm>
#include <random>
#include <set>

#include <troupe/messages/error.hpp>

namespace troupe {

TensorSource TensorSource::of(std::span<const NamedTensor> tensors) {
  TensorSource out;
  for (const NamedTensor& t : tensors)
    out.infos.push_back({.name = t.name, .dtype = t.tensor.dtype(), .shape = t.tensor.shape()});
  out.tensor = [tensors](std::size_t i) { return tensors[i].tensor; };
  return out;
}

std::size_t index_of(const std::vector<TensorInfo>& infos, std::string_view name, const std::string& file) {
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  if (found != infos.end()) return static_cast<std::size_t>(found - infos.begin());
  std::string known;
  for (std::size_t i = 0; i < infos.size() && i < 8; ++i) known += (i > 0 ? ", '" : "'") + infos[i].name + "'";
  fail(Code::not_found, "'{}' has no tensor '{}'; it has {} tensors: {}{}", file, name, infos.size(), known,
       infos.size() > 8 ? ", ..." : "");
}

void check_names(const std::vector<TensorInfo>& infos, const std::string& file) {
  std::set<std::string_view> names;
  for (const TensorInfo& info : infos)
    if (!names.insert(info.name).second)
      invalid_argument("cannot write '{}': two tensors have the name '{}'", file, info.name);
}

Tensor taken_from(const TensorSource& source, std::size_t i, const std::string& file) {
  const TensorInfo& info = source.infos[i];
  Tensor tensor = source.tensor(i);
  if (tensor.dtype() != info.dtype || tensor.shape() != info.shape || !tensor.space().on_host())
    invalid_argument("cannot write '{}': tensor '{}' is {}{}, but was announced as {}{} on the host", file, info.name,
                     name(tensor.dtype()), tensor.shape().to_string(), name(info.dtype), info.shape.to_string());
  return tensor;
}

std::string temporary_suffix() {
  std::random_device random;
  const auto half = [&] { return static_cast<unsigned>(random()); };
  const unsigned high = half();
  return fmt::format("{:08x}{:08x}", high, half());
}

void check_booleans(const Tensor& tensor, const std::string& file, std::string_view name) {
  if (tensor.dtype() != DType::boolean) return;
  const auto* bytes = reinterpret_cast<const unsigned char*>(tensor.raw());
  const auto* end = bytes + tensor.num_bytes();
  const auto* bad = std::find_if(bytes, end, [](unsigned char byte) { return byte > 1; });
  if (bad != end)
    fail(Code::data_loss, "'{}': element {} of the bool tensor '{}' is {}, neither 0 nor 1", file, bad - bytes, name,
         int{*bad});
}

}  // namespace troupe
