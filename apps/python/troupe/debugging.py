"""Checks and messages that run with the ops, also in graphs and functions that are traced."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import Tensor, TensorLike

__all__ = ["assert_true", "check_numerics", "print"]


def check_numerics(x: TensorLike, message: str = "") -> Tensor:
    """x itself; InvalidArgumentError with the message if an element is NaN or infinite. So does its gradient.

    >>> troupe.debugging.check_numerics([1., 2.])
    Tensor([1., 2.], dtype=float32)
    """
    return _troupe.check_numerics(x, message)


def assert_true(condition: TensorLike, data: typing.Sequence[TensorLike] = (), message: str = "", summarize: int = 8
                ) -> typing.Optional[Tensor]:
    """FailedPreconditionError with the message and the data unless all elements are true. Of a graph: a target for
    Session.run. summarize: the elements that are shown of each tensor.

    >>> troupe.debugging.assert_true(troupe.tensor([1, 2]) > 0)
    """
    return _troupe.assert_true(condition, list(data), message, summarize)


def print(x: TensorLike, data: typing.Sequence[TensorLike] = (), message: str = "", summarize: int = 8) -> Tensor:
    """x itself; a line with the message and the data, by default x, goes to stderr each time it is computed.

    >>> troupe.debugging.print([1, 2], message="x is")
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.print_values(x, list(data), message, summarize)
