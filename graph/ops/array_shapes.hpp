// Shape functions of the array ops (graph/ops/array.cpp).
#pragma once

#include <troupe/graph/op.hpp>

namespace troupe::shapes {

void reshape(ShapeContext& c);
void transpose(ShapeContext& c);
void concat(ShapeContext& c);
void split(ShapeContext& c);
void split_sizes(ShapeContext& c);
void stack(ShapeContext& c);
void unstack(ShapeContext& c);
void squeeze(ShapeContext& c);
void expand_dims(ShapeContext& c);
void broadcast_to(ShapeContext& c);
void reshape_like(ShapeContext& c);
void one_hot(ShapeContext& c);
void fill(ShapeContext& c);
void range(ShapeContext& c);

// graph/ops/slice_shapes.cpp
void slice(ShapeContext& c);
void slice_grad(ShapeContext& c);
void strided_slice(ShapeContext& c);
void strided_slice_grad(ShapeContext& c);
void pad(ShapeContext& c);
void pad_grad(ShapeContext& c);
void tile(ShapeContext& c);
void tile_grad(ShapeContext& c);

}  // namespace troupe::shapes
