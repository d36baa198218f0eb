"""Digits that are drawn: in the form of MNIST, without any file."""

from __future__ import annotations

import typing

import numpy as np

Split = typing.Tuple[np.ndarray, np.ndarray]


def load_data(train: int = 12000, test: int = 2000, seed: int = 1) -> typing.Tuple[Split, Split]:
    """((x_train, y_train), (x_test, y_test)): images u8 [n, 28, 28], classes i32 [n].

    >>> (x, y), _ = load_data(20, 10)
    >>> x.shape, x.dtype.name, y.shape
    ((20, 28, 28), 'uint8', (20,))
    """
    from ... import _core, _troupe

    found = [_core.array(t) for t in _troupe.keras.draw_digits(train, test, seed)]
    return (found[0].reshape(-1, 28, 28), found[1]), (found[2].reshape(-1, 28, 28), found[3])
