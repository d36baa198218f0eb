// Writes SavedModels: signatures, and the ops that restore variables; writers (export_node.hpp) know the ops.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/graph/formats/saved_model/export_node.hpp>
#include <troupe/graph/formats/saved_model/tensors.hpp>
#include <troupe/messages/tensorflow_types.hpp>

namespace troupe {
namespace {

namespace tf = troupe::tensorflow;

// Of the GraphDef: that of TensorFlow 2.8, whose ops these are. Later programs read what earlier ones wrote.
constexpr std::int32_t kProducer = 987;
constexpr const char* kServe = "serve";
constexpr const char* kPredictMethod = "tensorflow/serving/predict";
constexpr const char* kMainOp = "saved_model_main_op";  // the collection of what a loader runs at first
constexpr std::int32_t kSaverVersion = 2;
constexpr std::int32_t kMaxToKeep = 5;
constexpr float kKeepEveryHours = 10000;

using TfWriters = std::map<std::string_view, TfWriterFn>;

const TfWriters& all_writers() {
  static const TfWriters table = [] {
    TfWriters all;
    for (const auto& family : {tensorflow_array_writers(), tensorflow_attention_writers(), tensorflow_control_writers(),
                               tensorflow_index_writers(), tensorflow_math_writers(), tensorflow_nn_writers(),
                               tensorflow_recurrent_writers(), tensorflow_text_writers()})
      for (const TfExportOp& op : family)
        if (!all.emplace(op.name, op.write).second) fail(Code::internal, "two writers of {}", op.name);
    return all;
  }();
  return table;
}

Endpoint endpoint_in(const Graph& graph, const Output& o, std::string_view signature, std::string_view key) {
  if (o.graph != &graph || o.node < 0 || o.node >= graph.size() ||
      static_cast<std::size_t>(o.index) >= graph.node(o.node).output_types.size())
    invalid_argument("signature '{}': '{}' is not a tensor of the graph", signature, key);
  if (tensorflow_number(o.dtype()) == 0)
    fail(Code::unimplemented, "signature '{}': '{}' is a {}, but inputs and outputs must be tensors", signature, key,
         name(o.dtype()));
  return {o.node, o.index};
}

void refuse_unsupported(const TfExportState& state) {
  if (state.unsupported.empty()) return;
  std::string text;
  for (const auto& [op, nodes] : state.unsupported)
    for (const auto& [node, why] : nodes)
      text += fmt::format("{}{} '{}'{}", text.empty() ? "" : "; ", op, node, why.empty() ? "" : " (" + why + ")");
  fail(Code::unimplemented, "TensorFlow's ops cannot express: {}", text);
}

Tensor strings_of(const std::vector<std::string>& values) {
  Tensor out(DType::string, Shape{std::ssize(values)});
  std::ranges::copy(values, out.mutable_data<std::string>());
  return out;
}
Tensor string_of(const std::string& value) { return strings_of({value}).reshaped(Shape{}); }

class TfModelWriter {
 public:
  TfModelWriter(const Graph& graph, const TensorflowExport& what)
      : what_(what),
        graph_(graph),
        meta_(*model_.add_meta_graphs()),
        state_{.what = what, .out = *meta_.mutable_graph_def()},
        writer_(state_, graph, true) {}

  TensorflowBytes run() {
    if (what_.signatures.empty()) invalid_argument("a model needs a signature");
    model_.set_saved_model_schema_version(1);
    meta_.mutable_meta_info_def()->add_tags(kServe);
    state_.out.mutable_versions()->set_producer(kProducer);
    std::vector<Endpoint> outputs;
    for (const auto& [name, signature] : what_.signatures) {
      for (const auto& [key, input] : signature.inputs) bind_input(name, key, input);
      for (const auto& [key, output] : signature.outputs) outputs.push_back(endpoint_in(graph_, output, name, key));
    }
    writer_.write(outputs);
    refuse_unsupported(state_);
    for (const auto& [name, signature] : what_.signatures) add_signature(name, signature);
    add_saver();
    add_tables();
    for (const tf::NodeDef& node : writer_.nodes()) *state_.out.add_node() = node;
    if (model_.ByteSizeLong() > 0x7fffffffu)
      fail(Code::resource_exhausted,
           "the model has {} bytes without its variables, and a file of protobuf at most 2 GiB", model_.ByteSizeLong());
    TensorflowBytes out;
    {
      google::protobuf::io::StringOutputStream stream(&out.model);
      google::protobuf::io::CodedOutputStream coded(&stream);
      coded.SetSerializationDeterministic(true);  // maps by key
      model_.SerializeToCodedStream(&coded);
    }
    for (const auto& [name, variable] : state_.variables) out.variables.push_back(name);
    return out;
  }

 private:
  void bind_input(const std::string& signature, const std::string& key, const Output& input) {
    const Endpoint e = endpoint_in(graph_, input, signature, key);
    if (writer_.is_bound(e)) return;
    const TfName made = writer_.add("Placeholder", {}, {{"dtype", graph_.dtype(e)}, {"shape", graph_.shape(e)}},
                                    tensorflow_name(signature + "_" + key))[0];
    writer_.bind(e, made);
  }

  void add_info(const TfName& name, Endpoint e, tf::TensorInfo& info) {
    info.set_name(name.find(':') == name.npos ? name + ":0" : name);
    info.set_dtype(to_tensorflow_dtype(graph_.dtype(e)));
    to_tensorflow_shape(graph_.shape(e), *info.mutable_tensor_shape());
  }

  // Outputs are nodes of their own: loaders may not feed and fetch the same tensor.
  void add_signature(const std::string& name, const TensorflowSignature& signature) {
    tf::SignatureDef& out = (*meta_.mutable_signature_def())[name];
    out.set_method_name(kPredictMethod);
    for (const auto& [key, input] : signature.inputs) {
      const Endpoint e{input.node, input.index};
      add_info(writer_.value(e), e, (*out.mutable_inputs())[key]);
    }
    for (const auto& [key, output] : signature.outputs) {
      const Endpoint e{output.node, output.index};
      const TfName made = writer_.add("Identity", {writer_.value(e)}, {}, tensorflow_name(name + "_out_" + key))[0];
      add_info(made, e, (*out.mutable_outputs())[key]);
    }
  }

  // Ops named as those of tf.compat.v1.train.Saver. Each variable's initializer is what restores it.
  void add_saver() {
    const TfName file_given = writer_.constant(string_of("model"), "save/filename/input");
    const Attributes scalar{{"shape", Shape{}}};
    const TfName chosen = writer_.add("PlaceholderWithDefault", {file_given}, scalar, "save/filename")[0];
    const TfName file = writer_.add("PlaceholderWithDefault", {chosen}, scalar, "save/Const")[0];
    std::vector<std::string> names;
    std::vector<DType> dtypes;
    TfNames reads;
    for (const auto& [name, variable] : state_.variables) {
      names.push_back(name);
      dtypes.push_back(what_.variables.at(name).dtype());
      reads.push_back(variable.read);
    }
    const std::vector<std::string> whole(names.size());
    TfNames saved{file, writer_.constant(strings_of(names), "save/SaveV2/tensor_names"),
                  writer_.constant(strings_of(whole), "save/SaveV2/shape_and_slices")};
    saved.insert(saved.end(), reads.begin(), reads.end());
    std::vector<std::string> assigned, before;
    if (!names.empty()) {
      before.push_back("^" + writer_.add_node("SaveV2", saved, {}, "save/SaveV2"));
      const TfNames values =
          writer_.add("RestoreV2", {file, saved[1], saved[2]}, {{"dtypes", dtypes}}, "save/RestoreV2");
      auto& collection = *(*meta_.mutable_collection_def())["variables"].mutable_bytes_list();
      auto& trained = *(*meta_.mutable_collection_def())["trainable_variables"].mutable_bytes_list();
      std::size_t i = 0;
      for (const auto& [name, made] : state_.variables) {
        const std::string assign = writer_.add_node("AssignVariableOp", {made.handle, values[i]},
                                                    {{"dtype", dtypes[i]}}, made.handle + "/Assign");
        assigned.push_back("^" + assign);
        const bool trainable = what_.trainable.contains(name);
        tf::VariableDef variable;
        variable.set_variable_name(made.handle + ":0");
        variable.set_initializer_name(assign);
        variable.set_snapshot_name(reads[i++] + ":0");
        variable.set_is_resource(true);
        variable.set_trainable(trainable);
        collection.add_value(variable.SerializeAsString());
        if (trainable) trained.add_value(variable.SerializeAsString());
      }
    }
    const std::string save = writer_.add_node("Identity", {file}, {}, "save/control_dependency");
    writer_.add_control(save, before);
    const std::string restore = writer_.add_node("NoOp", {}, {}, "save/restore_all");
    writer_.add_control(restore, assigned);
    tf::SaverDef& saver = *meta_.mutable_saver_def();
    saver.set_filename_tensor_name(file + ":0");
    saver.set_save_tensor_name(save + ":0");
    saver.set_restore_op_name(restore);
    saver.set_max_to_keep(kMaxToKeep);
    saver.set_keep_checkpoint_every_n_hours(kKeepEveryHours);
    saver.set_version(kSaverVersion);
  }

  void add_tables() {
    if (state_.tables.empty()) return;
    std::vector<std::string> filled;
    for (const TfTable& table : state_.tables) {
      const TfName keys = writer_.constant(table.keys, table.handle + "/keys"),
                   values = writer_.constant(table.values, table.handle + "/values");
      filled.push_back(
          "^" + writer_.add_node("LookupTableImportV2", {table.handle, keys, values}, {}, table.handle + "/import"));
    }
    const std::string init = writer_.add_node("NoOp", {}, {}, "init");
    writer_.add_control(init, filled);
    (*meta_.mutable_collection_def())[kMainOp].mutable_node_list()->add_value(init);
  }

  const TensorflowExport& what_;
  const Graph& graph_;
  tf::SavedModel model_;
  tf::MetaGraphDef& meta_;
  TfExportState state_;
  TfGraphWriter writer_;
};

}  // namespace

TfWriterFn find_tensorflow_writer(std::string_view op) {
  const auto found = all_writers().find(op);
  return found == all_writers().end() ? nullptr : found->second;
}

std::vector<std::string> tensorflow_written_ops() {
  std::vector<std::string> out;
  for (const auto& [name, writer] : all_writers()) out.emplace_back(name);
  return out;
}

void to_tensorflow_attr(const AttrValue& value, tf::AttrValue& out) {
  switch (type_of(value)) {
    case AttrType::integer:
      return out.set_i(std::get<std::int64_t>(value));
    case AttrType::real:
      return out.set_f(static_cast<float>(std::get<double>(value)));
    case AttrType::boolean:
      return out.set_b(std::get<bool>(value));
    case AttrType::string:
      return out.set_s(std::get<std::string>(value));
    case AttrType::dtype:
      return out.set_type(to_tensorflow_dtype(std::get<DType>(value)));
    case AttrType::shape:
      return to_tensorflow_shape(std::get<Shape>(value), *out.mutable_shape());
    case AttrType::tensor:
      return to_tensorflow_tensor(std::get<Tensor>(value), *out.mutable_tensor());
    case AttrType::function:
      return out.mutable_func()->set_name(std::get<FunctionName>(value).value);
    case AttrType::integers:
      for (const std::int64_t i : std::get<Integers>(value)) out.mutable_list()->add_i(i);
      break;
    case AttrType::reals:
      for (const double r : std::get<std::vector<double>>(value)) out.mutable_list()->add_f(static_cast<float>(r));
      break;
    case AttrType::strings:
      for (const std::string& s : std::get<std::vector<std::string>>(value)) out.mutable_list()->add_s(s);
      break;
    case AttrType::dtypes:
      for (const DType d : std::get<std::vector<DType>>(value)) out.mutable_list()->add_type(to_tensorflow_dtype(d));
      break;
  }
  static_cast<void>(out.mutable_list());  // also of an empty one
}

TensorflowBytes to_tensorflow(const Graph& graph, const TensorflowExport& what) {
  return TfModelWriter(graph, what).run();
}

}  // namespace troupe
