"""Methods of Tensor and Variable that are functions of the package."""

from __future__ import annotations

import typing

from . import arrays, math, tensors
from ._core import Tensor, Variable


def _reshape(self: Tensor, *shape: typing.Any) -> Tensor:
    """reshape(x, shape), with the shape as one argument or several."""
    return arrays.reshape(self, shape[0] if len(shape) == 1 else shape)


def _transpose(self: Tensor, *axes: typing.Any) -> Tensor:
    """transpose(x, axes), with the axes as one argument or several."""
    if not axes:
        return arrays.transpose(self)
    return arrays.transpose(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)


def _flatten(self: Tensor) -> Tensor:
    """The elements as a vector."""
    return arrays.reshape(self, -1)


def define() -> None:
    """As in NumPy. Type checkers know them by apps/python/stub_patterns.txt."""
    for cls in (Tensor, Variable):
        for name in ("all", "any", "argmax", "argmin", "clip", "cumprod", "cumsum", "dot", "max", "mean", "min", "prod",
                     "round", "std", "sum", "trace", "var"):
            setattr(cls, name, getattr(math, name))
        for name in ("argsort", "diagonal", "repeat", "sort", "squeeze", "swapaxes", "take"):
            setattr(cls, name, getattr(arrays, name))
        setattr(cls, "astype", tensors.cast)
        setattr(cls, "flatten", _flatten)
        setattr(cls, "reshape", _reshape)
        setattr(cls, "transpose", _transpose)
