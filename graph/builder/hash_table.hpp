// Hash tables whose entries change: of one session, or of all that share a container (SessionOptions::container). For
// tables that stay as they are: table_lookup() (text.hpp).
//
//   MutableHashTable table(graph, DType::string, DType::f32, Shape{2});
//   Output put = table.insert(words, vectors);       // a target
//   Output found = table.lookup(words, zeros);
//
// Ops on one table run one after the other; none waits. Order those of a step by controls (Graph::after); eager mode
// and traced functions keep the order of the program. A Saver (actors/session/saver.hpp) saves tables; elsewhere save
// what export_entries() returns, and give it to import_entries().
#pragma once

#include <string>
#include <vector>

#include <troupe/graph/builder/resource.hpp>

namespace troupe {

class MutableHashTable {
 public:
  // Keys: i64 or string. Values: any dtype, of a known shape.
  MutableHashTable(Graph& graph, DType key_dtype, DType value_dtype, Shape value_shape = {},
                   ResourceOptions options = {});

  // Keys of any shape, values [...keys, ...value]: adds entries, or replaces their values; of equal keys the last
  // counts. A target.
  Output insert(Output keys, Output values, Name name = {}) const;
  // Removes entries; keys that are not there are passed over. A target.
  Output remove(Output keys, Name name = {}) const;
  // Values [...keys, ...value]; for keys that are not there `otherwise`: one value, or one for each key.
  Output lookup(Output keys, Output otherwise, Name name = {}) const;
  Output size(Name name = {}) const;  // entries: i64 scalar
  struct Entries {
    Output keys{}, values{};  // [n], [n, ...value]: in the order of insertion, until one is removed
  };
  Entries export_entries(Name name = {}) const;
  // The table has these entries alone. A target.
  Output import_entries(Output keys, Output values, Name name = {}) const;

  const Output& handle() const { return handle_; }
  DType key_dtype() const { return key_dtype_; }
  DType value_dtype() const { return value_dtype_; }
  const Shape& value_shape() const { return value_shape_; }

 private:
  friend std::vector<MutableHashTable> hash_tables(Graph& graph);
  explicit MutableHashTable(Output handle);  // of a node that is there

  Output handle_;
  DType key_dtype_, value_dtype_;
  Shape value_shape_;
};

// The tables of a graph, by name.
std::vector<MutableHashTable> hash_tables(Graph& graph);

}  // namespace troupe
