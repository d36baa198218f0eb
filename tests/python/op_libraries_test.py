"""Libraries of ops in Python: the example of apps/examples/op_library."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import troupe

LIBRARIES = pathlib.Path(os.environ["TROUPE_PROGRAMS"]).parent / "lib"


@pytest.fixture(scope="module")
def ops():
    x = troupe.tensor([1.0]) + 1  # eager mode exists before
    path = LIBRARIES / "librelu_sigmoid.so"
    if not path.exists():
        pytest.skip("the example of op libraries is not built")
    assert float(x) == 2
    return troupe.load_op_library(path)


def expected(x):
    y = 1 / (1 + np.exp(-np.maximum(x, 0)))
    return y, np.where(x > 0, y * (1 - y), 0)


X = np.array([[-1, 0, 0.5], [2, 1e-10, 30]])


def test_the_library_is_like_a_module(ops):
    assert ops.__name__ == "relu_sigmoid" and ops.version == "1.0" and len(ops.sha256) == 64
    assert ops.ops == {"relu_sigmoid": "ReluSigmoid", "relu_sigmoid_grad": "ReluSigmoidGrad"}
    assert ops.__file__.endswith("librelu_sigmoid.so")
    assert ops.relu_sigmoid_grad.__name__ == "relu_sigmoid_grad"
    assert "ReluSigmoidGrad(dy: T, x: T, y: T)" in ops.relu_sigmoid_grad.__doc__
    assert "ReluSigmoid" in troupe.ops()
    again = troupe.load_op_library(ops.__file__)
    assert again.sha256 == ops.sha256


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ops_compute_and_have_gradients(ops, dtype):
    x = troupe.tensor(X, dtype=dtype)
    y, dx = expected(X)
    with troupe.GradientTape() as outer:
        outer.watch(x)
        with troupe.GradientTape() as inner:
            inner.watch(x)
            got = ops.relu_sigmoid(x)
        first = inner.gradient(got, x)
    np.testing.assert_allclose(np.asarray(got), y, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(first), dx, rtol=1e-5, atol=1e-12)
    second = outer.gradient(first, x)
    np.testing.assert_allclose(np.asarray(second), dx * (1 - 2 * y), rtol=1e-4, atol=1e-7)


def test_inputs_by_name_and_numpys_arrays(ops):
    y, dx = expected(X)
    got = ops.relu_sigmoid_grad(np.ones_like(X), y=y, x=X)
    np.testing.assert_allclose(np.asarray(got), dx, rtol=1e-12)
    with pytest.raises(TypeError, match="takes 1 inputs, not 2"):
        ops.relu_sigmoid(X, X)
    with pytest.raises(TypeError, match="lacks input 'y'"):
        ops.relu_sigmoid_grad(X, X)
    with pytest.raises(TypeError, match="given input 'x' twice"):
        ops.relu_sigmoid(X, x=X)


def test_functions_are_traced(ops):
    @troupe.function
    def f(x):
        with troupe.GradientTape() as tape:
            tape.watch(x)
            y = ops.relu_sigmoid(x)
        return y, tape.gradient(y, x)

    got = f(troupe.tensor(X))
    for value, wanted in zip(got, expected(X)):
        np.testing.assert_allclose(np.asarray(value), wanted, rtol=1e-12)


def test_graphs(ops):
    g = troupe.Graph()
    x = g.placeholder("float64", [None, 3], name="x")
    y = ops.relu_sigmoid(x, name="y")
    assert y.name == "y"
    dx, = troupe.gradients([y], [x])
    with troupe.Session(g, threads=1) as session:
        for value, wanted in zip(session.run({x: X}, [y, dx]), expected(X)):
            np.testing.assert_allclose(value, wanted, rtol=1e-12)


def test_pipelines(ops):
    f = troupe.function(lambda x: ops.relu_sigmoid(x))
    batches = [np.asarray(batch) for batch in troupe.data.from_tensors(X.ravel()).map(f).batch(3)]
    np.testing.assert_allclose(np.concatenate(batches), expected(X.ravel())[0], rtol=1e-12)


def test_activations_of_layers(ops):
    keras = troupe.keras
    trained = []
    for activation in (ops.relu_sigmoid, lambda x: troupe.sigmoid(troupe.nn.relu(x))):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, kernel_initializer="ones"),
                                  keras.layers.Activation(activation),
                                  keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(optimizer="sgd", loss="mse")
        history = model.fit(X.astype(np.float32), np.ones((2, 1), np.float32), epochs=3, verbose=0)
        trained.append(history.history["loss"])
    assert trained[0][-1] < trained[0][0]
    np.testing.assert_allclose(trained[0], trained[1], rtol=1e-5)


def test_large_inputs_on_several_threads(ops):
    x = np.random.default_rng(0).normal(size=100_003).astype(np.float32)
    np.testing.assert_allclose(np.asarray(ops.relu_sigmoid(x)), expected(x)[0], rtol=1e-6)


def test_errors_name_op_and_library(ops):
    with pytest.raises(troupe.InvalidArgumentError, match="ReluSigmoid.*is i32, but must be f32 or f64"):
        ops.relu_sigmoid(np.ones(3, np.int32))
    with pytest.raises(troupe.InvalidArgumentError,
                       match=r"op library relu_sigmoid 1.0: input 1 is \[2\], but input 0 \[3\]"):
        ops.relu_sigmoid_grad(np.ones(3), np.ones(2), np.ones(2))
    with pytest.raises(troupe.NotFoundError, match="op library /no/such.so: there is no such file"):
        troupe.load_op_library("/no/such.so")
    with pytest.raises(troupe.InvalidArgumentError, match="it cannot be opened|is no library of ops"):
        troupe.load_op_library(__file__)


def test_other_processes_load_it_too(ops):
    code = "import sys, troupe; print(troupe.load_op_library(sys.argv[1]).relu_sigmoid([0.0]))"
    done = subprocess.run([sys.executable, "-c", code, ops.__file__], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "[0.5]\n", done.stderr


def test_devices_of_other_types(tmp_path):
    library = LIBRARIES / "libsimulated_tpu.so"
    if not library.exists():
        pytest.skip("the simulated TPU is not built")
    code = """if True:
        import sys, numpy as np, troupe
        tpu, ops, link = sys.argv[1:]
        def load(path):
            try:
                print(troupe.load_device_library(path))
            except troupe.Error as error:
                print(type(error).__name__, error)
        for path in (ops, tpu, tpu):
            load(path)
        g = troupe.Graph()
        with g.device("TPU:1"):
            y = troupe.nn.relu(g.constant(np.array([-1, 2], np.float32)))
        with troupe.Session(g, threads=1) as session:
            print(session.run({}, y))
        print(troupe.tensor([1.0]) + 1)
        load(link)
    """
    ops, link = LIBRARIES / "librelu_sigmoid.so", tmp_path / "tpu.so"
    link.symlink_to(library)
    arguments = [sys.executable, "-c", code, library, ops, link]
    done = subprocess.run(arguments, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"NotFoundError device library {ops}: {ops} is not a Troupe device library", "TPU", "TPU", "[0. 2.]", "[2.]",
        f"FailedPreconditionError device library {link}: ops have run already; load it before the first"]


@pytest.mark.parametrize("tasks", [["--ps", "1", "--workers", "2"], ["--workers", "2"]], ids=["sync", "allreduce"])
def test_jobs_whose_tasks_have_other_files_are_refused(ops, tmp_path, tasks):
    other = tmp_path / "other.so"  # the same code, and another hash
    other.write_bytes(pathlib.Path(ops.__file__).read_bytes() + b"\0")
    (tmp_path / "train.py").write_text("""
import sys
import numpy as np, troupe
cluster = troupe.Cluster.from_environment(threads=1)
ops = troupe.load_op_library(sys.argv[1 if cluster.job == "ps" or cluster.is_chief else 2])
model = troupe.keras.Sequential([troupe.keras.Input((3,)), troupe.keras.layers.Dense(1),
                                 troupe.keras.layers.Activation(ops.relu_sigmoid)])
model.compile(optimizer="sgd", loss="mse")
model.fit(np.ones((8, 3), np.float32), np.ones((8, 1), np.float32), epochs=1, batch_size=4, verbose=0)
""")
    command = [sys.executable, "-m", "troupe.launch", *tasks, "--grace", "2", str(tmp_path / "train.py"), ops.__file__]
    whole = subprocess.run([*command, ops.__file__], timeout=60, capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    refused = subprocess.run([*command, str(other)], timeout=60, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "op_library_relu_sigmoid" in refused.stderr and f"1.0 {ops.sha256}" in refused.stderr
