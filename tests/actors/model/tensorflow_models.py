"""SavedModels of TensorFlow and Keras: `tensorflow_models.py DIR` writes each to DIR/NAME, and inputs and results of
its signatures to the bundle DIR/NAME/examples. Without an argument: whether there is a TensorFlow."""

import importlib.util
import os
import sys

if len(sys.argv) == 1:
    sys.exit(any(importlib.util.find_spec(name) is None for name in ("tensorflow", "keras")))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras
import numpy as np
import tensorflow as tf

L = keras.layers
RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def randomized(model):
    """Also what begins with zeros or ones, as statistics of batches."""
    for v in model.weights:
        if "seed" not in v.path:
            v.assign(np.abs(normal(*v.shape)) * 0.5 + 0.1 if "variance" in v.path else normal(*v.shape) * 0.3)
    return model


def mlp():
    return keras.Sequential([L.Input((4,)), L.Dense(8, activation="relu"), L.Dropout(0.5),
                             L.Dense(8, activation="gelu"), L.Dense(3, activation="softmax")])


def cnn():
    return keras.Sequential([L.Input((9, 8, 3)), L.Conv2D(4, 3, padding="same", use_bias=False),
                             L.BatchNormalization(), L.ReLU(), L.MaxPooling2D(), L.DepthwiseConv2D(3, padding="same"),
                             L.Conv2D(6, 3, strides=2, padding="same", groups=2, activation="swish"),
                             L.Conv2DTranspose(5, 3, strides=2, padding="same"),
                             L.Conv2D(4, 3, dilation_rate=2, padding="same"), L.AveragePooling2D(2, padding="same"),
                             L.GlobalAveragePooling2D(), L.Dense(5)])


def lstm():
    x = inputs = keras.Input((None, 3))
    x = L.Bidirectional(L.LSTM(5, return_sequences=True))(x)
    x = L.GRU(4)(L.LSTM(4, return_sequences=True)(x))
    return keras.Model(inputs, L.Dense(2)(x))


def transformer():
    tokens = keras.Input((7,), dtype="int32")
    x = L.Embedding(11, 16)(tokens) + L.Embedding(7, 16)(keras.ops.arange(7))
    a = L.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    x = L.LayerNormalization()(x + a)
    x = L.LayerNormalization()(x + L.Dense(16)(L.Dense(32, activation="gelu")(x)))
    return keras.Model(tokens, x)


def text():
    vectorize = L.TextVectorization(max_tokens=20, output_sequence_length=5)
    vectorize.adapt(["the cat sat", "the dog ate the cat"])
    inputs = keras.Input((1,), dtype="string")
    x = L.GlobalAveragePooling1D()(L.Embedding(20, 4)(vectorize(inputs)))
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(x))


class Several(tf.Module):
    def __init__(self, folder):
        super().__init__()
        self.w = tf.Variable(normal(2, 3), name="w")
        self.count = tf.Variable(3, trainable=False)
        words = os.path.join(folder, "words.txt")
        with open(words, "w", encoding="utf-8") as file:
            file.write("one\ntwo\nthree\n")
        self.numbers = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), -1)
        self.words = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(words, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                          tf.lookup.TextFileIndex.LINE_NUMBER), -7)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def product(self, x):
        return {"y": tf.matmul(x, self.w), "sum": tf.reduce_sum(x)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="n")])
    def loop(self, n):
        i, total = tf.constant(0), tf.constant(0.0)
        while i < n:
            if i % 2 == 0:
                total += tf.reduce_sum(self.w)
            else:
                total -= 1.0
            i += self.count - 2
        return {"total": total, "case": tf.switch_case(n, [lambda: total, lambda: total + 1.0, lambda: total * 2.0])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="x")])
    def lookup(self, x):
        return {"number": self.numbers.lookup(x), "word": self.words.lookup(x)}


def version_1(path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        w = v1.get_variable("w", [3, 4], initializer=v1.random_normal_initializer(seed=1), use_resource=True)
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant([0, 2], tf.int64), tf.constant([1.5, -1.0])), 7.0)
        y = tf.nn.softplus(tf.matmul(x, w)) * table.lookup(tf.constant([0, 1, 2, 3], tf.int64))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        v1.saved_model.simple_save(session, path, {"x": x}, {"y": y}, legacy_init_op=v1.tables_initializer())


def write(folder, name, model, inputs):
    path = os.path.join(folder, name)
    if model is version_1:
        model(path)
    elif isinstance(model, tf.Module) and not isinstance(model, keras.Model):
        signatures = {key: getattr(model, key) for key in inputs}
        tf.saved_model.save(model, path, signatures=signatures)
    else:
        randomized(model).export(path, verbose=False)
    loaded = tf.saved_model.load(path)
    values = {}
    for key, given in inputs.items():
        call = loaded.signatures[key]
        if not isinstance(given, dict):
            given = {call.structured_input_signature[1].popitem()[0]: given}
        given = {k: tf.constant(v) for k, v in given.items()}
        values |= {f"{key}/in/{k}": v for k, v in given.items()}
        values |= {f"{key}/out/{k}": v for k, v in call(**given).items()}
    tf.raw_ops.SaveV2(prefix=path + "/examples", tensor_names=list(values), shape_and_slices=[""] * len(values),
                      tensors=list(values.values()))


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    out = sys.argv[1]
    write(out, "mlp", mlp(), {"serving_default": normal(5, 4)})
    write(out, "cnn", cnn(), {"serving_default": normal(2, 9, 8, 3)})
    write(out, "lstm", lstm(), {"serving_default": normal(2, 6, 3)})
    write(out, "transformer", transformer(), {"serving_default": RANDOM.integers(0, 11, (2, 7)).astype(np.int32)})
    write(out, "text", text(), {"serving_default": np.array([["The CAT, sat!"], [""], ["a dog ate the cat the cat"]],
                                                            object)})
    write(out, "several", Several(out), {"product": normal(3, 2), "loop": np.int32(5),
                                         "lookup": np.array(["a", "three", "b", "one"], object)})
    write(out, "version_1", version_1, {"serving_default": {"x": normal(5, 3)}})
