"""Branches and loops whose bodies are functions of Python. For values they run as they are written; for tensors of a
graph they become nodes, whose bodies may read tensors around them."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import Tensor, TensorLike, flatten, pack

__all__ = ["cond", "scan", "switch_case", "while_loop"]

Body = typing.Callable[..., typing.Any]


class _Remembered:
    """A function that takes and returns nested structures, for C++, which has flat lists."""

    def __init__(self, function: Body, arguments: typing.Any):
        self._function, self._arguments = function, arguments
        self.result: typing.Any = None

    def __call__(self, *leaves: Tensor) -> list:
        self.result = self._function(*pack(self._arguments, iter(leaves)))
        return flatten(self.result)


def cond(pred: TensorLike, true_fn: Body, false_fn: Body, *operands: typing.Any) -> typing.Any:
    """true_fn(*operands) if pred, a bool scalar, is true, else false_fn(*operands). Both return tensors of the same
    dtypes in the same form.

    >>> x = troupe.tensor(3.0)
    >>> troupe.cond(x > 2, lambda: x * 10, lambda: x)
    Tensor(30., dtype=float32)
    """
    branches = _Remembered(true_fn, operands), _Remembered(false_fn, operands)
    found = _troupe.cond(pred, *branches, flatten(operands))
    form = next(b.result for b in branches if b.result is not None)
    return pack(form, iter(found))


def switch_case(index: TensorLike, branches: typing.Sequence[Body], *operands: typing.Any) -> typing.Any:
    """branches[index](*operands), the last branch for any index outside.

    >>> troupe.switch_case(1, [lambda x: x, lambda x: -x], 5.0)
    Tensor(-5., dtype=float32)
    """
    remembered = [_Remembered(branch, operands) for branch in branches]
    found = _troupe.switch_case(index, remembered, flatten(operands))
    form = next(b.result for b in remembered if b.result is not None)
    return pack(form, iter(found))


def while_loop(cond: Body, body: Body, loop_vars: typing.Sequence, maximum_iterations: int = -1,
               recompute: bool = False) -> typing.Any:
    """Replaces loop_vars by body(*loop_vars) while cond(*loop_vars) is true; returns the last. Dtypes stay.
    recompute: for gradients, keep only the variables of each iteration, and compute the rest again.

    >>> troupe.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, 1.0))
    (Tensor(3, dtype=int64), Tensor(8., dtype=float32))
    """
    values = tuple(loop_vars)
    found = _troupe.while_loop(lambda *leaves: cond(*pack(values, iter(leaves))), _Remembered(body, values),
                               flatten(values), maximum_iterations, recompute)
    return pack(values, iter(found))


def scan(f: Body, init: typing.Any, xs: typing.Any, reverse: bool = False, recompute: bool = False) -> typing.Any:
    """Applies f(state, x) -> (state, y) to the rows of xs one after the other; returns the last state and all y,
    stacked. State, xs and y may be nested lists and dicts.

    >>> troupe.scan(lambda total, x: (total + x, total * x), 0.0, [1.0, 2.0, 3.0])
    (Tensor(6., dtype=float32), Tensor([0., 2., 9.], dtype=float32))
    """
    count = len(flatten(init))
    rows = xs if isinstance(xs, (tuple, dict)) or _holds_tensors(xs) else _troupe.tensor(xs)
    form: list = []

    def step(*leaves: Tensor) -> list:
        state, y = f(pack(init, iter(leaves[:count])), pack(rows, iter(leaves[count:])))
        form[:] = [y]
        return [flatten(state), flatten(y)]

    state, ys = _troupe.scan(step, flatten(init), flatten(rows), reverse, recompute)
    return pack(init, iter(state)), pack(form[0], iter(ys)) if form else None


def _holds_tensors(xs: typing.Any) -> bool:
    return isinstance(xs, list) and any(isinstance(x, Tensor) for x in xs)
