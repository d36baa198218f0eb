"""Hints for type checkers: those of the package's own modules, and what a user's program gets of them."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "apps/python/troupe"
# Modules whose bodies are checked, too.
CHECKED = ["cluster", "data", "introspection", "launch", "saved_model", "serving"]

PROGRAM = """
import numpy as np
import troupe

x = troupe.tensor([[1.0, 2.0]])
y = x @ troupe.ones((2, 1)) + 1
value: np.ndarray = y.numpy()
shape = troupe.mean(y, axis=0).shape
points = troupe.data.from_tensors({"x": np.ones((4, 2)), "y": np.zeros(4)}).shuffle(7).batch(2)
for batch in points:
    print(batch["x"])
with troupe.Cluster.from_environment() as cluster:
    name: str = cluster.name
    snapshot = troupe.introspect("127.0.0.1:1")
    busy: int = snapshot.tasks[0].took_ns
    model = troupe.saved_model.load("digits")
    scores: np.ndarray = model.run({"x": value})["y"]
    found = troupe.serving.Client("localhost:8501").predict("digits", {"x": value}, version=3)
"""

WRONG = """
import troupe
troupe.data.range(3).take("two")
troupe.introspect(7)
troupe.serving.Client("localhost").predict("digits")
number: int = troupe.data.range(3).describe()
"""


def test_nothing_is_newer_than_python_3_9():
    for path in sorted(PACKAGE.rglob("*.py")):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))


def checked(tmp_path, *arguments):
    pytest.importorskip("mypy", reason="no Python module mypy (tools/setup.sh --with-python)")
    import troupe

    place = pathlib.Path(troupe._troupe.__file__).parent
    if not (place / "_troupe.pyi").exists():
        pytest.skip("no hints of the module: build the target troupe_python_stub")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path.parent / "mypy"), "--follow-imports=silent",
         "--ignore-missing-imports", "--no-error-summary", "--hide-error-context", *arguments],
        cwd=tmp_path, env={"MYPYPATH": str(place.parent), "PATH": "/usr/bin:/bin"}, timeout=300, capture_output=True,
        text=True)
    return done.stdout + done.stderr


def test_the_modules_of_the_package_keep_their_hints(tmp_path):
    options = [option for name in CHECKED for option in ("-m", f"troupe.{name}")]
    assert checked(tmp_path, *options, "-m", "troupe._troupe") == ""


def test_a_program_is_checked(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    assert checked(tmp_path, "program.py") == ""
    (tmp_path / "wrong.py").write_text(WRONG)
    found = [line.split(":")[1] for line in checked(tmp_path, "wrong.py").splitlines() if "error:" in line]
    assert found == ["3", "4", "5", "6"]
