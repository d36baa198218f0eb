"""Layers and models of troupe.keras on values: in eager mode, in tapes, and between trainings."""

import numpy as np
import pytest
import troupe
from troupe import keras, saved_model
from troupe.keras import Input, Model, Sequential, layers, ops

RANDOM = np.random.default_rng(4)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def a_model():
    return Sequential([Input((4,)), layers.Dense(8, activation="tanh"), layers.Dense(1)])


def test_layers_compute_values():
    x = numbers(3, 4)
    dense = layers.Dense(2)
    found = dense(x)
    assert isinstance(found, troupe.Tensor)
    np.testing.assert_allclose(found.numpy(), x @ dense.kernel.numpy() + dense.bias.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(dense(troupe.tensor(x)).numpy(), found.numpy())
    assert np.array_equal(layers.Dropout(0.5)(x).numpy(), x)
    assert (layers.Dropout(0.5)(x, training=True).numpy() == 0).any()
    np.testing.assert_allclose(keras.activations.relu(troupe.tensor(x)).numpy(), np.maximum(x, 0))


def test_models_compute_values_and_gradients():
    x, y = numbers(16, 4), numbers(16, 1)
    model = a_model()
    np.testing.assert_allclose(model(x).numpy(), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)
    optimizer = keras.optimizers.Adam(0.05)
    losses = []
    for _ in range(20):
        with troupe.GradientTape() as tape:
            loss = keras.losses.MeanSquaredError()(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 2 and len(variables) == 4
    # fit, predict and the tape have one set of weights.
    np.testing.assert_allclose(model.predict(x, verbose=0), model(x).numpy(), rtol=1e-5, atol=1e-6)
    model.compile("sgd", "mse")
    before = variables[0].numpy()
    model.fit(x, y, epochs=1, verbose=0)
    assert not np.array_equal(before, variables[0].numpy())
    np.testing.assert_allclose(model.predict(x, verbose=0), model(x).numpy(), rtol=1e-5, atol=1e-6)


class Scale(layers.Layer):
    def build(self, input_shape):
        self.factor = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="factor")

    def call(self, x):
        return x * self.factor + ops.mean(x, axis=-1, keepdims=True)


class Net(Model):
    def __init__(self):
        super().__init__()
        self.scale, self.dense = Scale(), layers.Dense(2)

    def call(self, x, training=None):
        x = ops.relu(self.scale(x))
        return self.dense(x) * (2.0 if training else 1.0)


def test_functions_of_python_are_the_same_on_values_and_in_graphs():
    x = numbers(5, 4)
    net = Net()
    found = net(x)
    hidden = np.maximum(x * net.scale.factor.numpy() + x.mean(-1, keepdims=True), 0)
    np.testing.assert_allclose(found.numpy(), hidden @ net.dense.kernel.numpy() + net.dense.bias.numpy(), rtol=1e-5,
                               atol=1e-6)
    np.testing.assert_allclose(net.predict(x, verbose=0), found.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net(x, training=True).numpy(), 2 * found.numpy(), rtol=1e-5, atol=1e-6)
    net.compile("sgd", "mse")
    net.fit(x, numbers(5, 2), verbose=0)
    assert not np.array_equal(net.scale.factor.numpy(), np.ones(4))
    np.testing.assert_allclose(net.predict(x, verbose=0), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_layers_of_python_in_networks():
    x = Input((4,))
    model = Model(x, layers.Dense(1)(layers.Lambda(lambda t: ops.exp(t))(Scale(name="s")(x))))
    value = numbers(6, 4)
    np.testing.assert_allclose(model(value).numpy(), model.predict(value, verbose=0), rtol=1e-5, atol=1e-6)
    assert [w.path for w in model.weights][0] == "s/factor"


def test_losses_and_metrics_of_ones_own():
    def distance(y_true, y_pred):
        return ops.abs(y_true - y_pred)

    x, y = numbers(16, 4), numbers(16)
    model = a_model()
    model.compile("sgd", loss=distance, metrics=[distance, "mae"])
    loss, own, mae = model.evaluate(x, y, verbose=0)
    assert loss == pytest.approx(own, rel=1e-6) and own == pytest.approx(mae, rel=1e-6)
    history = model.fit(x, y, epochs=2, verbose=0).history
    assert sorted(history) == ["distance", "loss", "mae"]


def test_batch_normalisation_moves_its_averages_in_training_only():
    layer, x = layers.BatchNormalization(momentum=0.5), numbers(64, 3) * 2 + 5
    layer(x)
    assert layer.get_weights()[2].tolist() == [0, 0, 0]
    layer(x, training=True)
    np.testing.assert_allclose(layer.get_weights()[2], x.mean(0) / 2, rtol=1e-4)
    np.testing.assert_allclose(layer.get_weights()[3], (1 + x.var(0, ddof=1)) / 2, rtol=1e-4)


def test_metrics_of_values():
    metric = keras.metrics.SparseCategoricalAccuracy()
    metric.update_state([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    metric.update_state([1], [[0.1, 0.9]])
    assert metric.result() == pytest.approx(2 / 3)
    metric.reset_state()
    assert metric.result() == 0


def test_losses_of_values():
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = loss(np.array([0, 1]), np.array([[2.0, 0.0], [0.0, 1.0]], np.float32))
    assert float(found) == pytest.approx((np.log1p(np.exp(-2)) + np.log1p(np.exp(-1))) / 2, rel=1e-5)


def test_what_is_saved_and_exported_is_what_others_read(tmp_path):
    x = numbers(3, 4)
    net = Net()
    expected = net.predict(x, verbose=0)
    net.export(tmp_path / "net")
    np.testing.assert_allclose(saved_model.load(tmp_path / "net", threads=1).run(x)["output"], expected, rtol=1e-5)
    model = a_model()
    model.save(tmp_path / "m")
    found = saved_model.load(tmp_path / "m", threads=1).run(x)
    np.testing.assert_allclose(next(iter(found.values())), model.predict(x, verbose=0), rtol=1e-5)
