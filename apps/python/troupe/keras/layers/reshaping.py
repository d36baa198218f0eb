"""Layers that move elements."""

from __future__ import annotations

import typing

from ...nn import Integers
from .base import NativeLayer
from .convolution import refuse_channels_first, per_axis


class Flatten(NativeLayer):
    """[n, ...] -> [n, product of the others].

    >>> from troupe.keras import Input
    >>> Flatten()(Input((4, 5))).shape
    (None, 20)
    """

    def __init__(self, data_format: typing.Optional[str] = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        refuse_channels_first("Flatten", data_format)

    def _configured(self, key: str) -> tuple:
        return "flatten", {}


class Reshape(NativeLayer):
    """[n, ...] -> [n, *target_shape], in which one dimension may be -1."""

    def __init__(self, target_shape: typing.Sequence[int], **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def _configured(self, key: str) -> tuple:
        return "reshape", {"shape": [int(d) for d in self.target_shape]}


class Permute(NativeLayer):
    """Dimension i of an example becomes that numbered dims[i - 1], from 1."""

    def __init__(self, dims: typing.Sequence[int], **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.dims = tuple(dims)

    def _configured(self, key: str) -> tuple:
        return "permute", {"axes": [int(d) for d in self.dims]}


class RepeatVector(NativeLayer):
    """[n, c] -> [n, times, c]."""

    def __init__(self, n: int, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.n = int(n)

    def _configured(self, key: str) -> tuple:
        return "repeat_vector", {"times": self.n}


class _UpSampling(NativeLayer):
    _axes = 2

    def __init__(self, size: Integers = 2, data_format: typing.Optional[str] = None, interpolation: str = "nearest",
                 **kwargs: typing.Any):
        super().__init__(**kwargs)
        refuse_channels_first(type(self).__name__, data_format)
        self.size = per_axis(size, self._axes, "size")
        names = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}
        if interpolation not in names:
            raise ValueError(f"{type(self).__name__}: interpolation {interpolation!r} is none of {', '.join(names)}")
        self.interpolation = names[interpolation]

    def _configured(self, key: str) -> tuple:
        return "up_sampling", {"factors": self.size, "interpolation": self.interpolation}


class UpSampling1D(_UpSampling):
    """Each step `size` times: [n, steps, c] -> [n, size steps, c]."""

    _axes = 1


class UpSampling2D(_UpSampling):
    """Images larger by `size`: each pixel again, or interpolated.

    >>> from troupe.keras import Input
    >>> UpSampling2D(2)(Input((4, 5, 3))).shape
    (None, 8, 10, 3)
    """


class UpSampling3D(_UpSampling):
    """Volumes larger by `size`."""

    _axes = 3


# A number, one for each axis, or two for each axis.
Sides = typing.Union[int, typing.Sequence[int], typing.Sequence[typing.Tuple[int, int]]]


def _sides(value: Sides, axes: int, what: str) -> typing.Tuple[list, list]:
    """Keras's paddings: a number, one for each axis, or two for each axis."""
    if isinstance(value, int):
        return [value] * axes, [value] * axes
    sides: typing.Sequence[typing.Any] = value
    if axes == 1 and len(sides) == 2 and isinstance(sides[0], int):
        sides = [tuple(sides)]
    if len(sides) != axes:
        raise ValueError(f"{what} must be a number, or one or two for each of {axes} axes, not {value}")
    pairs = [(v, v) if isinstance(v, int) else tuple(v) for v in sides]
    return [int(a) for a, _ in pairs], [int(b) for _, b in pairs]


class _Sides(NativeLayer):
    _axes, _kind = 2, ""

    def _set(self, name: str, value: Sides, data_format: typing.Optional[str]) -> None:
        refuse_channels_first(type(self).__name__, data_format)
        self._before, self._after_ = _sides(value, self._axes, f"{type(self).__name__}: {name}")

    def _configured(self, key: str) -> tuple:
        return self._kind, {"before": self._before, "after": self._after_}


class ZeroPadding2D(_Sides):
    """Zeros before and after the elements of each spatial axis.

    >>> from troupe.keras import Input
    >>> ZeroPadding2D(((1, 0), (2, 3)))(Input((4, 5, 3))).shape
    (None, 5, 10, 3)
    """

    _kind = "zero_padding"

    def __init__(self, padding: Sides = 1, data_format: typing.Optional[str] = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self._set("padding", padding, data_format)


class ZeroPadding1D(ZeroPadding2D):
    """Steps of zeros before and after a sequence."""

    _axes = 1


class ZeroPadding3D(ZeroPadding2D):
    """The same of volumes."""

    _axes = 3


class Cropping2D(_Sides):
    """Fewer elements before and after along each spatial axis."""

    _kind = "cropping"

    def __init__(self, cropping: Sides = 0, data_format: typing.Optional[str] = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self._set("cropping", cropping, data_format)


class Cropping1D(Cropping2D):
    """Fewer steps at the beginning and the end."""

    _axes = 1

    def __init__(self, cropping: Sides = 1, **kwargs: typing.Any):
        super().__init__(cropping, **kwargs)


class Cropping3D(Cropping2D):
    """The same of volumes."""

    _axes = 3
