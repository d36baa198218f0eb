// Graphs as text that people read and write: Graph::dump() writes it, parse_text() reads it.
//
//   # y = relu(x W + b)
//   x = Placeholder() T=f32 shape=[?,2] -> f32[?,2]
//   w = Const() T=f32 value=f32[2,1] = 0.5 -1 @ /job:ps
//   product = MatMul(x, w)
//   y = Relu(product, ^w) T=f32 -> f32[?,1] @ /job:worker/device:GPU:0 with product
//
// A line is NAME = OP(INPUTS, ^CONTROLS) ATTRIBUTES -> OUTPUTS @ DEVICE with NODE; the parts behind the parentheses may
// be left out. Attributes that follow from the inputs or have defaults need not be given, and of the outputs the dtypes
// must be those of the op, while the shapes refine what inference knows. "#" begins a comment, "\" at the end of a line
// continues it. Nodes may come in any order. Values, by the type that the op gives the attribute:
//
//   integer 3    real 0.5    boolean true    string "a \"quoted\" one"    dtype f32    function @name
//   shape [2,?] or [?...]    tensor f32[2,2] = 1 2 3 4    integers [1, 2]    strings ["a", "b"]    dtypes [f32,i32]
//
// Attributes that begin with "_" have the type of their value; lists and shapes among them name it: _x=integers:[1, 2].
// Names that are not made of letters, digits and _./-:* are quoted. Functions follow the nodes:
//
//   function branch returns y, z:1 {
//     x = Arg() T=f32 index=0
//     ...
//   }
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <troupe/graph/graph.hpp>

namespace troupe {

// All of the graph, with every element of its tensors. What parse_text() makes of it has the same text, if no edge of
// the graph leads to a node with a lower id: otherwise nodes come back in topological order. Tensors that are not in
// host memory cannot be read again.
std::string to_text(const Graph& graph);

// Throws as import_graph() (graph/formats/import.hpp), and invalid_argument for text that is no graph: "line 3, column
// 14: expected ...". `ops` must outlive the graph.
std::unique_ptr<Graph> parse_text(std::string_view text, const OpRegistry& ops = standard_ops());

// A tensor alone: "f32[2] = 1 2".
Tensor parse_tensor(std::string_view text);

}  // namespace troupe
