// Values of a model that are read as another value with its dimensions in another order. A Transpose is a node of the
// graph only where its result is read as it is: products take operands with their last dimensions exchanged, and
// images, which a model has as NCHW, stay NHWC between Transposes.
#pragma once

#include <memory>
#include <string_view>

#include <troupe/graph/builder/core.hpp>

namespace troupe {

inline const Integers kOnnxToImages = {0, 3, 1, 2}, kOnnxFromImages = {0, 2, 3, 1};
// Filters HWIO as OIHW, and the other way.
inline const Integers kOnnxToFilter = {3, 2, 0, 1}, kOnnxFromFilter = {2, 3, 1, 0};

// transpose(source, perm).
struct OnnxView {
  Output source{};
  Integers perm{};
  Output made{};

  Output get();  // adds the node when it is first called
  Shape shape() const;
};
using OnnxViewPtr = std::shared_ptr<OnnxView>;

// The order of dimensions of transpose(transpose(x, first), second).
Integers composed(const Integers& first, const Integers& second);
bool is_identity(const Integers& perm);
bool exchanges_last_two(const Integers& perm);

// The elements of a tensor in host memory in that order of dimensions; not of strings.
Tensor transpose_on_host(const Tensor& x, const Integers& perm);

// An operand of an elementwise node with the dimensions of images in the order NHWC; invalid if it cannot be one.
Output with_channels_last(Output operand, const OnnxViewPtr& view);

}  // namespace troupe
