"""Sentence encoders with random weights: against NumPy, and exported, against onnxruntime."""

import math
import os
import pathlib
import subprocess

import numpy as np
import pytest
import troupe

PROGRAMS = pathlib.Path(os.environ["TROUPE_PROGRAMS"])
LAYERS, FEATURES, HEADS, HIDDEN, POSITIONS = 3, 24, 4, 40, 32
WORDS = "the cat sat on a mat and dogs run far away while birds sing in trees".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ing", "."]
SENTENCES = ["The cat sat on a mat.", "Cats run.", "Birds singing in trees while the dogs run far away", "xyz"]


def random_weights():
    """By the names and shapes of Hugging Face's BertModel."""
    random = np.random.default_rng(7)
    found = {}

    def add(name, *shape, mean=0.0, deviation=0.3):
        found[name] = random.normal(mean, deviation, shape).astype(np.float32)

    def add_dense(name, out, features):
        add(f"{name}.weight", out, features)
        add(f"{name}.bias", out)

    def add_norm(name):
        add(f"{name}.weight", FEATURES, mean=1.0, deviation=0.1)
        add(f"{name}.bias", FEATURES, deviation=0.1)

    add("embeddings.word_embeddings.weight", len(VOCABULARY), FEATURES)
    add("embeddings.position_embeddings.weight", POSITIONS, FEATURES)
    add("embeddings.token_type_embeddings.weight", 2, FEATURES)
    add_norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            add_dense(f"{name}.{part}", FEATURES, FEATURES)
        add_norm(f"{name}.attention.output.LayerNorm")
        add_dense(f"{name}.intermediate.dense", HIDDEN, FEATURES)
        add_dense(f"{name}.output.dense", FEATURES, HIDDEN)
        add_norm(f"{name}.output.LayerNorm")
    add_dense("pooler.dense", FEATURES, FEATURES)
    found["embeddings.position_ids"] = np.arange(POSITIONS, dtype=np.int64)[None]
    return found


def tokens_of(sentence):
    """What WordPiece makes of these sentences, by hand: words, plurals, a participle, an end."""
    numbers = [VOCABULARY.index("[CLS]")]
    for word in sentence.lower().replace(".", " .").split():
        stem = next((w for w in (word, word.removesuffix("s"), word.removesuffix("ing")) if w in VOCABULARY), "[UNK]")
        numbers.append(VOCABULARY.index(stem))
        if stem != "[UNK]" and stem != word:
            numbers.append(VOCABULARY.index("##" + word[len(stem) :]))
    return [*numbers, VOCABULARY.index("[SEP]")]


def embedding_of(weights, ids):
    """In float64, without padding."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    erf = np.vectorize(math.erf)

    def dense(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def by_head(x):
        return x.reshape(len(ids), HEADS, -1).transpose(1, 0, 2)

    tables = [w[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")]
    x = norm("embeddings.LayerNorm", tables[0][ids] + tables[1][: len(ids)] + tables[2][0])
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        q, k, v = (by_head(dense(f"{name}.attention.self.{part}", x)) for part in ("query", "key", "value"))
        scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(FEATURES // HEADS))
        attended = scores / scores.sum(axis=-1, keepdims=True) @ v
        attended = attended.transpose(1, 0, 2).reshape(len(ids), FEATURES)
        x = norm(f"{name}.attention.output.LayerNorm", x + dense(f"{name}.attention.output.dense", attended))
        h = dense(f"{name}.intermediate.dense", x)
        h = h * (1 + erf(h / math.sqrt(2))) / 2
        x = norm(f"{name}.output.LayerNorm", x + dense(f"{name}.output.dense", h))
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def write(folder, weights):
    folder.mkdir()
    troupe.save_safetensors(folder / "model.safetensors", weights)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return folder


def encode(*arguments):
    program = [PROGRAMS / "example_sentence_encoder", "--heads", str(HEADS), *arguments, *SENTENCES]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


def test_embeddings_are_those_of_numpy_and_of_onnxruntime(tmp_path):
    weights = random_weights()
    folder = write(tmp_path / "encoder", weights)
    values, saved = tmp_path / "values.npz", tmp_path / "saved"
    done = encode("--weights", folder, "--values", values, "--save", saved)
    assert done.returncode == 0, done.stderr
    tokens = [tokens_of(sentence) for sentence in SENTENCES]
    expected = np.stack([embedding_of(weights, np.array(ids)) for ids in tokens])
    np.testing.assert_allclose(np.load(values)["embeddings"], expected, rtol=0, atol=1e-4)
    first = done.stdout.splitlines()[0]
    assert first.endswith(f"  {SENTENCES[0]} | {SENTENCES[1]}")
    assert abs(float(first.split()[0]) - expected[0] @ expected[1]) < 2e-4

    onnxruntime = pytest.importorskip("onnxruntime")
    exported = tmp_path / "encoder.onnx"
    converted = subprocess.run(
        [PROGRAMS / "troupe-model", "convert", saved, exported, "--size", "6"],
        capture_output=True, text=True, timeout=60, check=False)
    assert converted.returncode == 0, converted.stderr + converted.stdout
    length = max(map(len, tokens))
    ids = np.array([row + [0] * (length - len(row)) for row in tokens], np.int64)
    mask = np.array([[i < len(row) for i in range(length)] for row in tokens])
    feed = {"input_ids": ids, "token_type_ids": np.zeros_like(ids), "attention_mask": mask}
    (found,) = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_weights_that_are_missing_or_of_another_shape_are_named(tmp_path):
    weights = random_weights()
    name = "encoder.layer.1.intermediate.dense.weight"
    done = encode("--weights", write(tmp_path / "turned", weights | {name: weights[name].T.copy()}))
    assert done.returncode == 1
    assert f"'{name}' is F32[{FEATURES},{HIDDEN}], but f32[{HIDDEN},{FEATURES}] is expected" in done.stderr
    del weights[name]
    done = encode("--weights", write(tmp_path / "lacking", weights))
    assert done.returncode == 1 and f"has no weight '{name}'" in done.stderr
