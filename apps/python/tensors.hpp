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

// A tensor on the memory of an array, which lives as long as the tensor and is never written. Throws invalid_argument
// for arrays of types that tensors do not have.
Tensor from_array(nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu> array);

// An array of NumPy on the memory of the tensor; strings are copied, as objects of type bytes. bf16 is ml_dtypes', or
// uint16 without that package. Read-only, unless `may_write` and nothing else can read it.
nanobind::object to_array(const Tensor& tensor, bool may_write = false);
// On the memory of the tensor, as a capsule of DLPack.
nanobind::object to_dlpack(const Tensor& tensor);

// Element i as a number of Python, or as bytes.
PyObject* element_object(const Tensor& tensor, std::int64_t i);
// Whether it is an array or a scalar of NumPy.
bool is_array(nanobind::handle value);

// Throws invalid_argument for another name.
DType dtype_named(const std::string& text);
// Unknown dimensions are None, an unknown rank too.
using Dims = std::optional<std::vector<std::optional<std::int64_t>>>;
Shape shape_of_dims(const Dims& dims);
Dims dims_of_shape(const Shape& shape);
nanobind::object shape_tuple(const Shape& shape);

}  // namespace troupe::python
