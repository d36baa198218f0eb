#include "troupe/graph/data/element_source.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe::data {

void copy_to_row(std::span<const Tensor> element, std::int64_t row, std::span<Tensor> out) {
  if (element.size() != out.size())
    fail(Code::data_loss, "an element has {} components, expected {}", element.size(), out.size());
  for (std::size_t i = 0; i < element.size(); ++i) {
    const Tensor& from = element[i];
    if (from.dtype() != out[i].dtype() || from.shape() != out[i].shape().sub(1, out[i].shape().rank()))
      fail(Code::data_loss, "component {} of an element is {}{}, but goes to a row of {}{}", i, name(from.dtype()),
           from.shape().to_string(), name(out[i].dtype()), out[i].shape().to_string());
    if (from.dtype() == DType::string)
      std::copy_n(from.data<std::string>(), from.num_elements(),
                  out[i].mutable_data<std::string>() + row * from.num_elements());
    else if (from.num_bytes() > 0)
      std::memcpy(out[i].mutable_raw() + static_cast<std::size_t>(row) * from.num_bytes(), from.raw(),
                  from.num_bytes());
  }
}

namespace {

class MadeElement final : public UnmadeElement {
 public:
  explicit MadeElement(std::vector<Tensor> components) : components_(std::move(components)) {}
  std::vector<Tensor> make() const override { return components_; }
  void make_row(std::int64_t row, std::span<Tensor> out) const override { copy_to_row(components_, row, out); }
  std::size_t num_bytes() const override { return data::num_bytes(components_); }

 private:
  std::vector<Tensor> components_;
};

}  // namespace

std::size_t num_bytes(std::span<const Tensor> element) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : element) {
    if (tensor.dtype() != DType::string)
      bytes += tensor.num_bytes();
    else
      for (const std::string& text : tensor.values<std::string>()) bytes += text.size();
  }
  return bytes;
}

void UnmadeElement::make_row(std::int64_t row, std::span<Tensor> out) const { copy_to_row(make(), row, out); }

std::unique_ptr<const UnmadeElement> ElementCursor::next_unmade() {
  std::vector<Tensor> element;
  return next(element) ? std::make_unique<const MadeElement>(std::move(element)) : nullptr;
}

bool ElementCursor::skip() { return next_unmade() != nullptr; }

bool ElementCursor::next_row(std::int64_t row, std::span<Tensor> out) {
  std::vector<Tensor> element;
  if (!next(element)) return false;
  copy_to_row(element, row, out);
  return true;
}

void IndexedSource::read_row(std::uint64_t index, std::int64_t row, std::span<Tensor> out) const {
  copy_to_row(read(index), row, out);
}

}  // namespace troupe::data
