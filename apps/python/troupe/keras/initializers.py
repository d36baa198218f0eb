"""First values of weights, by Keras's names.

    >>> from troupe.keras import layers
    >>> layer = layers.Dense(3, kernel_initializer=HeNormal(seed=1), bias_initializer="ones")

Numbers follow from the seed of keras.utils.set_random_seed(), this seed and the name of the weight. Normal ones with
a scale are truncated at two standard deviations, which are those before that (Keras's are 1.137 times as large).
"""

from __future__ import annotations

import typing

from . import _parts


class Initializer(_parts.Part):
    """Base class. One of your own has __call__(shape, dtype) -> array."""

    _kind = ""

    def _native(self) -> typing.Tuple[str, dict]:
        options = {name.rstrip("_"): value for name, value in vars(self).items()}
        if "seed" in options:
            options["seed"] = int(options["seed"] or 0)
        return self._kind, {k: v if k == "seed" else float(v) for k, v in options.items()}


InitializerLike = typing.Union[None, str, dict, Initializer, typing.Type[Initializer], typing.Callable]


class Zeros(Initializer):
    _kind = "zeros"


class Ones(Initializer):
    _kind = "ones"


class Constant(Initializer):
    _kind = "constant"

    def __init__(self, value: float = 0.0):
        self.value = value


class _Seeded(Initializer):
    def __init__(self, seed: typing.Optional[int] = None):
        self.seed = seed


class GlorotUniform(_Seeded):
    _kind = "glorot_uniform"


class GlorotNormal(_Seeded):
    _kind = "glorot_normal"


class HeUniform(_Seeded):
    _kind = "he_uniform"


class HeNormal(_Seeded):
    _kind = "he_normal"


class LecunUniform(_Seeded):
    _kind = "lecun_uniform"


class LecunNormal(_Seeded):
    _kind = "lecun_normal"


class RandomUniform(Initializer):
    _kind = "random_uniform"

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: typing.Optional[int] = None):
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def _native(self) -> typing.Tuple[str, dict]:
        return self._kind, {"low": float(self.minval), "high": float(self.maxval), "seed": int(self.seed or 0)}


class RandomNormal(Initializer):
    _kind = "random_normal"

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: typing.Optional[int] = None):
        self.mean, self.stddev, self.seed = mean, stddev, seed


class TruncatedNormal(RandomNormal):
    _kind = "truncated_normal"


class Orthogonal(Initializer):
    _kind = "orthogonal"

    def __init__(self, gain: float = 1.0, seed: typing.Optional[int] = None):
        self.gain, self.seed = gain, seed


class Identity(Initializer):
    _kind = "identity"

    def __init__(self, gain: float = 1.0):
        self.gain = gain


class VarianceScaling(Initializer):
    """Those of its kinds that have a name of their own: scale 1 or 2 and mode as in Glorot's, He's and Lecun's."""

    _KINDS = {(1.0, "fan_avg"): "glorot", (2.0, "fan_in"): "he", (1.0, "fan_in"): "lecun"}

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
                 seed: typing.Optional[int] = None):
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed

    def _native(self) -> typing.Tuple[str, dict]:
        kind = self._KINDS.get((float(self.scale), self.mode))
        shape = {"truncated_normal": "normal", "uniform": "uniform"}.get(self.distribution)
        if kind is None or shape is None:
            raise ValueError(f"VarianceScaling(scale={self.scale}, mode={self.mode!r}, "
                             f"distribution={self.distribution!r}) is none of Glorot's, He's and Lecun's: "
                             "give RandomNormal or RandomUniform the deviation that you want")
        return f"{kind}_{shape}", {"seed": int(self.seed or 0)}


_CLASSES = {c.__name__: c for c in (
    Zeros, Ones, Constant, GlorotUniform, GlorotNormal, HeUniform, HeNormal, LecunUniform, LecunNormal, RandomUniform,
    RandomNormal, TruncatedNormal, Orthogonal, Identity, VarianceScaling)}
_NAMES = {
    "zeros": "Zeros", "ones": "Ones", "constant": "Constant", "glorot_uniform": "GlorotUniform",
    "glorot_normal": "GlorotNormal", "he_uniform": "HeUniform", "he_normal": "HeNormal",
    "lecun_uniform": "LecunUniform", "lecun_normal": "LecunNormal", "random_uniform": "RandomUniform", "uniform":
    "RandomUniform", "random_normal": "RandomNormal", "normal": "RandomNormal", "truncated_normal": "TruncatedNormal",
    "orthogonal": "Orthogonal", "identity": "Identity", "variance_scaling": "VarianceScaling",
}


def get(identifier: InitializerLike) -> typing.Any:
    """The initializer of a name, a configuration, or a function of shape and dtype.

    >>> get("he_normal")
    HeNormal(seed=None)
    """
    return _parts.lookup("initializer", identifier, _CLASSES, _NAMES)
