"""Normalisations, and noise that only training has."""

from __future__ import annotations

import typing

from ...nn import Integers
from .base import ConstraintLike, InitializerLike, NativeLayer, RegularizerLike


class _Norm(NativeLayer):
    _supports_masking = True

    def _set_weights(self, gamma: tuple, beta: tuple) -> None:
        self._options = {"scale": self._weight("scale", *gamma), "offset": self._weight("offset", *beta)}

    def _last_axis(self, axis: Integers) -> None:
        if axis not in (-1, [-1], (-1,)):
            raise ValueError(f"{type(self).__name__}: axis {axis} is not supported, only -1, the channels: Permute "
                             "before and after")


class BatchNormalization(_Norm):
    """(x - mean) / sqrt(variance + epsilon) gamma + beta: of the batch in training, else of running averages.

    >>> from troupe.keras import Input
    >>> len(BatchNormalization()(Input((4,)))._layer.weights)
    4
    """

    def __init__(self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True,
                 scale: bool = True, beta_initializer: InitializerLike = "zeros",
                 gamma_initializer: InitializerLike = "ones", moving_mean_initializer: InitializerLike = "zeros",
                 moving_variance_initializer: InitializerLike = "ones", beta_regularizer: RegularizerLike = None,
                 gamma_regularizer: RegularizerLike = None, beta_constraint: ConstraintLike = None,
                 gamma_constraint: ConstraintLike = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self._last_axis(axis)
        if not center or not scale:
            raise ValueError("BatchNormalization: center=False and scale=False are not supported: leave them True; "
                             "beta and gamma begin as 0 and 1")
        if moving_mean_initializer != "zeros" or moving_variance_initializer != "ones":
            raise ValueError("BatchNormalization: moving averages begin as 0 and 1: set others by set_weights()")
        self.momentum, self.epsilon = float(momentum), float(epsilon)
        self._set_weights((gamma_initializer, gamma_regularizer, gamma_constraint),
                          (beta_initializer, beta_regularizer, beta_constraint))

    def _configured(self, key: str) -> tuple:
        return "batch_norm", {"momentum": self.momentum, "epsilon": self.epsilon}, self._options


class LayerNormalization(_Norm):
    """Each row normalised on its own, over the last dimensions: axis -1, or [-2, -1]."""

    def __init__(self, axis: Integers = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: InitializerLike = "zeros", gamma_initializer: InitializerLike = "ones",
                 beta_regularizer: RegularizerLike = None, gamma_regularizer: RegularizerLike = None,
                 beta_constraint: ConstraintLike = None, gamma_constraint: ConstraintLike = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        axes = sorted([axis] if isinstance(axis, int) else axis)
        if axes != list(range(-len(axes), 0)):
            raise ValueError(f"LayerNormalization: axis {axis} is not supported, only the last ones, like -1 or "
                             "[-2, -1]")
        self.dimensions, self.epsilon = len(axes), float(epsilon)
        self.center, self.scale = bool(center), bool(scale)
        self._set_weights((gamma_initializer, gamma_regularizer, gamma_constraint),
                          (beta_initializer, beta_regularizer, beta_constraint))

    def _configured(self, key: str) -> tuple:
        return "layer_norm", {"epsilon": self.epsilon, "dimensions": self.dimensions, "use_scale": self.scale,
                              "use_offset": self.center}, self._options


class RMSNormalization(_Norm):
    """x / sqrt(mean(x^2) + epsilon) scale."""

    def __init__(self, axis: int = -1, epsilon: float = 1e-6, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self._last_axis(axis)
        self.epsilon = float(epsilon)

    def _configured(self, key: str) -> tuple:
        return "rms_norm", {"epsilon": self.epsilon}


class GroupNormalization(_Norm):
    """Channels in groups that are normalised together, in each example on its own; groups=-1: each channel alone."""

    def __init__(self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: InitializerLike = "zeros", gamma_initializer: InitializerLike = "ones",
                 beta_regularizer: RegularizerLike = None, gamma_regularizer: RegularizerLike = None,
                 beta_constraint: ConstraintLike = None, gamma_constraint: ConstraintLike = None, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self._last_axis(axis)
        if not center or not scale:
            raise ValueError("GroupNormalization: center=False and scale=False are not supported: leave them True")
        self.groups, self.epsilon = int(groups), float(epsilon)
        self._set_weights((gamma_initializer, gamma_regularizer, gamma_constraint),
                          (beta_initializer, beta_regularizer, beta_constraint))

    def _configured(self, key: str) -> tuple:
        if self.groups == -1:
            return "instance_norm", {"epsilon": self.epsilon}, self._options
        return "group_norm", {"epsilon": self.epsilon, "groups": self.groups}, self._options


class UnitNormalization(NativeLayer):
    """x / sqrt(sum of x^2) over the axes."""

    _supports_masking = True

    def __init__(self, axis: Integers = -1, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.axis = [axis] if isinstance(axis, int) else [int(a) for a in axis]

    def _configured(self, key: str) -> tuple:
        return "unit_norm", {"axes": self.axis}


class _Noise(NativeLayer):
    _supports_masking = True
    _kind, _option = "", "rate"

    def __init__(self, amount: float, seed: typing.Optional[int], kwargs: dict,
                 noise_shape: typing.Optional[typing.Sequence[int]] = None):
        super().__init__(**kwargs)
        if noise_shape is not None:
            raise ValueError(f"{type(self).__name__}: noise_shape is not supported: SpatialDropout1D ... 3D drop whole "
                             "channels")
        self.seed = 0 if seed is None else int(seed)
        self._amount = float(amount)

    def _configured(self, key: str) -> tuple:
        return self._kind, {self._option: self._amount, "seed": self.seed}


class Dropout(_Noise):
    """Zeroes elements with probability `rate` in training, and scales the others by 1 / (1 - rate).

    >>> from troupe.keras import Input
    >>> Dropout(0.5)(Input((4,))).shape
    (None, 4)
    """

    _kind = "dropout"

    def __init__(self, rate: float, noise_shape: typing.Optional[typing.Sequence[int]] = None,
                 seed: typing.Optional[int] = None, **kwargs: typing.Any):
        super().__init__(rate, seed, kwargs, noise_shape)
        self.rate = float(rate)


class SpatialDropout1D(Dropout):
    """The same for whole channels."""

    _kind = "spatial_dropout"

    def __init__(self, rate: float, seed: typing.Optional[int] = None, **kwargs: typing.Any):
        super().__init__(rate, seed=seed, **kwargs)


class SpatialDropout2D(SpatialDropout1D):
    """The same for whole channels of images."""


class SpatialDropout3D(SpatialDropout1D):
    """The same for whole channels of volumes."""


class GaussianNoise(_Noise):
    """Adds normal numbers in training."""

    _kind, _option = "gaussian_noise", "stddev"

    def __init__(self, stddev: float, seed: typing.Optional[int] = None, **kwargs: typing.Any):
        super().__init__(stddev, seed, kwargs)
        self.stddev = float(stddev)


class GaussianDropout(_Noise):
    """Multiplies with normal numbers of mean 1 and variance rate / (1 - rate) in training."""

    _kind = "gaussian_dropout"

    def __init__(self, rate: float, seed: typing.Optional[int] = None, **kwargs: typing.Any):
        super().__init__(rate, seed, kwargs)
        self.rate = float(rate)


class AlphaDropout(_Noise):
    """Dropout that keeps mean and variance of what selu gives."""

    _kind = "alpha_dropout"

    def __init__(self, rate: float, noise_shape: typing.Optional[typing.Sequence[int]] = None,
                 seed: typing.Optional[int] = None, **kwargs: typing.Any):
        super().__init__(rate, seed, kwargs, noise_shape)
        self.rate = float(rate)
