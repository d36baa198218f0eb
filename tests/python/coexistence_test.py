"""Troupe and other frameworks in one process, imported in either order: each computes after the other has."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

# Each multiplies matrices large enough for several threads, and uses what both may have linked: protobuf.
PARTS = {
    "troupe": """
import numpy as np, troupe
g = troupe.Graph()
x = g.placeholder("f32", [200, 200])
y = g.op("MatMul", [x, x])
def run_troupe():
    with troupe.Session(g) as session:
        assert (session.run({x: np.ones((200, 200), np.float32)}, y) == 200).all()
    troupe.export_onnx("relu.onnx", g, {"x": x}, {"y": y})
    assert (troupe.import_onnx("relu.onnx").run({"x": np.ones((200, 200), np.float32)})["y"] == 200).all()
    try:
        g.op("MatMul", [x, np.zeros((3, 2), np.float32)])
    except troupe.Error as error:
        assert error.code == "invalid_argument"
""",
    "tensorflow": """
import numpy as np, tensorflow
def run_tensorflow():
    ones = tensorflow.constant(np.ones((200, 200), np.float32))
    step = tensorflow.function(lambda a: tensorflow.matmul(a, a))
    assert (step(ones).numpy() == 200).all()
    assert step.get_concrete_function(ones).graph.as_graph_def().SerializeToString()
""",
    "jax": """
import numpy as np, jax
def run_jax():
    assert (np.asarray(jax.jit(lambda a: a @ a)(np.ones((200, 200), np.float32))) == 200).all()
""",
    "torch": """
import numpy as np, torch
def run_torch():
    assert (torch.ones(200, 200) @ torch.ones(200, 200) == 200).all()
""",
    "onnx": """
import onnx
def run_onnx():
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [value], [out])
    onnx.checker.check_model(onnx.helper.make_model(graph))
""",
    "onnxruntime": """
import numpy as np, onnxruntime
def run_onnxruntime():
    run_troupe()
    session = onnxruntime.InferenceSession("relu.onnx", providers=["CPUExecutionProvider"])
    assert (session.run(None, {"x": np.ones((200, 200), np.float32)})[0] == 200).all()
""",
}


@pytest.mark.parametrize("first", [True, False], ids=["troupe_first", "troupe_second"])
@pytest.mark.parametrize("other", ["tensorflow", "jax", "torch", "onnx", "onnxruntime"])
def test_both_compute_in_one_process(other, first, tmp_path):
    if importlib.util.find_spec(other) is None:
        pytest.skip(f"no Python module {other} (tools/setup.sh --with-python --with-peers)")
    order = ["troupe", other] if first else [other, "troupe"]
    program = "".join(PARTS[name] for name in order)
    program += f"\nrun_troupe()\nrun_{other}()\nrun_troupe()\nprint('both')"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=120, capture_output=True, text=True)
    assert done.stdout == "both\n" and done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("first", [True, False], ids=["module_first", "library_first"])
def test_the_c_library_and_the_module_say_that_they_cannot_both_be_there(first):
    library = pathlib.Path(os.environ["TROUPE_PROGRAMS"]).parent / "lib/libtroupe.so"
    if not library.exists():
        pytest.skip("libtroupe.so is not built")
    parts = ["import troupe", f"ctypes.CDLL({str(library)!r})"]
    program = "import ctypes\n" + "\n".join(parts if first else parts[::-1])
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    if first:
        assert done.returncode != 0 and "the Python module troupe is in this process" in done.stderr
    else:
        assert done.returncode == 1 and "ImportError: libtroupe.so, the C API, is in this process" in done.stderr
