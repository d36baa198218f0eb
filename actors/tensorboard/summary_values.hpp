// The values of a Summary, made of tensors in host memory.
#pragma once

#include <string>

#include "messages/proto/tensorboard.pb.h"
#include <troupe/graph/builder/summary.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

void add_scalar(proto::tensorboard::Summary& summary, const std::string& tag, double value);
// Throws invalid_argument for a tensor that is not numeric.
void add_histogram(proto::tensorboard::Summary& summary, const std::string& tag, const Tensor& values);
// `images`: [n, height, width, channels], u8 or floats, of which [0, 1] is shown and what is not finite is 0. Their
// tags are TensorFlow's: "TAG/image" of one, else "TAG/image/0", "TAG/image/1". Throws invalid_argument for other
// tensors.
void add_images(proto::tensorboard::Summary& summary, const std::string& tag, const Tensor& images, int max_outputs);
void add_text(proto::tensorboard::Summary& summary, const std::string& tag, const std::string& text);

// The fetched value of a graph's summary.
void add_summary(proto::tensorboard::Summary& summary, const SummaryOutput& of, const Tensor& value);

}  // namespace troupe
