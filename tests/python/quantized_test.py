"""Quantised ONNX models from Python, against onnxruntime."""

import numpy as np
import pytest
import troupe

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper = onnx.helper
random = np.random.default_rng(5)


def normal(*shape):
    return (random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def convolutional_model(path):
    """Convolutions, a pool, a residual, a Gemm."""
    weights = {
        "w1": normal(16, 3, 3, 3), "b1": normal(16), "w2": normal(16, 16, 3, 3), "b2": normal(16),
        "w3": normal(8, 4, 3, 3), "b3": normal(8), "w4": normal(5, 8), "b4": normal(5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], name="conv1"),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1], name="conv2"),
        helper.make_node("Add", ["c2", "p1"], ["s2"]),
        helper.make_node("Relu", ["s2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"], group=4, strides=[2, 2], name="conv3"),
        helper.make_node("GlobalAveragePool", ["c3"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], transB=1, name="gemm"),
    ]
    save(path, nodes, weights, [None, 3, 12, 12], [None, 5])


def dense_model(path):
    weights = {"w1": normal(20, 32), "b1": normal(32), "w2": normal(32, 6)}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m1"], name="dense1"),
        helper.make_node("Add", ["m1", "b1"], ["a1"]),
        helper.make_node("Relu", ["a1"], ["r1"]),
        helper.make_node("MatMul", ["r1", "w2"], ["y"], name="dense2"),
    ]
    save(path, nodes, weights, [None, 20], [None, 6])


def save(path, nodes, weights, x, y):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, y)],
        [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def runtime(path, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def ours(path, x, inference=True):
    return troupe.import_onnx(path, threads=1, inference=inference).run({"x": x})["y"]


def expect_close(found, expected, tolerance):
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def quantized_by_onnxruntime(tmp_path, model, x, **options):
    quantization = pytest.importorskip("onnxruntime.quantization")
    before, after = str(tmp_path / "f32.onnx"), str(tmp_path / "int8.onnx")
    model(before)

    class Reader(quantization.CalibrationDataReader):
        left = 2

        def get_next(self):
            self.left -= 1
            return {"x": x} if self.left >= 0 else None

    quantization.quantize_static(before, after, Reader(), **options)
    return before, after


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("model,shape", [(convolutional_model, (4, 3, 12, 12)), (dense_model, (7, 20))])
def test_models_in_qdq_form(tmp_path, model, shape, per_channel, inference):
    x = random.normal(size=shape).astype(np.float32)
    before, after = quantized_by_onnxruntime(tmp_path, model, x, per_channel=per_channel)
    expected = runtime(after, x)
    expect_close(expected, runtime(before, x), 0.1)
    expect_close(ours(after, x, inference), expected, 0.03)


@pytest.mark.parametrize(
    "model,shape,op", [(convolutional_model, (4, 3, 12, 12), "Conv"), (dense_model, (7, 20), "MatMul")]
)
def test_models_of_integer_ops(tmp_path, model, shape, op):
    quantization = pytest.importorskip("onnxruntime.quantization")
    x = random.normal(size=shape).astype(np.float32)
    _, after = quantized_by_onnxruntime(
        tmp_path, model, x, quant_format=quantization.QuantFormat.QOperator, op_types_to_quantize=[op]
    )
    assert "QLinear" + op in {node.op_type for node in onnx.load(after).graph.node}
    expect_close(ours(after, x), runtime(after, x), 0.03)


def test_models_quantised_as_they_run(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    x = random.normal(size=(7, 20)).astype(np.float32)
    before, after = str(tmp_path / "f32.onnx"), str(tmp_path / "int8.onnx")
    dense_model(before)
    quantization.quantize_dynamic(before, after)
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= {node.op_type for node in onnx.load(after).graph.node}
    expected = runtime(after, x)
    expect_close(expected, runtime(before, x), 0.1)
    expect_close(ours(after, x), expected, 0.01)


def test_a_qdq_graph_is_written(tmp_path):
    """Of images with channels last, as quantize() makes it: one step at most between the two programs."""
    g = troupe.Graph()
    x = g.placeholder("f32", [None, 9, 9, 4], name="x")

    def bytes_of(value, scale, zero, name):
        s, z = g.constant(np.float32(scale), name=name + "/step"), g.constant(np.uint8(zero), name=name + "/zero")
        return g.op("DequantizeLinear", [g.op("QuantizeLinear", [value, s, z], name=name + "/q"), s, z])

    def weights(*shape):
        scale = random.uniform(0.01, 0.02, size=shape[-1]).astype(np.float32)
        q = random.integers(-127, 128, size=shape).astype(np.int8)
        zero = np.zeros(shape[-1], np.int8)
        return scale, g.op("DequantizeLinear", [g.constant(q), g.constant(scale), g.constant(zero)],
                           axis=len(shape) - 1)

    scale, filters = weights(3, 3, 4, 8)
    s = g.constant(np.float32(0.02) * scale)
    bias = g.op("DequantizeLinear", [g.constant(random.integers(-500, 500, size=8).astype(np.int32)), s,
                                     g.constant(np.zeros(8, np.int32))], axis=0)
    convolved = g.op("BiasAdd", [g.op("Conv", [bytes_of(x, 0.02, 128, "in"), filters], padding="SAME"), bias])
    y = bytes_of(g.op("Relu", [convolved]), 0.05, 0, "out")
    path = str(tmp_path / "qdq.onnx")
    troupe.export_onnx(path, g, {"x": x}, {"y": y})
    nodes = onnx.load(path).graph.node
    assert [n.op_type for n in nodes].count("Transpose") == 2
    assert {"Conv", "QuantizeLinear", "DequantizeLinear"} <= {n.op_type for n in nodes}
    onnx.checker.check_model(onnx.load(path))
    images = random.normal(size=(3, 9, 9, 4)).astype(np.float32)
    expected = runtime(path, images)
    for inference in (False, True):
        with troupe.Session(g, threads=1, inference=inference) as session:
            found = session.run({x: images}, y)
        assert np.abs(found - expected).max() <= 0.05 * 1.001
        assert (found != expected).mean() < 0.01
    expect_close(ours(path, images), expected, 0.05)
