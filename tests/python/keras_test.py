"""Losses and metrics beside Keras', where TensorFlow is installed (tools/setup.sh --with-peers)."""

import os

import numpy as np
import pytest
import troupe

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

RANDOM = np.random.default_rng(11)
N, C = 64, 5
LOGITS = RANDOM.standard_normal((N, C)).astype(np.float32) * 2
NUMBERS = RANDOM.standard_normal((N, C)).astype(np.float32)
PROBABILITIES = (1 / (1 + np.exp(-LOGITS))).astype(np.float32)
BITS = (RANDOM.random((N, C)) < PROBABILITIES).astype(np.float32)
CLASSES = RANDOM.integers(0, C, N).astype(np.int32)
ONE_HOT = np.eye(C, dtype=np.float32)[CLASSES]
SOFT = (np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)).astype(np.float32)
SOFT_TARGETS = (np.exp(NUMBERS) / np.exp(NUMBERS).sum(1, keepdims=True)).astype(np.float32)
WEIGHTS = RANDOM.random(N).astype(np.float32) * (RANDOM.random(N) < 0.8)
UNIT = LOGITS / np.linalg.norm(LOGITS, axis=1, keepdims=True)
L, M = keras.losses, keras.metrics

LOSSES = [
    ("mean_squared_error", {}, L.MeanSquaredError, {}, LOGITS, NUMBERS),
    ("mean_absolute_error", {}, L.MeanAbsoluteError, {}, LOGITS, NUMBERS),
    ("mean_absolute_percentage_error", {}, L.MeanAbsolutePercentageError, {}, LOGITS, NUMBERS),
    ("mean_squared_logarithmic_error", {}, L.MeanSquaredLogarithmicError, {}, LOGITS, np.abs(NUMBERS)),
    ("huber", {"delta": 0.7}, L.Huber, {"delta": 0.7}, LOGITS, NUMBERS),
    ("log_cosh", {}, L.LogCosh, {}, np.abs(LOGITS) + NUMBERS, NUMBERS),
    ("hinge", {}, L.Hinge, {}, LOGITS, 2 * BITS - 1),
    ("squared_hinge", {}, L.SquaredHinge, {}, LOGITS, 2 * BITS - 1),
    # Keras' greatest wrong output is at least 0, that of the right class.
    ("categorical_hinge", {}, L.CategoricalHinge, {}, PROBABILITIES, ONE_HOT),
    ("poisson", {}, L.Poisson, {}, PROBABILITIES, BITS),
    ("kl_divergence", {}, L.KLDivergence, {}, SOFT, SOFT_TARGETS),
    ("sigmoid_cross_entropy", {}, L.BinaryCrossentropy, {"from_logits": True}, LOGITS, BITS),
    ("sigmoid_cross_entropy", {"from_logits": False, "label_smoothing": 0.1}, L.BinaryCrossentropy,
     {"label_smoothing": 0.1}, PROBABILITIES, BITS),
    ("binary_focal", {"balance_classes": False}, L.BinaryFocalCrossentropy, {"from_logits": True}, LOGITS, BITS),
    ("binary_focal", {"alpha": 0.6, "gamma": 1.5, "from_logits": False}, L.BinaryFocalCrossentropy,
     {"alpha": 0.6, "gamma": 1.5, "apply_class_balancing": True}, PROBABILITIES, BITS),
    ("softmax_cross_entropy", {"label_smoothing": 0.2}, L.CategoricalCrossentropy,
     {"label_smoothing": 0.2, "from_logits": True}, LOGITS, SOFT_TARGETS),
    ("softmax_cross_entropy", {"from_logits": False}, L.CategoricalCrossentropy, {}, SOFT, SOFT_TARGETS),
    ("categorical_focal", {"alpha": 0.4, "gamma": 3.0}, L.CategoricalFocalCrossentropy,
     {"alpha": 0.4, "gamma": 3.0, "from_logits": True}, LOGITS, ONE_HOT),
    ("sparse_softmax_cross_entropy", {"ignore_class": 2}, L.SparseCategoricalCrossentropy,
     {"ignore_class": 2, "from_logits": True}, LOGITS, CLASSES),
    ("sparse_softmax_cross_entropy", {"from_logits": False}, L.SparseCategoricalCrossentropy, {}, SOFT, CLASSES),
    ("generalized_cross_entropy", {"from_logits": False, "q": 0.3}, L.CategoricalGeneralizedCrossEntropy, {"q": 0.3},
     SOFT, CLASSES),
    ("dice", {}, L.Dice, {"axis": (1,)}, PROBABILITIES, BITS),
    # Keras' alpha is the weight of misses, beta that of wrong hits.
    ("tversky", {"wrong_hit_weight": 0.3, "miss_weight": 0.9}, L.Tversky, {"alpha": 0.9, "beta": 0.3, "axis": (1,)},
     PROBABILITIES, BITS),
    ("circle", {"circle_scale": 10, "margin": 0.3}, L.Circle, {"gamma": 10, "margin": 0.3}, UNIT, CLASSES),
]


def graph_of(arrays):
    g = troupe.Graph()
    return g, [g.placeholder("i32" if a.dtype == np.int32 else "f32", [None, *a.shape[1:]]) for a in arrays]


@pytest.mark.parametrize("kind,options,theirs,their_options,outputs,targets", LOSSES)
def test_losses(kind, options, theirs, their_options, outputs, targets):
    g, (x, y, w) = graph_of([outputs, targets, WEIGHTS])
    each = troupe.loss(kind, x, y, **options)
    with troupe.Session(g, threads=1) as session:
        found, mean = session.run({x: outputs, y: targets, w: WEIGHTS}, [each, troupe.weighted_mean(each, w)])
    expected = theirs(reduction=None, **their_options)(targets, outputs).numpy()
    np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-6)
    if "ignore_class" not in options and kind != "circle":  # of which Keras leaves examples out of n
        np.testing.assert_allclose(mean, theirs(**their_options)(targets, outputs, sample_weight=WEIGHTS), rtol=3e-5)


def test_cosine_distances():
    g, (x, y) = graph_of([LOGITS, NUMBERS])
    with troupe.Session(g, threads=1) as session:
        found = session.run({x: LOGITS, y: NUMBERS}, troupe.loss("cosine_distance", x, y))
    np.testing.assert_allclose(found, 1 + L.CosineSimilarity(reduction=None)(NUMBERS, LOGITS), rtol=1e-5, atol=1e-6)


METRICS = [
    ("accuracy", {}, M.SparseCategoricalAccuracy, {}, LOGITS, CLASSES),
    ("accuracy", {}, M.CategoricalAccuracy, {}, LOGITS, ONE_HOT),
    ("top_k_accuracy", {"k": 2}, M.SparseTopKCategoricalAccuracy, {"k": 2}, LOGITS, CLASSES),
    ("top_k_accuracy", {"k": 3}, M.TopKCategoricalAccuracy, {"k": 3}, LOGITS, ONE_HOT),
    ("binary_accuracy", {"threshold": 0.6}, M.BinaryAccuracy, {"threshold": 0.6}, PROBABILITIES, BITS),
    ("equality", {}, M.Accuracy, {}, (CLASSES * 3 % 4).astype(np.int32), CLASSES),
    ("mean_absolute_error", {}, M.MeanAbsoluteError, {}, LOGITS, NUMBERS),
    ("root_mean_squared_error", {}, M.RootMeanSquaredError, {}, LOGITS, NUMBERS),
    ("cosine_similarity", {}, M.CosineSimilarity, {}, LOGITS, NUMBERS),
    ("pearson_correlation", {}, M.PearsonCorrelation, {}, LOGITS, NUMBERS),
    ("concordance_correlation", {}, M.ConcordanceCorrelation, {}, LOGITS, NUMBERS),
    ("sum", {}, M.Sum, {}, LOGITS, NUMBERS),
    ("kl_divergence", {}, M.KLDivergence, {}, SOFT, SOFT_TARGETS),
    ("sparse_softmax_cross_entropy", {}, M.SparseCategoricalCrossentropy, {"from_logits": True}, LOGITS, CLASSES),
    ("r2_score", {}, M.R2Score, {}, LOGITS, NUMBERS),
    ("r2_score", {"average": "none"}, M.R2Score, {"class_aggregation": None}, LOGITS, NUMBERS),
    ("precision", {"thresholds": [0.2, 0.5, 0.9]}, M.Precision, {"thresholds": [0.2, 0.5, 0.9]}, PROBABILITIES, BITS),
    ("recall", {"top_k": 2}, M.Recall, {"top_k": 2}, PROBABILITIES, BITS),
    ("recall", {"class_id": 1, "top_k": 3}, M.Recall, {"class_id": 1, "top_k": 3}, PROBABILITIES, BITS),
    ("false_negatives", {}, M.FalseNegatives, {}, PROBABILITIES, BITS),
    ("true_negatives", {"thresholds": [0.1, 0.7]}, M.TrueNegatives, {"thresholds": [0.1, 0.7]}, PROBABILITIES, BITS),
    ("precision_at_recall", {"at": 0.7}, M.PrecisionAtRecall, {"recall": 0.7}, PROBABILITIES, BITS),
    ("recall_at_precision", {"at": 0.7}, M.RecallAtPrecision, {"precision": 0.7}, PROBABILITIES, BITS),
    ("sensitivity_at_specificity", {"at": 0.7}, M.SensitivityAtSpecificity, {"specificity": 0.7}, PROBABILITIES, BITS),
    ("specificity_at_sensitivity", {"at": 0.7, "thresholds": 30}, M.SpecificityAtSensitivity,
     {"sensitivity": 0.7, "num_thresholds": 30}, PROBABILITIES, BITS),
    ("f1", {"average": "none"}, M.F1Score, {}, SOFT, ONE_HOT),
    ("f_beta", {"beta": 0.5, "average": "weighted", "threshold": 0.4}, M.FBetaScore,
     {"beta": 0.5, "average": "weighted", "threshold": 0.4}, PROBABILITIES, BITS),
] + [
    ("auc", {"curve": c.lower(), "sum": s}, M.AUC, {"curve": c, "summation_method": s}, PROBABILITIES, BITS)
    for c in ["ROC", "PR"] for s in ["interpolation", "minoring", "majoring"]
] + [
    ("auc", {"multi_label": True, "num_thresholds": 80}, M.AUC, {"multi_label": True, "num_thresholds": 80},
     PROBABILITIES, BITS),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind,options,theirs,their_options,outputs,targets", METRICS)
def test_metrics(kind, options, theirs, their_options, outputs, targets, weighted):
    g, (x, y, w) = graph_of([outputs, targets, WEIGHTS])
    metric = troupe.metric(kind, **options)
    sums = metric.sums(x, y, w if weighted else None)
    expected = theirs(**their_options)
    total = 0
    with troupe.Session(g, threads=2) as session:
        for part in [slice(0, 10), slice(10, 31), slice(31, N)]:
            feeds = {x: outputs[part], y: targets[part], w: WEIGHTS[part]}
            total = total + session.run(feeds, sums)
            values = [outputs[part]] if kind == "sum" else [targets[part], outputs[part]]
            expected.update_state(*values, sample_weight=WEIGHTS[part] if weighted else None)
    np.testing.assert_allclose(metric.result(total), np.asarray(expected.result()), rtol=3e-5, atol=1e-6)


def test_unknown_names_and_options_are_refused():
    g, (x, y) = graph_of([LOGITS, NUMBERS])
    with pytest.raises(troupe.Error, match="there is no metric 'acuracy'"):
        troupe.metric("acuracy")
    with pytest.raises(troupe.Error, match="metric 'accuracy' has no option 'k'; it has name"):
        troupe.metric("accuracy", k=2)
    with pytest.raises(troupe.Error, match="there is no loss 'hing'"):
        troupe.loss("hing", x, y)
    with pytest.raises(troupe.Error, match='average must be one of macro, micro, none, weighted, not "all"'):
        troupe.metric("f1", average="all")
    assert "hinge" in troupe.loss_names() and "auc" in troupe.metric_names()
