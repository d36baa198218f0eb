"""Fourier transforms with NumPy's names.

Complex numbers are a last dimension of size 2, (real, imaginary), which axes do not count: x[..., 0] are the real
parts. Arrays of complex numbers of NumPy can be given as they are; as_complex() makes such an array of a result. The
transforms have gradients.

    spectrum = troupe.fft.rfft(signal)            # [..., n] -> [..., n / 2 + 1, 2]
    power = troupe.sum(spectrum ** 2, axis=-1)
"""

from __future__ import annotations

import typing

import numpy as np

from . import _troupe, arrays, math
from ._core import Tensor, TensorLike, Variable

__all__ = [
    "as_complex", "as_pairs", "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift",
    "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]

Axes = typing.Sequence[int]
Norm = typing.Optional[str]


def _is_complex(x: TensorLike) -> bool:
    return not isinstance(x, (Tensor, Variable)) and np.iscomplexobj(x)


def as_pairs(real: TensorLike, imag: typing.Optional[TensorLike] = None) -> Tensor:
    """Complex numbers of their parts: [...] and [...] -> [..., 2]. Of an array of complex numbers of NumPy; without
    imaginary parts, they are 0.

    >>> troupe.fft.as_pairs([1., 2.], [0., 3.])
    Tensor([[1., 0.],
            [2., 3.]], dtype=float32)
    >>> troupe.fft.as_pairs(np.array([1 + 2j])).numpy()
    array([[1., 2.]])
    """
    if imag is not None:
        return arrays.stack([real, imag], axis=-1)
    if _is_complex(real):
        array = np.asarray(real)
        return _troupe.tensor(np.stack([np.real(array), np.imag(array)], axis=-1))
    tensor = _troupe.tensor(real)
    return arrays.stack([tensor, tensor * 0], axis=-1)


def as_complex(x: TensorLike) -> np.ndarray:
    """An array of complex numbers of NumPy, of pairs [..., 2] -> [...].

    >>> troupe.fft.as_complex(troupe.fft.as_pairs([1., 2.], [0., 3.]))
    array([1.+0.j, 2.+3.j], dtype=complex64)
    """
    array = np.asarray(x)
    if array.ndim == 0 or array.shape[-1] != 2:
        raise ValueError(f"as_complex: the last dimension is (real, imaginary), but the shape is {array.shape}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32)
    kind = np.complex64 if array.dtype == np.float32 else np.complex128
    return np.ascontiguousarray(array).view(kind)[..., 0]


def _pairs(x: TensorLike, function: str) -> Tensor:
    if _is_complex(x):
        return as_pairs(x)
    tensor = _troupe.tensor(x)
    if tensor.ndim == 0 or (tensor.ndim and tensor.shape[-1] not in (2, None)):
        raise ValueError(f"{function}: complex numbers are a last dimension of size 2, (real, imaginary), but the "
                         f"shape is {tensor.shape}: as_pairs() makes them of real ones")
    return tensor


def _scaled(x: Tensor, sizes: typing.Sequence[typing.Optional[int]], norm: Norm, inverse: bool, function: str
            ) -> Tensor:
    """With the factor of `norm` in place of that of "backward"."""
    if norm in (None, "backward"):
        return x
    if norm not in ("ortho", "forward"):
        raise ValueError(f"{function}: norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    n = 1.0
    for size in sizes:
        if size is None:
            raise ValueError(f"{function}: norm={norm!r} needs a length that is known")
        n *= size
    factor = n ** 0.5 if norm == "ortho" else n
    return x * factor if inverse else x / factor


def _transform(x: Tensor, n: typing.Optional[int], axis: int, norm: Norm, inverse: bool, function: str) -> Tensor:
    found = _troupe.fft_complex(x, n, axis, inverse)
    size = found.shape[axis - 1 if axis < 0 else axis]
    return _scaled(found, [size], norm, inverse, function)


def fft(x: TensorLike, n: typing.Optional[int] = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The discrete Fourier transform y_k = sum_j x_j exp(-2 pi i j k / n) along an axis: [..., n, 2] -> [..., n, 2].

    n: x is cut or padded with zeros to it. norm: "backward" has the factor 1 / n in the inverse transform, "forward" in
    this one, "ortho" 1 / sqrt(n) in both.

    >>> troupe.fft.as_complex(troupe.fft.fft(np.array([1, 2j])))
    array([1.+2.j, 1.-2.j])
    """
    return _transform(_pairs(x, "fft"), n, axis, norm, False, "fft")


def ifft(x: TensorLike, n: typing.Optional[int] = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The inverse of fft(): [..., n, 2] -> [..., n, 2].

    >>> troupe.fft.as_complex(troupe.fft.ifft(np.array([1 + 2j, 1 - 2j])))
    array([1.+0.j, 0.+2.j])
    """
    return _transform(_pairs(x, "ifft"), n, axis, norm, True, "ifft")


def rfft(x: TensorLike, n: typing.Optional[int] = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The first n / 2 + 1 numbers of the transform of real ones, of which the others are mirror images:
    [..., n] -> [..., n / 2 + 1, 2].

    >>> troupe.fft.rfft([1., 0., 0., 0.])
    Tensor([[1., 0.],
            [1., 0.],
            [1., 0.]], dtype=float32)
    """
    tensor = _troupe.tensor(x)
    return _scaled(_troupe.fft_of_real(tensor, n, axis), [n or tensor.shape[axis]], norm, False, "rfft")


def irfft(x: TensorLike, n: typing.Optional[int] = None, axis: int = -1, norm: Norm = None) -> Tensor:
    """The inverse of rfft(): [..., m, 2] -> [..., n] of real numbers; n is 2 (m - 1) by default.

    >>> troupe.fft.irfft(troupe.fft.rfft([1., 2., 3., 4.]))
    Tensor([1., 2., 3., 4.], dtype=float32)
    """
    found = _troupe.fft_to_real(_pairs(x, "irfft"), n, axis)
    return _scaled(found, [found.shape[axis]], norm, True, "irfft")


def _lengths(s: typing.Optional[typing.Sequence[int]], axes: Axes, function: str
             ) -> typing.List[typing.Optional[int]]:
    if not axes:
        raise ValueError(f"{function}: there is no axis")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"{function}: {len(s)} lengths for {len(axes)} axes")
    return [None] * len(axes) if s is None else list(s)


def _all_axes(axes: typing.Optional[Axes], rank: int, s: typing.Optional[typing.Sequence[int]]) -> Axes:
    if axes is not None:
        return axes
    return range(-(rank if s is None else len(s)), 0)


def _over(x: Tensor, s: typing.Optional[typing.Sequence[int]], axes: Axes, norm: Norm, inverse: bool, function: str
          ) -> Tensor:
    for axis, n in zip(axes, _lengths(s, axes, function)):
        x = _transform(x, n, axis, norm, inverse, function)
    return x


def fftn(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: typing.Optional[Axes] = None,
         norm: Norm = None) -> Tensor:
    """fft() over several axes, by default all: [..., 2] -> [..., 2]. s: a length for each axis.

    >>> troupe.fft.fftn(troupe.ones((2, 2, 2)))[0, 0]
    Tensor([4., 4.], dtype=float32)
    """
    pairs = _pairs(x, "fftn")
    return _over(pairs, s, _all_axes(axes, len(pairs.shape) - 1, s), norm, False, "fftn")


def ifftn(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: typing.Optional[Axes] = None,
          norm: Norm = None) -> Tensor:
    """The inverse of fftn().

    >>> troupe.fft.ifftn(troupe.ones((2, 2, 2)))[0, 0]
    Tensor([1., 1.], dtype=float32)
    """
    pairs = _pairs(x, "ifftn")
    return _over(pairs, s, _all_axes(axes, len(pairs.shape) - 1, s), norm, True, "ifftn")


def rfftn(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: typing.Optional[Axes] = None,
          norm: Norm = None) -> Tensor:
    """rfft() along the last of the axes, then fft() along the others: [..., n] -> [..., n / 2 + 1, 2].

    >>> troupe.fft.rfftn(troupe.ones((2, 4))).shape
    (2, 3, 2)
    """
    tensor = _troupe.tensor(x)
    axes = _all_axes(axes, len(tensor.shape), s)
    lengths = _lengths(s, axes, "rfftn")
    found = rfft(tensor, lengths[-1], axes[-1], norm)
    for axis, n in zip(axes[:-1], lengths):
        found = _transform(found, n, axis, norm, False, "rfftn")
    return found


def irfftn(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: typing.Optional[Axes] = None,
           norm: Norm = None) -> Tensor:
    """The inverse of rfftn(): [..., m, 2] -> [..., n] of real numbers; n is 2 (m - 1) by default.

    >>> troupe.fft.irfftn(troupe.fft.rfftn([[1., 2.], [3., 4.]]))
    Tensor([[1., 2.],
            [3., 4.]], dtype=float32)
    """
    pairs = _pairs(x, "irfftn")
    axes = _all_axes(axes, len(pairs.shape) - 1, s)
    lengths = _lengths(s, axes, "irfftn")
    for axis, n in zip(axes[:-1], lengths):
        pairs = _transform(pairs, n, axis, norm, True, "irfftn")
    return irfft(pairs, lengths[-1], axes[-1], norm)


def fft2(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: Axes = (-2, -1), norm: Norm = None
         ) -> Tensor:
    """fftn() over two axes: [..., m, n, 2] -> [..., m, n, 2].

    >>> troupe.fft.fft2(troupe.ones((3, 2, 2, 2)))[0, 0, 0]
    Tensor([4., 4.], dtype=float32)
    """
    return fftn(x, s, axes, norm)


def ifft2(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: Axes = (-2, -1), norm: Norm = None
          ) -> Tensor:
    """The inverse of fft2().

    >>> troupe.fft.ifft2(troupe.ones((3, 2, 2, 2)))[0, 0, 0]
    Tensor([1., 1.], dtype=float32)
    """
    return ifftn(x, s, axes, norm)


def rfft2(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: Axes = (-2, -1), norm: Norm = None
          ) -> Tensor:
    """rfftn() over two axes, of images: [..., m, n] -> [..., m, n / 2 + 1, 2].

    >>> troupe.fft.rfft2(troupe.ones((8, 6))).shape
    (8, 4, 2)
    """
    return rfftn(x, s, axes, norm)


def irfft2(x: TensorLike, s: typing.Optional[typing.Sequence[int]] = None, axes: Axes = (-2, -1), norm: Norm = None
           ) -> Tensor:
    """The inverse of rfft2(): [..., m, k, 2] -> [..., m, n].

    >>> troupe.fft.irfft2(troupe.fft.rfft2(troupe.ones((8, 6)))).shape
    (8, 6)
    """
    return irfftn(x, s, axes, norm)


def fftfreq(n: int, d: float = 1.0) -> Tensor:
    """Frequencies of the numbers of fft(), in cycles per unit of the distance d between samples: float32 [n].

    >>> troupe.fft.fftfreq(4)
    Tensor([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _troupe.tensor(np.fft.fftfreq(n, d).astype(np.float32))


def rfftfreq(n: int, d: float = 1.0) -> Tensor:
    """Frequencies of the numbers of rfft(): float32 [n / 2 + 1].

    >>> troupe.fft.rfftfreq(4)
    Tensor([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _troupe.tensor(np.fft.rfftfreq(n, d).astype(np.float32))


def _shifted(x: TensorLike, axes: typing.Union[int, Axes], forward: bool, function: str) -> Tensor:
    tensor = _troupe.tensor(x)
    axes = [axes] if isinstance(axes, int) else list(axes)
    sizes = [tensor.shape[axis] for axis in axes]
    if None in sizes:
        raise ValueError(f"{function}: a dimension of {tensor.shape} is not known")
    return arrays.roll(tensor, [size // 2 if forward else -(size // 2) for size in sizes], axes)


def fftshift(x: TensorLike, axes: typing.Union[int, Axes]) -> Tensor:
    """Moves the number of frequency 0 to the middle of each of the axes, which are those of the tensor: of complex
    numbers, the last axis of a signal is -2.

    >>> troupe.fft.fftshift(troupe.fft.fftfreq(4), axes=0)
    Tensor([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shifted(x, axes, True, "fftshift")


def ifftshift(x: TensorLike, axes: typing.Union[int, Axes]) -> Tensor:
    """The inverse of fftshift().

    >>> troupe.fft.ifftshift(troupe.fft.fftshift([0, 1, 2], axes=0), axes=0)
    Tensor([0, 1, 2], dtype=int64)
    """
    return _shifted(x, axes, False, "ifftshift")
