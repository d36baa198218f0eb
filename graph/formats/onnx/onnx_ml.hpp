// Reads inputs and attributes of ai.onnx.ml's nodes: shared by its converters.
#pragma once

#include <string>

#include <troupe/graph/formats/onnx/onnx_node.hpp>

namespace troupe {

// The scores [n,c] after an attribute post_transform. A single score is changed by PROBIT only, as onnxruntime has it.
Output post_transformed(Output scores, const std::string& transform);
// The same of the two scores [n,2] that follow from one [n,1], s, of two classes: 1 - s and s where all weights are
// positive, -s and s otherwise; by LOGISTIC both become sigmoid(-s) and sigmoid(s), as onnxruntime has it.
Output two_scores(Output score, bool positive, const std::string& transform);

// x as rows [n,features]: a vector is one row. f32, or f64 if it is that.
Output feature_rows(Output x);

// The classes of a classifier as a vector of i64 or string, of the first attribute that the node has.
Tensor class_labels(const OnnxNode& node, const char* integers, const char* strings);
// Sets both outputs of a classifier: the labels of the indices (i64 [n]), and scores [n,c], whose type has the labels.
void set_classes(OnnxNode& node, Output indices, Output scores, const Tensor& labels);

// A vector of an attribute of reals, in a dtype.
Tensor vector_of(const std::vector<double>& values, DType dtype);

}  // namespace troupe
