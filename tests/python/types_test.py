"""Hints for type checkers: those of the package's own modules, and what a user's program gets of them."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import troupe

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "apps/python/troupe"
BUILT = pathlib.Path(troupe._troupe.__file__).parent

# reveal_type() prints what a checker takes an expression for.
PROGRAM = """
import typing
import numpy as np
import troupe

x = troupe.tensor([[1.0, 2.0]])
w = troupe.Variable(troupe.ones((2, 1)), name="w")
reveal_type(x @ w + 1)  # Tensor
reveal_type(2 * x[0, :1].T.sum(axis=0))  # Tensor
reveal_type(x.reshape(2, 1).astype("int32"))  # Tensor
reveal_type(x.numpy())  # ndarray
reveal_type(x.dtype)  # DType
reveal_type(w.assign(w - 1))  # Variable
reveal_type(troupe.random.normal((2, 3)))  # Tensor
reveal_type(troupe.nn.moments(x))  # tuple[Tensor, Tensor]
reveal_type(troupe.nn.batch_norm(x, [1.0], [0.0]))  # tuple[Tensor, Tensor, Tensor]
reveal_type(troupe.nn.batch_norm(x, [1.0], [0.0], [0.0], [1.0]))  # Tensor
reveal_type(troupe.unique(x))  # Tensor
last: int = x.shape[-1] + x.ndim


@troupe.function
def step(x: troupe.Tensor, factor: int = 2) -> troupe.Tensor:
    return x * factor


@troupe.function(reduce_retracing=True)
def named(x: troupe.Tensor) -> typing.Dict[str, troupe.Tensor]:
    return {"x": x}


class Doubler:
    @troupe.function
    def apply(self, x: troupe.Tensor) -> troupe.Tensor:
        return x + x


reveal_type(step(x, factor=3))  # Tensor
reveal_type(named(x))  # dict[str, Tensor]
reveal_type(Doubler().apply(x))  # Tensor
traces: int = step.traces
plan: str = step.explain(x)

with troupe.GradientTape() as tape:
    loss = troupe.mean((x @ w) ** 2)
dw = tape.gradient(loss, w)
optimizer = troupe.optimizers.Adam(1e-3)
optimizer.apply_gradients([(dw, w)])
reveal_type(troupe.value_and_grad(lambda x: troupe.sum(x))(x)[0])  # Tensor
y = troupe.cond(loss > 1, lambda: loss, lambda: -loss)

g = troupe.Graph()
a = g.placeholder("float32", [None, 2], name="a")
with troupe.Session(g) as session:
    reveal_type(session.run({a: np.ones((1, 2))}, a * 2))  # ndarray
    reveal_type(session.run({a: [[1.0, 2.0]]}, [a, a + 1]))  # list[ndarray]

model = troupe.keras.Sequential([troupe.keras.layers.Dense(3, activation="relu"), troupe.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
history = model.fit(np.ones((4, 2)), np.ones(4), epochs=2)
losses = history.history["loss"]

points = troupe.data.from_tensors({"x": np.ones((4, 2)), "y": np.zeros(4)}).shuffle(7).batch(2)
for batch in points:
    print(batch["x"])
with troupe.Cluster.from_environment() as cluster:
    name: str = cluster.name
    snapshot = troupe.introspect("127.0.0.1:1")
    busy: int = snapshot.tasks[0].took_ns
    loaded = troupe.saved_model.load("digits")
    reveal_type(loaded.run({"x": x.numpy()})["y"])  # ndarray
    found = troupe.serving.Client("localhost:8501").predict("digits", {"x": x.numpy()}, version=3)
onnx = troupe.import_onnx("model.onnx")
reveal_type(onnx.run({"x": x})["y"])  # ndarray
"""

WRONG = """
import troupe
troupe.data.range(3).take("two")
troupe.introspect(7)
troupe.serving.Client("localhost").predict("digits")
number: int = troupe.data.range(3).describe()
troupe.summ([1, 2])
troupe.sum([1, 2], axes=0)
text: str = troupe.tensor(1).numpy()
troupe.tensor(1).reshap(2)
troupe.function(lambda x: x).tracez
@troupe.function
def step(x: troupe.Tensor) -> troupe.Tensor:
    return x
step()
step(3, 4)
"""


def test_nothing_is_newer_than_python_3_9():
    for path in sorted(PACKAGE.rglob("*.py")):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))


def functions_of(tree):
    """(name, node) of the functions and methods of a module that others may call."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and (method.name == "__init__" or method.name[0] != "_"):
                    yield f"{node.name}.{method.name}", method
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node


def test_each_public_function_has_hints():
    without = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if "keras" in path.parts:
            continue
        for name, node in functions_of(ast.parse(path.read_text(encoding="utf-8"))):
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            given += [a for a in (node.args.vararg, node.args.kwarg) if a]
            missing = [a.arg for a in given if a.annotation is None and a.arg not in ("self", "cls")]
            if missing or node.returns is None and node.name != "__init__":
                without.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert without == []


def test_methods_of_tensors_are_in_the_hints():
    tree = ast.parse(hints().read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for cls in (troupe.Tensor, troupe.Variable):
        known = {node.name for node in classes[cls.__name__].body if isinstance(node, ast.FunctionDef)}
        assert {name for name in vars(cls) if name[0] != "_"} - known == set()


def hints():
    if not (BUILT / "_troupe.pyi").exists():
        pytest.skip("no hints of the module: build the target troupe_python_stub")
    return BUILT / "_troupe.pyi"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    place = tmp_path_factory.mktemp("programs")
    (place / "program.py").write_text(PROGRAM)
    (place / "wrong.py").write_text(WRONG)
    return place


# Both checkers see the package and the programs at once, which takes seconds: [(path, line, severity, message)].
@pytest.fixture(scope="module")
def mypy(programs):
    pytest.importorskip("mypy", reason="no Python module mypy (tools/setup.sh --with-python)")
    hints()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--ignore-missing-imports", "--hide-error-context",
         "--disallow-untyped-defs", "--no-error-summary", "-p", "troupe", "-m", "program", "-m", "wrong"],
        cwd=programs, env={**os.environ, "MYPYPATH": f"{BUILT.parent}:{programs}"}, timeout=300, capture_output=True,
        text=True)
    assert done.returncode in (0, 1), done.stderr
    found = [re.match(r"(.*?):(\d+): (\w+): (.*)", line) for line in done.stdout.splitlines()]
    return [(f[1], int(f[2]), f[3], f[4]) for f in found if f]


@pytest.fixture(scope="module")
def pyright(programs):
    pytest.importorskip("basedpyright", reason="no Python module basedpyright (tools/setup.sh --with-python)")
    hints()
    (programs / "pyrightconfig.json").write_text(json.dumps({
        "include": [str(BUILT), "program.py", "wrong.py"], "typeCheckingMode": "standard",
        "extraPaths": [str(BUILT.parent)]}))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "-p", str(programs), "--pythonpath", sys.executable, "--outputjson"],
        cwd=programs, env=dict(os.environ), timeout=300, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [(d["file"], d["range"]["start"]["line"] + 1, d["severity"], d["message"]) for d in found]


@pytest.fixture(params=["mypy", "pyright"])
def found(request):
    return request.getfixturevalue(request.param)


def test_checkers_accept_the_package(found):
    assert [f for f in found if f[2] == "error" and "/troupe/" in f[0] and "/keras/" not in f[0]] == []


def short(revealed):
    """"troupe._troupe.Tensor" and the like by their last names, without what an array holds."""
    text = re.sub(r"[\w.]*\.(\w+)", r"\1", revealed)
    text = re.sub(r"ndarray\[.*?dtype\[Any\]\]", "ndarray", text)
    return re.sub(r"\b(Tuple|Dict|List)\[", lambda found: found[0].lower(), text)


def test_checkers_know_the_types_of_a_program(found):
    types = {}
    for path, line, severity, message in found:
        if not path.endswith("program.py"):
            continue
        assert severity != "error", (line, message)
        revealed = re.match(r'(?:Revealed type|Type of ".*") is "(.*)"', message)
        if revealed:
            types[line] = short(revealed[1])
    lines = enumerate(PROGRAM.splitlines(), 1)
    assert types == {number: line.split("# ")[1] for number, line in lines if "reveal_type" in line}


def test_checkers_find_the_mistakes_of_a_program(found):
    wrong = {line for path, line, severity, _ in found if path.endswith("wrong.py") and severity == "error"}
    assert sorted(wrong) == [3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16]
