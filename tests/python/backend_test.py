"""troupe.onnx.backend: ONNX's own test runner, on the tests that troupe-model runs."""

import pathlib
import unittest

import numpy as np
import pytest
import troupe

onnx = pytest.importorskip("onnx", reason="no Python module onnx (tools/setup.sh --with-python)")

import onnx.backend.test  # noqa: E402
from onnx.backend.test import runner  # noqa: E402
from onnx.backend.test.case.test_case import TestCase  # noqa: E402
from troupe.onnx import backend  # noqa: E402

DATA = pathlib.Path("/usr/share/libonnx-testdata/data")
FAILURES = pathlib.Path(__file__).resolve().parents[1] / "tools/onnx_failures.txt"
# Tests that pass, but that this runner cannot compare.
BEYOND_THE_RUNNER = {
    "test_loop16_seq_none": "it compares an item of a sequence row by row, and the first item here is a scalar",
    "test_cast_FLOAT_to_BFLOAT16": "it has outputs of bfloat16; the file, of an old version, has their bits as uint16",
}
FLOAT = onnx.TensorProto.FLOAT


def listed_failures():
    lines = FAILURES.read_text(encoding="utf-8").splitlines()
    return {line.split(": ")[0] for line in lines if line and not line.startswith("#")}


def cases_of(kind):
    """Those of the folders, where the package onnx would make its own."""
    return [TestCase(name=place.name, model_name=place.name, url=None, model_dir=str(place), model=None, data_sets=None,
                     kind=kind, rtol=1e-3, atol=1e-7)
            for place in sorted((DATA / kind).glob("test_*")) if (place / "model.onnx").exists()]


class Results(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed, self.others = set(), {}

    def addSuccess(self, test):
        self.passed.add(name_of(test))

    def addFailure(self, test, error):
        self.others[name_of(test)] = f"{error[0].__name__}: {error[1]}"[:300]

    addError = addFailure

    def addSkip(self, test, reason):
        self.others[name_of(test)] = reason


def name_of(test):
    return test.id().split(".")[-1][:-len("_cpu")]


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no {DATA}: install libonnx-testdata")
def test_the_runner_of_onnx_passes_the_names_that_troupe_model_passes(monkeypatch):
    monkeypatch.setattr(runner, "load_model_tests", lambda kind: [] if kind == "real" else cases_of(kind))
    results = Results()
    for case in runner.Runner(backend, __name__).test_cases.values():
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
            if test.id().endswith("_cpu"):
                test.run(results)
    for name in BEYOND_THE_RUNNER:
        assert_passes(DATA / "node" / name)
        results.others.pop(name, None)
        results.passed.add(name)
    unlisted = {name: why for name, why in results.others.items() if name not in listed_failures()}
    assert not unlisted, "\n".join(f"{k}: {v}" for k, v in unlisted.items())
    assert set(results.others) == listed_failures() and len(results.passed) + len(results.others) == 1072


def assert_passes(place):
    model = onnx.load(place / "model.onnx")
    data = sorted((place / "test_data_set_0").glob("*.pb"))

    def values(kind, declared):
        def value(path, about):
            make, read = {
                "sequence_type": (onnx.SequenceProto, onnx.numpy_helper.to_list),
                "optional_type": (onnx.OptionalProto, onnx.numpy_helper.to_optional),
                "tensor_type": (onnx.TensorProto, onnx.numpy_helper.to_array),
            }[about.type.WhichOneof("value")]
            return read(make.FromString(path.read_bytes()))

        return [value(path, about) for path, about in zip([p for p in data if p.name.startswith(kind)], declared)]

    found, = backend.run_model(model, values("input", model.graph.input))
    wanted, = values("output", model.graph.output)
    for a, b in zip(found, wanted) if isinstance(found, list) else [(found, wanted)]:
        a, b = (v.view(np.uint16) if v.dtype.name == "bfloat16" else v for v in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-3)


def relu_model():
    value, out = (onnx.helper.make_tensor_value_info(name, FLOAT, [None, 2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [value], [out])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def test_models_are_prepared_once_and_run_by_position_or_name():
    prepared = backend.prepare(relu_model())
    x = np.array([[-1, 2]], np.float32)
    assert prepared.inputs == ["x"] and prepared.outputs == ["y"]
    for given in ([x], {"x": x}, x):
        outputs = prepared.run(given)
        assert outputs[0].tolist() == outputs.y.tolist() == [[0, 2]]
    assert backend.run_model(relu_model(), [x])[0].tolist() == [[0, 2]]
    with pytest.raises(ValueError, match=r"no input 'z'; its inputs are \['x'\]"):
        prepared.run({"z": x})
    with pytest.raises(troupe.Error, match="1 inputs, not 2"):
        prepared.run([x, x])


def test_single_nodes_run():
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    assert backend.run_node(node, [np.float32([1, 2]), np.float32([3, 4])], opset_version=17)[0].tolist() == [4, 6]


def test_unknown_ops_are_not_compatible():
    model = relu_model()
    model.graph.node[0].op_type = "Unheard"
    assert not backend.is_compatible(model) and backend.is_compatible(relu_model())
    with pytest.raises(runner.BackendIsNotSupposedToImplementIt, match="Unheard"):
        backend.prepare(model)
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA")
    with pytest.raises(ValueError, match="not on CUDA"):
        backend.prepare(relu_model(), "CUDA")


def test_load_and_save(tmp_path):
    onnx.save(relu_model(), tmp_path / "relu.onnx")
    model = troupe.onnx.load(tmp_path / "relu.onnx")
    troupe.onnx.save(tmp_path / "again.onnx", model.graph, model.inputs, model.outputs)
    again = troupe.onnx.load(tmp_path / "again.onnx")
    assert again.run({"x": np.float32([[-1, 2]])})["y"].tolist() == [[0, 2]]
