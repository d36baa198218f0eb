"""Bundles of TensorFlow's: `write PREFIX` writes one and PREFIX.npz with the same values; `check PREFIX` reads a bundle
and compares it with PREFIX.npz. Without arguments: whether there is a TensorFlow."""

import importlib.util
import os
import sys

if len(sys.argv) == 1:
    sys.exit(importlib.util.find_spec("tensorflow") is None)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf


def values():
    random = np.random.default_rng(5)
    out = {f"many/{i:03}/kernel": random.standard_normal((i % 4, 3)).astype(np.float32) for i in range(200)}
    for dtype in ("float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        out["of/" + dtype] = random.integers(0, 100, (3, 2)).astype(dtype)
    out["of/bool"] = np.array([True, False, True])
    out["scalar"] = np.float32(2.5)
    out["text"] = np.array([["", "a"], ["é", "x" * 300]], object)
    return out


if __name__ == "__main__":
    command, prefix = sys.argv[1:]
    if command == "write":
        found = values()
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(found), shape_and_slices=[""] * len(found),
                          tensors=[tf.constant(v) for v in found.values()])
        np.savez(prefix + ".npz", **{k: v for k, v in found.items() if k != "text"})
    else:
        reader = tf.train.load_checkpoint(prefix)
        with np.load(prefix + ".npz") as wanted:
            assert set(wanted.files) | {"text"} == set(reader.get_variable_to_shape_map())
            for name in wanted.files:
                value = reader.get_tensor(name)
                assert value.dtype == wanted[name].dtype, name
                np.testing.assert_array_equal(value, wanted[name], name)
        assert reader.get_tensor("text").tolist() == [[b"", b"a"], ["é".encode(), b"x" * 300]]
