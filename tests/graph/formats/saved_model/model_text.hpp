// SavedModels as text: what a test says of them, and around it what each has.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/messages/error.hpp>

namespace troupe::testing {

// A model whose signature "f" calls function "f" with inputs "x" (f32 [?,2]) and "w", a variable; its result is "y".
// `nodes` are those of the function, `functions` those beside it.
inline tensorflow::SavedModel model_of(const std::string& nodes, const std::string& result,
                                       const std::string& functions = "") {
  const std::string text = fmt::format(
      R"(meta_graphs {{
           meta_info_def {{ tags: "serve" tensorflow_version: "2.21.0" }}
           graph_def {{
             node {{ name: "f_x" op: "Placeholder" }}
             node {{ name: "w" op: "VarHandleOp" }}
             node {{ name: "call" op: "StatefulPartitionedCall" input: "f_x" input: "w"
                     attr {{ key: "f" value {{ func {{ name: "f" }} }} }} }}
             library {{ function {{
               signature {{ name: "f" input_arg {{ name: "x" type: 1 }} input_arg {{ name: "w" type: 20 }}
                            output_arg {{ name: "y" type: 1 }} }}
               {} ret {{ key: "y" value: "{}" }} }}
               {} }}
           }}
           signature_def {{ key: "f" value {{
             inputs {{ key: "x" value {{ name: "f_x:0" dtype: 1
                       tensor_shape {{ dim {{ size: -1 }} dim {{ size: 2 }} }} }} }}
             outputs {{ key: "y" value {{ name: "call:0" dtype: 1 }} }} }} }}
           object_graph_def {{
             nodes {{ children {{ node_id: 1 local_name: "w" }} }}
             nodes {{ variable {{ dtype: 1 shape {{ dim {{ size: 2 }} }} trainable: true name: "w:0" }} }}
             concrete_functions {{ key: "f" value {{ bound_inputs: 1 }} }} }}
           }})",
      nodes, result, functions);
  tensorflow::SavedModel model;
  if (!google::protobuf::TextFormat::ParseFromString(text, &model)) invalid_argument("not a model: {}", text);
  return model;
}

inline std::string node_text(std::string_view op, std::string_view name, std::initializer_list<std::string_view> inputs,
                             std::string_view attributes = "") {
  std::string out = fmt::format("node_def {{ name: \"{}\" op: \"{}\" ", name, op);
  for (const std::string_view input : inputs) out += fmt::format("input: \"{}\" ", input);
  return out + std::string(attributes) + " }\n";
}
// An i32 scalar.
inline std::string integer_text(std::string_view name, int value) {
  return node_text(
      "Const", name, {},
      fmt::format("attr {{ key: \"value\" value {{ tensor {{ dtype: 3 tensor_shape {{ }} int_val: {} }} }} }}", value));
}
inline std::string function_attribute(std::string_view key, std::string_view function) {
  return fmt::format("attr {{ key: \"{}\" value {{ func {{ name: \"{}\" }} }} }}", key, function);
}
// A function of the model; arguments and results are numbers of types by name.
inline std::string function_text(std::string_view name, std::string_view signature, const std::string& nodes,
                                 std::string_view results) {
  return fmt::format("function {{ signature {{ name: \"{}\" {} }} {} {} }}\n", name, signature, nodes, results);
}

}  // namespace troupe::testing
