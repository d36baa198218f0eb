"""Gradients of values: tapes, functions with their gradients, gradients of one's own."""

from __future__ import annotations

import contextlib
import functools
import typing

from . import _troupe
from ._core import P, Tensor, TensorLike, Variable, flatten, pack

__all__ = ["GradientTape", "custom_gradient", "stop_gradient", "value_and_grad"]


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
        """Records what depends on a tensor, a variable, or nested lists and dicts of these."""
        for x in flatten(tensor):
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
        dicts of tensors and variables. output_gradients: factors of the target's elements, in its form.
        unconnected_gradients: what sources get that the target does not depend on, "none" or "zero"."""
        if unconnected_gradients not in ("none", "zero"):
            raise ValueError(f"unconnected_gradients is 'none' or 'zero', not {unconnected_gradients!r}")
        xs = flatten(sources)
        single = not isinstance(target, (list, tuple, dict))
        factors = [] if output_gradients is None else [output_gradients] if single else flatten(output_gradients)
        found = self._tape.gradients(flatten(target), xs, factors)
        if unconnected_gradients == "zero":
            found = [_troupe.full_like(x, 0, None) if dx is None else dx for x, dx in zip(xs, found)]
        return pack(sources, iter(found))


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
