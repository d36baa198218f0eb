"""Ops beside NumPy's functions: what a user of NumPy expects, also at the edges."""

import numpy as np
import pytest
import troupe

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)
Y = RANDOM.standard_normal((4, 5)).astype(np.float32)
POSITIVE = np.abs(X) + 0.5
INTEGERS = RANDOM.integers(-7, 8, (3, 4)).astype(np.int32)
DIVISORS = np.array([[3, -3, 2, -2]], np.int32)
ORDER = np.array([0.5, np.nan, -np.inf, 2, 2, -0.0, 0.0, np.inf], np.float32)


def run(op, *inputs, **attributes):
    g = troupe.Graph()
    out = g.op(op, list(inputs), **attributes)
    with troupe.Session(g, threads=1) as session:
        return session.run(fetches=out)


UNARY = {
    "Abs": np.abs, "Neg": np.negative, "Exp": np.exp, "Expm1": np.expm1, "Sin": np.sin, "Cos": np.cos, "Tan": np.tan,
    "Tanh": np.tanh, "Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Atan": np.arctan, "Floor": np.floor,
    "Ceil": np.ceil, "Round": np.round, "Sign": np.sign, "Square": np.square,
}
OF_POSITIVE = {"Log": np.log, "Log1p": np.log1p, "Sqrt": np.sqrt, "Rsqrt": lambda x: 1 / np.sqrt(x)}
BINARY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Maximum": np.maximum,
    "Minimum": np.minimum, "Atan2": np.arctan2, "SquaredDifference": lambda a, b: (a - b) ** 2, "Less": np.less,
    "GreaterEqual": np.greater_equal, "Equal": np.equal,
}
INTEGER = {"FloorDiv": np.floor_divide, "FloorMod": np.mod, "TruncateMod": np.fmod, "BitwiseAnd": np.bitwise_and,
           "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}
REDUCTIONS = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min, "Prod": np.prod}


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_number(op):
    np.testing.assert_allclose(run(op, X), UNARY[op](X), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("op", OF_POSITIVE)
def test_functions_of_one_positive_number(op):
    np.testing.assert_allclose(run(op, POSITIVE), OF_POSITIVE[op](POSITIVE), rtol=2e-6)


@pytest.mark.parametrize("op", BINARY)
def test_functions_of_two_numbers_broadcast(op):
    np.testing.assert_allclose(run(op, X, Y), BINARY[op](X, Y), rtol=2e-6)


@pytest.mark.parametrize("op", INTEGER)
def test_functions_of_two_integers_have_the_signs_of_numpy(op):
    np.testing.assert_array_equal(run(op, INTEGERS, DIVISORS), INTEGER[op](INTEGERS, DIVISORS))


@pytest.mark.parametrize("axes", [[0], [-1], [0, 2], [0, 1, 2], []])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(op, axes):
    axis = tuple(axes) or None  # no axes: all
    found = run(op, X, np.array(axes, np.int64))
    np.testing.assert_allclose(found, REDUCTIONS[op](X, axis=axis), rtol=1e-5, atol=1e-6)
    kept = run(op, X, np.array(axes, np.int64), keep_dims=True)
    np.testing.assert_allclose(kept, REDUCTIONS[op](X, axis=axis, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (5, 3, 4)), ((3,), (3, 4))])
def test_matmul_broadcasts_batches(shapes):
    a, b = (RANDOM.standard_normal(shape) for shape in shapes)
    if a.ndim == 1:
        a = a[None]  # vectors are the builder's
    np.testing.assert_allclose(run("MatMul", a, b), np.matmul(a, b), rtol=1e-12)


def test_sorting_puts_nan_last_and_is_stable():
    np.testing.assert_array_equal(run("Sort", ORDER, axis=0), np.sort(ORDER))
    np.testing.assert_array_equal(run("ArgSort", ORDER, axis=0), np.argsort(ORDER, kind="stable"))


def test_running_sums():
    axis = np.int64(1)
    np.testing.assert_allclose(run("CumSum", X, axis), np.cumsum(X, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run("CumProd", X, axis), np.cumprod(X, 1), rtol=1e-5)
    np.testing.assert_array_equal(run("CumMax", X, axis)[0], np.maximum.accumulate(X, 1))


def test_gathers_and_scatters():
    at = np.array([[0, 1], [2, -1]], np.int64)
    np.testing.assert_array_equal(run("GatherND", X, at), X[tuple(at.T)])
    columns = RANDOM.integers(-5, 5, (3, 4, 2))
    np.testing.assert_array_equal(run("GatherElements", X, columns, axis=2), np.take_along_axis(X, columns, 2))
    expected = X.copy()
    np.add.at(expected, tuple(at.T), Y[:2])
    np.testing.assert_allclose(run("ScatterND", X, at, Y[:2], reduction="add"), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pads(mode):
    before, after = [1, 0], [2, 1]
    found = run("Pad", Y, np.array(before + after, np.int64), np.float32(0), mode=mode)
    np.testing.assert_array_equal(found, np.pad(Y, list(zip(before, after)), mode=mode))


def test_unique():
    values = np.array([3, 1, 3, 2, 1], np.int64)
    g = troupe.Graph()
    outputs = g.op("Unique", [values], sorted=True)
    with troupe.Session(g, threads=1) as session:
        found = session.run(fetches=outputs)
    expected = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
    for ours, theirs in zip(found, expected):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("length", [8, 12, 15])
def test_fourier_transforms(length):
    signal = RANDOM.standard_normal((2, length))
    given = np.stack([signal, np.zeros_like(signal)], -1)
    found = run("DFT", given, np.int64(length), axis=1)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], np.fft.fft(signal), rtol=1e-12, atol=1e-12)


def test_determinants_and_inverses():
    matrices = RANDOM.standard_normal((3, 4, 4))
    np.testing.assert_allclose(run("Det", matrices), np.linalg.det(matrices), rtol=1e-10)
    np.testing.assert_allclose(run("MatrixInverse", matrices), np.linalg.inv(matrices), rtol=1e-9)
