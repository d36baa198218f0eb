#include "tests/fuzz/onnx_fuzz.hpp"

#include <cstdio>
#include <cstdlib>

#include "messages/proto/onnx.pb.h"
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/graph/formats/onnx/onnx_node.hpp>
#include <troupe/graph/formats/onnx/onnx_tensors.hpp>
#include <troupe/graph/formats/serialize.hpp>

namespace troupe {
namespace {

namespace pb = troupe::onnx;

constexpr char kFile = 0, kInstructions = 1;
constexpr int kMostNodes = 24, kMostDepth = 3;

void promise_of_importer(bool kept, const char* what, const std::string& why) {
  if (kept) return;
  std::fprintf(stderr, "broken promise of the importer: %s: %s\n", what, why.c_str());
  std::abort();
}

// Instructions, one byte each; zeros behind their end.
class Instructions {
 public:
  explicit Instructions(std::string_view bytes) : bytes_(bytes) {}
  unsigned next() { return at_ < bytes_.size() ? static_cast<unsigned char>(bytes_[at_++]) : 0; }
  unsigned below(std::size_t n) { return n == 0 ? 0 : next() % static_cast<unsigned>(n); }
  // Small ones, and a few that are not.
  std::int64_t integer() {
    constexpr std::int64_t kHuge[] = {INT64_MAX, INT64_MIN, 1ll << 31, -(1ll << 31), 1ll << 62, 1000, -1000, 65536};
    const unsigned byte = next();
    return byte >= 248 ? kHuge[byte - 248] : static_cast<std::int64_t>(byte % 16) - 4;
  }
  bool done() const { return at_ >= bytes_.size(); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

constexpr const char* kNumbers[] = {"axis",
                                    "keepdims",
                                    "to",
                                    "group",
                                    "ceil_mode",
                                    "count_include_pad",
                                    "storage_order",
                                    "p",
                                    "blocksize",
                                    "largest",
                                    "sorted",
                                    "select_last_index",
                                    "new_axis",
                                    "dtype",
                                    "num_scan_inputs",
                                    "hidden_size",
                                    "allowzero",
                                    "transA",
                                    "transB",
                                    "noop_with_empty_axes",
                                    "start",
                                    "end",
                                    "batch_dims",
                                    "exclusive",
                                    "reverse",
                                    "upper",
                                    "fmod",
                                    "ignore_index",
                                    "input_forget",
                                    "layout",
                                    "linear_before_reset",
                                    "time_axis",
                                    "batch_axis",
                                    "sampling_ratio",
                                    "center_point_box",
                                    "training_mode",
                                    "size",
                                    "broadcast",
                                    "num_outputs",
                                    "exclude_outside"};
constexpr const char* kLists[] = {"axes",
                                  "perm",
                                  "pads",
                                  "kernel_shape",
                                  "strides",
                                  "dilations",
                                  "output_padding",
                                  "output_shape",
                                  "split",
                                  "starts",
                                  "ends",
                                  "shape",
                                  "value_ints",
                                  "scan_input_axes",
                                  "scan_output_axes",
                                  "scan_input_directions",
                                  "scan_output_directions",
                                  "directions"};
constexpr const char* kReals[] = {"alpha", "beta",  "epsilon",       "momentum",      "gamma",
                                  "ratio", "scale", "spatial_scale", "cubic_coeff_a", "extrapolation_value",
                                  "lambd", "bias",  "low",           "high",          "seed"};
constexpr const char* kTexts[][2] = {{"mode", "linear"},
                                     {"mode", "constant"},
                                     {"auto_pad", "SAME_UPPER"},
                                     {"auto_pad", "VALID"},
                                     {"direction", "reverse"},
                                     {"direction", "LEFT"},
                                     {"direction", "bidirectional"},
                                     {"reduction", "none"},
                                     {"reduction", "mean"},
                                     {"reduction", "add"},
                                     {"equation", "ij,jk->ik"},
                                     {"equation", "...i->..."},
                                     {"coordinate_transformation_mode", "asymmetric"},
                                     {"nearest_mode", "floor"},
                                     {"approximate", "tanh"},
                                     {"padding_mode", "zeros"},
                                     {"mode", "nearest"}};
constexpr const char* kBodies[] = {"body", "then_branch", "else_branch"};

class ModelOfInstructions {
 public:
  explicit ModelOfInstructions(Instructions& instructions) : in_(instructions) {}

  pb::Model make() {
    pb::Model model;
    model.set_ir_version(8);
    constexpr std::int64_t kOpsets[] = {17, 17, 13, 11, 9, 8, 6, 1};
    model.add_opset_import()->set_version(kOpsets[in_.below(8)]);
    fill(*model.mutable_graph(), 0);
    return model;
  }

 private:
  void add_type(pb::ValueInfo& value) {
    constexpr int kTypes[] = {1, 1, 1, 7, 7, 6, 9, 11, 10, 2, 8, 16};
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(kTypes[in_.below(std::size(kTypes))]);
    const unsigned rank = in_.below(7);
    if (rank == 6) return;  // not known
    auto& shape = *type.mutable_shape();
    for (unsigned d = 0; d < rank; ++d)
      if (auto& dim = *shape.add_dim(); in_.below(5) != 0) dim.set_dim_value(in_.integer());
  }
  // A vector or scalar of integers, or a few floats.
  void add_tensor(pb::Tensor& tensor) {
    const unsigned kind = in_.below(4), count = kind == 0 ? 1 : in_.below(6);
    tensor.set_data_type(kind == 3 ? pb::Tensor::FLOAT : pb::Tensor::INT64);
    if (kind != 0) tensor.add_dims(count);
    for (unsigned i = 0; i < count; ++i)
      kind == 3 ? tensor.add_float_data(static_cast<float>(in_.integer())) : tensor.add_int64_data(in_.integer());
  }
  std::string fresh() { return "v" + std::to_string(names_.size()); }
  void add_attributes(pb::Node& node, int depth) {
    for (unsigned count = in_.below(5); count > 0; --count) {
      pb::Attribute& attribute = *node.add_attribute();
      switch (in_.below(6)) {
        case 0:
        case 1:
          attribute.set_name(kNumbers[in_.below(std::size(kNumbers))]);
          attribute.set_i(in_.integer());
          break;
        case 2:
          attribute.set_name(kLists[in_.below(std::size(kLists))]);
          for (unsigned n = in_.below(6); n > 0; --n) attribute.add_ints(in_.integer());
          break;
        case 3:
          attribute.set_name(kReals[in_.below(std::size(kReals))]);
          attribute.set_f(static_cast<float>(in_.integer()) / 4);
          break;
        case 4: {
          const auto& [name, text] = kTexts[in_.below(std::size(kTexts))];
          attribute.set_name(name);
          attribute.set_s(text);
          break;
        }
        default:
          attribute.set_name("value");
          add_tensor(*attribute.mutable_t());
      }
    }
    if (depth == kMostDepth) return;
    const bool branches = node.op_type() == "If";
    for (const char* name : kBodies) {
      if (branches == (std::string_view(name) == "body")) continue;
      if (!branches && node.op_type() != "Loop" && node.op_type() != "Scan" && node.op_type() != "SequenceMap")
        continue;
      pb::Attribute& attribute = *node.add_attribute();
      attribute.set_name(name);
      fill(*attribute.mutable_g(), depth + 1);
    }
  }
  void fill(pb::Graph& graph, int depth) {
    const std::size_t outside = names_.size();
    for (unsigned count = in_.below(4); count > 0; --count) {
      pb::ValueInfo& input = *graph.add_input();
      input.set_name(fresh());
      names_.push_back(input.name());
      add_type(input);
    }
    for (unsigned count = in_.below(4); count > 0; --count) {
      pb::Tensor& tensor = *graph.add_initializer();
      tensor.set_name(fresh());
      names_.push_back(tensor.name());
      add_tensor(tensor);
    }
    static const std::vector<std::string> ops = onnx_ops().read.at("ai.onnx");
    while (!in_.done() && nodes_ < kMostNodes) {
      ++nodes_;
      pb::Node& node = *graph.add_node();
      node.set_op_type(std::string(ops[(in_.next() * 256 + in_.next()) % ops.size()]));
      for (unsigned count = in_.below(6); count > 0; --count)
        node.add_input(names_.empty() || in_.below(12) == 0 ? ""
                                                            : names_[names_.size() - 1 - in_.below(names_.size())]);
      add_attributes(node, depth);
      for (unsigned count = 1 + in_.below(8) / 5; count > 0; --count) {
        node.add_output(fresh());
        names_.push_back(node.output(node.output_size() - 1));
      }
      if (depth > 0 && in_.below(3) == 0) break;
    }
    for (unsigned count = 1 + in_.below(3); count > 0 && !names_.empty(); --count)
      graph.add_output()->set_name(names_[names_.size() - 1 - in_.below(names_.size())]);
    if (depth > 0) names_.resize(outside);  // values of a body are not seen outside; their names come again
  }

  Instructions& in_;
  std::vector<std::string> names_;
  int nodes_ = 0;
};

bool is_expected(Code code) {
  return code == Code::data_loss || code == Code::invalid_argument || code == Code::unimplemented ||
         code == Code::resource_exhausted || code == Code::out_of_range;
}

}  // namespace

std::string onnx_model_of(std::string_view input) {
  if (input.empty()) return "";
  const bool instructed = (input[0] & 1) == kInstructions;
  input.remove_prefix(1);
  if (!instructed) return std::string(input);
  Instructions instructions(input);
  return ModelOfInstructions(instructions).make().SerializeAsString();
}

std::size_t import_as_stranger(std::string_view input) {
  OnnxModel model;
  try {
    model = parse_onnx(onnx_model_of(input));
  } catch (const Error& error) {
    promise_of_importer(is_expected(error.code()), "errors are of five codes", error.message());
    promise_of_importer(!error.message().empty(), "errors say what is wrong", "");
    return 0;
  }
  try {
    const std::string bytes = serialize(*model.graph);
    promise_of_importer(serialize(*parse_graph(bytes)) == bytes, "a graph is read as it was written", "");
  } catch (const Error& error) {
    promise_of_importer(false, "a graph that is let in can be written and read", error.message());
  }
  return static_cast<std::size_t>(model.graph->size());
}

std::vector<std::string> onnx_seeds() {
  std::vector<std::string> out;
  // A model of each op, with two inputs of rank 4, a vector and a scalar.
  const OnnxOps known = onnx_ops();
  for (const std::string& op : known.read.at("ai.onnx")) {
    pb::Model model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    pb::Graph& graph = *model.mutable_graph();
    for (const char* name : {"x", "y"}) {
      pb::ValueInfo& input = *graph.add_input();
      input.set_name(name);
      to_onnx_type({{}, DType::f32, Shape{1, 4, 6, 6}}, *input.mutable_type());
    }
    to_onnx_tensor(Tensor::vector<std::int64_t>({1, 2, 3, 4}), "n", *graph.add_initializer());
    to_onnx_tensor(Tensor::scalar<std::int64_t>(1), "one", *graph.add_initializer());
    for (const std::vector<const char*>& inputs :
         {std::vector<const char*>{"x"}, {"x", "y"}, {"x", "n"}, {"x", "n", "n"}, {"x", "one", "y"}}) {
      graph.clear_node();
      graph.clear_output();
      pb::Node& node = *graph.add_node();
      node.set_op_type(std::string(op));
      for (const char* name : inputs) node.add_input(name);
      node.add_output("z");
      pb::Attribute& axis = *node.add_attribute();
      axis.set_name("axis");
      axis.set_i(1);
      pb::Attribute& window = *node.add_attribute();
      window.set_name("kernel_shape");
      for (int i = 0; i < 2; ++i) window.add_ints(3);
      graph.add_output()->set_name("z");
      try {
        parse_onnx(model.SerializeAsString());
        out.push_back(std::string(1, kFile) + model.SerializeAsString());
      } catch (const Error&) {
      }
    }
  }
  for (int i = 0; i < 40; ++i) {  // instructions
    std::string bytes(1, kInstructions);
    for (int k = 0; k < 20 + i; ++k) bytes += static_cast<char>((i * 37 + k * k * 11 + k * i) & 255);
    out.push_back(bytes);
  }
  return out;
}

}  // namespace troupe
