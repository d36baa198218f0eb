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


def test_a_graph_is_written(tmp_path):
    g = troupe.Graph()
    x = g.placeholder("f32", [None, 3], name="x")
    w = g.constant(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
    y = g.op("Relu", [g.op("MatMul", [x, w])], name="y")
    path = tmp_path / "relu.onnx"
    troupe.export_onnx(path, g, {"rows": x}, {"result": y})
    onnx.checker.check_model(str(path), full_check=True)
    rows = np.array([[1, -2, 0.5]], np.float32)
    (found,) = troupe.import_onnx(path, threads=1).run({"rows": rows}).values()
    np.testing.assert_array_equal(found, np.maximum(rows @ np.arange(6, dtype=np.float32).reshape(3, 2), 0))
    with pytest.raises(troupe.Error, match="cannot express: TruncatedNormal"):
        noise = g.op("TruncatedNormal", [np.array([2])])
        troupe.export_onnx(path, g, {}, {"noise": noise})


def test_variables_have_the_values_of_a_session(tmp_path):
    path = tmp_path / "small.onnx"
    values = small_model(path)
    model = troupe.import_onnx(path, weights="variables", threads=1)
    x = np.random.default_rng(4).normal(size=(2, 4)).astype(np.float32)
    again = tmp_path / "again.onnx"
    troupe.export_onnx(again, model.graph, model.inputs, model.outputs)
    np.testing.assert_array_equal(troupe.import_onnx(again).run({"x": x})["y"], model.run({"x": x})["y"])
    initial = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(again).graph.initializer}
    assert {k: v.tolist() for k, v in initial.items()} == {k: v.tolist() for k, v in values.items()}
    double = model.graph.op("AssignAddVariable", [model.graph.output("w"), values["w"]])
    with troupe.Session(model.graph, threads=1) as session:
        session.run(targets=[model.graph.initializer()])
        session.run(targets=[double])
        troupe.export_onnx(again, model.graph, model.inputs, model.outputs, session)
    written = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(again).graph.initializer}
    np.testing.assert_array_equal(written["w"], 2 * values["w"])


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "text.onnx"
    path.write_text("no model")
    with pytest.raises(troupe.Error, match="text.onnx") as caught:
        troupe.import_onnx(path)
    assert caught.value.code == "data_loss"


def test_the_list_of_operators_is_that_of_onnx():
    """tests/tools/onnx_test.cpp compares it with what troupe-model reads."""
    latest = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= 17:
            other = latest.setdefault(schema.name, schema)
            latest[schema.name] = max(schema, other, key=lambda s: s.since_version)
    file = pathlib.Path(__file__).parent.parent / "tools" / "onnx_operators.txt"
    listed = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert listed == sorted(name for name, schema in latest.items() if not schema.deprecated)
