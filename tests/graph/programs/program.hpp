// Graph programs: a graph, what is done to it, and what must come out, in a text file.
//
//   Adding minus zero changes nothing.
//
//   === graph
//   x = Placeholder() T=f32 shape=[2]
//   c = Const() T=f32 value=f32[] = -0
//   y = Add(x, c)
//   === callable feeds=x fetches=y
//   === simplify
//   === expect
//   ...
//
// A line that begins with "===" opens a section. Text before the first one is a comment. Sections run in their order,
// on one graph.
//
// Steps. `graph` reads the graph in its text (graph/formats/text.hpp). The others have options NAME=A,B:
//   callable feeds fetches targets      prune [fetches targets] (neither: of a callable)     fold [max_bytes]
//   simplify, cse, fuse_bias, fuse_elementwise, fuse_updates [without] (ops that have no kernel)
//   optimize [off]      mixed_precision [to]      shard shards      gradients ys xs [stop]
//   place [client soft]: its lines are devices and their kernels, "*" for those of the CPU
//   partition           towers layers input [slots batch micro_batches devices optimizer]: replaces the graph
//
// Expectations, which --rewrite writes anew; a "\" at the end of a line continues it on the next, indented by 4 spaces:
//   expect       the graph
//   part DEVICE  that part of a partitioned graph
//   count        its ops, with how many nodes each has
//   notes        what the steps have reported since the last such section
//   values       results of running the graph on the CPU: lines "feed NODE = TENSOR" set feeds and variables, the
//                others are "OUTPUT = TENSOR"; that of a variable's handle is the variable after the step
//   error        the error of the step before it
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::testing {

struct Section {
  std::string name;     // "callable"
  std::string options;  // "feeds=x fetches=y"
  std::string body;     // lines, without blank ones at the end
  int line = 0;
};

struct Program {
  std::string comment;
  std::vector<Section> sections;

  // Throws invalid_argument for text without sections.
  static Program parse(std::string_view text);
  std::string to_text() const;
};

// What running a program has shown: the program with the expectations that it meets, and in words where it fails to
// meet those that it has.
struct Outcome {
  Program actual;
  std::string failures;
};

// Throws for a program that cannot be run.
Outcome run(const Program& program);

}  // namespace troupe::testing
