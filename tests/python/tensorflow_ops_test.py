"""The rows of docs/reference/tensorflow-ops.md name functions of Python that exist, and ops that TensorFlow has."""

import os
import pathlib
import sys

import pytest
import troupe

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/docs"))
import tensorflow_ops  # noqa: E402

ROWS = [row for _, rows in tensorflow_ops.read_kinds((ROOT / tensorflow_ops.ROWS).read_text(encoding="utf-8"))
        for row in rows]
# Those that TensorFlow 2 no longer has.
REMOVED = ("tf.contrib.",)


def find(value, path):
    """What a dotted path leads to from a module, or None."""
    for part in path.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def test_functions_of_python_exist():
    names = sorted({name for _, _, python, _ in ROWS for name in python})
    assert len(names) > 300
    assert [name for name in names if find(troupe, name) is None] == []


def test_tensorflow_has_the_ops():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tensorflow = pytest.importorskip("tensorflow")
    names = [name for name, *_ in ROWS if not name.startswith(REMOVED)]
    assert [name for name in names if find(tensorflow.compat.v1, name) is None] == []


def test_each_kind_has_rows():
    kinds = dict(tensorflow_ops.read_kinds((ROOT / tensorflow_ops.ROWS).read_text(encoding="utf-8")))
    for kind in ("Math", "Arrays", "Control flow", "State", "Queues and inputs", "Images", "Strings",
                 "Sparse tensors"):
        assert len(kinds[kind]) > 10, kind
