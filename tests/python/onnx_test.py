"""ONNX models from Python: against onnxruntime, where it is installed."""

import pathlib

import numpy as np
import pytest
import troupe

onnx = pytest.importorskip("onnx")
helper = onnx.helper


def small_model(path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    random = np.random.default_rng(1)
    weights = {"w": random.normal(size=(4, 3)).astype(np.float32), "b": random.normal(size=3).astype(np.float32)}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 3])],
        [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return weights


@pytest.mark.parametrize("weights", ["constants", "variables", "trainable"])
def test_a_model_runs(tmp_path, weights):
    path = tmp_path / "small.onnx"
    values = small_model(path)
    model = troupe.import_onnx(path, weights=weights, threads=1)
    assert list(model.inputs) == ["x"] and list(model.outputs) == ["y"] and model.opset == 17
    x = np.random.default_rng(2).normal(size=(5, 4)).astype(np.float32)
    found = model.run({"x": x})["y"]
    np.testing.assert_allclose(found, np.maximum(x @ values["w"] + values["b"], 0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="no input 'z'"):
        model.run({"z": x})


def test_it_agrees_with_onnxruntime(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "small.onnx"
    small_model(path)
    x = np.random.default_rng(3).normal(size=(7, 4)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(troupe.import_onnx(path, threads=1).run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "text.onnx"
    path.write_text("no model")
    with pytest.raises(troupe.Error, match="text.onnx") as caught:
        troupe.import_onnx(path)
    assert caught.value.code == "data_loss"


def test_the_list_of_operators_is_that_of_onnx():
    """tests/tools/onnx_test.cpp compares it with what troupe-onnx reads."""
    latest = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= 17:
            other = latest.setdefault(schema.name, schema)
            latest[schema.name] = max(schema, other, key=lambda s: s.since_version)
    file = pathlib.Path(__file__).parent.parent / "tools" / "onnx_operators.txt"
    listed = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert listed == sorted(name for name, schema in latest.items() if not schema.deprecated)
