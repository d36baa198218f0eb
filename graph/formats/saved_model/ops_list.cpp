// TensorFlow's lists of tensors, as loops of Keras use them: rows that are read, and results that are set in order.
#include <troupe/graph/formats/saved_model/node.hpp>

namespace troupe {
namespace {

TfValue list_value(TfList list) { return {{}, {}, std::make_shared<TfList>(std::move(list))}; }

void tf_list_reserve(TfNode& node) {
  TfList list;
  list.reserved = true;
  list.size = as_scalar(cast(node.in(1), DType::i64));
  if (const auto count = node.known(1); count && count->num_elements() == 1)
    list.count = node.integer_in(1, "the size");
  node.set_value(list_value(std::move(list)));
}

void tf_list_from_tensor(TfNode& node) {
  TfList list;
  list.stacked = node.in(0);
  if (list.stacked.shape().has_rank() && list.stacked.shape().rank() > 0) list.count = list.stacked.shape()[0];
  node.set_value(list_value(std::move(list)));
}

Output rows_of(const TfNode& node) {
  const TfList& list = node.list(0);
  if (!list.stacked.valid())
    fail(Code::unimplemented, "items of a list are read that a loop has not set before in full");
  return node.graph().brought_in(list.stacked);
}

void tf_list_get(TfNode& node) { node.set(gather(rows_of(node), as_scalar(node.in(1)))); }
void tf_list_stack(TfNode& node) { node.set(identity(rows_of(node))); }

void tf_list_set(TfNode& node) {
  TfList list;
  list.before = node.value(0).list;
  if (!list.before || !list.before->reserved)
    fail(Code::unimplemented, "items are set of a list that is not new, or outside of a loop");
  list.count = list.before->count;
  list.index = node.in(1);
  list.item = node.in(2);
  node.set_value(list_value(std::move(list)));
}

constexpr TfOp kTfListOps[] = {
    {"TensorListFromTensor", tf_list_from_tensor},
    {"TensorListGetItem", tf_list_get},
    {"TensorListReserve", tf_list_reserve},
    {"TensorListSetItem", tf_list_set},
    {"TensorListStack", tf_list_stack},
};

}  // namespace

std::span<const TfOp> tensorflow_list_ops() { return kTfListOps; }

}  // namespace troupe
