// The form of a batch: named tensors with one row per example.
//
//   const BatchSchema schema{{.name = "image", .dtype = DType::u8, .shape = {28, 28, 1}},
//                            {.name = "label", .dtype = DType::i32, .shape = {}}};
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

struct BatchComponent {
  std::string name{};
  DType dtype = DType::f32;
  Shape shape{};       // of one example; dimensions may be unknown
  bool whole = false;  // one tensor for the whole batch, of this shape, without a dimension of examples

  // That of `examples` examples.
  Shape batch_shape(std::int64_t examples) const { return whole ? shape : Shape{examples}.concatenated(shape); }
  bool operator==(const BatchComponent&) const = default;
};

using BatchSchema = std::vector<BatchComponent>;

// Throws invalid_argument unless there is a component, names differ and are not empty, and ranks are known.
void check_schema(const BatchSchema& schema);
// "image u8[28,28,1], label i32[]"; "tags.values i64[?] of the batch" if it is whole
std::string to_string(const BatchSchema& schema);

}  // namespace troupe
