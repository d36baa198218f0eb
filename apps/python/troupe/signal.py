"""Functions of signals: short-time spectra, windows. Complex numbers are a last dimension of size 2, (real, imaginary),
as in ONNX; real ones may have size 1 there."""

from __future__ import annotations

import typing

from . import _troupe
from ._core import DTypeLike, Tensor, TensorLike

__all__ = ["blackman_window", "dft", "hamming_window", "hann_window", "mel_weight_matrix", "stft"]


def dft(x: TensorLike, length: typing.Optional[TensorLike] = None, axis: int = -2, inverse: bool = False,
        onesided: bool = False) -> Tensor:
    """The discrete Fourier transform along an axis, of x [..., 1] or [..., 2] -> [..., 2]. length: x is cut or padded
    with zeros to it. inverse: with the factor 1 / length. onesided: the first length / 2 + 1 numbers only.

    >>> troupe.signal.dft([[1.], [0.], [0.]]).tolist()
    [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    """
    return _troupe.dft(x, length, axis, inverse, onesided)


def stft(x: TensorLike, frame_step: int, window: typing.Optional[TensorLike] = None,
         frame_length: typing.Optional[int] = None, onesided: bool = True) -> Tensor:
    """The short-time transform of x [batch, n, 1 or 2] -> [batch, frames, bins, 2], with
    frames = 1 + (n - frame_length) / frame_step. window: [frame_length], by default ones; one of both must be given.

    >>> troupe.signal.stft(troupe.ones((1, 10, 1)), 2, troupe.signal.hann_window(4)).shape
    (1, 4, 3, 2)
    """
    if window is None and frame_length is None:
        raise ValueError("stft: pass a window or a frame_length")
    return _troupe.stft(x, frame_step, window, frame_length, onesided)


def hann_window(size: int, periodic: bool = True, dtype: DTypeLike = "float32") -> Tensor:
    """sin^2(pi i / size); periodic=False: symmetric, with the period size - 1.

    >>> troupe.signal.hann_window(4).numpy().round(3)
    array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return _troupe.hann_window(size, periodic, dtype)


def hamming_window(size: int, periodic: bool = True, dtype: DTypeLike = "float32") -> Tensor:
    """A raised cosine that does not reach 0.

    >>> troupe.signal.hamming_window(4).shape
    (4,)
    """
    return _troupe.hamming_window(size, periodic, dtype)


def blackman_window(size: int, periodic: bool = True, dtype: DTypeLike = "float32") -> Tensor:
    """A sum of two cosines, of smaller side lobes.

    >>> troupe.signal.blackman_window(4).numpy().round(3)[1:]
    array([0.34, 1.  , 0.34], dtype=float32)
    """
    return _troupe.blackman_window(size, periodic, dtype)


def mel_weight_matrix(num_mel_bins: int, dft_length: int, sample_rate: int, lower_edge_hertz: float,
                      upper_edge_hertz: float, dtype: DTypeLike = "float32") -> Tensor:
    """Weights that turn a spectrum [..., dft_length / 2 + 1] into mel-frequency bands:
    [dft_length / 2 + 1, num_mel_bins].

    >>> troupe.signal.mel_weight_matrix(8, 64, 16000, 125., 7500.).shape
    (33, 8)
    """
    return _troupe.mel_weight_matrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz, dtype)
