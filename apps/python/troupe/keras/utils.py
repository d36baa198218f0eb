"""Helpers: seeds, classes as rows, and data that makes its batches one by one."""

from __future__ import annotations

import typing

import numpy as np

from .._core import TensorLike
from ._names import clear_session, set_random_seed


def to_categorical(x: TensorLike, num_classes: typing.Optional[int] = None) -> np.ndarray:
    """Classes as rows of 0 and 1.

    >>> to_categorical([0, 2]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    classes = np.asarray(x, np.int64)
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes[..., 0]
    return np.eye(num_classes or int(classes.max()) + 1, dtype=np.float32)[classes]


def normalize(x: TensorLike, axis: int = -1, order: int = 2) -> np.ndarray:
    """Vectors of length 1.

    >>> normalize([[3.0, 4.0]]).tolist()
    [[0.6, 0.8]]
    """
    array = np.asarray(x)
    norm = np.atleast_1d(np.linalg.norm(array, order, axis))
    norm[norm == 0] = 1
    return array / np.expand_dims(norm, axis)


class Sequence:
    """Data whose batches are made by number: __len__ and __getitem__(i) -> (x, y), and perhaps on_epoch_end()."""

    def __init__(self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10):
        self.workers, self.use_multiprocessing, self.max_queue_size = workers, use_multiprocessing, max_queue_size

    def __getitem__(self, index: int) -> typing.Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def on_epoch_end(self) -> None:
        pass


PyDataset = Sequence
__all__ = ["PyDataset", "Sequence", "clear_session", "normalize", "set_random_seed", "to_categorical"]
