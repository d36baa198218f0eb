"""MNIST from its files: mnist.npz, or the four files in IDX format, also with .gz."""

from __future__ import annotations

import os
import typing

import numpy as np

Split = typing.Tuple[np.ndarray, np.ndarray]
_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def load_data(path: typing.Union[str, "os.PathLike[str]"] = "mnist.npz") -> typing.Tuple[Split, Split]:
    """((x_train, y_train), (x_test, y_test)): images u8 [n, 28, 28], classes u8 [n]. path: mnist.npz, or a directory
    with it or with the IDX files."""
    path = os.fspath(path)
    if os.path.isdir(path):
        found = {name: os.path.join(path, name + end) for name in _IDX for end in ("", ".gz")
                 if os.path.exists(os.path.join(path, name + end))}
        if len(found) == len(_IDX):
            arrays = [_idx(found[name]) for name in _IDX]
            return (arrays[0], arrays[1]), (arrays[2], arrays[3])
        path = os.path.join(path, "mnist.npz")
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"there is no {path!r}: nothing is downloaded. Give load_data(path=...) the file mnist.npz of Keras, or a "
            f"directory with {', '.join(_IDX)}; datasets.digits.load_data() draws digits without any file")
    with np.load(path) as file:
        return (file["x_train"], file["y_train"]), (file["x_test"], file["y_test"])


def _idx(path: str) -> np.ndarray:
    from ... import _core, _troupe

    return _core.array(_troupe.keras.read_idx(path))
