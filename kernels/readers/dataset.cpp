#include "troupe/kernels/readers/dataset.hpp"

#include <algorithm>
#include <string>

namespace troupe {
namespace {

void reuse_or_allocate(Tensor& tensor, DType dtype, const Shape& shape, Allocator* memory) {
  const bool fits = tensor.valid() && tensor.dtype() == dtype && tensor.shape() == shape && tensor.unique() &&
                    tensor.aligned() && tensor.space().on_host();
  if (!fits) tensor = memory ? memory->tensor(dtype, shape) : Tensor(dtype, shape);
}

void prepare(const Dataset& dataset, std::int64_t examples, Batch& batch) {
  Shape shape = dataset.images.shape();
  shape.set_dim(0, examples);
  reuse_or_allocate(batch.images, DType::f32, shape, batch.memory);
  reuse_or_allocate(batch.labels, DType::i32, Shape{examples}, batch.memory);
}

void convert(const std::uint8_t* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) / 255.0f;
}

std::string described(const Tensor& tensor) {
  return tensor.valid() ? fmt::format("{}{}", name(tensor.dtype()), tensor.shape().to_string()) : "no tensor";
}

}  // namespace

void check_dataset(const Dataset& dataset, const Shape& example, std::int64_t classes, std::string_view name) {
  const Shape wanted = Shape{kUnknown}.concatenated(example);
  const Tensor& images = dataset.images;
  const Tensor& labels = dataset.labels;
  if (!images.valid() || images.dtype() != DType::u8 || !wanted.compatible_with(images.shape()))
    invalid_argument("{}.images is {}, but the model takes u8{}", name, described(images), wanted.to_string());
  if (!labels.valid() || labels.dtype() != DType::i32 || labels.shape().rank() != 1)
    invalid_argument("{}.labels is {}, expected i32[n], the class of each image", name, described(labels));
  if (images.shape()[0] != labels.num_elements())
    invalid_argument("{} has {} images but {} labels; each image needs one label", name, images.shape()[0],
                     labels.num_elements());
  const auto values = labels.values<std::int32_t>();
  const auto wrong = std::ranges::find_if(values, [&](std::int32_t label) { return label < 0 || label >= classes; });
  if (wrong != values.end())
    invalid_argument("{}.labels: example {} has class {}, but the model's classes are 0 to {}", name,
                     wrong - values.begin(), *wrong, classes - 1);
}

Tensor scaled(const Tensor& images) {
  Tensor out(DType::f32, images.shape());
  convert(images.data<std::uint8_t>(), images.num_elements(), out.mutable_data<float>());
  return out;
}

void gather(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch) {
  const auto outside =
      std::find_if(indices.begin(), indices.end(), [&](std::int64_t i) { return i < 0 || i >= dataset.size(); });
  if (outside != indices.end()) {
    fail(Code::out_of_range, "example {} requested, but the dataset has {}", *outside, dataset.size());
  }
  prepare(dataset, static_cast<std::int64_t>(indices.size()), batch);
  if (indices.empty()) return;
  const std::int64_t pixels = dataset.images.num_elements() / dataset.size();
  const std::uint8_t* images = dataset.images.data<std::uint8_t>();
  const std::int32_t* labels = dataset.labels.data<std::int32_t>();
  float* to = batch.images.mutable_data<float>();
  std::int32_t* to_label = batch.labels.mutable_data<std::int32_t>();
  for (const std::int64_t index : indices) {
    convert(images + index * pixels, pixels, to);
    to += pixels;
    *to_label++ = labels[index];
  }
}

void gather_range(const Dataset& dataset, std::int64_t begin, std::int64_t end, Batch& batch) {
  if (begin < 0 || end < begin || end > dataset.size()) {
    fail(Code::out_of_range, "examples [{}, {}) requested, but the dataset has {}", begin, end, dataset.size());
  }
  prepare(dataset, end - begin, batch);
  if (begin == end) return;
  const std::int64_t pixels = dataset.images.num_elements() / dataset.size();
  convert(dataset.images.data<std::uint8_t>() + begin * pixels, (end - begin) * pixels,
          batch.images.mutable_data<float>());
  std::copy_n(dataset.labels.data<std::int32_t>() + begin, end - begin, batch.labels.mutable_data<std::int32_t>());
}

}  // namespace troupe
