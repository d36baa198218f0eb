// Strings, tables and ragged rows, as TensorFlow's. Tables are resources that the model's initialisation fills.
#include <algorithm>
#include <cstring>

#include <troupe/graph/formats/saved_model/export_node.hpp>

namespace troupe {
namespace {

TfName text(const TfExportNode& node, const std::string& value) {
  Tensor out(DType::string, Shape{});
  *out.mutable_data<std::string>() = value;
  return node.constant(out);
}

void write_tf_one_to_one(TfExportNode& node) { node.set(node.add(node.node().op->name, {node.in(0)})); }
void write_tf_string_length(TfExportNode& node) {
  node.set(node.add("Cast", {node.add("StringLength", {node.in(0)})}, {{"DstT", DType::i64}}));
}
void write_tf_string_join(TfExportNode& node) {
  node.set(node.add("StringJoin", node.all_inputs(), {{"separator", node.attributes().string("separator")}}));
}
void write_tf_regex_full_match(TfExportNode& node) {
  node.set(node.add("RegexFullMatch", {node.in(0), text(node, node.attributes().string("pattern"))}));
}
void write_tf_regex_replace(TfExportNode& node) {
  const Attributes& a = node.attributes();
  node.set(node.add("RegexReplace", {node.in(0), text(node, a.string("pattern")), text(node, a.string("rewrite"))},
                    {{"replace_global", a.boolean("global")}}));
}
void write_tf_string_to_number(TfExportNode& node) {
  node.set(node.add("StringToNumber", {node.in(0)}, {{"out_type", node.output_dtype()}}));
}
void write_tf_as_string(TfExportNode& node) {
  if (is_floating(node.dtype(0))) fail(Code::unimplemented, "TensorFlow writes reals with other digits");
  node.set(node.add("AsString", {node.in(0)}));
}

// Where each of so many rows begins, and where the last one ends; from the row of each value.
TfName splits_of(const TfExportNode& node, const TfName& rows, const TfName& count) {
  const TfName lengths = node.add("UnsortedSegmentSum", {node.add("OnesLike", {rows}), rows, count});
  return node.joined({node.integers({0}), node.add("Cumsum", {lengths, node.integer(0)})});
}
void write_tf_string_split(TfExportNode& node) {
  const TfName x = node.in(0);
  const TfNames parts = node.add_many("StringSplitV2", {x, text(node, node.attributes().string("separator"))});
  const TfName column = node.add("Slice", {parts[0], node.integers({0, 0}), node.integers({-1, 1})});
  const TfName rows = node.add("Reshape", {column, node.integers({-1})});
  const TfName splits = splits_of(node, rows, node.add("Size", {x}, {{"out_type", DType::i64}}));
  node.set(1, splits);
  node.set(0, node.add("Identity", {parts[1]}));
}
// The number of splits, but the first, that a place is not before.
void write_tf_row_ids(TfExportNode& node) {
  const TfName splits = node.in(1);
  const TfName size = node.add("Reshape", {node.dims_of(node.in(0), 0, 1), node.integers({})});
  const TfName begins = node.add("Slice", {splits, node.integers({1}), node.integers({-1})});
  const TfName more = node.add("AddV2", {size, node.integer(1)});
  const TfName here = node.add("UnsortedSegmentSum", {node.add("OnesLike", {begins}), begins, more});
  const TfName all = node.add("Cumsum", {here, node.integer(0)});
  node.set(node.add("Slice", {all, node.integers({0}), node.dims_of(node.in(0), 0, 1)}));
}

// ---- tables

bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::string) return std::ranges::equal(a.values<std::string>(), b.values<std::string>());
  return std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

// FNV-1a of the elements, as hexadecimal digits.
std::string hash_of(const Tensor& keys, const Tensor& values) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](std::string_view bytes) {
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  };
  for (const Tensor* tensor : {&keys, &values}) {
    add(fmt::format("{}{};", name(tensor->dtype()), tensor->shape().to_string()));
    if (tensor->dtype() != DType::string)
      add({reinterpret_cast<const char*>(tensor->raw()), tensor->num_bytes()});
    else
      for (const std::string& text : tensor->values<std::string>()) add(fmt::format("{}:{}", text.size(), text));
  }
  return fmt::format("{:016x}", hash);
}

// The handle of a table of these keys and values.
TfName table_of(const TfExportNode& node, const Tensor& keys, const Tensor& values) {
  TfGraphWriter& writer = node.writer();
  if (!writer.is_root()) fail(Code::unimplemented, "tables in branches and loops are not written");
  const DType of_values = values.dtype();
  if (keys.dtype() != DType::string && keys.dtype() != DType::i64)
    fail(Code::unimplemented, "TensorFlow has no tables with keys of {}", name(keys.dtype()));
  if (of_values != DType::string && of_values != DType::f32 && of_values != DType::f64 && of_values != DType::i32 &&
      of_values != DType::i64)
    fail(Code::unimplemented, "TensorFlow has no tables with values of {}", name(of_values));
  for (const TfTable& table : writer.state().tables)
    if (same_elements(table.keys, keys) && same_elements(table.values, values)) return table.handle;
  TfTable table{.keys = keys, .values = values};
  // Tables of other models that a process has loaded must have other names.
  const std::string shared = fmt::format("{}/table/{}", node.node().name, hash_of(keys, values));
  table.handle = writer.add("HashTableV2", {},
                            {{"key_dtype", keys.dtype()}, {"value_dtype", of_values}, {"shared_name", shared}})[0];
  writer.state().tables.push_back(table);
  return table.handle;
}

Tensor known_vector(const TfExportNode& node, int input, const char* what) {
  const auto value = node.known(input);
  if (!value) fail(Code::unimplemented, "its {} must be constants", what);
  return *value;
}
Tensor keys_of(const TfExportNode& node) {
  const Tensor keys = known_vector(node, 1, "keys");
  if (keys.dtype() != DType::i32) return keys;
  Tensor wide(DType::i64, keys.shape());
  std::ranges::copy(keys.values<std::int32_t>(), wide.mutable_data<std::int64_t>());
  return wide;
}

void write_tf_table_find(TfExportNode& node) {
  const Tensor keys = keys_of(node);
  Integers places;
  for (std::int64_t i = 0; i < keys.num_elements(); ++i) places.push_back(i);
  const TfName table = table_of(node, keys, Tensor::of<std::int64_t>(keys.shape(), places));
  node.set(node.add("LookupTableFindV2", {table, node.cast(node.in(0), keys.dtype()), node.integer(-1)}));
}
void write_tf_table_lookup(TfExportNode& node) {
  const Tensor keys = keys_of(node);
  const TfName table = table_of(node, keys, known_vector(node, 2, "values"));
  const TfName otherwise = node.add("Reshape", {node.in(3), node.integers({})});
  node.set(node.add("LookupTableFindV2", {table, node.cast(node.in(0), keys.dtype()), otherwise}));
}

constexpr TfExportOp kTfTextWriters[] = {
    {"AsString", write_tf_as_string},         {"RegexFullMatch", write_tf_regex_full_match},
    {"RegexReplace", write_tf_regex_replace}, {"RowIds", write_tf_row_ids},
    {"StringJoin", write_tf_string_join},     {"StringLength", write_tf_string_length},
    {"StringLower", write_tf_one_to_one},     {"StringSplit", write_tf_string_split},
    {"StringStrip", write_tf_one_to_one},     {"StringToNumber", write_tf_string_to_number},
    {"StringUpper", write_tf_one_to_one},     {"TableFind", write_tf_table_find},
    {"TableLookup", write_tf_table_lookup},
};

}  // namespace

std::span<const TfExportOp> tensorflow_text_writers() { return kTfTextWriters; }

}  // namespace troupe
