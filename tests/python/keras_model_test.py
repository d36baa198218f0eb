"""Models of troupe.keras: what a program of Keras does, with nothing changed but its imports."""

import json
import os
import pathlib
import signal
import threading

import numpy as np
import pytest
import troupe
from troupe import keras
from troupe.keras import Input, Model, Sequential, callbacks, layers, models

RANDOM = np.random.default_rng(3)
SHARED_MNIST = pathlib.Path(__file__).resolve().parents[2].parent / "shared/data/mnist"

# The program of Keras's guide for beginners; only its imports and the place of the data are others.
PROGRAM = """
(x_train, y_train), (x_test, y_test) = load_data()
x_train, x_test = x_train / 255.0, x_test / 255.0

model = models.Sequential([
    layers.Flatten(input_shape=(28, 28)),
    layers.Dense(128, activation='relu'),
    layers.Dense(10, activation='softmax'),
])
model.compile(optimizer='adam',
              loss='sparse_categorical_crossentropy',
              metrics=['accuracy'])
model.fit(x_train, y_train, epochs=5)
test_loss, test_acc = model.evaluate(x_test, y_test, verbose=2)
model.save(directory)
"""


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def fresh_names():
    keras.utils.clear_session()


def regression(rows=64):
    x = numbers(rows, 4)
    return x, (x @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32) + 1).astype(np.float32)


def a_model(**compiled):
    model = Sequential([Input((4,)), layers.Dense(8, activation="tanh"), layers.Dense(1)])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **compiled})
    return model


def test_the_program_of_the_guide(tmp_path, capsys):
    names = {"models": models, "layers": layers, "directory": str(tmp_path / "digits"),
             "load_data": lambda: keras.datasets.digits.load_data(1000, 500)}
    exec(PROGRAM, names)
    printed = capsys.readouterr().out
    assert "Epoch 5/5" in printed and "32/32 ━━━━━━━━━━━━━━━━━━━━" in printed and "accuracy: 0." in printed
    assert names["test_acc"] > 0.7
    again = models.load_model(tmp_path / "digits")
    assert again.evaluate(names["x_test"], names["y_test"], verbose=0) == [names["test_loss"], names["test_acc"]]
    assert isinstance(json.loads((tmp_path / "digits/metadata.json").read_text()), dict)


@pytest.mark.skipif(not SHARED_MNIST.exists(), reason="no MNIST in ../shared/data")
def test_mnist_is_read_from_its_files():
    (x, y), (x_test, y_test) = keras.datasets.mnist.load_data(SHARED_MNIST)
    assert x.shape == (60000, 28, 28) and y.shape == (60000,) and x_test.shape == (10000, 28, 28)
    assert x.dtype == np.uint8 and y_test[:4].tolist() == [7, 2, 1, 0]


def test_without_files_mnist_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing is downloaded. Give load_data"):
        keras.datasets.mnist.load_data(tmp_path)
    x = np.zeros((2, 28, 28), np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=x[:, 0, 0], x_test=x, y_test=x[:, 0, 0])
    assert keras.datasets.mnist.load_data(tmp_path)[0][0].shape == (2, 28, 28)


def test_training_learns_and_keeps_its_history():
    x, y = regression()
    model = a_model(optimizer="adam", metrics=["mae"])
    history = model.fit(x, y, batch_size=16, epochs=3, validation_split=0.25, verbose=0)
    assert history.epoch == [0, 1, 2] and model.history is history
    assert list(history.history) == ["loss", "mae", "val_loss", "val_mae"]
    assert history.history["loss"][-1] < history.history["loss"][0]
    more = model.fit(x, y, batch_size=16, initial_epoch=3, epochs=5, verbose=0)
    assert more.epoch == [3, 4] and more.history["loss"][-1] < history.history["loss"][-1]


def test_two_trainings_are_one():
    x, y = regression()
    once, twice = a_model(optimizer="adam"), a_model(optimizer="adam")
    twice.set_weights(once.get_weights())
    once.fit(x, y, epochs=4, verbose=0)
    twice.fit(x, y, epochs=2, verbose=0)
    twice.fit(x, y, epochs=2, verbose=0)
    for a, b in zip(once.get_weights(), twice.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_weights_are_the_same_before_and_after():
    x, y = regression()
    model = a_model()
    before = model.get_weights()
    np.testing.assert_allclose(model.predict(x, verbose=0),
                               np.tanh(x @ before[0] + before[1]) @ before[2] + before[3], rtol=1e-4, atol=1e-5)
    model.fit(x, y, epochs=1, verbose=0)
    after = model.get_weights()
    assert not np.array_equal(before[0], after[0])
    model.set_weights(before)
    np.testing.assert_array_equal(model.layers[0].kernel.numpy(), before[0])
    model.layers[1].bias.assign([5.0])
    np.testing.assert_allclose(model.predict(x, verbose=0),
                               np.tanh(x @ before[0] + before[1]) @ before[2] + 5, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"weight 'dense_1/bias' is \(1,\), but the value is \(2,\)"):
        model.layers[1].bias.assign([1.0, 2.0])


def test_models_share_the_weights_of_their_layers():
    x = numbers(8, 4)
    inputs = Input((4,))
    encoder = Model(inputs, layers.Dense(2, name="code")(inputs), name="encoder")
    whole = Model(inputs, layers.Dense(4)(encoder(inputs)), name="autoencoder")
    whole.compile("adam", "mse")
    before = encoder.predict(x, verbose=0)
    whole.fit(x, x, epochs=3, verbose=0)
    after = encoder.predict(x, verbose=0)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, x @ encoder.get_weights()[0] + encoder.get_weights()[1], rtol=1e-5, atol=1e-6)
    assert [layer.name for layer in whole.layers] == [inputs.name, "encoder", "dense"]


def test_several_inputs_and_outputs():
    a, b = Input((3,), name="a"), Input((2,), name="b")
    joined = layers.Concatenate()([layers.Dense(4)(a), b])
    model = Model({"a": a, "b": b}, {"kind": layers.Dense(3, name="kind")(joined),
                                     "price": layers.Dense(1, name="price")(joined)})
    model.compile("adam", {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "price": "mse"},
                  metrics={"kind": ["accuracy"]}, loss_weights={"kind": 1.0, "price": 0.5})
    x = {"a": numbers(20, 3), "b": numbers(20, 2)}
    y = {"kind": RANDOM.integers(0, 3, 20), "price": numbers(20)}
    history = model.fit(x, y, epochs=2, verbose=0).history
    assert sorted(history) == ["kind_accuracy", "kind_loss", "loss", "price_loss"]
    np.testing.assert_allclose(history["loss"], np.add(history["kind_loss"], np.multiply(0.5, history["price_loss"])),
                               rtol=1e-5)
    found = model.predict(x, verbose=0)
    assert found["kind"].shape == (20, 3) and found["price"].shape == (20, 1)
    assert sorted(model.evaluate(x, y, verbose=0, return_dict=True)) == sorted(history)
    with pytest.raises(ValueError, match="no targets for output 'price'"):
        model.fit(x, {"kind": y["kind"]}, verbose=0)


def test_models_and_layers_of_ones_own():
    class Twice(layers.Layer):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            self.dense = layers.Dense(units)

        def build(self, input_shape):
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x, training=None):
            self.trained_with = training
            return self.dense(self.dense(x))

    class Net(Model):
        def __init__(self):
            super().__init__()
            self.body = [Twice(4), layers.Dropout(0.5)]
            self.head = layers.Dense(1)

        def call(self, x):
            for layer in self.body:
                x = layer(x)
            return self.head(x)

    x, y = regression()
    model = Net()
    model.compile("adam", "mse")
    history = model.fit(x, y, epochs=2, verbose=0).history["loss"]
    assert history[1] < history[0]
    assert [w.path for w in model.weights][1:] == [ "dense/kernel", "dense/bias", "dense_1/kernel",
                                               "dense_1/bias"]
    w, b, v, c = [weight.numpy() for weight in model.weights[1:]]
    np.testing.assert_allclose(model.predict(x, verbose=0), ((x @ w + b) @ w + b) @ v + c, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="has functions of Python, which a saved model cannot hold: export"):
        model.save("nowhere")


def test_saved_models_go_on(tmp_path):
    x, y = regression()
    model = a_model(optimizer=keras.optimizers.Adam(0.01))
    model.fit(x, y, epochs=2, verbose=0)
    model.save(tmp_path / "m")
    again = models.load_model(tmp_path / "m")
    assert [layer.name for layer in again.layers] == [layer.name for layer in model.layers]
    model.fit(x, y, epochs=2, verbose=0)
    again.fit(x, y, epochs=2, verbose=0)
    for a, b in zip(model.get_weights(), again.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_saved_networks_have_their_layers(tmp_path):
    ids, price = Input((5,), dtype="int32", name="ids"), Input((1,), name="price")
    text = layers.Bidirectional(layers.LSTM(3))(layers.Embedding(9, 4, mask_zero=True)(ids))
    image = layers.MultiHeadAttention(2, 3)(layers.RepeatVector(4)(text), layers.RepeatVector(2)(text))
    joined = layers.Concatenate()([layers.GlobalAveragePooling1D()(image), price])
    model = Model([ids, price], [layers.Dense(2, kernel_regularizer="l2", name="a")(joined), joined * 2.0])
    x = [RANDOM.integers(0, 9, (6, 5)).astype(np.int32), numbers(6, 1)]
    model.save(tmp_path / "m")
    again = models.load_model(tmp_path / "m")
    for a, b in zip(model.predict(x, verbose=0), again.predict(x, verbose=0)):
        np.testing.assert_array_equal(a, b)
    assert again.get_layer("a").get_config()["kernel_regularizer"] == "l2"


def test_weights_go_through_files(tmp_path):
    x, _ = regression()
    model, other = a_model(), a_model()
    for name in ("w.npz", "w.safetensors", "w.weights.h5"):
        model.save_weights(tmp_path / name)
        other.load_weights(tmp_path / name)
        np.testing.assert_array_equal(model.predict(x, verbose=0), other.predict(x, verbose=0))
    wide = Sequential([Input((4,)), layers.Dense(9), layers.Dense(1)])
    with pytest.raises(ValueError, match=r"'dense/kernel' is \(4, 8\), but weight 'dense_4/kernel' is \(4, 9\)"):
        wide.load_weights(tmp_path / "w.npz")


def test_generators_and_sequences_are_data():
    x, y = regression(60)

    def batches():
        for i in range(0, 60, 20):
            yield x[i:i + 20], y[i:i + 20]

    class Batches(keras.utils.Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return x[20 * i:20 * i + 20], y[20 * i:20 * i + 20]

    class Again:
        def __iter__(self):
            return batches()

    def endless():
        while True:
            yield from batches()

    first = a_model()
    losses = []
    for data, more in ((x, {"y": y, "batch_size": 20, "shuffle": False}), (Batches(), {}), (Again(), {}),
                       (endless(), {"steps_per_epoch": 3})):
        model = a_model()
        model.set_weights(first.get_weights())
        losses.append(model.fit(data, epochs=2, verbose=0, **more).history["loss"])
    assert losses[1] == losses[0] and losses[2] == losses[0] and losses[3] == losses[0]
    np.testing.assert_allclose(first.evaluate(Again(), verbose=0), first.evaluate(x, y, verbose=0), rtol=1e-6)
    np.testing.assert_array_equal(first.predict((b[0] for b in batches()), verbose=0), first.predict(x, verbose=0))


def test_pipelines_are_data():
    x, y = regression(60)
    data = troupe.data.from_tensors({"x": x, "y": y}).batch(20)
    model, same = a_model(), a_model()
    same.set_weights(model.get_weights())
    losses = model.fit(data, epochs=2, verbose=0, batch_size=20).history["loss"]
    assert losses == same.fit(x, y, batch_size=20, shuffle=False, epochs=2, verbose=0).history["loss"]


def test_what_data_raises_is_raised():
    def broken():
        yield numbers(4, 4), numbers(4, 1)
        raise KeyError("no such file")

    model = a_model()
    before = model.get_weights()
    with pytest.raises(KeyError, match="no such file"):
        model.fit(broken(), epochs=1, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[1].shape, before[1].shape)
    with pytest.raises(ValueError, match="can be gone through once: give steps_per_epoch"):
        model.fit(((numbers(4, 4), numbers(4, 1)) for _ in range(2)), epochs=2, verbose=0)


def test_callbacks_are_called_in_order():
    calls = []

    class Watch(callbacks.Callback):
        def on_train_begin(self, logs=None):
            calls.append("train")

        def on_epoch_begin(self, epoch, logs=None):
            calls.append(f"epoch {epoch}")

        def on_train_batch_end(self, batch, logs=None):
            calls.append(f"batch {batch}")
            assert logs["loss"] > 0

        def on_epoch_end(self, epoch, logs=None):
            calls.append(f"end {epoch}")
            assert logs["loss"] == self.model.history.history["loss"][-1]

        def on_train_end(self, logs=None):
            calls.append("over")

    x, y = regression(64)
    a_model().fit(x, y, epochs=2, verbose=0, callbacks=[Watch()])
    epochs = [call for i in (0, 1) for call in (f"epoch {i}", "batch 0", "batch 1", f"end {i}")]
    assert calls == ["train", *epochs, "over"]


def test_callbacks_stop_and_see_the_model_of_now():
    seen = []

    class Stop(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append((logs["val_loss"], self.model.evaluate(*data, verbose=0)))
            self.model.stop_training = epoch == 1

    x, y = data = regression()
    history = a_model().fit(x, y, epochs=9, validation_data=data, verbose=0, callbacks=Stop())
    assert history.epoch == [0, 1]
    assert [a for a, _ in seen] == pytest.approx([b for _, b in seen], rel=1e-6)


def test_what_callbacks_raise_is_raised_and_the_model_is_that_of_the_moment():
    def fail(epoch, logs):
        raise ZeroDivisionError(f"in epoch {epoch}")

    x, y = regression()
    model = a_model()
    before = model.get_weights()
    with pytest.raises(ZeroDivisionError, match="in epoch 0"):
        model.fit(x, y, epochs=5, verbose=0, callbacks=[callbacks.LambdaCallback(on_epoch_end=fail)])
    assert not np.array_equal(before[0], model.get_weights()[0])


def test_early_stopping_and_its_best_weights():
    x, y = regression()
    model = a_model(optimizer=keras.optimizers.SGD(0.0))
    stop = callbacks.EarlyStopping(monitor="loss", patience=2, restore_best_weights=True)
    history = model.fit(x, y, epochs=20, verbose=0, callbacks=[stop])
    assert len(history.epoch) == 3 and stop.stopped_epoch == 2


def test_learning_rates_follow_schedules_and_plateaus():
    x, y = regression(32)
    weights = []
    for rates in ([0.1, 0.0], [0.1]):
        model = a_model()
        if weights:
            model.set_weights(weights[0])
        else:
            weights.append(model.get_weights())
        schedule = callbacks.LearningRateScheduler(lambda epoch, rate: rates[epoch])
        model.fit(x, y, epochs=len(rates), verbose=0, callbacks=[schedule])
        weights.append(model.get_weights())
    np.testing.assert_array_equal(weights[1][0], weights[2][0])
    assert not np.array_equal(weights[0][0], weights[1][0])
    model = a_model(optimizer=keras.optimizers.SGD(0.0))
    model.fit(x, y, epochs=3, verbose=0, callbacks=[callbacks.ReduceLROnPlateau("loss", patience=1)])


def test_checkpoints_and_logs(tmp_path):
    x, y = regression()
    model = a_model()
    model.fit(x, y, epochs=2, verbose=0, validation_data=(x, y), callbacks=[
        callbacks.ModelCheckpoint(tmp_path / "best", save_best_only=True),
        callbacks.ModelCheckpoint(tmp_path / "w{epoch:02d}.npz", save_weights_only=True),
        callbacks.CSVLogger(tmp_path / "log.csv"), callbacks.TensorBoard(tmp_path / "curves")])
    np.testing.assert_array_equal(models.load_model(tmp_path / "best").predict(x, verbose=0),
                                  model.predict(x, verbose=0))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best", "curves", "log.csv", "w01.npz", "w02.npz"]
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss,val_loss" and lines[2].startswith("1,")
    assert list((tmp_path / "curves").glob("**/events*"))


def test_nan_ends_the_training():
    x, y = regression()
    model = a_model(optimizer=keras.optimizers.SGD(1e30))
    assert len(model.fit(x, y, epochs=9, verbose=0, callbacks=[callbacks.TerminateOnNaN()]).epoch) < 9


def test_ctrl_c_ends_training_and_keeps_the_model():
    x, y = regression(4096)
    model = a_model()
    before = model.get_weights()
    started = threading.Event()

    class Interrupt(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, epochs=100_000, verbose=0, callbacks=[Interrupt()])
    assert not started.is_set() and not np.array_equal(before[0], model.get_weights()[0])
    model.fit(x, y, epochs=1, verbose=0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_tensor_that_call_keeps_is_an_error_once_its_graph_has_ended():
    class Keeps(layers.Layer):
        used = 0.0

        def call(self, x):
            self.kept = x * 2
            return x + self.used

    layer = Keeps()
    model = Sequential([layers.Input((2,)), layer])
    layer.used = kept = layer.kept  # of the graph that has told the shapes
    assert repr(kept) == "Tensor(of a graph that has ended)"
    for use in (lambda: kept.shape, lambda: kept + 1, lambda: kept.name):
        with pytest.raises(troupe.Error, match=r"belongs to a graph that has ended.*return it from there") as found:
            use()
        assert found.value.code == "failed_precondition"
    with pytest.raises(troupe.Error, match="belongs to a graph that has ended"):
        model.predict(np.ones((3, 2)), verbose=0)


def test_a_metric_is_not_none():
    with pytest.raises(ValueError, match="a metric is None: give a name, an object or a function"):
        a_model(metrics=["mae", None]).fit(*regression(8), verbose=0)


@pytest.mark.parametrize("run", ["evaluate", "predict"])
def test_ctrl_c_ends_evaluation_and_prediction(run):
    x, y = regression(32)
    model = a_model()
    given = []

    def batches():
        for _ in range(100_000):
            if len(given) == 3:
                os.kill(os.getpid(), signal.SIGINT)
            given.append(None)
            yield (x, y) if run == "evaluate" else x

    with pytest.raises(KeyboardInterrupt):
        getattr(model, run)(batches(), verbose=0)
    assert len(given) < 100
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert model.predict(x, verbose=0).shape == (32, 1)


def test_ctrl_c_ends_an_evaluation_in_a_callback_and_its_training():
    x, y = regression(32)
    model = a_model()
    given = []

    def batches():
        for _ in range(100_000):
            given.append(None)
            if len(given) == 3:
                os.kill(os.getpid(), signal.SIGINT)
            yield x, y

    class Evaluates(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            model.evaluate(batches(), verbose=0)

    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, epochs=100_000, verbose=0, callbacks=[Evaluates()])
    assert len(given) < 100


def test_a_second_ctrl_c_is_pythons():
    x, y = regression(32)

    def batches():
        for i in range(100_000):
            if i in (2, 3):
                os.kill(os.getpid(), signal.SIGINT)
            yield x, y

    with pytest.raises(KeyboardInterrupt):
        a_model().fit(batches(), epochs=1, verbose=0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_run_while_a_model_trains():
    x, y = regression(20_000)
    model, ticks, done = a_model(), [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(None)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        model.fit(x, y, epochs=2, verbose=0)
    finally:
        done.set()
        thread.join()
    assert len(ticks) > 100


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="Conv2D: data_format 'channels_first' is not supported"):
        layers.Conv2D(1, 1, data_format="channels_first")
    with pytest.raises(ValueError, match="LSTM: dropout is not supported: put a Dropout before the layer"):
        layers.LSTM(3, dropout=0.5)
    with pytest.raises(ValueError, match="there is no loss 'msee'; there are: "):
        a_model(loss="msee").fit(numbers(4, 4), numbers(4), verbose=0)
    with pytest.raises(ValueError, match="compile the model before fit"):
        Sequential([layers.Dense(1)]).fit(numbers(4, 4), numbers(4))
    with pytest.raises(ValueError, match="different numbers of examples: {'input_layer': 4, 'y': 5}"):
        Sequential([Input((4,), name="input_layer"), layers.Dense(1)]).compile("sgd", "mse") or a_named().fit(
            numbers(4, 4), numbers(5), verbose=0)
    with pytest.raises(TypeError, match="Dense has no argument 'actvation'"):
        layers.Dense(3, actvation="relu")
    with pytest.raises(ValueError, match="two layers of 'sequential.*' are named 'same'"):
        Sequential([layers.Dense(1, name="same"), layers.Dense(1, name="same")])
    x = Input((4,))
    with pytest.raises(ValueError, match="two layers of 'functional.*' are named 'same'"):
        Model(x, layers.Dense(1, name="same")(layers.Dense(4, name="same")(x)))


def a_named():
    model = Sequential([Input((4,), name="input_layer"), layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def test_every_layer_of_the_library_is_reached():
    """Kinds of graph/layers that no class makes are named here."""
    kinds = set(troupe._troupe.keras.layer_kinds())
    source = "".join(p.read_text() for p in pathlib.Path(layers.__file__).parent.glob("*.py"))
    missing = [kind for kind in kinds - {"frozen", "network", "sequential"} if f'"{kind}"' not in source]
    assert missing == []


def test_every_loss_and_metric_of_the_library_is_reached():
    losses, metrics = ({c._kind for c in module._CLASSES.values()} for module in (keras.losses, keras.metrics))
    assert set(troupe.loss_names()) - losses == set()
    assert set(troupe.metric_names()) - set(troupe.loss_names()) - metrics == set()
    x, classes = numbers(20, 4), RANDOM.integers(0, 3, 20)
    model = Sequential([Input((4,)), layers.Dense(3, activation="softmax")])
    model.compile("sgd", keras.losses.SparseCategoricalFocalCrossentropy(), metrics=[
        keras.metrics.ConfusionMatrix(3), keras.metrics.Perplexity(), keras.metrics.ClassRecall(average="macro")])
    found = model.evaluate(x, classes, verbose=0, return_dict=True)
    assert found["confusion_matrix"].sum() == 20 and found["perplexity"] > 1 and 0 <= found["class_recall"] <= 1
