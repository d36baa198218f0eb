"""Training of troupe.keras beside Keras's: losses, metrics, histories and summaries, where TensorFlow is installed
(tools/setup.sh --with-peers)."""

import os
import re

import numpy as np
import pytest
from troupe import keras as ours

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip("tensorflow").config.run_functions_eagerly(True)  # to trace each of the models takes longer
theirs = pytest.importorskip("keras")

RANDOM = np.random.default_rng(7)
ROWS = 50  # not a multiple of a batch


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


X = numbers(ROWS, 6)
CLASSES = RANDOM.integers(0, 3, ROWS)
ONE_HOT = np.eye(3, dtype=np.float32)[CLASSES]
BITS = RANDOM.integers(0, 2, (ROWS, 3)).astype(np.float32)
TARGETS = numbers(ROWS, 3)
WEIGHTS = RANDOM.random(ROWS).astype(np.float32)


def network(k, units=3, activation=None):
    return k.Sequential([k.layers.Input((6,)), k.layers.Dense(5, activation="tanh"),
                         k.layers.Dense(units, activation=activation)])


def pair(compiled, **kwargs):
    """A model of each, with the same weights, compiled by a function of the module."""
    models = [network(k, **kwargs) for k in (ours, theirs)]
    models[0].set_weights(models[1].get_weights())
    for model, k in zip(models, (ours, theirs)):
        model.compile(**compiled(k))
    return models


def same(found, expected, rtol=1e-4, atol=1e-6):
    assert sorted(found) == sorted(expected)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=rtol, atol=atol, err_msg=name)


LOSSES = [
    ("mse", TARGETS, None), ("mae", TARGETS, None), ("mean_absolute_percentage_error", TARGETS, None),
    ("msle", np.abs(TARGETS), "softplus"), ("huber", TARGETS, None), ("log_cosh", TARGETS, None),
    ("hinge", 2 * BITS - 1, None), ("squared_hinge", 2 * BITS - 1, None), ("categorical_hinge", ONE_HOT, "softmax"),
    ("poisson", np.abs(TARGETS), "softplus"), ("kl_divergence", ONE_HOT, "softmax"),
    ("cosine_similarity", TARGETS, None), ("binary_crossentropy", BITS, "sigmoid"),
    ("categorical_crossentropy", ONE_HOT, "softmax"), ("sparse_categorical_crossentropy", CLASSES, "softmax"),
    ("sparse_categorical_crossentropy", CLASSES.reshape(-1, 1).astype(np.uint8), "softmax"),
    ("binary_focal_crossentropy", BITS, "sigmoid"), ("categorical_focal_crossentropy", ONE_HOT, "softmax"),
]


@pytest.mark.parametrize("loss,y,activation", LOSSES)
def test_losses_by_name(loss, y, activation):
    mine, peer = pair(lambda k: {"optimizer": "sgd", "loss": loss}, activation=activation)
    np.testing.assert_allclose(mine.evaluate(X, y, verbose=0), peer.evaluate(X, y, verbose=0), rtol=1e-4)
    np.testing.assert_allclose(mine.evaluate(X, y, sample_weight=WEIGHTS, verbose=0),
                               peer.evaluate(X, y, sample_weight=WEIGHTS, verbose=0), rtol=1e-4)


METRICS = [
    (["accuracy"], CLASSES, "softmax", "sparse_categorical_crossentropy"),
    (["accuracy"], ONE_HOT, "softmax", "categorical_crossentropy"),
    (["accuracy", "binary_crossentropy"], BITS, "sigmoid", "mse"),
    (["sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy"], CLASSES, "softmax",
     "sparse_categorical_crossentropy"),
    (["mse", "mae", "RootMeanSquaredError", "R2Score", "cosine_similarity"], TARGETS, None, "mse"),
]


@pytest.mark.parametrize("metrics,y,activation,loss", METRICS)
def test_metrics_by_name(metrics, y, activation, loss):
    mine, peer = pair(lambda k: {"optimizer": "sgd", "loss": loss, "metrics": metrics}, activation=activation)
    same(mine.evaluate(X, y, verbose=0, return_dict=True), peer.evaluate(X, y, verbose=0, return_dict=True))


@pytest.mark.parametrize("make", [
    lambda m: m.AUC(), lambda m: m.AUC(curve="PR", num_thresholds=50), lambda m: m.Precision(), lambda m: m.Recall(),
    lambda m: m.Precision(thresholds=0.3), lambda m: m.TruePositives(), lambda m: m.FalseNegatives(),
    lambda m: m.PrecisionAtRecall(0.5), lambda m: m.SensitivityAtSpecificity(0.4), lambda m: m.BinaryAccuracy(
        threshold=0.4), lambda m: m.F1Score(average="macro", threshold=0.5)])
def test_metrics_as_objects(make):
    mine, peer = pair(lambda k: {"optimizer": "sgd", "loss": "mse", "metrics": [make(k.metrics)],
                                 "weighted_metrics": [k.metrics.BinaryAccuracy(name="weighted")]},
                      activation="sigmoid")
    found = mine.evaluate(X, BITS, sample_weight=WEIGHTS, verbose=0, return_dict=True)
    expected = peer.evaluate(X, BITS, sample_weight=WEIGHTS, verbose=0, return_dict=True)
    same({re.sub(r"_\d+$", "", k): v for k, v in found.items()},
         {re.sub(r"_\d+$", "", k): v for k, v in expected.items()}, rtol=1e-3)


@pytest.mark.parametrize("optimizer", [
    lambda o: o.SGD(0.1), lambda o: o.SGD(0.05, momentum=0.9), lambda o: o.SGD(0.05, momentum=0.9, nesterov=True),
    lambda o: o.Adam(0.01), lambda o: o.RMSprop(0.01), lambda o: o.Adam(0.01, clipnorm=0.1),
    lambda o: o.SGD(0.1, clipvalue=0.01), lambda o: o.SGD(0.1, global_clipnorm=0.1)])
def test_histories(optimizer):
    mine, peer = pair(lambda k: {"optimizer": optimizer(k.optimizers), "loss": "sparse_categorical_crossentropy",
                                 "metrics": ["accuracy"]}, activation="softmax")
    given = {"epochs": 4, "batch_size": 16, "shuffle": False, "verbose": 0, "validation_split": 0.2,
             "class_weight": {0: 1.0, 1: 0.5, 2: 2.0}}
    found, expected = (model.fit(X, CLASSES, **given) for model in (mine, peer))
    assert found.epoch == expected.epoch and list(found.history) == list(expected.history)
    same(found.history, expected.history, rtol=2e-4)
    for a, b in zip(mine.get_weights(), peer.get_weights()):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_histories_of_a_convolution_with_batch_normalisation():
    images, classes = numbers(48, 8, 8, 2), RANDOM.integers(0, 3, 48)
    models = []
    for k in (ours, theirs):
        models.append(k.Sequential([
            k.layers.Input((8, 8, 2)), k.layers.Conv2D(4, 3, use_bias=False), k.layers.BatchNormalization(),
            k.layers.ReLU(), k.layers.MaxPooling2D(), k.layers.Flatten(),
            k.layers.Dense(3, kernel_regularizer=k.regularizers.L2(0.01))]))
        models[-1].compile(k.optimizers.SGD(0.1), k.losses.SparseCategoricalCrossentropy(from_logits=True),
                           metrics=["accuracy"])
    models[0].set_weights(models[1].get_weights())
    found, expected = (m.fit(images, classes, epochs=3, batch_size=16, shuffle=False, verbose=0,
                             validation_data=(images, classes)).history for m in models)
    same(found, expected, rtol=1e-3)
    for a, b in zip(models[0].get_weights(), models[1].get_weights()):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


def test_histories_of_several_outputs():
    models = []
    for k in (ours, theirs):
        x = k.layers.Input((6,))
        h = k.layers.Dense(4, activation="relu")(x)
        model = k.Model(x, [k.layers.Dense(3, name="kind", activation="softmax")(h),
                            k.layers.Dense(1, name="price")(h)])
        model.compile("sgd", ["sparse_categorical_crossentropy", "mse"], loss_weights=[1.0, 0.3],
                      metrics=[["accuracy"], ["mae"]])
        models.append(model)
    models[0].set_weights(models[1].get_weights())
    y = [CLASSES, numbers(ROWS)]
    # Of a smaller last batch Keras's losses of outputs would count as much as of a whole one.
    found, expected = (m.fit(X, y, epochs=3, batch_size=25, shuffle=False, verbose=0).history for m in models)
    same(found, expected, rtol=1e-3)


def test_summaries(capsys):
    ours.utils.clear_session()
    theirs.utils.clear_session()
    printed = []
    for k in (ours, theirs):
        k.Sequential([k.layers.Input((8, 8, 2)), k.layers.Conv2D(4, 3), k.layers.BatchNormalization(),
                      k.layers.Flatten(), k.layers.Dense(300)]).summary(line_length=80)
        printed.append(capsys.readouterr().out)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", text) for text in printed]
    assert [line.split() for line in plain[0].splitlines() if "│" in line or ":" in line] == [
        line.split() for line in plain[1].splitlines() if "│" in line or ":" in line]
    assert printed[0].count("\n") == printed[1].count("\n")


def test_predictions_have_the_forms_of_keras():
    shapes = []
    for k in (ours, theirs):
        x = k.layers.Input((6,), name="x")
        d = k.layers.Dense(2, name="d")(x)
        several = k.Model({"x": x}, {"a": d, "b": [d, k.layers.Dense(1, name="e")(d)]})
        found = several.predict({"x": X}, verbose=0)
        shapes.append((found["a"].shape, [v.shape for v in found["b"]], several.output_shape["a"]
                       if isinstance(several.output_shape, dict) else None))
    assert shapes[0][:2] == shapes[1][:2]
