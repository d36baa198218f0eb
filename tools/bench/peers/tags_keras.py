#!/usr/bin/env python3
"""The models of troupe-tags in Keras: same data, vocabulary, layers, optimizer, batches and threshold.

    tags_keras.py DIR [--model bag|transformer] [--epochs N] [--batch N] [--lr R] [--seed S] [--threads N]

The last line is JSON: micro_f1, macro_f1, steps, examples_per_second. The block of the transformer is written with
layers of Keras, like Troupe's transformer_encoder: attention, two dense layers, each with a sum and a norm behind it.
"""
import argparse
import gzip
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

LONGEST, UNITS, HIDDEN, HEADS, VOCABULARY = 20, 64, 128, 4, 10000


def read(directory, name):
    """Texts and lists of tags."""
    path = os.path.join(directory, name)
    with (open if os.path.exists(path) else gzip.open)(
            path if os.path.exists(path) else path + ".gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [f"{row[0].replace('-', ' ')} {row[1]}" for row in rows], [row[2].split() for row in rows]


def multi_hot(rows, labels):
    numbers = {label: i for i, label in enumerate(labels)}
    out = np.zeros((len(rows), len(labels)), np.float32)
    unseen = []
    for i, row in enumerate(rows):
        for tag in row:
            if tag in numbers:
                out[i, numbers[tag]] = 1
            else:
                unseen.append(tag)
    return out, unseen


class PositionEmbedding(keras.layers.Layer):
    """Adds a learnt vector of each position."""

    def build(self, shape):
        self.table = self.add_weight(shape=(LONGEST, shape[-1]), initializer="uniform", name="table")

    def call(self, x):
        return x + self.table


def encoder(x, mask):
    attended = keras.layers.MultiHeadAttention(HEADS, UNITS // HEADS)(
        x, x, attention_mask=keras.layers.Reshape((1, LONGEST))(mask))
    x = keras.layers.LayerNormalization(epsilon=1e-5)(x + attended)
    hidden = keras.layers.Dense(UNITS)(keras.layers.Dense(HIDDEN, activation="relu")(x))
    return keras.layers.LayerNormalization(epsilon=1e-5)(x + hidden)


def make_model(kind, words, labels):
    ids = keras.Input((LONGEST,), dtype="int64")
    x = keras.layers.Embedding(words, UNITS)(ids)
    mask = keras.layers.Lambda(lambda i: tf.not_equal(i, 0), output_shape=(LONGEST,))(ids)
    if kind == "transformer":
        x = encoder(PositionEmbedding()(x), mask)
    x = keras.layers.GlobalAveragePooling1D()(x, mask=mask)
    x = keras.layers.Dense(HIDDEN, activation="relu")(x)
    return keras.Model(ids, keras.layers.Dense(labels)(x))


def scores(logits, wanted, unseen):
    found = logits > 0
    hits = np.sum(found * wanted, 0)
    both = np.sum(found, 0) + np.sum(wanted, 0)
    occurs = np.sum(wanted, 0) > 0
    micro = 2 * hits.sum() / (both.sum() + len(unseen))
    macro = (2 * hits[occurs] / both[occurs]).sum() / (occurs.sum() + len(set(unseen)))
    return float(micro), float(macro)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--model", choices=("bag", "transformer"), default="bag")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, help="default: 0.01, transformer 0.002, as of troupe-tags")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    if options.threads:
        tf.config.threading.set_intra_op_parallelism_threads(options.threads)
        tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    rate = options.lr or (0.002 if options.model == "transformer" else 0.01)
    keras.utils.set_random_seed(options.seed)
    texts, tags = read(options.data, "train.tsv")
    test_texts, test_tags = read(options.data, "test.tsv")
    labels = sorted({tag for row in tags for tag in row})
    vectorize = keras.layers.TextVectorization(max_tokens=VOCABULARY + 2, output_sequence_length=LONGEST)
    vectorize.adapt(texts)
    x, test_x = vectorize(np.array(texts)).numpy(), vectorize(np.array(test_texts)).numpy()
    y, _ = multi_hot(tags, labels)
    test_y, unseen = multi_hot(test_tags, labels)
    model = make_model(options.model, vectorize.vocabulary_size(), len(labels))
    model.compile(optimizer=keras.optimizers.Adam(rate), loss=keras.losses.BinaryCrossentropy(from_logits=True))
    steps = len(x) // options.batch  # as Troupe, which drops the last ones of an epoch
    batches = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=options.seed).batch(
        options.batch, drop_remainder=True)
    begin = time.perf_counter()
    model.fit(batches, epochs=options.epochs, verbose=0)
    seconds = time.perf_counter() - begin
    micro, macro = scores(model.predict(test_x, batch_size=500, verbose=0), test_y, unseen)
    print(json.dumps({"micro_f1": micro, "macro_f1": macro, "steps": steps * options.epochs,
                      "examples_per_second": steps * options.batch * options.epochs / seconds}))


if __name__ == "__main__":
    main()
