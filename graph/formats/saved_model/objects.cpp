#include "troupe/graph/formats/saved_model/objects.hpp"

#include <charconv>
#include <set>
#include <utility>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/formats/import.hpp>
#include <troupe/graph/formats/saved_model/tensors.hpp>

namespace troupe {
namespace {

namespace tf = troupe::tensorflow;

constexpr const char* kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";
// Fields of a line that a table is made of, beside the number of a column (InitializeTableFromTextFileV2).
constexpr std::int64_t kWholeLine = -2, kLineNumber = -1;

// Its input without the number of the result: "a:b:0" is "a".
std::string_view source_name(std::string_view input) { return input.substr(0, input.find(':')); }

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == text.npos) return out;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

TfObjects::TfObjects(const tf::MetaGraphDef& model, const TensorflowFiles& files,
                     const TensorflowImportOptions& options, Graph& graph, std::uint64_t& repeated_bytes)
    : model_(model), files_(files), options_(options), graph_(graph), repeated_bytes_(repeated_bytes) {
  for (const tf::FunctionDef& f : model.graph_def().library().function())
    if (!functions_.emplace(f.signature().name(), &f).second)
      fail(Code::data_loss, "two functions are named '{}'", f.signature().name());
}

const tf::FunctionDef* TfObjects::function(const std::string& name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

const tf::SavedObject& TfObjects::object(int id) const {
  if (id < 0 || id >= model_.object_graph_def().nodes_size())
    fail(Code::data_loss, "there is no object {}: the model has {}", id, model_.object_graph_def().nodes_size());
  return model_.object_graph_def().nodes(id);
}

TfValue TfObjects::value_of(int id) {
  const auto found = values_.find(id);
  if (found != values_.end()) return found->second;
  try {
    return values_[id] = make(id);
  } catch (...) {
    throw current_error().within(fmt::format("object {}", id));
  }
}

TfValue TfObjects::make(int id) {
  const tf::SavedObject& found = object(id);
  switch (found.kind_case()) {
    case tf::SavedObject::kVariable:
      return variable_of(id);
    case tf::SavedObject::kResource:
      return table_of(id);
    case tf::SavedObject::kConstant:
      return {constant(graph_, constant_of(found.constant().operation())), {}, {}};
    case tf::SavedObject::kAsset:
      fail(Code::unimplemented, "a function reads the file '{}' while it runs, which is not supported", asset_of(id));
    default:
      fail(Code::unimplemented, "a function captures an object of kind {}, which is not supported",
           static_cast<int>(found.kind_case()));
  }
}

// The objects of the checkpoint are those that have the same path from the root.
void TfObjects::find_keys() {
  has_keys_ = true;
  const Tensor text = files_.tensor(kObjectGraphKey);
  tf::TrackableObjectGraph saved;
  if (text.dtype() != DType::string || text.num_elements() != 1 || !saved.ParseFromString(text.item<std::string>()))
    fail(Code::data_loss, "tensor '{}' of the variables is not a graph of objects", kObjectGraphKey);
  std::set<std::pair<int, int>> seen = {{0, 0}};
  std::vector<std::pair<int, int>> open = {{0, 0}};
  while (!open.empty()) {
    const auto [here, there] = open.back();
    open.pop_back();
    if (there < 0 || there >= saved.nodes_size()) continue;
    std::map<std::string, std::string>& keys = keys_[here];
    for (const auto& attribute : saved.nodes(there).attributes())
      keys.emplace(attribute.name(), attribute.checkpoint_key());
    std::map<std::string_view, int> children;
    for (const tf::ObjectReference& child : saved.nodes(there).children())
      children.emplace(child.local_name(), child.node_id());
    for (const tf::ObjectReference& child : object(here).children()) {
      const auto same = children.find(child.local_name());
      if (same == children.end()) continue;
      const std::pair<int, int> next{child.node_id(), same->second};
      // An object has one place in each graph; a hostile one that has many gets no keys of others.
      if (keys_.contains(next.first) || !seen.insert(next).second) continue;
      open.push_back(next);
    }
  }
}

const std::map<std::string, std::string>& TfObjects::keys_of(int id) {
  if (!has_keys_) find_keys();
  return keys_[id];
}

TfValue TfObjects::variable_of(int id) {
  const tf::SavedObject::Variable& saved = object(id).variable();
  const auto& keys = keys_of(id);
  const auto key = keys.find("VARIABLE_VALUE");
  if (key == keys.end()) fail(Code::data_loss, "variable '{}' has no value in the checkpoint", saved.name());
  Tensor& value = tensors_[key->second];
  if (!value.valid()) value = files_.tensor(key->second);
  const DType dtype = from_tensorflow_dtype(saved.dtype());
  const Shape shape = from_tensorflow_shape(saved.shape());
  if (value.dtype() != dtype || !shape.compatible_with(value.shape()))
    fail(Code::data_loss, "variable '{}' is {}{}, but '{}' has {}{}", saved.name(), name(dtype), shape.to_string(),
         key->second, name(value.dtype()), value.shape().to_string());
  const VariableRef made =
      variable(graph_, {.name = graph_.unique_name(node_name(saved.name().empty() ? "variable" : saved.name())),
                        .initial_value = constant(graph_, value),
                        .trainable = options_.trainable && saved.trainable() && is_floating(dtype)});
  variables_.push_back(made.name);
  auto resource = std::make_shared<TfResource>();
  resource->name = made.name;
  resource->read = [made] { return made.read(); };
  return {{}, std::move(resource), {}};
}

Tensor TfObjects::constant_of(const std::string& operation) const {
  for (const tf::NodeDef& node : model_.graph_def().node()) {
    if (node.name() != operation) continue;
    if (node.op() != "Const") break;
    return TfNode(graph_, node, {}, repeated_bytes_).tensor("value");
  }
  fail(Code::data_loss, "there is no constant '{}'", operation);
}

std::string TfObjects::asset_of(int id) const {
  const int index = object(id).asset().asset_file_def_index();
  if (index < 0 || index >= model_.asset_file_def_size()) fail(Code::data_loss, "there is no asset {}", index);
  return model_.asset_file_def(index).filename();
}

TfValue TfObjects::table_of(int id) {
  auto table = std::make_shared<TfResource>();
  table->name = fmt::format("table {}", id);
  bool filled = false;
  for (const tf::ObjectReference& child : object(id).children())
    if (child.local_name() == "_initialize") filled = initialize(child.node_id(), *table);
  if (!filled) {  // one that can change
    for (const auto& [name, key] : keys_of(id)) {
      if (filled || !key.ends_with("-keys")) continue;
      table->keys = files_.tensor(key);
      table->values = files_.tensor(key.substr(0, key.size() - 4) + "values");
      filled = true;
    }
  }
  if (!filled) fail(Code::unimplemented, "a resource that is neither a variable nor a table with keys and values");
  if (table->keys.shape().rank() != 1 || table->values.shape() != table->keys.shape())
    fail(Code::data_loss, "a table of keys {} and values {}, expected two vectors of one length",
         table->keys.shape().to_string(), table->values.shape().to_string());
  return {{}, std::move(table), {}};
}

// Fills a table as its function does. False if the function does nothing.
bool TfObjects::initialize(int id, TfResource& table) {
  const auto& names = object(id).function().concrete_functions();
  if (names.empty()) return false;
  const tf::FunctionDef* f = function(names.Get(0));
  const auto& functions = model_.object_graph_def().concrete_functions();
  const auto bound = functions.find(names.Get(0));
  if (!f || bound == functions.end()) fail(Code::data_loss, "there is no function '{}'", names.Get(0));
  // The object or constant that an input is.
  const auto captured = [&](const std::string& input) {
    for (int i = 0; i < f->signature().input_arg_size() && i < bound->second.bound_inputs_size(); ++i)
      if (f->signature().input_arg(i).name() == source_name(input)) return bound->second.bound_inputs(i);
    return -1;
  };
  const auto tensor = [&](const std::string& input) {
    const int object_id = captured(input);
    if (object_id >= 0) return constant_of(object(object_id).constant().operation());
    for (const tf::NodeDef& node : f->node_def())
      if (node.name() == source_name(input) && node.op() == "Const")
        return TfNode(graph_, node, {}, repeated_bytes_).tensor("value");
    fail(Code::unimplemented, "the keys or values of a table are computed by '{}'", input);
  };
  for (const tf::NodeDef& node : f->node_def()) {
    if (node.op() == "LookupTableImportV2" && node.input_size() >= 3) {
      table.keys = tensor(node.input(1));
      table.values = tensor(node.input(2));
      return true;
    }
    if (node.op() == "InitializeTableFromTextFileV2" && node.input_size() >= 2) {
      const int object_id = captured(node.input(1));
      if (object_id < 0 || !object(object_id).has_asset())
        fail(Code::unimplemented, "a table is read from a file that is no asset of the model");
      const std::string asset = asset_of(object_id);
      read_lines(files_.asset(asset), asset, TfNode(graph_, node, {}, repeated_bytes_), table);
      return true;
    }
  }
  return false;
}

// The columns of a text file, or the numbers of its lines.
void TfObjects::read_lines(const std::string& text, const std::string& asset, const TfNode& options,
                           TfResource& table) const {
  const std::int64_t offset = options.integer("offset", 0);
  const std::string delimiter = options.string("delimiter", "\t");
  if (offset < 0 || delimiter.size() != 1)
    fail(Code::unimplemented, "a table that begins at {} with the delimiter '{}'", offset, delimiter);
  std::vector<std::string_view> lines = split_text(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  lines.erase(lines.begin(), lines.begin() + std::min<std::ptrdiff_t>(offset, std::ssize(lines)));
  if (const std::int64_t most = options.integer("vocab_size", -1); most >= 0 && std::ssize(lines) > most)
    lines.resize(static_cast<std::size_t>(most));
  const Shape shape{std::ssize(lines)};
  const auto column = [&](std::int64_t index) {
    if (index == kLineNumber) {
      Tensor out(DType::i64, shape);
      for (std::int64_t i = 0; i < out.num_elements(); ++i) out.mutable_data<std::int64_t>()[i] = i + offset;
      return out;
    }
    Tensor out(DType::string, shape);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (index == kWholeLine) {
        out.mutable_data<std::string>()[i] = lines[i];
        continue;
      }
      const std::vector<std::string_view> fields = split_text(lines[i], delimiter[0]);
      if (index < 0 || index >= std::ssize(fields))
        fail(Code::data_loss, "asset '{}': line {} has {} fields; field {} is wanted", asset,
             i + 1 + static_cast<std::size_t>(offset), fields.size(), index);
      out.mutable_data<std::string>()[i] = fields[static_cast<std::size_t>(index)];
    }
    return out;
  };
  table.keys = column(options.integer("key_index"));
  table.values = column(options.integer("value_index"));
}

}  // namespace troupe
