"""Tensors: how they are made, printed and indexed."""

from __future__ import annotations

import builtins
import typing

import numpy as np

from . import _troupe
from ._core import DTypeLike, ShapeLike, Tensor, TensorLike, Variable

__all__ = [
    "arange", "cast", "constant", "eye", "from_dlpack", "full", "full_like", "linspace", "ones", "ones_like", "tensor",
    "zeros", "zeros_like",
]


def tensor(value: TensorLike, dtype: typing.Optional[DTypeLike] = None) -> Tensor:
    """A tensor of a number, an array, or nested lists of numbers.

    Floats of Python become float32, integers int64; arrays keep their dtype and are not copied: do not change an array
    after it has become a tensor.

    >>> troupe.tensor([[1.5, 2], [3, 4]])
    Tensor([[1.5, 2. ],
            [3. , 4. ]], dtype=float32)
    >>> troupe.tensor(np.arange(3), dtype="bfloat16")
    Tensor([0, 1, 2], dtype=bfloat16)
    """
    return _troupe.tensor(value, dtype)


constant = tensor


def from_dlpack(x: typing.Any) -> Tensor:
    """A tensor on the memory of any array that has the method `__dlpack__`: of NumPy, PyTorch, JAX, ...

    >>> troupe.from_dlpack(np.ones(2))
    Tensor([1., 1.], dtype=float64)
    """
    return _troupe.from_dlpack(x)


def zeros(shape: ShapeLike, dtype: DTypeLike = "float32") -> Tensor:
    """Zeros.

    >>> troupe.zeros((2, 3))
    Tensor([[0., 0., 0.],
            [0., 0., 0.]], dtype=float32)
    """
    return _troupe.full(shape, 0, dtype)


def ones(shape: ShapeLike, dtype: DTypeLike = "float32") -> Tensor:
    """Ones.

    >>> troupe.ones(2, "int32")
    Tensor([1, 1], dtype=int32)
    """
    return _troupe.full(shape, 1, dtype)


def full(shape: ShapeLike, fill_value: TensorLike, dtype: typing.Optional[DTypeLike] = None) -> Tensor:
    """One value everywhere.

    >>> troupe.full((2, 2), 7.5)
    Tensor([[7.5, 7.5],
            [7.5, 7.5]], dtype=float32)
    """
    return _troupe.full(shape, fill_value, dtype)


def zeros_like(x: TensorLike, dtype: typing.Optional[DTypeLike] = None) -> Tensor:
    """Zeros of the shape and dtype of x.

    >>> troupe.zeros_like([1, 2])
    Tensor([0, 0], dtype=int64)
    """
    return _troupe.full_like(x, 0, dtype)


def ones_like(x: TensorLike, dtype: typing.Optional[DTypeLike] = None) -> Tensor:
    """Ones of the shape and dtype of x.

    >>> troupe.ones_like([1.5, 2.5])
    Tensor([1., 1.], dtype=float32)
    """
    return _troupe.full_like(x, 1, dtype)


def full_like(x: TensorLike, fill_value: float, dtype: typing.Optional[DTypeLike] = None) -> Tensor:
    """One number everywhere, in the shape and dtype of x.

    >>> troupe.full_like([1.5, 2.5], 3)
    Tensor([3., 3.], dtype=float32)
    """
    return _troupe.full_like(x, fill_value, dtype)


def arange(start: float, stop: typing.Optional[float] = None, step: float = 1,
           dtype: typing.Optional[DTypeLike] = None) -> Tensor:
    """Numbers from start to stop, which is left out; from 0 if there is one argument.

    >>> troupe.arange(4)
    Tensor([0, 1, 2, 3], dtype=int64)
    >>> troupe.arange(0.0, 1, 0.25)
    Tensor([0.  , 0.25, 0.5 , 0.75], dtype=float32)
    """
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = "float32" if any(isinstance(x, float) for x in (start, stop, step)) else "int64"
    return _troupe.tensor(np.arange(start, stop, step), dtype)


def linspace(start: float, stop: float, num: int = 50, dtype: DTypeLike = "float32") -> Tensor:
    """Numbers at equal distances from start to stop, both included.

    >>> troupe.linspace(0, 1, 5)
    Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    return _troupe.linspace(start, stop, num, dtype)


def eye(n: int, m: typing.Optional[int] = None, k: int = 0, dtype: DTypeLike = "float32") -> Tensor:
    """The matrix [n, m] with ones on diagonal k.

    >>> troupe.eye(2)
    Tensor([[1., 0.],
            [0., 1.]], dtype=float32)
    """
    return _troupe.eye(n, n if m is None else m, k, dtype)


def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """x in another dtype. Floats become integers by cutting off, integers out of range wrap.

    >>> troupe.cast([1.7, -1.7], "int32")
    Tensor([ 1, -1], dtype=int32)
    """
    return _troupe.cast(x, dtype)


# ---- What is Python of the classes Tensor and Variable


def _text(self: Tensor) -> str:
    if self.has_ended:
        return "Tensor(of a graph that has ended)"
    if not self.is_eager:
        return f'Tensor("{self.name}", shape={self.shape}, dtype={self.dtype})'
    values = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
    shape = "" if self.size else f", shape={self.shape}"
    return f"Tensor({values}{shape}, dtype={self.dtype})"


def _plain_text(self: Tensor) -> str:
    return str(self.numpy()) if self.is_eager else _text(self)


def _variable_text(self: Variable) -> str:
    values = np.array2string(self.numpy(), separator=", ", prefix="Variable(")
    name = f", name={self.name!r}" if self.name != "variable" else ""
    return f"Variable({values}, dtype={self.dtype}{name})"


def _array(self: typing.Any, dtype: typing.Any = None, copy: typing.Optional[bool] = None) -> np.ndarray:
    """For numpy.asarray() and functions of NumPy."""
    found = self.numpy()
    if dtype is not None and np.dtype(dtype) != found.dtype:
        if copy is False:
            raise ValueError(f"a tensor of {self.dtype} is no array of {np.dtype(dtype)} without a copy")
        return found.astype(dtype)
    return found.copy() if copy else found


def _tolist(self: typing.Any) -> typing.Any:
    """Nested lists of numbers.

    >>> troupe.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return self.numpy().tolist()


def _iterate(self: Tensor) -> typing.Iterator[Tensor]:
    return (self[i] for i in builtins.range(len(self)))


def _mask_and_list(index: tuple) -> tuple:
    """Lists and arrays of an index as tensors of integers or bools."""
    return tuple(
        i if i is None or i is Ellipsis or isinstance(i, (int, slice, Tensor)) and not isinstance(i, bool)
        else _troupe.tensor(np.asarray(i, np.int64) if isinstance(i, (list, tuple)) and not len(i) else i)
        for i in index
    )


def _is_mask(entry: typing.Any) -> bool:
    return isinstance(entry, Tensor) and entry.dtype == "bool"


def _item(self: typing.Any, index: typing.Any) -> Tensor:
    """x[index], as NumPy's: integers, slices, ..., None, and tensors or arrays of integers or bools."""
    found = _troupe.basic_item(self, index)
    if found is not None:
        return found
    x = self.read() if isinstance(self, Variable) else self
    entries = _mask_and_list(index if isinstance(index, tuple) else (index,))
    if len(entries) == 1 and _is_mask(entries[0]) and entries[0].ndim == x.ndim and x.ndim > 0:
        return _troupe.boolean_mask(x, entries[0], 0)
    return _advanced_item(x, entries)


def _advanced_item(x: Tensor, entries: tuple) -> Tensor:
    # First all that slices do, with whole dimensions where there are tensors; then these.
    used = sum(e.ndim if _is_mask(e) else 1 for e in entries if e is not None and e is not Ellipsis)
    if used > x.ndim:
        raise IndexError(f"{used} indices are too many for a tensor of {x.ndim} dimensions")
    if not any(e is Ellipsis for e in entries):
        entries += (Ellipsis,)
    basic: list = []
    advanced: typing.List[typing.Tuple[int, Tensor]] = []  # by the dimension after the slices
    positions: typing.List[int] = []  # of these in the index
    dimension = source = 0
    for position, entry in enumerate(entries):
        if entry is Ellipsis:
            count = x.ndim - used
            basic += [slice(None)] * count
            dimension += count
            source += count
        elif entry is None:
            basic.append(None)
            dimension += 1
        elif isinstance(entry, slice):
            basic.append(entry)
            dimension += 1
            source += 1
        else:
            parts = [entry]
            if _is_mask(entry):
                wanted = x.shape[source:source + entry.ndim]
                if entry.shape != wanted:
                    raise IndexError(f"a mask of shape {entry.shape} does not fit dimensions {wanted} of the tensor")
                if entry.ndim == 0:
                    basic.append(None)
                    parts = [_troupe.tensor(np.zeros(int(bool(entry)), np.int64))]
                else:
                    found = _troupe.argwhere(entry)
                    parts = list(_troupe.unstack(found, 1))
                    basic += [slice(None)] * entry.ndim
                source += entry.ndim
            else:
                if isinstance(entry, Tensor) and not entry.dtype.is_integer:
                    raise IndexError(f"an index must be of integers or bools, not of {entry.dtype}")
                basic.append(slice(None))
                source += 1
            for part in parts:
                advanced.append((dimension, _troupe.tensor(part)))
                positions.append(position)
                dimension += 1
    whole = all(entry == slice(None) for entry in basic)  # then gradients of a variable stay those of rows
    sliced = x if whole else _troupe.basic_item(x, tuple(basic))
    _check_bounds(sliced, advanced)
    dims = [d for d, _ in advanced]
    if len(advanced) == 1:
        return _troupe.gather(sliced, advanced[0][1], dims[0], 0)
    try:
        shape = np.broadcast_shapes(*(i.shape for _, i in advanced))
    except ValueError:
        shapes = ", ".join(str(i.shape) for _, i in advanced)
        raise IndexError(f"indices of shapes {shapes} cannot be broadcast together") from None
    indices = _troupe.stack([_troupe.broadcast_to(i, shape) for _, i in advanced], -1)
    rest = [d for d in builtins.range(sliced.ndim) if d not in dims]
    found = _troupe.gather_nd(_troupe.transpose(sliced, dims + rest), indices, 0)
    # Tensors beside each other leave their dimensions where they were; others put them in front.
    if positions[-1] - positions[0] != len(set(positions)) - 1 or dims[0] == 0:
        return found
    before = [len(shape) + i for i in builtins.range(dims[0])]
    after = [len(shape) + i for i in builtins.range(dims[0], len(rest))]
    return _troupe.transpose(found, before + list(builtins.range(len(shape))) + after)


def _check_bounds(x: Tensor, advanced: list) -> None:
    for dimension, index in advanced:
        if not (x.is_eager and index.is_eager) or not index.size:
            continue
        size, values = x.shape[dimension], index.numpy()
        low, high = values.min(), values.max()
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexError(f"index {wrong} is out of range for dimension {dimension} of size {size}")


def _define_methods() -> None:
    for cls in (Tensor, Variable):
        setattr(cls, "__array__", _array)
        setattr(cls, "__getitem__", _item)
        setattr(cls, "__iter__", _iterate)
        setattr(cls, "tolist", _tolist)
    setattr(Tensor, "T", property(lambda self: _troupe.transpose(self, None), doc="Dimensions in reverse order."))
    setattr(Tensor, "__repr__", _text)
    setattr(Tensor, "__str__", _plain_text)
    setattr(Variable, "__repr__", _variable_text)
    setattr(Variable, "numpy", lambda self: self.read().numpy())
    setattr(Variable, "item", lambda self: self.read().item())


_define_methods()
