// The program of a classifier of images: bytes are divided by 255 first.
#pragma once

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/training/network_program.hpp>

namespace troupe::testing {

inline troupe::Program classifier(const Sequential& layers, const Optimizer& optimizer) {
  const troupe::Program learn =
      network_program({.network = layers,
                       .outputs = {{.loss = Loss::sparse_softmax_cross_entropy, .metrics = {metrics::accuracy()}}},
                       .optimizer = optimizer});
  return [learn](ProgramContext& c) {
    auto batch = c.batch;
    Output& images = batch.at("images");
    if (images.dtype() == DType::u8) {
      const Output floats = cast(images, DType::f32);
      images = div(floats, scalar_like(floats, 255));
    }
    ProgramContext scaled{c.graph, c.schema, batch, c.variables, c.training, c.averages};
    return learn(scaled);
  };
}

inline BatchSchema classifier_schema(const Shape& example, DType dtype = DType::f32) {
  return {{.name = "images", .dtype = dtype, .shape = example}, {.name = "labels", .dtype = DType::i32, .shape = {}}};
}

}  // namespace troupe::testing
