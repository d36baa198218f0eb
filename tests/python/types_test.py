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

KERAS_PROGRAM = """
import typing
import numpy as np
import troupe
from troupe import keras
from troupe.keras import layers

images, classes = np.ones((8, 4), np.float32), np.ones(8)


class Scale(layers.Layer):
    def __init__(self, factor: float = 2.0, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, input_shape: typing.Tuple[typing.Any, ...]) -> None:
        self.scale = self.add_weight((input_shape[-1],), initializer="ones")
        reveal_type(self.scale)  # Weight

    def call(self, x: troupe.Tensor, training: bool = False) -> troupe.Tensor:
        reveal_type(x * self.scale)  # Tensor
        return self.factor * x * self.scale


class Enough(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: keras.callbacks.Logs = None) -> None:
        if logs is not None and logs["loss"] < 0.1:
            self.model.stop_training = True


class Twice(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x: troupe.Tensor) -> troupe.Tensor:
        return self.dense(x) + self.dense(x)


class Custom(keras.losses.Loss):
    def call(self, y_true: troupe.Tensor, y_pred: troupe.Tensor) -> troupe.Tensor:
        return troupe.square(y_pred - y_true)


chain = keras.Sequential([
    layers.Input((4,)), layers.Dense(8, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-4)), Scale(),
    layers.Dense(8, activation=keras.activations.relu),
    layers.Dense(1, kernel_initializer=keras.initializers.HeNormal(seed=1))])
chain.add(layers.Dropout(0.5))
reveal_type(chain.pop())  # Layer
chain.compile(optimizer=keras.optimizers.Adam(1e-3), loss=Custom(), metrics=["mae", keras.metrics.AUC(name="auc")])
history = chain.fit(images, classes, batch_size=4, epochs=2, verbose=0, validation_split=0.5, callbacks=[Enough()],
                    class_weight={0: 1.0, 1: 2.0})
reveal_type(history)  # History
reveal_type(history.history["loss"])  # list[float]
reveal_type(chain.evaluate(images, classes, verbose=0, return_dict=True))  # dict[str, Any]
loss, mae, auc = chain.evaluate(images, classes, verbose=0)
predicted: np.ndarray = chain.predict(images, verbose=0)
values: troupe.Tensor = chain(images)

a = layers.Input((4,), name="a")
reveal_type(a)  # KerasTensor
reveal_type(a + 1.0)  # KerasTensor
steps: int = a.shape[-1] + a.ndim
hidden = layers.Dense(8)(a)
both = keras.Model(inputs=a, outputs=[layers.Dense(1, name="p")(hidden), layers.Dense(2, name="q")(hidden)])
both.compile("sgd", loss={"p": "mse", "q": keras.losses.MeanSquaredError()}, loss_weights={"p": 1.0, "q": 0.5})
both.fit({"a": images}, {"p": classes, "q": np.ones((8, 2))}, verbose="auto")
reveal_type(both.get_layer("p"))  # Layer
reveal_type(both.get_weights()[0])  # ndarray
reveal_type(both.count_params())  # int
reveal_type(layers.Dense(3).kernel)  # Weight
reveal_type(Twice())  # Twice
reveal_type(keras.losses.Huber()([1.0], [2.0]))  # Tensor
reveal_type(keras.utils.to_categorical([0, 1]))  # ndarray
reveal_type(keras.models.load_model("digits"))  # Model
"""

WRONG_KERAS_PROGRAM = """
from troupe import keras
model = keras.Sequential([keras.layers.Dense("three")])
model.fit([1.0], [2.0], verbose=None)
model.fit([1.0], [2.0], epoch=3)
model.compile(optimizer=3, loss="mse")
keras.layers.Conv2D(8, 3, strides="two")
keras.layers.Dens(3)
keras.losses.Huber(delta="large")
keras.callbacks.EarlyStopping(patience=[3])
number: int = model.evaluate([1.0], [2.0], return_dict=True)
model.summary().text
keras.activations.rellu
keras.Input(3.5)
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

PROGRAMS = ("program", "wrong", "keras_program", "keras_wrong")


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
    (place / "keras_program.py").write_text(KERAS_PROGRAM)
    (place / "keras_wrong.py").write_text(WRONG_KERAS_PROGRAM)
    return place


# Both checkers see the package and the programs at once, which takes seconds: [(path, line, severity, message)].
@pytest.fixture(scope="module")
def mypy(programs):
    pytest.importorskip("mypy", reason="no Python module mypy (tools/setup.sh --with-python)")
    hints()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--ignore-missing-imports", "--hide-error-context",
         "--disallow-untyped-defs", "--no-error-summary", "-p", "troupe", *(f"-m{name}" for name in PROGRAMS)],
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
        "include": [str(BUILT), *(f"{name}.py" for name in PROGRAMS)], "typeCheckingMode": "standard",
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
    assert [f for f in found if f[2] == "error" and "/troupe/" in f[0]] == []


def short(revealed):
    """"troupe._troupe.Tensor" and the like by their last names, without what an array holds."""
    text = re.sub(r"[\w.]*\.(\w+)", r"\1", revealed)
    text = re.sub(r"ndarray\[.*?dtype\[Any\]\]", "ndarray", text)
    return re.sub(r"\b(Tuple|Dict|List)\[", lambda found: found[0].lower(), text)


@pytest.mark.parametrize("name, text", [("program", PROGRAM), ("keras_program", KERAS_PROGRAM)])
def test_checkers_know_the_types_of_a_program(found, name, text):
    types = {}
    for path, line, severity, message in found:
        if pathlib.Path(path).name != f"{name}.py":
            continue
        assert severity != "error", (line, message)
        revealed = re.match(r'(?:Revealed type|Type of ".*") is "(.*)"', message)
        if revealed:
            types[line] = short(revealed[1])
    lines = enumerate(text.splitlines(), 1)
    assert types == {number: line.split("# ")[1] for number, line in lines if "reveal_type" in line}


@pytest.mark.parametrize("name, lines", [("wrong", [*range(3, 12), 15, 16]), ("keras_wrong", [*range(3, 15)])])
def test_checkers_find_the_mistakes_of_a_program(found, name, lines):
    errors = [(path, line) for path, line, severity, _ in found if severity == "error"]
    assert sorted({line for path, line in errors if pathlib.Path(path).name == f"{name}.py"}) == lines
