#include "troupe/actors/model/joined_rows.hpp"

#include <algorithm>
#include <cstring>

#include <troupe/messages/error.hpp>

namespace troupe {

Tensor joined_rows(const std::string& name, const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  std::int64_t rows = 0;
  Shape shape = parts.front().shape();
  for (const Tensor& part : parts) {
    if (part.shape().rank() < 1 || part.shape().rank() != shape.rank() ||
        part.shape().sub(1, shape.rank()) != shape.sub(1, shape.rank()))
      invalid_argument("prediction '{}' has the shapes {} and {} in two batches: their rows cannot be joined", name,
                       parts.front().shape().to_string(), part.shape().to_string());
    rows += part.shape()[0];
  }
  shape.set_dim(0, rows);
  Tensor out(parts.front().dtype(), shape);
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    if (part.num_elements() == 0) continue;
    if (part.dtype() == DType::string)
      std::ranges::copy(part.values<std::string>(), out.mutable_data<std::string>() + at);
    else
      std::memcpy(out.mutable_raw() + static_cast<std::size_t>(at) * size_of(part.dtype()), part.raw(),
                  part.num_bytes());
    at += part.num_elements();
  }
  return out;
}

}  // namespace troupe
