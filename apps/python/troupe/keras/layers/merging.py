"""Layers that join several inputs."""

from __future__ import annotations

import typing

from ...nn import Integers
from .base import NativeLayer


class _Join(NativeLayer):
    _supports_masking = True
    _kind = ""

    def _configured(self, key: str) -> tuple:
        return self._kind, {}


class Add(_Join):
    """The sum of two or more inputs, whose shapes broadcast from the right.

    >>> from troupe.keras import Input
    >>> Add()([Input((3,)), Input((3,))]).shape
    (None, 3)
    """

    _kind = "add"


class Subtract(_Join):
    """The difference of two inputs."""

    _kind = "subtract"


class Multiply(_Join):
    """The product of the inputs."""

    _kind = "multiply"


class Average(_Join):
    """The mean of the inputs."""

    _kind = "average"


class Maximum(_Join):
    """The greatest of the inputs, element by element."""

    _kind = "maximum"


class Minimum(_Join):
    """The least of the inputs, element by element."""

    _kind = "minimum"


class Concatenate(_Join):
    """The inputs one after the other along an axis of the tensors, which counts the batch."""

    def __init__(self, axis: int = -1, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.axis = int(axis)

    def _configured(self, key: str) -> tuple:
        return "concatenate", {"axis": self.axis}


class Dot(NativeLayer):
    """Sums of products of two inputs along an axis of each; of vectors of length 1 first, if normalize."""

    def __init__(self, axes: Integers, normalize: bool = False, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.axes = (axes, axes) if isinstance(axes, int) else tuple(axes)
        self.normalize = bool(normalize)

    def _configured(self, key: str) -> tuple:
        return "dot", {"axis_a": int(self.axes[0]), "axis_b": int(self.axes[1]), "normalize": self.normalize}


def add(inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """The sum of the inputs, a list of tensors.

    >>> from troupe.keras import Input
    >>> add([Input((3,)), Input((3,))]).shape
    (None, 3)
    """
    return Add(**kwargs)(inputs)


def subtract(inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """The first of two inputs less the second."""
    return Subtract(**kwargs)(inputs)


def multiply(inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """The product of the inputs."""
    return Multiply(**kwargs)(inputs)


def average(inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """The mean of the inputs."""
    return Average(**kwargs)(inputs)


def maximum(inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """The greatest of the inputs, element by element."""
    return Maximum(**kwargs)(inputs)


def minimum(inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """The least of the inputs, element by element."""
    return Minimum(**kwargs)(inputs)


def concatenate(inputs: typing.Any, axis: int = -1, **kwargs: typing.Any) -> typing.Any:
    """The inputs one after the other along an axis."""
    return Concatenate(axis, **kwargs)(inputs)


def dot(inputs: typing.Any, axes: Integers, **kwargs: typing.Any) -> typing.Any:
    """Sums of products of two inputs along an axis of each."""
    return Dot(axes, **kwargs)(inputs)
