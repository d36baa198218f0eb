"""Random tensors. Each call draws other numbers; troupe.set_seed() begins the sequence again."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import DTypeLike, ShapeLike, Tensor, TensorLike

__all__ = [
    "bernoulli", "categorical", "exponential", "gamma", "integers", "normal", "permutation", "poisson", "shuffle",
    "truncated_normal", "uniform",
]


def uniform(shape: ShapeLike, low: float = 0.0, high: float = 1.0, dtype: DTypeLike = "float32", seed: int = 0
            ) -> Tensor:
    """Numbers from low to high, which is left out, each with the same probability.

    >>> troupe.random.uniform((2, 3)).shape
    (2, 3)
    """
    return _troupe.random_uniform(shape, low, high, dtype, seed)


def normal(shape: ShapeLike, mean: float = 0.0, stddev: float = 1.0, dtype: DTypeLike = "float32", seed: int = 0
           ) -> Tensor:
    """Normally distributed numbers.

    >>> troupe.set_seed(7)
    >>> first = troupe.random.normal(3)
    >>> troupe.set_seed(7)
    >>> bool(troupe.all(first == troupe.random.normal(3)))
    True
    """
    return _troupe.random_normal(shape, mean, stddev, dtype, seed)


def truncated_normal(shape: ShapeLike, mean: float = 0.0, stddev: float = 1.0, dtype: DTypeLike = "float32",
                     seed: int = 0) -> Tensor:
    """Normally distributed numbers within two standard deviations of the mean.

    >>> bool(troupe.all(abs(troupe.random.truncated_normal(100)) <= 2))
    True
    """
    return _troupe.random_truncated_normal(shape, mean, stddev, dtype, seed)


def exponential(shape: ShapeLike, rate: float = 1.0, dtype: DTypeLike = "float32", seed: int = 0) -> Tensor:
    """Numbers x >= 0 of density rate exp(-rate x).

    >>> bool(troupe.all(troupe.random.exponential(100) >= 0))
    True
    """
    return _troupe.random_exponential(shape, rate, dtype, seed)


def integers(low: int, high: typing.Optional[int] = None, shape: ShapeLike = (), dtype: DTypeLike = "int64",
             seed: int = 0) -> Tensor:
    """Integers from low to high, which is left out, each with the same probability; from 0 if there is one limit.

    >>> bool(troupe.all(troupe.random.integers(1, 7, shape=100) < 7))
    True
    """
    if high is None:
        low, high = 0, low
    return _troupe.random_integers(shape, low, high, dtype, seed)


def bernoulli(p: TensorLike, seed: int = 0) -> Tensor:
    """1 with the probability of the element at its place, else 0.

    >>> troupe.random.bernoulli([0.0, 1.0])
    Tensor([0., 1.], dtype=float32)
    """
    return _troupe.random_bernoulli(p, seed)


def gamma(alpha: TensorLike, seed: int = 0) -> Tensor:
    """Of the gamma distribution with the shape alpha, each, and scale 1.

    >>> troupe.random.gamma([2.0, 3.0]).shape
    (2,)
    """
    return _troupe.random_gamma(alpha, seed)


def poisson(rate: TensorLike, seed: int = 0) -> Tensor:
    """Of the Poisson distribution with each rate.

    >>> troupe.random.poisson([2.0, 3.0]).shape
    (2,)
    """
    return _troupe.random_poisson(rate, seed)


def categorical(logits: TensorLike, num_samples: int, seed: int = 0) -> Tensor:
    """Classes of each row of logits [n, classes], with the probabilities of its softmax: int64 [n, num_samples].

    >>> troupe.random.categorical([[0.0, 1000.0]], 3)
    Tensor([[1, 1, 1]], dtype=int64)
    """
    return _troupe.random_categorical(logits, num_samples, seed)


def permutation(n: int, seed: int = 0) -> Tensor:
    """0, 1, ..., n - 1 in random order.

    >>> troupe.sort(troupe.random.permutation(4))
    Tensor([0, 1, 2, 3], dtype=int64)
    """
    return _troupe.random_permutation(n, seed)


def shuffle(x: TensorLike, seed: int = 0) -> Tensor:
    """The rows of x in random order.

    >>> troupe.random.shuffle([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    return _troupe.random_shuffle(x, seed)
