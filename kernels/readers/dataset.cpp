#include "troupe/kernels/readers/dataset.hpp"

#include <algorithm>
#include <string>

namespace troupe {
namespace {

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

}  // namespace troupe
