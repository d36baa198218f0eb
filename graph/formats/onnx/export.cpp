// Writes models: signature, initializers and external data; writers (onnx_export.hpp) know the ops.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/export_graph.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>

namespace troupe {
namespace {

// The first IR version of an opset.
std::int64_t ir_version_of(std::int64_t opset) { return opset >= 19 ? 9 : 8; }

constexpr std::size_t kSmallTensor = 1024;    // bytes; smaller ones stay in the model's file
constexpr std::uint64_t kDataAlignment = 64;  // of tensors in a file of external data

using Writers = std::map<std::string_view, OnnxWriter>;

Writers table_of(std::initializer_list<std::span<const OnnxExportOp>> families) {
  Writers all;
  for (const auto& family : families)
    for (const OnnxExportOp& op : family)
      if (!all.emplace(op.name, op.write).second) fail(Code::internal, "two writers of {}", op.name);
  return all;
}

OnnxType type_of(const Graph& graph, const OnnxValue& value) {
  if (value.type.is_list()) return value.type;
  const Endpoint e{value.output.node, value.output.index};
  if (graph.dtype(e) == DType::list) invalid_argument("'{}' is a list: say the type of its items", value.output.name());
  return {{}, graph.dtype(e), graph.shape(e)};
}

std::string name_of(const OnnxValue& value) { return value.name.empty() ? value.output.name() : value.name; }

Endpoint endpoint_of(const Graph& graph, const OnnxValue& value, std::string_view what) {
  const Output& o = value.output;
  if (o.graph != &graph || o.node < 0 || o.node >= graph.size() || o.index < 0 ||
      static_cast<std::size_t>(o.index) >= graph.node(o.node).output_types.size())
    invalid_argument("{} '{}' is not a tensor of the graph", what, value.name);
  return {o.node, o.index};
}

void refuse_unsupported(const OnnxExportState& state) {
  if (state.unsupported.empty()) return;
  std::string text;
  for (const auto& [op, nodes] : state.unsupported)
    for (const auto& [node, why] : nodes)
      text += fmt::format("{}{} '{}'{}", text.empty() ? "" : "; ", op, node, why.empty() ? "" : " (" + why + ")");
  fail(Code::unimplemented, "ONNX cannot express: {}", text);
}

// Where the bytes of large tensors go.
class DataFile {
 public:
  explicit DataFile(const std::string& path) : path_(path), out_(path, std::ios::binary | std::ios::trunc) {
    if (!out_) fail(Code::unavailable, "cannot write '{}'", path);
  }
  void add(const Tensor& value, onnx::Tensor& out) {
    const std::uint64_t padding = (kDataAlignment - at_ % kDataAlignment) % kDataAlignment;
    out_.write(std::string(padding, '\0').data(), static_cast<std::streamsize>(padding));
    at_ += padding;
    out.set_data_type(to_onnx_dtype(value.dtype()));
    for (const std::int64_t d : value.shape().dims()) out.add_dims(d);
    out.set_data_location(onnx::Tensor::EXTERNAL);
    const auto entry = [&](const char* key, const std::string& text) {
      onnx::StringPair& pair = *out.add_external_data();
      pair.set_key(key);
      pair.set_value(text);
    };
    entry("location", std::filesystem::path(path_).filename().string());
    entry("offset", std::to_string(at_));
    entry("length", std::to_string(value.num_bytes()));
    out_.write(reinterpret_cast<const char*>(value.raw()), static_cast<std::streamsize>(value.num_bytes()));
    at_ += value.num_bytes();
  }
  void close() {
    out_.close();
    if (!out_) fail(Code::data_loss, "cannot write all of '{}'", path_);
  }

 private:
  std::string path_;
  std::ofstream out_;
  std::uint64_t at_ = 0;
};

void add_initializers(const OnnxExportState& state, onnx::Graph& graph, const std::string& data_path) {
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : state.initializers) bytes += value.num_bytes();
  const bool external = bytes > state.what.external_above;
  if (external && data_path.empty())
    invalid_argument("the model has {} bytes of tensors: export it into a file", bytes);
  std::optional<DataFile> file;
  for (const auto& [name, value] : state.initializers) {
    onnx::Tensor& out = *graph.add_initializer();
    if (!external || value.dtype() == DType::string || value.num_bytes() < kSmallTensor) {
      to_onnx_tensor(value, name, out);
      continue;
    }
    if (!file) file.emplace(data_path);
    out.set_name(name);
    file->add(value, out);
  }
  if (file) file->close();
}

void add_functions(const OnnxExportState& state, onnx::Model& model) {
  if (state.functions.empty()) return;
  onnx::OperatorSetId& own = *model.add_opset_import();
  own.set_domain(kOnnxOwnDomain);
  own.set_version(1);
  for (const std::string& bytes : state.functions)
    if (!model.add_functions()->ParseFromString(bytes)) fail(Code::internal, "a function cannot be read back");
}

// The model, or nothing but the opset that it needs if that is a later one.
struct Written {
  onnx::Model model{};
  std::int64_t needed_opset = 0;
};

// Removes nodes that nothing reads: writers of their readers did without them. `needed`: names that are read so far, to
// which those that the graph reads are added.
void remove_unread(onnx::Graph& graph, std::set<std::string>& needed) {
  for (const onnx::ValueInfo& output : graph.output()) needed.insert(output.name());
  for (int i = graph.node_size(); i-- > 0;) {
    onnx::Node& node = *graph.mutable_node(i);
    if (std::ranges::none_of(node.output(), [&](const std::string& name) { return needed.contains(name); })) {
      graph.mutable_node()->DeleteSubrange(i, 1);
      continue;
    }
    for (onnx::Attribute& attribute : *node.mutable_attribute())
      if (attribute.has_g()) remove_unread(*attribute.mutable_g(), needed);
    needed.insert(node.input().begin(), node.input().end());
  }
}

// `data_path`: of external data; "": there are none.
Written written_at(std::int64_t opset, const Graph& graph, const OnnxExport& what, const std::string& data_path) {
  Written written;
  onnx::Model& model = written.model;
  model.set_ir_version(ir_version_of(opset));
  model.set_producer_name(what.producer);
  model.add_opset_import()->set_version(opset);
  onnx::Graph& out = *model.mutable_graph();
  out.set_name(what.name);
  OnnxExportState state{.what = what, .opset = opset};
  OnnxGraphWriter writer(state, graph, out);
  for (const OnnxValue& input : what.inputs) {
    if (!state.names.insert(name_of(input)).second) invalid_argument("two values are named '{}'", name_of(input));
    writer.bind(endpoint_of(graph, input, "input"), name_of(input), type_of(graph, input));
    onnx::ValueInfo& info = *out.add_input();
    info.set_name(name_of(input));
    to_onnx_type(type_of(graph, input), *info.mutable_type());
  }
  std::vector<Endpoint> outputs;
  std::map<Endpoint, std::string> names;
  for (const OnnxValue& output : what.outputs) {
    outputs.push_back(endpoint_of(graph, output, "output"));
    const bool is_input = std::ranges::any_of(what.inputs, [&](const OnnxValue& input) {
      return input.output == output.output && name_of(input) == name_of(output);
    });
    if (is_input) continue;
    if (state.names.contains(name_of(output)) || !state.reserved.insert(name_of(output)).second)
      invalid_argument("two values are named '{}'", name_of(output));
    names.try_emplace(outputs.back(), name_of(output));
  }
  writer.name_outputs(std::move(names));
  writer.write(outputs);
  std::vector<OnnxName> values;
  for (const Endpoint& e : outputs) values.push_back(state.unsupported.empty() ? writer.plain(e) : "");
  refuse_unsupported(state);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = name_of(what.outputs[i]);
    // An input, a constant, or a value that is two outputs.
    if (values[i] != name) {
      onnx::Node& node = *out.add_node();
      node.set_op_type("Identity");
      node.set_name(state.unique_name(name + "/identity"));
      node.add_input(values[i]);
      node.add_output(name);
    }
    onnx::ValueInfo& info = *out.add_output();
    info.set_name(name);
    to_onnx_type(type_of(graph, what.outputs[i]), *info.mutable_type());
  }
  written.needed_opset = state.needed_opset;
  if (state.needed_opset > opset) return written;
  std::set<std::string> needed;
  remove_unread(out, needed);
  std::erase_if(state.initializers, [&](const auto& initializer) { return !needed.contains(initializer.first); });
  add_functions(state, model);
  add_initializers(state, out, data_path);
  return written;
}

onnx::Model model_of(const Graph& graph, const OnnxExport& what, const std::string& data_path) {
  Written written = written_at(kOnnxOpset, graph, what, data_path);
  if (written.needed_opset > kOnnxOpset) written = written_at(written.needed_opset, graph, what, data_path);
  return std::move(written.model);
}

std::string bytes_of(const onnx::Model& model) {
  if (model.ByteSizeLong() > 0x7fffffffu)
    fail(Code::resource_exhausted, "the model has {} bytes, and a file of protobuf at most 2 GiB: lower external_above",
         model.ByteSizeLong());
  return model.SerializeAsString();
}

}  // namespace

OnnxWriter find_onnx_writer(std::string_view op) {
  static const Writers table =
      table_of({onnx_array_writers(), onnx_attention_writers(), onnx_control_writers(), onnx_gradient_writers(),
                onnx_image_writers(), onnx_index_writers(), onnx_math_writers(), onnx_nn_writers(),
                onnx_recurrent_writers(), onnx_text_writers()});
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

std::string to_onnx(const Graph& graph, const OnnxExport& what) { return bytes_of(model_of(graph, what, "")); }

void export_onnx(const std::string& path, const Graph& graph, const OnnxExport& what) {
  const std::string bytes = bytes_of(model_of(graph, what, path + ".data"));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) fail(Code::unavailable, "cannot write '{}'", path);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) fail(Code::data_loss, "cannot write all of '{}'", path);
}

}  // namespace troupe
