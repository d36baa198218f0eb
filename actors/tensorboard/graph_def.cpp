#include "troupe/actors/tensorboard/graph_def.hpp"

namespace troupe {
namespace {

namespace pb = proto::tensorboard;

// DataType in types.proto.
std::int32_t number_of(DType dtype) {
  switch (dtype) {
    case DType::invalid:
      return 0;
    case DType::f32:
      return 1;
    case DType::f64:
      return 2;
    case DType::f16:
      return 19;
    case DType::bf16:
      return 14;
    case DType::i8:
      return 6;
    case DType::u8:
      return 4;
    case DType::i16:
      return 5;
    case DType::i32:
      return 3;
    case DType::i64:
      return 9;
    case DType::boolean:
      return 10;
    case DType::string:
      return 7;
    case DType::resource:
      return 20;
    case DType::u16:
      return 17;
    case DType::u32:
      return 22;
    case DType::u64:
      return 23;
    case DType::list:
      return 21;
  }
  return 0;
}

void set_shape(pb::TensorShape& out, const Shape& shape) {
  if (!shape.has_rank()) {
    out.set_unknown_rank(true);
    return;
  }
  for (int d = 0; d < shape.rank(); ++d) out.add_dim()->set_size(shape[d]);
}

void set(pb::AttrValue& out, const troupe::AttrValue& value) {
  struct Visitor {
    pb::AttrValue& out;
    void operator()(std::int64_t v) { out.set_i(v); }
    void operator()(double v) { out.set_f(static_cast<float>(v)); }
    void operator()(bool v) { out.set_b(v); }
    void operator()(const std::string& v) { out.set_s(v); }
    void operator()(DType v) { out.set_type(number_of(v)); }
    void operator()(const Shape& v) { set_shape(*out.mutable_shape(), v); }
    void operator()(const Tensor& v) { out.set_s(fmt::format("{}{}", name(v.dtype()), v.shape().to_string())); }
    void operator()(const FunctionName& v) { out.set_s(v.value); }
    void operator()(const std::vector<std::int64_t>& v) { out.mutable_list()->mutable_i()->Add(v.begin(), v.end()); }
    void operator()(const std::vector<double>& v) { out.mutable_list()->mutable_f()->Add(v.begin(), v.end()); }
    void operator()(const std::vector<std::string>& v) {
      for (const std::string& text : v) out.mutable_list()->add_s(text);
    }
    void operator()(const std::vector<DType>& v) {
      for (const DType dtype : v) out.mutable_list()->add_type(number_of(dtype));
    }
  };
  std::visit(Visitor{out}, value);
}

}  // namespace

proto::tensorboard::GraphDef graph_def_of(const Graph& graph) {
  pb::GraphDef out;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    pb::NodeDef& def = *out.add_node();
    def.set_name(node.name);
    def.set_op(node.op->name);
    def.set_device(node.device);
    for (const Endpoint& input : node.inputs) {
      const std::string& source = graph.node(input.node).name;
      def.add_input(input.index == 0 ? source : fmt::format("{}:{}", source, input.index));
    }
    for (const int control : node.controls) def.add_input(fmt::format("^{}", graph.node(control).name));
    for (const auto& [name, value] : node.attributes.all()) set((*def.mutable_attr())[name], value);
    auto& shapes = *(*def.mutable_attr())["_output_shapes"].mutable_list();
    for (const Shape& shape : node.output_shapes) set_shape(*shapes.add_shape(), shape);
  }
  return out;
}

}  // namespace troupe
