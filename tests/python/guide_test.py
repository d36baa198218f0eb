"""What pages of docs/guide about Python show."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

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


def run_page(page, programs):
    """Runs a page's blocks of Python, of which there are so many, one after the other, and compares what they print
    with the blocks of text behind them. Returns their names."""
    names, printed = {}, ""
    blocks = BLOCK.findall((ROOT / "docs/guide" / page).read_text(encoding="utf-8"))
    assert sum(language == "python" for language, _ in blocks) == programs
    for language, text in blocks:
        if language == "text":
            assert matches(text, printed), f"the page shows\n{text}\nbut this is printed:\n{printed}"
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, page, "exec"), names)
        printed = out.getvalue()
    return names


def test_the_page(tmp_path, monkeypatch):
    a_model(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names = run_page("python.md", 10)
    np.testing.assert_array_equal(names["out"]["y"], np.ones((2, 3)))


def test_the_page_of_linear_algebra():
    run_page("linear-algebra.md", 2)


def named_blocks(page):
    text = (ROOT / "docs/guide" / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^<!-- test: (\w+) -->\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def check_block(blocks, name, names, replaced=("", "")):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(blocks[name].replace(*replaced), name, "exec"), names)
    assert matches(blocks[name + "_output"], out.getvalue()), out.getvalue()


def test_the_page_of_data_pipelines():
    blocks, names = named_blocks("python-data.md"), {}
    check_block(blocks, "python_data", names)
    check_block(blocks, "python_data_functions", names)
    check_block(blocks, "python_data_traced", names)
    check_block(blocks, "python_data_ragged", names)
    assert len(blocks) == 8


def test_the_page_of_op_libraries(tmp_path, monkeypatch):
    library = pathlib.Path(os.environ["TROUPE_PROGRAMS"]).parent / "lib/librelu_sigmoid.so"
    if not library.exists():
        pytest.skip("the example of op libraries is not built")
    (tmp_path / library.name).symlink_to(library)
    monkeypatch.chdir(tmp_path)
    check_block(named_blocks("op-libraries.md"), "python_op_library", {})


def test_the_page_of_queues():
    blocks, names = named_blocks("queues.md"), {}
    check_block(blocks, "python_queues", names)
    check_block(blocks, "python_sync_optimizer", names)
    assert len(blocks) == 4


def test_the_page_of_sparse_tensors():
    blocks, names = named_blocks("sparse.md"), {}
    check_block(blocks, "python_sparse", names)
    check_block(blocks, "python_sparse_graph", names)
    assert len(blocks) == 4


def test_the_page_of_clusters_and_served_models(tmp_path, monkeypatch):
    import troupe

    monkeypatch.chdir(tmp_path)
    blocks = named_blocks("python-clusters.md")
    assert len(blocks) == 7
    (tmp_path / "train.py").write_text(blocks["python_cluster_script"])
    command = [sys.executable, *blocks["python_cluster_launch"].split()[1:]]
    done = subprocess.run(command, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0 and matches(blocks["python_cluster_script_output"], done.stdout), done.stderr
    names = {"np": np, "troupe": troupe}
    check_block(blocks, "python_saved_model", names)
    server = subprocess.Popen(
        [os.environ["TROUPE_PROGRAMS"] + "/troupe-serve", "--rest-port", "0", "--no-grpc", "--json",
         "--model", "linear=linear", "--token", "secret", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = json.loads(server.stdout.readline() or "{}")["rest_port"]
        check_block(blocks, "python_serving", names, ("8501", str(port)))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
        server.stdout.close()
