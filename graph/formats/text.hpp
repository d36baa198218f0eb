// Graphs as human-readable text: Graph::dump() writes it, parse_text() reads it.
//
//   # y = relu(x W + b)
//   x = Placeholder() T=f32 shape=[?,2] -> f32[?,2]
//   w = Const() T=f32 value=f32[2,1] = 0.5 -1 @ /job:ps
//   product = MatMul(x, w)
//   y = Relu(product, ^w) T=f32 -> f32[?,1] @ /job:worker/device:GPU:0 with product
//
// A line is NAME = OP(INPUTS, ^CONTROLS) ATTRIBUTES -> OUTPUTS @ DEVICE with NODE; the parts after the parentheses are
// optional. Attributes that follow from the inputs or have defaults may be omitted. Output dtypes must be those of the
// op; output shapes refine what inference knows. "#" begins a comment, "\" at the end of a line continues it. Nodes may
// come in any order. Values, by the type that the op gives the attribute:
//
//   integer 3    real 0.5    boolean true    string "a \"quoted\" one"    dtype f32    function @name
//   shape [2,?] or [?...]    tensor f32[2,2] = 1 2 3 4    integers [1, 2]    strings ["a", "b"]    dtypes [f32,i32]
//
// Attributes that begin with "_" have the type of their value; lists and shapes among them state it: _x=integers:[1,
// 2]. Names with characters other than letters, digits and _./-:* are quoted. Functions follow the nodes:
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

// The whole graph, with every tensor element. parse_text() returns a graph with the same text if no edge leads to a
// node with a lower id; otherwise nodes come back in topological order. Tensors outside host memory cannot be read
// back.
std::string to_text(const Graph& graph);

// Throws like import_graph() (graph/formats/import.hpp), and invalid_argument for text that is not a graph: "line 3,
// column 14: expected ...". `ops` must outlive the graph.
std::unique_ptr<Graph> parse_text(std::string_view text, const OpRegistry& ops = standard_ops());

// A single tensor: "f32[2] = 1 2".
Tensor parse_tensor(std::string_view text);

}  // namespace troupe
