"""Gradients of values: tapes, functions with their gradients, gradients of one's own."""

from __future__ import annotations

import contextlib
import functools
import typing

import numpy as np

from . import _troupe
from ._core import Axis, P, Tensor, TensorLike, Variable, flatten, flatten_values, pack, pack_values
from ._troupe import IndexedSlices

__all__ = [
    "GradientTape", "IndexedSlices", "clip_by_global_norm", "clip_by_norm", "custom_gradient", "global_norm",
    "stop_gradient", "value_and_grad",
]


class GradientTape:
    """Records the ops of its thread that depend on variables and on what it watches, for their gradients.

    >>> x = troupe.tensor([1., 2.])
    >>> with troupe.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = troupe.sum(x * x)
    >>> tape.gradient(y, x)
    Tensor([2., 4.], dtype=float32)

    Tapes may be nested, which gives gradients of gradients; each must end before those around it, and on its thread.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True):
        """persistent: gradient() may be called more than once. watch_accessed_variables: trainable variables that are
        read are watched."""
        self._tape = _troupe.Tape(persistent, watch_accessed_variables)

    def __enter__(self) -> GradientTape:
        self._tape.enter()
        return self

    def __exit__(self, *_: typing.Any) -> None:
        self._tape.exit()

    def watch(self, tensor: typing.Any) -> None:
        """Records what depends on a tensor, a variable, or nested lists and dicts of these; of a sparse tensor its
        values."""
        for x in flatten_values(tensor):
            self._tape.watch(x)

    @contextlib.contextmanager
    def stop_recording(self) -> typing.Iterator[None]:
        """What runs inside is not recorded."""
        self._tape.pause()
        try:
            yield
        finally:
            self._tape.resume()

    def gradient(self, target: typing.Any, sources: typing.Any, output_gradients: typing.Any = None,
                 unconnected_gradients: str = "none") -> typing.Any:
        """The gradient of the sum of the target's elements for each source, in the form of `sources`: nested lists and
        dicts of tensors and variables; that for a sparse tensor is one with the gradients of its values.
        output_gradients: factors of the target's elements, in its form.
        unconnected_gradients: what sources get that the target does not depend on, "none" or "zero".

        Of a variable that only gather(), take() or an index of rows has read it is an IndexedSlices, as in TensorFlow:
        it takes the memory and time of the rows. Optimizers take it as it is.

        >>> table = troupe.Variable(troupe.zeros((1000, 2)))
        >>> with troupe.GradientTape() as tape:
        ...     y = troupe.sum(troupe.gather(table, [3, 7]))
        >>> tape.gradient(y, table)
        IndexedSlices(values=[[1., 1.], [1., 1.]], indices=[3, 7], dense_shape=(1000, 2))
        """
        if unconnected_gradients not in ("none", "zero"):
            raise ValueError(f"unconnected_gradients is 'none' or 'zero', not {unconnected_gradients!r}")
        xs = flatten_values(sources)
        single = not isinstance(target, (list, tuple, dict))
        factors = [] if output_gradients is None else [output_gradients] if single else flatten(output_gradients)
        found = self._tape.gradients(flatten_values(target), xs, factors)
        if unconnected_gradients == "zero":
            found = [_troupe.full_like(x, 0, None) if dx is None else dx for x, dx in zip(xs, found)]
        return pack_values(sources, iter(found))


# ---- Gradients of rows: what is Python of the class IndexedSlices
IndexedSlices.__doc__ = """Rows of a tensor of `dense_shape` whose others are zeros: `values` [n, ...] at `indices` [n].
Rows that are there several times are summed. Functions that take tensors take it as its to_tensor(); what numbers
multiply stays sparse.

>>> slices = troupe.IndexedSlices([[1., 2.], [3., 4.]], [0, 2], dense_shape=(3, 2))
>>> slices.to_tensor()
Tensor([[1., 2.],
        [0., 0.],
        [3., 4.]], dtype=float32)
>>> (slices * 2).values
Tensor([[2., 4.],
        [6., 8.]], dtype=float32)
"""


def _changed(gradient: typing.Any, change: typing.Callable[[typing.Any], Tensor]) -> typing.Any:
    """A gradient whose values are changed."""
    if not isinstance(gradient, IndexedSlices):
        return change(gradient)
    return IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)


def _is_scalar(x: typing.Any) -> bool:
    return isinstance(x, (int, float, np.generic)) or (isinstance(x, Tensor) and x.ndim == 0)


def _times(self: IndexedSlices, factor: typing.Any) -> typing.Any:
    return _changed(self, lambda v: v * factor) if _is_scalar(factor) else self.to_tensor() * factor


def _divided(self: IndexedSlices, by: typing.Any) -> typing.Any:
    return _changed(self, lambda v: v / by) if _is_scalar(by) else self.to_tensor() / by


def _plus(self: IndexedSlices, other: typing.Any) -> typing.Any:
    if not isinstance(other, IndexedSlices):
        return self.to_tensor() + other
    if self.dense_shape != other.dense_shape:
        raise ValueError(f"IndexedSlices of shapes {self.dense_shape} and {other.dense_shape} have no sum")
    return IndexedSlices(_troupe.concatenate([self.values, other.values], 0),
                         _troupe.concatenate([self.indices, other.indices], 0), self.dense_shape)


def _slices_text(self: IndexedSlices) -> str:
    parts = [np.array2string(x.numpy(), separator=", ").replace("\n", "") if x.is_eager else repr(x)
             for x in (self.values, self.indices)]
    return f"IndexedSlices(values={parts[0]}, indices={parts[1]}, dense_shape={self.dense_shape})"


def _slices_array(self: IndexedSlices, dtype: typing.Any = None, copy: typing.Optional[bool] = None) -> np.ndarray:
    return self.to_tensor().__array__(dtype, copy)


for _name, _method in {
    "__mul__": _times, "__rmul__": _times, "__truediv__": _divided, "__add__": _plus, "__radd__": _plus,
    "__sub__": lambda self, other: self.to_tensor() - other, "__rsub__": lambda self, other: other - self.to_tensor(),
    "__neg__": lambda self: _changed(self, lambda v: -v), "__repr__": _slices_text, "__array__": _slices_array,
    "__array_priority__": 1000, "numpy": lambda self: self.to_tensor().numpy(),
    "shape": property(lambda self: self.dense_shape, doc="Of the whole tensor."),
}.items():
    setattr(IndexedSlices, _name, _method)


def _norm(gradient: typing.Any) -> Tensor:
    return _troupe.l2_norm(gradient.values if isinstance(gradient, IndexedSlices) else gradient, None, False)


def _scale(norm: Tensor, limit: TensorLike) -> Tensor:
    return limit / _troupe.maximum(norm, limit)


def global_norm(gradients: typing.Sequence[typing.Any]) -> Tensor:
    """The square root of the sum of all squares, float32; of IndexedSlices those of `values`, as in TensorFlow. Nones
    are left out.

    >>> troupe.global_norm([troupe.tensor([3.0]), None, troupe.tensor([[0.0, 4.0]])])
    Tensor(5., dtype=float32)
    """
    norms = [_troupe.cast(_norm(g), "float32") for g in gradients if g is not None]
    if not norms:
        raise ValueError("global_norm: there is no gradient")
    return _troupe.l2_norm(_troupe.stack(norms, 0), None, False)


def clip_by_norm(gradient: typing.Any, clip_norm: TensorLike, axes: Axis = None) -> typing.Any:
    """A gradient, multiplied by clip_norm / norm if its norm is larger; IndexedSlices stay such. axes: of the norm, by
    default all.

    >>> troupe.clip_by_norm(troupe.tensor([3.0, 4.0]), 1.0)
    Tensor([0.6, 0.8], dtype=float32)
    """
    if axes is not None:
        return _troupe.clip_by_norm(gradient, _troupe.tensor(clip_norm).item(), axes)
    scale = _scale(_norm(gradient), clip_norm)
    return _changed(gradient, lambda v: v * scale)


def clip_by_global_norm(gradients: typing.Sequence[typing.Any], clip_norm: TensorLike,
                        use_norm: typing.Optional[TensorLike] = None) -> typing.Tuple[list, Tensor]:
    """The gradients, multiplied by clip_norm / norm if their global_norm() is larger, and that norm. Nones stay.

    >>> troupe.clip_by_global_norm([troupe.tensor([3.0]), troupe.tensor([4.0])], 1.0)
    ([Tensor([0.6], dtype=float32), Tensor([0.8], dtype=float32)], Tensor(5., dtype=float32))
    """
    norm = global_norm(gradients) if use_norm is None else _troupe.tensor(use_norm)
    scale = _scale(norm, clip_norm)
    clipped = [g if g is None else _changed(g, lambda v: v * _troupe.cast(scale, _troupe.tensor(v).dtype))
               for g in gradients]
    return clipped, norm


def value_and_grad(function: typing.Callable[P, Tensor], argnums: typing.Union[int, typing.Sequence[int]] = 0
                   ) -> typing.Callable[P, typing.Tuple[Tensor, typing.Any]]:
    """A function that returns the value of another, a scalar, and its gradients for one argument or several, which may
    be nested lists and dicts.

    >>> troupe.value_and_grad(lambda x: troupe.sum(x**2))(troupe.tensor([1., 2.]))
    (Tensor(5., dtype=float32), Tensor([2., 4.], dtype=float32))
    """
    call: typing.Callable[..., Tensor] = function

    @functools.wraps(function)
    def both(*args: typing.Any, **kwargs: typing.Any) -> typing.Tuple[Tensor, typing.Any]:
        places = [argnums] if isinstance(argnums, int) else list(argnums)
        values: typing.List[typing.Any] = list(args)
        for place in places:
            leaves = [x if isinstance(x, (Tensor, Variable)) else _troupe.tensor(x) for x in flatten(args[place])]
            values[place] = pack(args[place], iter(leaves))
        sources = [values[place] for place in places]
        with GradientTape() as tape:
            tape.watch(sources)
            value = call(*values, **kwargs)
        found = tape.gradient(value, sources)
        return value, found[0] if isinstance(argnums, int) else tuple(found)

    return both


def custom_gradient(function: typing.Callable[..., typing.Tuple[typing.Any, typing.Callable]]) -> typing.Callable:
    """Decorates a function that returns its result and a function of gradients: from those of its results to those of
    its arguments.

    >>> @troupe.custom_gradient
    ... def clipped(x):
    ...     return x, lambda dy: troupe.clip(dy, -1, 1)
    >>> troupe.value_and_grad(lambda x: clipped(x) * 10)(3.0)[1]
    Tensor(1., dtype=float32)
    """

    @functools.wraps(function)
    def run(*args: TensorLike) -> typing.Any:
        single: typing.List[bool] = []

        def both(*xs: Tensor) -> typing.List:
            result, grad = function(*xs)
            single.append(not isinstance(result, (list, tuple)))
            return [result, grad]

        found = _troupe.custom_gradient(both, list(args))
        return found[0] if single[-1] else found

    return run


def stop_gradient(x: TensorLike) -> Tensor:
    """x, through which no gradient flows.

    >>> troupe.value_and_grad(lambda x: x * troupe.stop_gradient(x))(3.0)[1]
    Tensor(3., dtype=float32)
    """
    return _troupe.stop_gradient(x)
