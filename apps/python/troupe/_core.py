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


class CompositeTensor:
    """A value of several tensors, one of which holds its elements: functions that are traced, loops, branches, steps
    and tapes take and return it as one."""

    @property
    def values(self) -> Tensor:
        """The elements, through which gradients flow."""
        raise NotImplementedError

    def with_values(self, values: TensorLike) -> CompositeTensor:
        """The same with other elements."""
        raise NotImplementedError

    def _parts(self) -> typing.Sequence[Tensor]:
        """All its tensors."""
        raise NotImplementedError

    @classmethod
    def _of_parts(cls, parts: typing.Iterator) -> CompositeTensor:
        """One of these parts."""
        raise NotImplementedError

    def _feeds(self, value: typing.Any) -> typing.Mapping[Tensor, TensorLike]:
        """In a graph: what a step is fed for it."""
        raise NotImplementedError

    def _arguments(self) -> typing.Tuple[typing.Sequence[Tensor], str]:
        """The tensors that a call of a traced function passes, any number of rows of each, and what else a trace
        depends on."""
        return self._parts(), type(self).__name__

    def _with_arguments(self, parts: typing.Iterator) -> CompositeTensor:
        """The value inside the trace."""
        return self._of_parts(parts)


def data(value: TensorLike) -> _troupe.Data:
    """The value of a tensor or an array, for functions of C++; arrays are not copied."""
    return value if isinstance(value, _troupe.Data) else _troupe.data_of(value)


def array(value: _troupe.Data) -> np.ndarray:
    """An array on the memory of a value of C++."""
    return value.array()


def _parts(leaf: typing.Any) -> list:
    return list(leaf._parts()) if isinstance(leaf, CompositeTensor) else [leaf]


def _with_parts(leaf: typing.Any, leaves: typing.Iterator) -> typing.Any:
    return leaf._of_parts(leaves) if isinstance(leaf, CompositeTensor) else next(leaves)


def flatten(structure: typing.Any, parts: typing.Callable[[typing.Any], list] = _parts) -> list:
    """The leaves of nested lists, tuples and dicts, in their order; dicts by their keys. Of a composite tensor its
    parts.

    >>> flatten({"b": [2, 3], "a": (1,)})
    [1, 2, 3]
    """
    if isinstance(structure, Tensor):
        return [structure]
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in flatten(structure[key], parts)]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in flatten(item, parts)]
    return parts(structure)


def pack(structure: typing.Any, leaves: typing.Iterator,
         with_parts: typing.Callable[[typing.Any, typing.Iterator], typing.Any] = _with_parts) -> typing.Any:
    """These leaves in the form of a structure.

    >>> pack({"b": [2, 3], "a": (1,)}, iter("xyz"))
    {'a': ('x',), 'b': ['y', 'z']}
    """
    if isinstance(structure, Tensor):
        return next(leaves)
    if isinstance(structure, dict):
        return {key: pack(structure[key], leaves, with_parts) for key in sorted(structure)}
    if isinstance(structure, (list, tuple)):
        items = [pack(item, leaves, with_parts) for item in structure]
        if isinstance(structure, tuple) and hasattr(structure, "_fields"):
            return type(structure)(*items)
        return type(structure)(items)
    return with_parts(structure, leaves)


def _with_values(leaf: typing.Any, leaves: typing.Iterator) -> typing.Any:
    found = next(leaves)
    return leaf.with_values(found) if isinstance(leaf, CompositeTensor) and found is not None else found


def _values(leaf: typing.Any) -> list:
    return [leaf.values if isinstance(leaf, CompositeTensor) else leaf]


def flatten_values(structure: typing.Any) -> list:
    """flatten(), where the leaf of a composite tensor is its values: for gradients."""
    return flatten(structure, _values)


def pack_values(structure: typing.Any, leaves: typing.Iterator) -> typing.Any:
    """pack() of what is in the order of flatten_values(): a leaf None stays None."""
    return pack(structure, leaves, _with_values)
