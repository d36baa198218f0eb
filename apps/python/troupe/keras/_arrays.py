"""Arrays and tensors, where troupe.keras meets the rest of the package."""

from __future__ import annotations

import typing

import numpy as np

from .. import _core, _troupe
from .._core import Tensor, Variable
from . import _names

_native = _troupe.keras


def to_tensor(array: np.ndarray) -> _troupe.Data:
    """The value of an array for C++, which is not copied."""
    return _core.data(array)


def to_array(value: _troupe.Data) -> np.ndarray:
    """An array of a value of C++."""
    return _core.array(value)


def plain(value: typing.Any) -> typing.Any:
    """An array of a value of any kind."""
    return value.numpy() if hasattr(value, "numpy") else value


def numpy_dtype(dtype: str) -> np.dtype:
    """The dtype of arrays of a tensor's; bf16 needs ml_dtypes."""
    if dtype == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(object if dtype == "string" else _names.keras_dtype(dtype))


def dtype_of_array(array: np.ndarray) -> str:
    """The dtype that its tensor has."""
    return "string" if array.dtype.kind in "OUS" else _names.native_dtype(array.dtype.name)


def form_of(tensor: Tensor) -> typing.Tuple[str, list]:
    """Dtype and shape as C++ names them."""
    return _names.native_dtype(tensor.dtype.name), list(tensor.shape)


def variable_of(weight: typing.Any) -> Variable:
    """The variable of eager mode that has the value of a weight, from now on."""
    if weight._variable is None:
        value = to_array(weight._tensor())
        weight._variable = _troupe.Variable(value, weight.trainable, weight.path)
        weight._held = None
    return weight._variable


def as_value(value: typing.Any, dtype: typing.Optional[str] = None) -> Tensor:
    """A tensor of eager mode; arrays of f64 become f32, as Keras has it."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Variable):
        return value.read()
    array = np.asarray(value)
    return _troupe.tensor(array.astype(np.float32) if array.dtype == np.float64 else array, dtype)
