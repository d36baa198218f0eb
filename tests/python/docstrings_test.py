"""The examples in the documentation of the package's modules, each run."""

import doctest
import importlib

import numpy as np
import pytest
import troupe

MODULES = ["_core", "accumulators", "arrays", "control", "debugging", "differentiation", "fft", "graphs", "image",
           "linalg", "lookup", "math", "nn", "op_libraries", "optimizers", "quantization", "queue", "ragged",
           "random", "signal", "sparse", "strings", "tensors"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module("troupe." + name)
    found = doctest.testmod(module, extraglobs={"troupe": troupe, "np": np})
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("name", [m for m in MODULES if m != "_core"])
def test_all_public_functions_are_documented(name):
    module = importlib.import_module("troupe." + name)
    for function in module.__all__:
        assert getattr(module, function).__doc__, f"troupe.{name}.{function}"
