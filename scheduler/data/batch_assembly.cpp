#include "troupe/scheduler/data/batch_assembly.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Copies `from` into the corner of a box of `shape` that begins at element `at` of `to`.
template <class Copy>
void copy_corner(const Shape& from, const Shape& shape, Copy&& copy) {
  const int rank = shape.rank();
  const std::int64_t width = rank == 0 ? 1 : from.dim(rank - 1);
  std::array<std::int64_t, kMaxRank> at{};
  std::int64_t source = 0;
  if (from.num_elements() == 0) return;
  while (true) {
    std::int64_t target = 0;
    for (int d = 0; d < rank; ++d) target = target * shape.dim(d) + at[static_cast<std::size_t>(d)];
    copy(source, target, width);
    source += width;
    int d = rank - 2;
    while (d >= 0 && ++at[static_cast<std::size_t>(d)] == from.dim(d)) at[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

void fill(Tensor& tensor, const Tensor& value) {
  const bool zero = !value.valid();
  if (tensor.dtype() == DType::string) {
    if (!zero) std::fill_n(tensor.mutable_data<std::string>(), tensor.num_elements(), *value.data<std::string>());
    return;
  }
  if (zero) {
    if (tensor.num_bytes() > 0) std::memset(tensor.mutable_raw(), 0, tensor.num_bytes());
    return;
  }
  const std::size_t size = size_of(tensor.dtype());
  for (std::size_t at = 0; at < tensor.num_bytes(); at += size)
    std::memcpy(tensor.mutable_raw() + at, value.raw(), size);
}

void place(const Tensor& element, std::int64_t row, const Shape& shape, Tensor& out) {
  const std::int64_t first = row * shape.num_elements();
  if (element.dtype() == DType::string) {
    copy_corner(element.shape(), shape, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      std::copy_n(element.data<std::string>() + from, count, out.mutable_data<std::string>() + first + to);
    });
    return;
  }
  const auto size = static_cast<std::int64_t>(size_of(element.dtype()));
  copy_corner(element.shape(), shape, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    std::memcpy(out.mutable_raw() + (first + to) * size, element.raw() + from * size,
                static_cast<std::size_t>(count * size));
  });
}

}  // namespace

std::vector<Tensor> assemble_batch(const data::BatchStage& batch, const std::string& stage, const BatchSchema& schema,
                                   std::span<const data::Element> elements, Allocator* memory) {
  std::vector<Tensor> out;
  const auto count = static_cast<std::int64_t>(elements.size());
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const BatchComponent& component = schema[i];
    Shape shape = elements.empty() ? component.shape : elements[0][i].shape();
    bool alike = true;
    for (const data::Element& element : elements) {
      alike = alike && element[i].shape() == shape;
      if (!alike && !batch.pad)
        fail(Code::data_loss, "stage '{}': '{}' is {} in one element and {} in another: use padded_batch", stage,
             component.name, shape.to_string(), element[i].shape().to_string());
      for (int d = 0; d < shape.rank(); ++d) shape.set_dim(d, std::max(shape.dim(d), element[i].shape().dim(d)));
    }
    for (int d = 0; d < shape.rank(); ++d) shape.set_dim(d, std::max<std::int64_t>(shape.dim(d), 0));
    const Shape all = Shape{count}.concatenated(shape);
    Tensor tensor = memory && component.dtype != DType::string ? memory->tensor(component.dtype, all)
                                                               : Tensor(component.dtype, all);
    if (!alike) fill(tensor, batch.padding.empty() ? Tensor() : batch.padding[i]);
    for (std::size_t row = 0; row < elements.size(); ++row)
      place(elements[row][i], static_cast<std::int64_t>(row), shape, tensor);
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace troupe
