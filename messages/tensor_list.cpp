#include "troupe/messages/tensor_list.hpp"

#include <utility>

namespace troupe {
namespace {

// A list may hold lists, nested as deep as loops are: at most 32.
class ListBuffer final : public Buffer {
 public:
  explicit ListBuffer(std::vector<Tensor> items) : Buffer(nullptr, 0, MemorySpace{}), items(std::move(items)) {}
  std::vector<Tensor> items;
};

ListBuffer& buffer_of(const Tensor& list) {
  if (list.dtype() != DType::list) invalid_argument("a list was expected, not {}", list.to_string());
  return static_cast<ListBuffer&>(*list.buffer().get());
}

}  // namespace

Tensor make_list(std::vector<Tensor> items) { return Tensor::list(BufferRef(new ListBuffer(std::move(items)))); }

std::span<const Tensor> list_items(const Tensor& list) { return buffer_of(list).items; }

std::vector<Tensor>& mutable_list_items(Tensor& list) {
  if (!list.unique()) list = make_list(buffer_of(list).items);
  return buffer_of(list).items;
}

}  // namespace troupe
