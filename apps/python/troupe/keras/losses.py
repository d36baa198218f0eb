"""Losses, by Keras's names: those of graph/layers/losses.hpp.

    >>> get("sparse_categorical_crossentropy")
    SparseCategoricalCrossentropy(from_logits=False, ignore_class=None)

A function of your own, loss(y_true, y_pred), returns a number for each example, or of each element, or one for all.
"""

from __future__ import annotations

import typing

from .. import _troupe
from .._core import DTypeLike, Tensor, TensorLike
from . import _arrays, _names, _parts

_native = _troupe.keras


class Loss(_parts.Part):
    """Base class. One of your own has call(y_true, y_pred)."""

    _kind = ""
    _fields: typing.Mapping[str, str] = {}  # of LossOptions, by Keras's names

    def __init__(self, name: typing.Optional[str] = None, reduction: typing.Optional[str] = "sum_over_batch_size",
                 dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)

    def _common(self, name: typing.Optional[str], reduction: typing.Optional[str]) -> None:
        if reduction not in ("sum_over_batch_size", "mean", "auto"):
            raise ValueError(f"{type(self).__name__}: reduction {reduction!r} is not supported: losses are means over "
                             "the examples")
        self._name = name

    @property
    def name(self) -> str:
        return self._name or _names.snake_case(type(self).__name__)

    def call(self, y_true: typing.Any, y_pred: typing.Any) -> typing.Any:
        raise NotImplementedError(f"{type(self).__name__} has no call(): define call(self, y_true, y_pred)")

    def get_config(self) -> dict:
        return {k: v for k, v in vars(self).items() if k != "_name"}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_config().items())})"

    def _options(self) -> dict:
        return {field: getattr(self, name) for name, field in self._fields.items() if getattr(self, name) is not None}

    def _loss(self) -> _native.LossFunction:
        """As C++ takes it."""
        if not self._kind:
            return _native.loss_of_python(self.name, self.call)
        return _native.loss_of_kind(self._kind, self._options())

    def __call__(self, y_true: TensorLike, y_pred: TensorLike,
                 sample_weight: typing.Optional[TensorLike] = None) -> Tensor:
        """The mean over the examples, as a tensor: a scalar."""
        if not isinstance(y_pred, _arrays.Tensor):
            y_pred = _arrays.as_value(y_pred)
        if not isinstance(y_true, _arrays.Tensor):
            y_true = _arrays.as_value(y_true)
        return _native.loss_value(self._loss(), y_true, y_pred, sample_weight)


LossLike = typing.Union[None, str, dict, Loss, typing.Type[Loss], typing.Callable]


class _Plain(Loss):
    """A loss without options."""


def _plain(name: str, kind: str, doc: str) -> typing.Type[Loss]:
    made = type(name, (_Plain,), {"_kind": kind, "__doc__": doc, "__module__": __name__})
    return typing.cast(typing.Type[Loss], made)


MeanSquaredError = _plain("MeanSquaredError", "mean_squared_error", "(y_pred - y_true)^2.")
MeanAbsoluteError = _plain("MeanAbsoluteError", "mean_absolute_error", "|y_pred - y_true|.")
MeanAbsolutePercentageError = _plain("MeanAbsolutePercentageError", "mean_absolute_percentage_error",
                                     "100 |y_pred - y_true| / |y_true|.")
MeanSquaredLogarithmicError = _plain("MeanSquaredLogarithmicError", "mean_squared_logarithmic_error",
                                     "(log(1 + y_pred) - log(1 + y_true))^2.")
LogCosh = _plain("LogCosh", "log_cosh", "log(cosh(y_pred - y_true)).")
Hinge = _plain("Hinge", "hinge", "max(1 - y_true y_pred, 0) for y_true of -1 and 1.")
SquaredHinge = _plain("SquaredHinge", "squared_hinge", "The square of the hinge loss.")
CategoricalHinge = _plain("CategoricalHinge", "categorical_hinge",
                          "max(1 + greatest wrong y_pred - right y_pred, 0) for rows of 0 and 1.")
KLDivergence = _plain("KLDivergence", "kl_divergence", "Sum of y_true log(y_true / y_pred).")
Poisson = _plain("Poisson", "poisson", "y_pred - y_true log(y_pred).")
Dice = _plain("Dice", "dice", "1 - 2 overlap / (sum of y_pred + sum of y_true), of each example.")


class CosineSimilarity(Loss):
    """Minus the cosine of the angle between the vectors."""

    _kind = "cosine_distance"

    def __init__(self, axis: int = -1, name: typing.Optional[str] = None,
                 reduction: typing.Optional[str] = "sum_over_batch_size", dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        if axis != -1:
            raise ValueError("CosineSimilarity: only axis=-1 is supported")


class Huber(Loss):
    """d^2 / 2 up to |d| = delta, then delta (|d| - delta / 2)."""

    _kind, _fields = "huber", {"delta": "delta"}

    def __init__(self, delta: float = 1.0, name: typing.Optional[str] = None,
                 reduction: typing.Optional[str] = "sum_over_batch_size", dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.delta = float(delta)


class BinaryCrossentropy(Loss):
    """Cross entropy of probabilities, or of logits; targets are 0 and 1."""

    _kind = "sigmoid_cross_entropy"
    _fields = {"from_logits": "from_logits", "label_smoothing": "label_smoothing"}

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 name: typing.Optional[str] = None, reduction: typing.Optional[str] = "sum_over_batch_size",
                 dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.from_logits, self.label_smoothing = bool(from_logits), float(label_smoothing)


class CategoricalCrossentropy(BinaryCrossentropy):
    """Cross entropy of rows of probabilities, or of logits; targets are rows that sum to 1."""

    _kind = "softmax_cross_entropy"


class SparseCategoricalCrossentropy(Loss):
    """Cross entropy of rows of probabilities, or of logits; targets are classes."""

    _kind = "sparse_softmax_cross_entropy"
    _fields = {"from_logits": "from_logits", "ignore_class": "ignore_class"}

    def __init__(self, from_logits: bool = False, ignore_class: typing.Optional[int] = None, axis: int = -1,
                 name: typing.Optional[str] = None, reduction: typing.Optional[str] = "sum_over_batch_size",
                 dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.from_logits, self.ignore_class = bool(from_logits), ignore_class


class BinaryFocalCrossentropy(Loss):
    """(1 - p)^gamma times the cross entropy, for the probability p of the right answer."""

    _kind = "binary_focal"
    _fields = {"apply_class_balancing": "balance_classes", "alpha": "alpha", "gamma": "gamma",
               "from_logits": "from_logits", "label_smoothing": "label_smoothing"}

    def __init__(self, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0,
                 from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 name: typing.Optional[str] = None, reduction: typing.Optional[str] = "sum_over_batch_size",
                 dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.apply_class_balancing, self.alpha, self.gamma = bool(apply_class_balancing), float(alpha), float(gamma)
        self.from_logits, self.label_smoothing = bool(from_logits), float(label_smoothing)


class CategoricalFocalCrossentropy(Loss):
    """The same of rows."""

    _kind = "categorical_focal"
    _fields = {"alpha": "alpha", "gamma": "gamma", "from_logits": "from_logits", "label_smoothing": "label_smoothing"}

    def __init__(self, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0,
                 axis: int = -1, name: typing.Optional[str] = None,
                 reduction: typing.Optional[str] = "sum_over_batch_size", dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.alpha, self.gamma = float(alpha), float(gamma)
        self.from_logits, self.label_smoothing = bool(from_logits), float(label_smoothing)


class SparseCategoricalFocalCrossentropy(Loss):
    """The same of rows, with targets that are classes; Keras has no such loss."""

    _kind = "focal"
    _fields = {"alpha": "alpha", "gamma": "gamma", "from_logits": "from_logits", "ignore_class": "ignore_class"}

    def __init__(self, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False,
                 ignore_class: typing.Optional[int] = None, axis: int = -1, name: typing.Optional[str] = None,
                 reduction: typing.Optional[str] = "sum_over_batch_size", dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.alpha, self.gamma = float(alpha), float(gamma)
        self.from_logits, self.ignore_class = bool(from_logits), ignore_class


class CategoricalGeneralizedCrossEntropy(Loss):
    """(1 - p^q) / q of the right class's probability p; targets are classes."""

    _kind, _fields = "generalized_cross_entropy", {"q": "q", "from_logits": "from_logits"}

    def __init__(self, q: float = 0.5, name: typing.Optional[str] = None,
                 reduction: typing.Optional[str] = "sum_over_batch_size", dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.q, self.from_logits = float(q), False

    def get_config(self) -> dict:
        return {"q": self.q}


class Tversky(Loss):
    """1 - overlap / (overlap + wrong hits and misses, weighted): alpha of misses, beta of wrong hits."""

    _kind, _fields = "tversky", {"alpha": "miss_weight", "beta": "wrong_hit_weight"}

    def __init__(self, alpha: float = 0.5, beta: float = 0.5, axis: typing.Optional[int] = None,
                 name: typing.Optional[str] = None, reduction: typing.Optional[str] = "sum_over_batch_size",
                 dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.alpha, self.beta = float(alpha), float(beta)


class Circle(Loss):
    """The circle loss of embeddings of length 1; targets are classes."""

    _kind, _fields = "circle", {"gamma": "circle_scale", "margin": "margin"}

    def __init__(self, gamma: float = 80.0, margin: float = 0.4, name: typing.Optional[str] = None,
                 reduction: typing.Optional[str] = "sum_over_batch_size", dtype: typing.Optional[DTypeLike] = None):
        self._common(name, reduction)
        self.gamma, self.margin = float(gamma), float(margin)


class _Function(Loss):
    def __init__(self, function: typing.Callable):
        self._common(getattr(function, "__name__", "loss"), "mean")
        setattr(self, "call", function)

    def get_config(self) -> dict:
        raise ValueError(f"the loss {self.name!r} is a function, which is not written with the model")


_CLASSES = {c.__name__: c for c in (
    MeanSquaredError, MeanAbsoluteError, MeanAbsolutePercentageError, MeanSquaredLogarithmicError, LogCosh, Hinge,
    SquaredHinge, CategoricalHinge, KLDivergence, Poisson, Dice, CosineSimilarity, Huber, BinaryCrossentropy,
    CategoricalCrossentropy, SparseCategoricalCrossentropy, BinaryFocalCrossentropy, CategoricalFocalCrossentropy,
    SparseCategoricalFocalCrossentropy, CategoricalGeneralizedCrossEntropy, Tversky, Circle)}
_NAMES = {
    **{_names.snake_case(name): name for name in _CLASSES}, **{name: name for name in _CLASSES},
    "mse": "MeanSquaredError", "MSE": "MeanSquaredError", "mae": "MeanAbsoluteError", "MAE": "MeanAbsoluteError",
    "mape": "MeanAbsolutePercentageError", "MAPE": "MeanAbsolutePercentageError",
    "msle": "MeanSquaredLogarithmicError", "MSLE": "MeanSquaredLogarithmicError", "bce": "BinaryCrossentropy",
    "BCE": "BinaryCrossentropy", "kld": "KLDivergence", "KLD": "KLDivergence", "kl_divergence": "KLDivergence",
    "huber_loss": "Huber", "logcosh": "LogCosh", "log_cosh": "LogCosh",
    "categorical_generalized_cross_entropy": "CategoricalGeneralizedCrossEntropy",
}


def get(identifier: LossLike) -> typing.Optional[Loss]:
    """The loss of a name, a configuration, a class, an object or a function.

    >>> get("mse")
    MeanSquaredError()
    """
    found = _parts.lookup("loss", identifier, _CLASSES, _NAMES)
    return found if found is None or isinstance(found, Loss) else _Function(found)
