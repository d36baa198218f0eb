"""What all modules of the package share."""

from __future__ import annotations

import typing

import numpy as np

from . import _library  # loads _troupe
from . import _troupe
from ._troupe import DType, Tensor, Variable

# What functions take for a tensor: numbers take the dtype of the tensors beside them.
TensorLike = typing.Union[Tensor, Variable, np.ndarray, np.generic, float, int, bool, str, bytes, typing.Sequence]
DTypeLike = typing.Union[DType, str, type, np.dtype]
ShapeLike = typing.Union[int, typing.Sequence[int]]
Axis = typing.Union[None, int, typing.Sequence[int]]
# Parameters and result of a function that another one takes. (typing has ParamSpec from Python 3.10 on.)
if typing.TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
else:
    P = typing.TypeVar("P")
R = typing.TypeVar("R")


def data(value: TensorLike) -> _troupe.Data:
    """The value of a tensor or an array, for functions of C++; arrays are not copied."""
    return value if isinstance(value, _troupe.Data) else _troupe.data_of(value)


def array(value: _troupe.Data) -> np.ndarray:
    """An array on the memory of a value of C++."""
    return value.array()


def flatten(structure: typing.Any) -> list:
    """The leaves of nested lists, tuples and dicts, in their order; dicts by their keys.

    >>> flatten({"b": [2, 3], "a": (1,)})
    [1, 2, 3]
    """
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in flatten(item)]
    return [structure]


def pack(structure: typing.Any, leaves: typing.Iterator) -> typing.Any:
    """These leaves in the form of a structure.

    >>> pack({"b": [2, 3], "a": (1,)}, iter("xyz"))
    {'a': ('x',), 'b': ['y', 'z']}
    """
    if isinstance(structure, dict):
        return {key: pack(structure[key], leaves) for key in sorted(structure)}
    if isinstance(structure, (list, tuple)):
        items = [pack(item, leaves) for item in structure]
        if isinstance(structure, tuple) and hasattr(structure, "_fields"):
            return type(structure)(*items)
        return type(structure)(items)
    return next(leaves)
