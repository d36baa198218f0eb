"""Functions on images for Pipeline.map(), each of the component that it names: uint8 or float32 [height, width,
channels]. They run without Python, by several threads at a time.

    train = data.image_folder("flowers").map(images.resize("image", (224, 224))).batch(64)

Random ones draw from the seed, the epoch and the element's number: the same on every task. Different functions with one
seed draw different numbers; the same function with the same seed does the same to another component.
"""

from __future__ import annotations

import typing

from .. import _troupe
from .._troupe import Transformation

Size = typing.Tuple[int, int]  # height, width


def decode(component: str, channels: int = 3) -> Transformation:
    """The bytes of a JPEG or PNG file to uint8 [height, width, channels]."""
    return _troupe.images_decode(component, channels)


def decode_and_resize(component: str, size: Size, interpolation: str = "bilinear", antialias: bool = False,
                      channels: int = 3) -> Transformation:
    """Both, faster than one after the other."""
    return _troupe.images_decode_and_resize(component, size, interpolation, antialias, channels)


def resize(component: str, size: Size, interpolation: str = "bilinear", antialias: bool = False) -> Transformation:
    """To another size; interpolation: nearest, bilinear or area."""
    return _troupe.images_resize(component, size, interpolation, antialias)


def center_crop(component: str, size: Size) -> Transformation:
    """The part in the centre."""
    return _troupe.images_center_crop(component, size)


def pad(component: str, top: int = 0, bottom: int = 0, left: int = 0, right: int = 0,
        value: float = 0) -> Transformation:
    """A border of one value."""
    return _troupe.images_pad(component, top, bottom, left, right, value)


def rgb_to_grayscale(component: str) -> Transformation:
    """One channel of three."""
    return _troupe.images_rgb_to_grayscale(component)


def normalize(component: str, mean: typing.Sequence[float], std: typing.Sequence[float]) -> Transformation:
    """float32, (x - mean) / std of each channel; uint8 counts as 1/255."""
    return _troupe.images_normalize(component, list(mean), list(std))


def random_crop(component: str, size: Size, seed: int) -> Transformation:
    """A part anywhere in the image."""
    return _troupe.images_random_crop(component, size, seed)


def random_resized_crop(component: str, size: Size, seed: int, area: typing.Tuple[float, float] = (0.08, 1),
                        aspect: typing.Tuple[float, float] = (3 / 4, 4 / 3), interpolation: str = "bilinear",
                        antialias: bool = False) -> Transformation:
    """A part of an area and aspect in these bounds, resized."""
    return _troupe.images_random_resized_crop(component, size, seed, area, aspect, interpolation, antialias)


def random_flip_left_right(component: str, seed: int, probability: float = 0.5) -> Transformation:
    """Mirrored, or not."""
    return _troupe.images_random_flip_left_right(component, seed, probability)


def random_flip_up_down(component: str, seed: int, probability: float = 0.5) -> Transformation:
    """Upside down, or not."""
    return _troupe.images_random_flip_up_down(component, seed, probability)


def random_rotation(component: str, degrees: float, seed: int, fill: float = 0) -> Transformation:
    """By an angle from -degrees to degrees."""
    return _troupe.images_random_rotation(component, degrees, seed, fill)


def random_brightness(component: str, max_delta: float, seed: int) -> Transformation:
    """By a delta from -max_delta to max_delta."""
    return _troupe.images_random_brightness(component, max_delta, seed)


def random_hue(component: str, max_delta: float, seed: int) -> Transformation:
    """By a delta from -max_delta to max_delta."""
    return _troupe.images_random_hue(component, max_delta, seed)


def random_contrast(component: str, lower: float, upper: float, seed: int) -> Transformation:
    """By a factor from lower to upper."""
    return _troupe.images_random_contrast(component, lower, upper, seed)


def random_saturation(component: str, lower: float, upper: float, seed: int) -> Transformation:
    """By a factor from lower to upper."""
    return _troupe.images_random_saturation(component, lower, upper, seed)
