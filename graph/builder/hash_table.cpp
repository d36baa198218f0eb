#include "troupe/graph/builder/hash_table.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

MutableHashTable::MutableHashTable(Graph& graph, DType key_dtype, DType value_dtype, Shape value_shape,
                                   ResourceOptions options)
    : key_dtype_(key_dtype), value_dtype_(value_dtype), value_shape_(std::move(value_shape)) {
  if (key_dtype != DType::i64 && key_dtype != DType::string)
    invalid_argument("MutableHashTable: keys must be i64 or string, not {}", troupe::name(key_dtype));
  if (!value_shape_.has_rank() || !value_shape_.fully_known())
    invalid_argument("MutableHashTable: the shape of the values must be known, not {}", value_shape_.to_string());
  handle_ = add_resource(graph, "MutableHashTable",
                         {{"key_dtype", key_dtype}, {"value_dtype", value_dtype}, {"value_shape", value_shape_}},
                         std::move(options));
}

MutableHashTable::MutableHashTable(Output handle)
    : handle_(std::move(handle)),
      key_dtype_(handle_.source().attributes.dtype("key_dtype")),
      value_dtype_(handle_.source().attributes.dtype("value_dtype")),
      value_shape_(handle_.source().attributes.shape("value_shape")) {}

Output MutableHashTable::insert(Output keys, Output values, Name name) const {
  return add_resource_target("HashTableInsert", handle_, {keys, values}, {}, std::move(name));
}
Output MutableHashTable::remove(Output keys, Name name) const {
  return add_resource_target("HashTableRemove", handle_, {keys}, {}, std::move(name));
}
Output MutableHashTable::lookup(Output keys, Output otherwise, Name name) const {
  return add_op("HashTableFind", {handle_, keys, otherwise}, {{"value_shape", value_shape_}}, std::move(name));
}
Output MutableHashTable::size(Name name) const { return add_op("HashTableSize", {handle_}, {}, std::move(name)); }

MutableHashTable::Entries MutableHashTable::export_entries(Name name) const {
  const Outputs entries =
      add_outputs("HashTableExport", {handle_}, {{"K", key_dtype_}, {"V", value_dtype_}, {"value_shape", value_shape_}},
                  std::move(name));
  return {entries[0], entries[1]};
}
Output MutableHashTable::import_entries(Output keys, Output values, Name name) const {
  return add_resource_target("HashTableImport", handle_, {keys, values}, {}, std::move(name));
}

std::vector<MutableHashTable> hash_tables(Graph& graph) {
  std::vector<MutableHashTable> out;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->role == OpRole::variable && node.attributes.has("kind") && node.attributes.string("kind") == "table")
      out.push_back(MutableHashTable(graph.output(node)));
  }
  std::ranges::sort(out, {}, [](const MutableHashTable& table) { return table.handle().source().name; });
  return out;
}

}  // namespace troupe
