#include "troupe/graph/formats/saved_model/node.hpp"

#include <map>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/graph/formats/saved_model/saved_model.hpp>
#include <troupe/graph/formats/saved_model/tensors.hpp>
#include <troupe/graph/known_values.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

[[noreturn]] void attribute_missing(std::string_view name) { fail(Code::data_loss, "attribute '{}' is missing", name); }

const std::map<std::string_view, const TfOp*>& all_tensorflow_ops() {
  static const auto table = [] {
    std::map<std::string_view, const TfOp*> all;
    for (const auto& family :
         {tensorflow_array_ops(), tensorflow_index_ops(), tensorflow_list_ops(), tensorflow_math_ops(),
          tensorflow_nn_ops(), tensorflow_reduce_ops(), tensorflow_text_ops()})
      for (const TfOp& op : family)
        if (!all.emplace(op.name, &op).second) fail(Code::internal, "two converters of {}", op.name);
    return all;
  }();
  return table;
}

}  // namespace

const TfOp* find_tensorflow_op(std::string_view name) {
  const auto found = all_tensorflow_ops().find(name);
  return found == all_tensorflow_ops().end() ? nullptr : found->second;
}

const TfValue& TfNode::value(int index) const {
  if (index < 0 || index >= num_inputs()) fail(Code::data_loss, "input {} is missing", index);
  return inputs_[static_cast<std::size_t>(index)];
}

Output TfNode::in(int index) const {
  const TfValue& found = value(index);
  if (!found.output.valid())
    invalid_argument("input {} is a {}, not a tensor", index, found.list ? "list of tensors" : "resource");
  return graph_.brought_in(found.output);
}

Outputs TfNode::in(int begin, int end) const {
  Outputs out;
  for (int i = begin; i < end; ++i) out.push_back(in(i));
  return out;
}

const TfResource& TfNode::resource(int index) const {
  const TfValue& found = value(index);
  if (!found.resource) invalid_argument("input {} is not a resource", index);
  return *found.resource;
}

TfList& TfNode::list(int index) const {
  const TfValue& found = value(index);
  if (!found.list) invalid_argument("input {} is not a list of tensors", index);
  return *found.list;
}

std::optional<Tensor> TfNode::known(int index) const {
  const Output x = in(index);
  return known_tensor(x);
}

Integers TfNode::integers_in(int index, std::string_view what) const {
  const auto found = known(index);
  if (!found)
    fail(Code::unimplemented, "{} (input {}) must be known before the model runs, but is computed by '{}'", what, index,
         in(index).source().name);
  return dispatch(IndexTypes{}, found->dtype(), [&]<class T>() {
    const auto values = found->values<T>();
    return Integers(values.begin(), values.end());
  });
}

std::int64_t TfNode::integer_in(int index, std::string_view what) const {
  const Integers found = integers_in(index, what);
  if (found.size() != 1) invalid_argument("{} (input {}) has {} elements, not 1", what, index, found.size());
  return found[0];
}

IntegersArg TfNode::index_in(int index) const {
  const auto found = known(index);
  if (found && (found->dtype() == DType::i32 || found->dtype() == DType::i64)) return integers_in(index, "");
  return cast(in(index), DType::i64);
}

const tensorflow::AttrValue* TfNode::find(std::string_view name) const {
  const auto found = node_.attr().find(std::string(name));
  return found == node_.attr().end() ? nullptr : &found->second;
}

std::int64_t TfNode::integer(std::string_view name, std::optional<std::int64_t> otherwise) const {
  const tensorflow::AttrValue* found = find(name);
  return found ? found->i() : otherwise ? *otherwise : (attribute_missing(name), 0);
}

double TfNode::real(std::string_view name, double otherwise) const {
  const tensorflow::AttrValue* found = find(name);
  return found ? static_cast<double>(found->f()) : otherwise;
}

bool TfNode::boolean(std::string_view name, bool otherwise) const {
  const tensorflow::AttrValue* found = find(name);
  return found ? found->b() : otherwise;
}

std::string TfNode::string(std::string_view name, const std::string& otherwise) const {
  const tensorflow::AttrValue* found = find(name);
  return found ? found->s() : otherwise;
}

DType TfNode::dtype(std::string_view name, std::optional<DType> otherwise) const {
  const tensorflow::AttrValue* found = find(name);
  return found ? from_tensorflow_dtype(found->type()) : otherwise ? *otherwise : (attribute_missing(name), DType());
}

Integers TfNode::integers(std::string_view name) const {
  const tensorflow::AttrValue* found = find(name);
  return found ? Integers(found->list().i().begin(), found->list().i().end()) : Integers();
}

std::vector<std::string> TfNode::strings(std::string_view name) const {
  const tensorflow::AttrValue* found = find(name);
  if (!found) return {};
  return {found->list().s().begin(), found->list().s().end()};
}

Tensor TfNode::tensor(std::string_view name) const {
  const tensorflow::AttrValue* found = find(name);
  if (!found || !found->has_tensor()) attribute_missing(name);
  return from_tensorflow_tensor(found->tensor(), repeated_bytes_);
}

Shape TfNode::shape(std::string_view name) const {
  const tensorflow::AttrValue* found = find(name);
  return found ? from_tensorflow_shape(found->shape()) : Shape::unknown_rank();
}

void TfNode::set(int index, Output value) {
  const auto at = static_cast<std::size_t>(index);
  if (outputs_.size() <= at) outputs_.resize(at + 1);
  outputs_[at] = {value, {}, {}};
}

void TfNode::set_all(const Outputs& values) {
  for (std::size_t i = 0; i < values.size(); ++i) set(static_cast<int>(i), values[i]);
}

std::vector<std::string> tensorflow_ops() {
  std::vector<std::string> out = {"Case",          "If",          "PartitionedCall", "StatefulPartitionedCall",
                                  "StatelessCase", "StatelessIf", "StatelessWhile",  "While"};
  for (const auto& [name, op] : all_tensorflow_ops()) out.emplace_back(name);
  std::ranges::sort(out);
  return out;
}

}  // namespace troupe
