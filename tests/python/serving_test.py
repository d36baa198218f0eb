"""Models saved from Python, loaded, converted, and served: troupe.saved_model, and the client of troupe.serving."""

import doctest
import json
import os
import signal
import subprocess
import threading

import numpy as np
import pytest
import troupe
from troupe import data, saved_model, serving


def save_linear(path, factor=1.0, **options):
    g = troupe.Graph()
    x = g.placeholder("f32", [None, 2], name="x")
    y = g.op("MatMul", [x, np.float32([[factor], [2]])])
    text = g.placeholder("string", [None], name="text")
    saved_model.save(path, g, {"predict": ({"x": x}, {"y": y}), "same": ({"text": text}, {"out": g.op(
        "Identity", [text])})}, **options)


X = np.float32([[1, 2], [3, 4]])


def test_examples_of_the_documentation():
    assert doctest.testmod(saved_model).failed == 0


def test_models_are_saved_and_loaded(tmp_path):
    save_linear(tmp_path / "m", assets={"words.txt": b"a\nb"}, metadata={"author": "me"})
    model = saved_model.load(tmp_path / "m", threads=1)
    assert (model.format, model.assets, model.metadata) == ("troupe", {"words.txt": b"a\nb"}, {"author": "me"})
    about = model.signatures["predict"]
    assert about.inputs["x"].dtype == "f32" and list(about.inputs["x"].shape) == [None, 2]
    assert model.run({"x": X})["y"].tolist() == model.run(X)["y"].tolist() == [[5], [11]]
    assert model.run({"text": np.array(["a", "b"])}, "same")["out"].tolist() == [b"a", b"b"]
    found = model.predict(data.from_tensors({"x": np.tile(X, (50, 1))}), batch=7)["y"]
    assert found.shape == (100, 1) and (found[::2] == 5).all() and (found[1::2] == 11).all()
    with pytest.raises(troupe.Error, match="no signature 'other'; it has") as caught:
        model.run(X, "other")
    assert caught.value.code == "not_found"
    with pytest.raises(troupe.Error):
        saved_model.load(tmp_path / "none")


def test_models_become_those_of_other_formats(tmp_path):
    save_linear(tmp_path / "m")
    saved_model.convert(tmp_path / "m", tmp_path / "tf", "tensorflow")
    saved_model.convert(tmp_path / "m", tmp_path / "m.onnx", "onnx", signature="predict")
    for path, kind in (tmp_path / "tf", "tensorflow"), (tmp_path / "m.onnx", "onnx"):
        model = saved_model.load(path, threads=1)
        assert model.format == kind and model.run({"x": X}, "predict")["y"].tolist() == [[5], [11]]
    with pytest.raises(troupe.Error, match="no format of models"):
        saved_model.convert(tmp_path / "m", tmp_path / "k", "keras")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a troupe-serve with two versions of a model."""
    folder = tmp_path_factory.mktemp("models")
    save_linear(folder / "linear/1")
    save_linear(folder / "linear/2", factor=10)
    process = subprocess.Popen(
        [os.environ["TROUPE_PROGRAMS"] + "/troupe-serve", "--rest-port", "0", "--grpc-port", "0", "--json",
         "--model", f"linear={folder}/linear", "--token", "secret", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        ready = json.loads(process.stdout.readline() or "{}")
        assert ready.get("event") == "ready"
        yield f"localhost:{ready['rest_port']}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stdout.close()


def test_a_client_predicts(server):
    with serving.Client(server, token="secret") as client:
        assert client.ready()
        assert client.predict("linear", {"x": X})["y"].tolist() == client.predict("linear", X)["y"].tolist()
        assert client.predict("linear", X)["y"].dtype == np.float32
        assert client.status("linear")[2] == "AVAILABLE"
        assert client.metadata("linear")["predict"].inputs["x"] == serving.TensorSpec("float32", [None, 2])
        same = client.predict("linear", {"text": np.array(["a", "ü"])}, signature="same")["out"]
        assert same.tolist() == [b"a", "ü".encode()]
        assert client.predict("linear", X, outputs=["y"])["y"].tolist() == [[14], [38]]


def test_errors_have_the_codes_of_the_server(server):
    with serving.Client("http://" + server, token="secret") as client:
        for call, code in (
            (lambda: client.predict("linear", {"z": X}), "invalid_argument"),
            (lambda: client.predict("unknown", {"x": X}), "not_found"),
            (lambda: client.predict("linear", {"x": X}, version=9), "not_found"),
            (lambda: client.predict("linear", {"x": X}, signature="other"), "not_found"),
        ):
            with pytest.raises(troupe.Error) as caught:
                call()
            assert caught.value.code == code, caught.value
        with pytest.raises(ValueError, match="a version or a label"):
            client.predict("linear", {"x": X}, version=1, label="stable")
    with pytest.raises(troupe.Error) as caught:
        serving.Client(server, token="wrong").status("linear")
    assert caught.value.code == "unauthenticated"
    with pytest.raises(troupe.Error) as caught:
        serving.Client("127.0.0.1:1").status("linear")
    assert caught.value.code == "unavailable"


def test_threads_share_a_client(server):
    with serving.Client(server, token="secret") as client:
        found = [None] * 4

        def ask(i):
            x = np.full((i + 1, 2), i, np.float32)
            found[i] = all((client.predict("linear", {"x": x})["y"] == 12 * i).all() for _ in range(20))

        threads = [threading.Thread(target=ask, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 4
