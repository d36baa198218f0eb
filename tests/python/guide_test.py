"""What docs/guide/python.md shows, run from its beginning to its end."""

import contextlib
import io
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def a_model(path):
    onnx = pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "page",
        [helper.make_tensor_value_info("x", float32, [2, 3])], [helper.make_tensor_value_info("y", float32, [2, 3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def matches(shown, printed):
    """"..." stands for any text."""
    return re.fullmatch(".*".join(re.escape(part) for part in shown.strip().split("...")), printed.strip(), re.DOTALL)


def test_the_readme(capsys):
    program, = [text for language, text in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
                if language == "python"]
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out == "[-1.  1.]\n"


def test_the_page(tmp_path, monkeypatch):
    a_model(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names, printed = {}, ""
    blocks = BLOCK.findall((ROOT / "docs/guide/python.md").read_text(encoding="utf-8"))
    assert sum(language == "python" for language, _ in blocks) == 9
    for language, text in blocks:
        if language == "text":
            assert matches(text, printed), f"the page shows\n{text}\nbut this is printed:\n{printed}"
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, "docs/guide/python.md", "exec"), names)
        printed = out.getvalue()
    np.testing.assert_array_equal(names["out"]["y"], np.ones((2, 3)))
