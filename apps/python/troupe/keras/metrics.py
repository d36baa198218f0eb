"""Metrics, by Keras's names: those of graph/metrics. They are exact over any number of batches.

    >>> get("mae").name
    'mean_absolute_error'

A function of your own, metric(y_true, y_pred), returns a number for each example or element, whose mean is reported.
"""

from __future__ import annotations

import typing

import numpy as np

from .. import _troupe
from .._core import DTypeLike, TensorLike
from . import _arrays, _names, _parts, losses

_native = _troupe.keras


class Metric(_parts.Part):
    """A metric of a kind of C++ with its options; update_state() and result() compute it of values."""

    _kind = ""
    _classes = False  # targets are classes
    _default = ""     # the name

    def __init__(self, name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None,
                 **options: typing.Any):
        self._name = name
        self._given = {k: v for k, v in options.items() if v is not None}
        self._sums: typing.Any = None

    @property
    def name(self) -> str:
        return self._name or self._default or _names.snake_case(type(self).__name__)

    def get_config(self) -> dict:
        return {"name": self.name, **self._given}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_config().items())})"

    def _metric(self, name: typing.Optional[str] = None) -> _troupe.Metric:
        """As C++ takes it."""
        options = {**self._given, "name": name or self.name}
        return _native.with_keras_targets(_troupe.metric(self._kind, options), self._classes)

    def update_state(self, y_true: TensorLike, y_pred: TensorLike,
                     sample_weight: typing.Optional[TensorLike] = None) -> None:
        """Adds the examples of a batch."""
        y_true, y_pred = _arrays.as_value(y_true), _arrays.as_value(y_pred)
        weight = None if sample_weight is None else _arrays.as_value(sample_weight, "float32")
        found = self._metric().sums(y_pred, y_true, weight).numpy()
        self._sums = found if self._sums is None else self._sums + found

    def result(self) -> typing.Any:
        """Of all examples so far: a float, or an array."""
        if self._sums is None:
            return 0.0
        found = _arrays.to_array(self._metric().result(_arrays.to_tensor(self._sums)))
        return float(found) if found.ndim == 0 else found

    def reset_state(self) -> None:
        self._sums = None

    def __call__(self, y_true: TensorLike, y_pred: TensorLike,
                 sample_weight: typing.Optional[TensorLike] = None) -> typing.Any:
        self.update_state(y_true, y_pred, sample_weight)
        return self.result()


MetricLike = typing.Union[None, str, dict, Metric, typing.Type[Metric], losses.LossLike]
Thresholds = typing.Union[None, float, typing.Sequence[float]]


def _metric(name: str, kind: str, doc: str, default: str = "", classes: bool = False) -> typing.Type[Metric]:
    made = type(name, (Metric,), {"_kind": kind, "_default": default, "_classes": classes, "__doc__": doc,
                                  "__module__": __name__})
    return typing.cast(typing.Type[Metric], made)


class _Accuracy(Metric):
    """The part of right answers: of classes or rows, whichever the targets are, or of two classes."""

    _default = "accuracy"

    def _metric(self, name: typing.Optional[str] = None) -> _troupe.Metric:
        return _native.accuracy(name or self.name)


Accuracy = _metric("Accuracy", "equality", "The part of outputs that equal their targets.", "accuracy")
SparseCategoricalAccuracy = _metric("SparseCategoricalAccuracy", "accuracy",
                                    "The part of examples whose greatest output is at their class.", classes=True)
CategoricalAccuracy = _metric("CategoricalAccuracy", "accuracy",
                              "The part of examples whose greatest output is where their row's is.")


class BinaryAccuracy(Metric):
    """The part of outputs on the same side of the threshold as their targets."""

    _kind = "binary_accuracy"

    def __init__(self, name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None,
                 threshold: float = 0.5):
        super().__init__(name, dtype, threshold=float(threshold))


class TopKCategoricalAccuracy(Metric):
    """The part of examples with fewer than k outputs greater than that of their class."""

    _kind = "top_k_accuracy"

    def __init__(self, k: int = 5, name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None):
        super().__init__(name, dtype, k=int(k))


class SparseTopKCategoricalAccuracy(TopKCategoricalAccuracy):
    """The same for targets that are classes."""

    _classes = True


MeanSquaredError = _metric("MeanSquaredError", "mean_squared_error", "(y_pred - y_true)^2.")
RootMeanSquaredError = _metric("RootMeanSquaredError", "root_mean_squared_error", "The root of that mean.")
MeanAbsoluteError = _metric("MeanAbsoluteError", "mean_absolute_error", "|y_pred - y_true|.")
MeanAbsolutePercentageError = _metric("MeanAbsolutePercentageError", "mean_absolute_percentage_error",
                                      "100 |y_pred - y_true| / |y_true|.")
MeanSquaredLogarithmicError = _metric("MeanSquaredLogarithmicError", "mean_squared_logarithmic_error",
                                      "(log(1 + y_pred) - log(1 + y_true))^2.")
LogCoshError = _metric("LogCoshError", "log_cosh", "log(cosh(y_pred - y_true)).", "logcosh")
CosineSimilarity = _metric("CosineSimilarity", "cosine_similarity", "The cosine of the angle between vectors.")
PearsonCorrelation = _metric("PearsonCorrelation", "pearson_correlation", "Pearson's correlation of rows.")
ConcordanceCorrelation = _metric("ConcordanceCorrelation", "concordance_correlation", "Lin's correlation of rows.")
Poisson = _metric("Poisson", "poisson", "y_pred - y_true log(y_pred).")
KLDivergence = _metric("KLDivergence", "kl_divergence", "Sum of y_true log(y_true / y_pred).", "kl_divergence")
Hinge = _metric("Hinge", "hinge", "max(1 - y_true y_pred, 0).")
SquaredHinge = _metric("SquaredHinge", "squared_hinge", "Its square.")
CategoricalHinge = _metric("CategoricalHinge", "categorical_hinge", "The hinge loss of rows.")
Mean = _metric("Mean", "mean", "The mean of the outputs.")
Sum = _metric("Sum", "sum", "The sum of the outputs.")


class _Crossentropy(Metric):
    def __init__(self, name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None,
                 from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1):
        super().__init__(name, dtype, from_logits=bool(from_logits), label_smoothing=float(label_smoothing))


class BinaryCrossentropy(_Crossentropy):
    """Cross entropy of probabilities, or logits."""

    _kind = "sigmoid_cross_entropy"


class CategoricalCrossentropy(_Crossentropy):
    """Cross entropy of rows."""

    _kind = "softmax_cross_entropy"


class SparseCategoricalCrossentropy(Metric):
    """Cross entropy of rows, of classes."""

    _kind, _classes = "sparse_softmax_cross_entropy", True

    def __init__(self, name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None,
                 from_logits: bool = False, axis: int = -1):
        super().__init__(name, dtype, from_logits=bool(from_logits))


class _Thresholds(Metric):
    def __init__(self, thresholds: Thresholds = None, name: typing.Optional[str] = None,
                 dtype: typing.Optional[DTypeLike] = None, **options: typing.Any):
        if thresholds is not None:
            thresholds = [float(t) for t in np.atleast_1d(thresholds)]
        super().__init__(name, dtype, thresholds=thresholds, **options)


class FalsePositives(_Thresholds):
    """Outputs above the threshold whose target is 0."""

    _kind = "false_positives"


class TruePositives(_Thresholds):
    """Outputs above the threshold whose target is 1."""

    _kind = "true_positives"


class TrueNegatives(_Thresholds):
    """Outputs up to the threshold whose target is 0."""

    _kind = "true_negatives"


class FalseNegatives(_Thresholds):
    """Outputs up to the threshold whose target is 1."""

    _kind = "false_negatives"


class Precision(_Thresholds):
    """True positives / all hits."""

    _kind = "precision"

    def __init__(self, thresholds: Thresholds = None, top_k: typing.Optional[int] = None,
                 class_id: typing.Optional[int] = None, name: typing.Optional[str] = None,
                 dtype: typing.Optional[DTypeLike] = None):
        super().__init__(thresholds, name, dtype, top_k=top_k, class_id=class_id)


class Recall(Precision):
    """True positives / all positives."""

    _kind = "recall"


class _At(Metric):
    def __init__(self, at: float, num_thresholds: int = 200, class_id: typing.Optional[int] = None,
                 name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None):
        super().__init__(name, dtype, at=float(at), thresholds=int(num_thresholds), class_id=class_id)


class PrecisionAtRecall(_At):
    """The best precision among thresholds with at least this recall."""

    _kind = "precision_at_recall"


class RecallAtPrecision(_At):
    """The best recall among thresholds with at least this precision."""

    _kind = "recall_at_precision"


class SensitivityAtSpecificity(_At):
    """The best recall of positives among thresholds with at least this recall of negatives."""

    _kind = "sensitivity_at_specificity"


class SpecificityAtSensitivity(_At):
    """The best recall of negatives among thresholds with at least this recall of positives."""

    _kind = "specificity_at_sensitivity"


class AUC(Metric):
    """The area under a curve: "ROC" or "PR"."""

    _kind, _default = "auc", "auc"

    def __init__(self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
                 name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None,
                 thresholds: typing.Optional[typing.Sequence[float]] = None, multi_label: bool = False,
                 num_labels: typing.Optional[int] = None, label_weights: typing.Optional[typing.Sequence[float]] = None,
                 from_logits: bool = False):
        super().__init__(name, dtype, num_thresholds=int(num_thresholds), curve=curve.lower(), sum=summation_method,
                         thresholds=None if thresholds is None else [float(t) for t in thresholds],
                         multi_label=bool(multi_label), from_logits=bool(from_logits),
                         label_weights=None if label_weights is None else [float(w) for w in label_weights])


class FBetaScore(Metric):
    """(1 + beta^2) precision recall / (beta^2 precision + recall), of each class or their average."""

    _kind, _default = "f_beta", "fbeta_score"

    def __init__(self, average: typing.Optional[str] = None, beta: float = 1.0,
                 threshold: typing.Optional[float] = None, name: typing.Optional[str] = None,
                 dtype: typing.Optional[DTypeLike] = None):
        super().__init__(name, dtype, average=average or "none", beta=float(beta), threshold=threshold)


class F1Score(FBetaScore):
    """2 precision recall / (precision + recall)."""

    _kind, _default = "f1", "f1_score"

    def __init__(self, average: typing.Optional[str] = None, threshold: typing.Optional[float] = None,
                 name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None):
        Metric.__init__(self, name, dtype, average=average or "none", threshold=threshold)


class ClassPrecision(FBetaScore):
    """True positives / hits, of each class or their average; Keras has no such metric."""

    _kind, _default = "class_precision", "class_precision"

    def __init__(self, average: typing.Optional[str] = None, threshold: typing.Optional[float] = None,
                 name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None):
        Metric.__init__(self, name, dtype, average=average or "none", threshold=threshold)


class ClassRecall(ClassPrecision):
    """True positives / positives, of each class or their average; Keras has no such metric."""

    _kind, _default = "class_recall", "class_recall"


class Perplexity(Metric):
    """exp of the mean cross entropy of all tokens; targets are classes."""

    _kind, _classes = "perplexity", True

    def __init__(self, from_logits: bool = False, ignore_class: typing.Optional[int] = None,
                 name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None):
        super().__init__(name, dtype, from_logits=bool(from_logits), ignore_class=ignore_class)


class ConfusionMatrix(Metric):
    """Counts by class of the target (row) and of the output (column); Keras has no such metric."""

    _kind, _classes = "confusion_matrix", True

    def __init__(self, num_classes: int, ignore_class: typing.Optional[int] = None, name: typing.Optional[str] = None,
                 dtype: typing.Optional[DTypeLike] = None):
        super().__init__(name, dtype, classes=int(num_classes), ignore_class=ignore_class)


class R2Score(Metric):
    """The coefficient of determination."""

    _kind, _default = "r2_score", "r2_score"

    def __init__(self, class_aggregation: typing.Optional[str] = "uniform_average", num_regressors: int = 0,
                 name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None):
        names = {"uniform_average": "uniform", "variance_weighted_average": "variance_weighted", None: "none"}
        super().__init__(name, dtype, average=names[class_aggregation], regressors=int(num_regressors))


class MeanIoU(Metric):
    """The mean over classes of intersection / union."""

    _kind, _default = "mean_iou", "mean_io_u"

    def __init__(self, num_classes: int, name: typing.Optional[str] = None, dtype: typing.Optional[DTypeLike] = None,
                 ignore_class: typing.Optional[int] = None, sparse_y_true: bool = True, sparse_y_pred: bool = True,
                 axis: int = -1):
        super().__init__(name, dtype, classes=int(num_classes), ignore_class=ignore_class)
        self._classes = sparse_y_true


class _Function(Metric):
    def __init__(self, function: typing.Callable):
        super().__init__(getattr(function, "__name__", "metric"))
        self._function = function

    def get_config(self) -> dict:
        raise ValueError(f"the metric {self.name!r} is a function, which is not written with the model")

    def _metric(self, name: typing.Optional[str] = None) -> _troupe.Metric:
        return _native.metric_of_python(name or self.name, self._function)


_CLASSES = {name: value for name, value in list(globals().items())
            if isinstance(value, type) and issubclass(value, Metric) and not name.startswith("_") and name != "Metric"}
_NAMES = {
    **{_names.snake_case(name): name for name in _CLASSES}, **{name: name for name in _CLASSES},
    **{name: full for name, full in losses._NAMES.items() if full in _CLASSES},
    "auc": "AUC", "AUC": "AUC", "f1_score": "F1Score", "cosine_similarity": "CosineSimilarity", "r2_score": "R2Score",
}


def get(identifier: MetricLike) -> typing.Optional[Metric]:
    """The metric of a name, a configuration, a class, an object or a function. "accuracy" suits the targets.

    >>> get("accuracy").name
    'accuracy'
    """
    if identifier in ("accuracy", "acc"):
        return _Accuracy(str(identifier))
    if isinstance(identifier, dict) and identifier["class_name"] == "_Accuracy":
        return _Accuracy(**identifier["config"])
    found = _parts.lookup("metric", identifier, _CLASSES, _NAMES)
    if isinstance(found, losses.Loss):
        return _Function(found.call) if not found._kind else _of_loss(found)
    return found if found is None or isinstance(found, Metric) else _Function(found)


def _of_loss(loss: losses.Loss) -> Metric:
    made = Metric(loss.name, **loss._options())
    made._kind = loss._kind
    made._classes = isinstance(loss, losses.SparseCategoricalCrossentropy)
    return made
