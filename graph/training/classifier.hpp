// The program of a classifier: layers that give a logit per class, and softmax cross-entropy on integer labels.
#pragma once

#include <troupe/graph/training/program.hpp>

namespace troupe {

// Of batches with the components "images" and "labels" (classifier_schema). Images of u8 are divided by 255 first.
// Figures: "loss", "accuracy"; prediction: "probabilities" [n, classes].
Program classifier(Sequential layers, Optimizer optimizer);

// images [example...] of `dtype`, labels i32.
BatchSchema classifier_schema(const Shape& example, DType dtype = DType::f32);

}  // namespace troupe
