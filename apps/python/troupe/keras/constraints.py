"""Bounds of weights, kept after each update.

    >>> MaxNorm(3, axis=[0, 1, 2])
    MaxNorm(max_value=3, axis=[0, 1, 2])
"""

from __future__ import annotations

import typing

from ..nn import Integers
from . import _parts


class Constraint(_parts.Part):
    """Base class; those of your own cannot be used."""

    def _native(self) -> dict:
        raise ValueError(f"{type(self).__name__} is a constraint of your own: use MaxNorm, MinMaxNorm, UnitNorm or "
                         "NonNeg")

    def _axes(self, axis: Integers) -> list:
        return [int(axis)] if isinstance(axis, int) else [int(a) for a in axis]


ConstraintLike = typing.Union[None, str, dict, Constraint, typing.Type[Constraint]]


class MaxNorm(Constraint):
    def __init__(self, max_value: float = 2, axis: Integers = 0):
        self.max_value, self.axis = max_value, axis

    def _native(self) -> dict:
        return {"kind": "max_norm", "high": float(self.max_value), "axes": self._axes(self.axis)}


class MinMaxNorm(Constraint):
    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Integers = 0):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def _native(self) -> dict:
        return {"kind": "min_max_norm", "low": float(self.min_value), "high": float(self.max_value),
                "rate": float(self.rate), "axes": self._axes(self.axis)}


class UnitNorm(Constraint):
    def __init__(self, axis: Integers = 0):
        self.axis = axis

    def _native(self) -> dict:
        return {"kind": "unit_norm", "axes": self._axes(self.axis)}


class NonNeg(Constraint):
    def _native(self) -> dict:
        return {"kind": "non_negative"}


_CLASSES = {"MaxNorm": MaxNorm, "MinMaxNorm": MinMaxNorm, "UnitNorm": UnitNorm, "NonNeg": NonNeg}
_NAMES = {"max_norm": "MaxNorm", "min_max_norm": "MinMaxNorm", "unit_norm": "UnitNorm", "non_neg": "NonNeg"}


def get(identifier: ConstraintLike) -> typing.Optional[Constraint]:
    """The constraint of a name or a configuration.

    >>> get("non_neg")
    NonNeg()
    """
    return _parts.lookup("constraint", identifier, _CLASSES, _NAMES)
