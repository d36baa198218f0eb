// Layers by name, with options as text (graph/formats/text_call.hpp), for programs whose language is not C++ and for
// configurations:
//
//   dense(units=128, activation=relu, kernel=he_normal)
//   dense(units=10, name="scores", kernel=weight(initializer=random_normal(stddev=0.1), l2=1e-4,
//                                                constraint=max_norm(limit=3)))
//   residual(body=[conv2d(filters=16), batch_norm])
//   bidirectional(forward=lstm(units=8), backward=lstm(units=8, go_backwards=true))
//
// Kinds, options and their defaults are those that a written model has (graph/layers/layer.hpp, LayerConfig). A weight
// is an initializer or weight(initializer=, l1=, l2=, constraint=, on_demand=); a list of layers is a sequence; `name`
// is the layer's in its network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/graph/layers/layer.hpp>

namespace troupe {

// Throws invalid_argument for text that is no call, and for unknown or wrong options, naming kind and option; not_found
// for an unknown kind.
LayerPtr parse_layer(std::string_view text);

// The kinds of layers, in alphabetical order, and the options of one as text, with their defaults:
// "dense(units=1, activation=\"none\", use_bias=true, compute=\"\"), weights kernel, bias".
std::vector<std::string> layer_kinds();
std::string layer_signature(std::string_view kind);  // throws not_found

}  // namespace troupe
