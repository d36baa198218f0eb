#include "troupe/graph/formats/onnx/onnx_view.hpp"

#include <algorithm>
#include <cstring>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
Output OnnxView::get() {
  if (!made.valid()) made = transpose(source, perm);
  return made;
}

Shape OnnxView::shape() const {
  const Shape& from = source.shape();
  if (!from.has_rank()) return from;
  Shape out = from;
  for (std::size_t d = 0; d < perm.size(); ++d) out.set_dim(static_cast<int>(d), from[static_cast<int>(perm[d])]);
  return out;
}

Integers composed(const Integers& first, const Integers& second) {
  Integers out;
  for (const std::int64_t d : second) out.push_back(first.at(static_cast<std::size_t>(d)));
  return out;
}

bool is_identity(const Integers& perm) {
  for (std::size_t d = 0; d < perm.size(); ++d)
    if (perm[d] != static_cast<std::int64_t>(d)) return false;
  return true;
}

bool exchanges_last_two(const Integers& perm) {
  Integers back = perm;
  if (back.size() < 2) return false;
  std::swap(back[back.size() - 1], back[back.size() - 2]);
  return is_identity(back);
}

Output with_channels_last(Output operand, const OnnxViewPtr& view) {
  if (view) return view->perm == kOnnxToImages ? view->source : Output();
  const Shape& shape = operand.shape();
  if (!shape.has_rank()) return {};
  if (shape.rank() == 0 || (shape.rank() == 1 && shape[0] == 1)) return operand;
  // One for each channel: [c,1,1] or [1,c,1,1].
  const auto value = known_tensor(operand);
  const int front = shape.rank() - 3;
  if (!value || front < 0 || front > 1 || shape[-1] != 1 || shape[-2] != 1 || (front == 1 && shape[0] != 1)) return {};
  return constant(*operand.graph, value->reshaped(Shape{shape[front]}));
}

Tensor transpose_on_host(const Tensor& x, const Integers& perm) {
  const int rank = x.shape().rank();
  Shape shape = x.shape();
  Integers strides(perm.size(), 1);  // of x, in elements
  for (int d = rank - 2; d >= 0; --d)
    strides[static_cast<std::size_t>(d)] = strides[static_cast<std::size_t>(d) + 1] * x.shape()[d + 1];
  Integers along, at(perm.size(), 0);
  for (int d = 0; d < rank; ++d) {
    const std::int64_t from = perm[static_cast<std::size_t>(d)];
    shape.set_dim(d, x.shape()[static_cast<int>(from)]);
    along.push_back(strides[static_cast<std::size_t>(from)]);
  }
  Tensor y(x.dtype(), shape);
  const std::size_t size = size_of(x.dtype());
  std::int64_t from = 0;
  for (std::int64_t i = 0; i < y.num_elements(); ++i) {
    std::memcpy(y.mutable_raw() + static_cast<std::size_t>(i) * size, x.raw() + static_cast<std::size_t>(from) * size,
                size);
    for (int d = rank; d-- > 0;) {
      const auto k = static_cast<std::size_t>(d);
      from += along[k];
      if (++at[k] < shape[d]) break;
      from -= along[k] * shape[d];
      at[k] = 0;
    }
  }
  return y;
}

}  // namespace troupe
