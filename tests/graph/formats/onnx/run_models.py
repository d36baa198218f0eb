#!/usr/bin/env python3
"""Runs models in onnxruntime, and compares what they compute.

    run_models.py            ends with 0 if onnxruntime is there
    run_models.py DIR...     DIR: model.onnx and test_data_set_0/{input,output}_K.pb
"""
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def values(folder, prefix):
    count = len(glob.glob(os.path.join(folder, prefix + "_*.pb")))
    for i in range(count):
        tensor = onnx.TensorProto()
        with open(os.path.join(folder, f"{prefix}_{i}.pb"), "rb") as file:
            tensor.ParseFromString(file.read())
        yield numpy_helper.to_array(tensor)


def difference(folder):
    path = os.path.join(folder, "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    data = os.path.join(folder, "test_data_set_0")
    feeds = dict(zip([i.name for i in session.get_inputs()], values(data, "input")))
    found = session.run(None, feeds)
    for output, a, b in zip(session.get_outputs(), found, values(data, "output"), strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{output.name} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        if a.dtype.kind == "f" and not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{output.name} differs by {np.abs(a - b).max()}"
        if a.dtype.kind != "f" and not np.array_equal(a, b):
            return f"{output.name} differs"
    return None


def main():
    wrong = 0
    for folder in sys.argv[1:]:
        try:
            why = difference(folder)
        except Exception as error:  # whatever onnxruntime throws is the result of the test
            why = str(error)
        if why:
            print(f"{os.path.basename(folder)}: {why}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
