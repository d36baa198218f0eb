"""Runs SavedModels in TensorFlow, and compares what they compute:

    run_tensorflow_models.py            ends with 0 if TensorFlow is there
    run_tensorflow_models.py DIR...     DIR: a model; DIR.examples: a bundle of SIGNATURE/in/NAME and SIGNATURE/out/NAME
"""

import importlib.util
import os
import sys

if len(sys.argv) == 1:
    sys.exit(importlib.util.find_spec("tensorflow") is None)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf


def values(bundle, prefix):
    names = [name for name, _ in tf.train.list_variables(bundle) if name.startswith(prefix)]
    return {name.removeprefix(prefix): tf.train.load_variable(bundle, name) for name in names}


def compare(name, found, wanted):
    if found.dtype.kind in "SO":
        assert (found == wanted).all(), f"{name}: {found} is not {wanted}"
        return
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), \
        f"{name} is {found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=name)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=name)


def difference(path):
    model = tf.saved_model.load(path)
    assert all(v.shape.is_fully_defined() for v in model.variables)
    compared = 0
    for name, call in model.signatures.items():
        given = values(path + ".examples", name + "/in/")
        found = call(**{key: tf.constant(value) for key, value in given.items()})
        wanted = values(path + ".examples", name + "/out/")
        assert set(found) == set(wanted), f"{set(found)} is not {set(wanted)}"
        for key, value in wanted.items():
            compare(f"{name}/{key}", found[key].numpy(), value)
            compared += 1
    assert compared > 0, "there is nothing to compare"


def main():
    wrong = 0
    for path in sys.argv[1:]:
        try:
            difference(path)
        except Exception as error:  # whatever TensorFlow throws is the result of the test
            print(f"{os.path.basename(path)}: {type(error).__name__}: {str(error)[:1500]}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
