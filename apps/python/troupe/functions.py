"""Functions that are traced: their ops become a graph once for each kind of arguments."""

from __future__ import annotations

import contextlib
import functools
import itertools
import typing
import weakref

import numpy as np

from . import _troupe
from ._core import CompositeTensor, P, R, Tensor
from ._troupe import IndexedSlices

if typing.TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    Q = ParamSpec("Q")  # of a method, without self

__all__ = ["function"]

_Plain = (int, float, complex, bool, str, bytes, type(None))
_counter = itertools.count(1)


class _Identities:
    """Numbers for objects that are no tensors: the same object has the same number, and no other one ever has it."""

    def __init__(self) -> None:
        self._known: typing.Dict[int, typing.Tuple[typing.Any, int]] = {}

    def number(self, value: typing.Any) -> int:
        found = self._known.get(id(value))
        if found is not None and (found[0]() if isinstance(found[0], weakref.ref) else found[0]) is value:
            return found[1]
        key, number = id(value), next(_counter)
        held: typing.Any = value  # kept: its id would be given to another
        with contextlib.suppress(TypeError):
            held = weakref.ref(value, lambda _: self._forget(key))
        self._known[key] = (held, number)
        return number

    def _forget(self, key: int) -> None:
        self._known.pop(key, None)


_identities = _Identities()


def _describe(value: typing.Any, tensors: list, open_rows: list) -> str:
    """Describes what a trace depends on beside the tensors. Adds these to the list, and the places of those of which it
    serves any number of rows to the other."""
    if isinstance(value, (Tensor, np.ndarray)):
        tensors.append(value)
        return "T"
    if isinstance(value, CompositeTensor):
        parts, key = value._arguments()
        open_rows.extend(range(len(tensors), len(tensors) + len(parts)))
        tensors += parts
        return key
    if isinstance(value, IndexedSlices):
        tensors += [value.values, value.indices]
        return f"IndexedSlices{value.dense_shape}"
    if isinstance(value, np.generic):
        return f"{value.dtype}:{value!r}"
    if isinstance(value, _Plain) or isinstance(value, _troupe.DType):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{_describe(value[k], tensors, open_rows)}" for k in value) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}(" + ",".join(_describe(v, tensors, open_rows) for v in value) + ")"
    return f"{type(value).__name__}#{_identities.number(value)}"


def _with_tensors(value: typing.Any, tensors: typing.Iterator) -> typing.Any:
    if isinstance(value, (Tensor, np.ndarray)):
        return next(tensors)
    if isinstance(value, CompositeTensor):
        return value._with_arguments(tensors)
    if isinstance(value, IndexedSlices):
        return IndexedSlices(next(tensors), next(tensors), value.dense_shape)
    if isinstance(value, dict):
        return {k: _with_tensors(v, tensors) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_with_tensors(v, tensors) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class _Place:
    """Where a tensor stands in a result."""


_place = _Place()


class _CompositePlace(typing.NamedTuple):
    """Where a composite tensor stands in a result."""

    kind: typing.Type[CompositeTensor]


class _SlicesPlace(typing.NamedTuple):
    """Where IndexedSlices stand in a result."""

    dense_shape: typing.Optional[typing.Tuple[int, ...]]


def _take_apart(result: typing.Any) -> typing.Tuple[list, typing.Any]:
    tensors: list = []

    def form(value: typing.Any) -> typing.Any:
        if isinstance(value, (Tensor, np.ndarray)):
            tensors.append(value)
            return _place
        if isinstance(value, CompositeTensor):
            tensors.extend(value._parts())
            return _CompositePlace(type(value))
        if isinstance(value, IndexedSlices):
            tensors.extend([value.values, value.indices])
            return _SlicesPlace(value.dense_shape)
        if isinstance(value, dict):
            return {k: form(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            items = [form(v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    shape = form(result)
    return tensors, shape


def _put_together(form: typing.Any, tensors: typing.Sequence[Tensor]) -> typing.Any:
    rest = iter(tensors)

    def fill(value: typing.Any) -> typing.Any:
        if value is _place:
            return next(rest)
        if isinstance(value, _CompositePlace):
            return value.kind._of_parts(rest)
        if isinstance(value, _SlicesPlace):
            return IndexedSlices(next(rest), next(rest), value.dense_shape)
        if isinstance(value, dict):
            return {k: fill(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            items = [fill(v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    return fill(form)


def python_function_of(function: typing.Any) -> typing.Optional[typing.Callable]:
    """What a function that is traced was made of, also where it is a method; None for other functions."""
    if isinstance(function, Function):
        return function.python_function
    if isinstance(function, functools.partial) and isinstance(function.func, _troupe.TracedFunction):
        return functools.partial(function.func.python_function, *function.args, **function.keywords)
    return None


@typing.overload
def function(fn: typing.Callable[P, R], *, reduce_retracing: bool = False, max_traces: int = 64) -> Function[P, R]: ...
@typing.overload
def function(fn: None = None, *, reduce_retracing: bool = False, max_traces: int = 64
             ) -> typing.Callable[[typing.Callable[P, R]], Function[P, R]]: ...
def function(fn: typing.Optional[typing.Callable] = None, *, reduce_retracing: bool = False, max_traces: int = 64
             ) -> typing.Any:
    """Decorates a function whose ops are to run as one step of a graph. It is traced, that is called as Python, once
    for each kind of arguments: dtypes and shapes of tensors and arrays; values of numbers, strings and the like; other
    objects, such as `self` or a variable, themselves.

    While it is traced its tensors have no values: Python's `if` and `for` decide by shapes and numbers, troupe.cond and
    troupe.while_loop by tensors. Each call reads and changes variables in the order of the program.

    reduce_retracing: one trace serves all sizes of tensors that have as many dimensions. max_traces: how many are kept;
    one more drops that used least recently.

    The result has `explain(*args)`, the graph and plan of a call; `traces`, how often it was traced; `python_function`.

    >>> @troupe.function
    ... def norm(x):
    ...     print("traced for", x.shape)
    ...     return troupe.sqrt(troupe.sum(x * x))
    >>> norm(troupe.tensor([3., 4.])), norm(troupe.tensor([6., 8.]))
    traced for (2,)
    (Tensor(5., dtype=float32), Tensor(10., dtype=float32))
    """
    if fn is None:
        return functools.partial(function, reduce_retracing=reduce_retracing, max_traces=max_traces)
    return Function(fn, reduce_retracing, max_traces)


class Function(typing.Generic[P, R]):
    """A function that is traced: see troupe.function."""

    def __init__(self, fn: typing.Callable[P, R], reduce_retracing: bool = False, max_traces: int = 64) -> None:
        functools.update_wrapper(self, fn)
        call: typing.Callable[..., R] = fn

        def describe_call(args: tuple, kwargs: dict) -> typing.Tuple[list, str, typing.Callable, list]:
            tensors: list = []
            open_rows: list = []
            ordered = {name: kwargs[name] for name in sorted(kwargs)}
            key = _describe((args, ordered), tensors, open_rows)

            def closure(*traced: Tensor) -> typing.Any:
                given_args, given_kwargs = _with_tensors((args, ordered), iter(traced))
                return call(*given_args, **given_kwargs)

            return tensors, key, closure, open_rows

        self._traced = _troupe.TracedFunction(fn, describe_call, _take_apart, _put_together,
                                              getattr(fn, "__qualname__", repr(fn)), reduce_retracing, max_traces)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._traced(*args, **kwargs)

    @typing.overload
    def __get__(self, instance: None, owner: typing.Any = None) -> Function[P, R]: ...
    @typing.overload
    def __get__(self: Function[Concatenate[typing.Any, Q], R], instance: object, owner: typing.Any = None
                ) -> typing.Callable[Q, R]: ...
    def __get__(self, instance: typing.Any, owner: typing.Any = None) -> typing.Any:
        return self if instance is None else functools.partial(self._traced, instance)

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """How a call with these arguments is compiled and run: its traces, and passes, devices and plan of one."""
        return self._traced.explain(*args, **kwargs)

    @property
    def traces(self) -> int:
        """How often it was traced."""
        return self._traced.traces

    @property
    def python_function(self) -> typing.Callable[P, R]:
        """What it was made of."""
        return self._traced.python_function
