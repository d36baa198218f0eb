// Tensors of NumPy's arrays and arrays of tensors, both without a copy.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe::python {

// A tensor on the memory of an array, which lives as long as the tensor and is never written. `dtype`: that of the
// array if "", otherwise one of the same size ("bf16" for an array of u16). Throws invalid_argument for other types.
Tensor from_array(nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu> array,
                  const std::string& dtype);
// A tensor of strings, from bytes.
Tensor from_strings(const nanobind::list& items, const std::vector<std::int64_t>& shape);

// An array on the memory of the tensor, read-only if anything else may read it. bf16 is returned as u16, strings as a
// list of bytes.
nanobind::object to_array(const Tensor& tensor);

// Throws invalid_argument for another name.
DType dtype_named(const std::string& text);
// Unknown dimensions are None, an unknown rank too.
using Dims = std::optional<std::vector<std::optional<std::int64_t>>>;
Shape shape_of_dims(const Dims& dims);
Dims dims_of_shape(const Shape& shape);

}  // namespace troupe::python
