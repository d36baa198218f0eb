"""Integers that stand for real numbers: q for (q - zero_point) scale. Definitions are those of ONNX."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import Tensor, TensorLike
from .nn import Integers, Padding, _each, _padding

__all__ = [
    "conv_integer", "dequantize_linear", "dynamic_quantize_linear", "fake_quantize", "matmul_integer",
    "qlinear_matmul", "quantize_linear",
]


def quantize_linear(x: TensorLike, scale: TensorLike, zero_point: TensorLike, axis: int = 1) -> Tensor:
    """round(x / scale) + zero_point, of halves to even, within the limits of zero_point's dtype, which the result has.
    scale and zero_point are scalars, or vectors along an axis.

    >>> troupe.quantization.quantize_linear([1.0, 2.6], 0.5, np.uint8(3))
    Tensor([5, 8], dtype=uint8)
    """
    return _troupe.quantize_linear(x, scale, zero_point, axis)


def dequantize_linear(x: TensorLike, scale: TensorLike, zero_point: TensorLike, axis: int = 1) -> Tensor:
    """(x - zero_point) scale.

    >>> troupe.quantization.dequantize_linear(np.array([5, 8], np.uint8), 0.5, np.uint8(3))
    Tensor([1. , 2.5], dtype=float32)
    """
    return _troupe.dequantize_linear(x, scale, zero_point, axis)


def dynamic_quantize_linear(x: TensorLike) -> typing.Tuple[Tensor, Tensor, Tensor]:
    """x as uint8, with the scale and zero point that fit its least and greatest element and 0: (y, scale, zero_point).

    >>> troupe.quantization.dynamic_quantize_linear([0.0, 255.0])[0]
    Tensor([  0, 255], dtype=uint8)
    """
    return _troupe.dynamic_quantize_linear(x)


def fake_quantize(x: TensorLike, scale: TensorLike, zero_point: TensorLike, lowest: float = -128, highest: float = 127,
                  axis: int = 1) -> Tensor:
    """What remains of x after quantize_linear() and dequantize_linear(), for training: all floating. Gradients pass
    straight through the rounding (Bengio, Leonard & Courville 2013).

    >>> troupe.quantization.fake_quantize([0.3, 99.0], 0.5, 0.0)
    Tensor([ 0.5, 63.5], dtype=float32)
    """
    return _troupe.fake_quantize(x, scale, zero_point, lowest, highest, axis)


def matmul_integer(a: TensorLike, b: TensorLike, a_zero_point: typing.Optional[TensorLike] = None,
                   b_zero_point: typing.Optional[TensorLike] = None) -> Tensor:
    """(a - a_zero_point) (b - b_zero_point) of int8 or uint8, as int32: exact. Zero points are scalars, or have one
    value for each row of a or column of b.

    >>> troupe.quantization.matmul_integer(np.array([[1, 2]], np.uint8), np.array([[3], [4]], np.int8))
    Tensor([[11]], dtype=int32)
    """
    return _troupe.matmul_integer(a, b, a_zero_point, b_zero_point)


def qlinear_matmul(a: TensorLike, a_scale: TensorLike, a_zero_point: TensorLike, b: TensorLike, b_scale: TensorLike,
                   b_zero_point: TensorLike, y_scale: TensorLike, y_zero_point: TensorLike) -> Tensor:
    """The product of quantised matrices, quantised: round(a b / y_scale) + y_zero_point for the real numbers a and b.

    >>> a, b, zero = np.array([[1, 2]], np.uint8), np.array([[3], [4]], np.uint8), np.uint8(0)
    >>> troupe.quantization.qlinear_matmul(a, 1.0, zero, b, 1.0, zero, 0.5, zero)
    Tensor([[22]], dtype=uint8)
    """
    return _troupe.qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)


def conv_integer(x: TensorLike, filters: TensorLike, x_zero_point: TensorLike, filters_zero_point: TensorLike,
                 strides: Integers = 1, padding: Padding = "VALID", dilations: Integers = 1, groups: int = 1,
                 data_format: str = "channels_last") -> Tensor:
    """A convolution of int8 or uint8 as int32: (x - x_zero_point) by (filters - filters_zero_point). Arguments are
    those of nn.conv2d.

    >>> x, filters = np.ones((1, 2, 2, 1), np.uint8), np.ones((2, 2, 1, 1), np.uint8)
    >>> troupe.quantization.conv_integer(x, filters, np.uint8(0), np.uint8(0)).item()
    4
    """
    axes = _troupe.tensor(x).ndim - 2
    mode, pads = _padding(padding, axes)
    return _troupe.conv_integer(x, filters, x_zero_point, filters_zero_point, _each(strides, axes), mode, pads,
                                _each(dilations, axes), groups, data_format)
