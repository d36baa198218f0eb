"""troupe.linalg and troupe.fft beside NumPy: values, edges, errors, gradients."""

import numpy as np
import pytest
import troupe
from troupe import linalg

RANDOM = np.random.default_rng(11)
BATCHES = [(), (3,), (2, 0), (2, 3)]
# Of results that should be near 1, by dtype: the inputs are computed with in double precision.
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-12}


def random(*shape, dtype=np.float64):
    return RANDOM.standard_normal(shape).astype(dtype)


def near(found, expected, dtype=np.float64, factor=1.0):
    found = np.asarray(found)
    assert found.dtype == dtype and found.shape == np.shape(expected)
    size = 1 + (np.abs(expected).max() if np.size(expected) else 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * size * factor)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_square_matrices(batch, dtype, n):
    x = random(*batch, n, n, dtype=dtype) + dtype(3) * np.eye(n, dtype=dtype) * dtype(n) ** 0.5
    exact = x.astype(np.float64)
    near(linalg.inv(x), np.linalg.inv(exact), dtype)
    near(linalg.det(x), np.linalg.det(exact), dtype)
    for found, expected in zip(linalg.slogdet(x), np.linalg.slogdet(exact)):
        near(found, expected, dtype)
    b = random(*batch, n, 2, dtype=dtype)
    near(linalg.solve(x, b), np.linalg.solve(exact, b), dtype)
    near(linalg.solve(x, b, adjoint=True), np.linalg.solve(exact.swapaxes(-1, -2), b), dtype)
    for lower, part in ((True, np.tril(exact)), (False, np.triu(exact))):
        near(linalg.triangular_solve(x, b, lower=lower), np.linalg.solve(part, b), dtype)
    positive = x @ x.swapaxes(-1, -2) + dtype(1) * np.eye(n, dtype=dtype)
    factor = np.linalg.cholesky(positive.astype(np.float64))
    near(linalg.cholesky(positive), factor, dtype, 2)
    near(linalg.cholesky_solve(factor, b.astype(np.float64)), np.linalg.solve(positive.astype(np.float64), b),
         np.float64, 1e4 if dtype == np.float32 else 100)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("m, n", [(1, 1), (4, 4), (7, 3), (3, 7), (40, 25), (5, 0), (0, 3)])
def test_factors_of_any_matrices(batch, dtype, m, n):
    x = random(*batch, m, n, dtype=dtype)
    exact = x.astype(np.float64)
    for mode in ("reduced", "complete"):
        if batch == () or np.prod(batch) > 0:
            for found, expected in zip(linalg.qr(x, mode), np.linalg.qr(exact, mode)):
                near(found, expected, dtype, 3)
    assert linalg.qr(x, "r").shape == np.linalg.qr(exact, "r").shape
    for full in (True, False):
        u, s, vh = linalg.svd(x, full_matrices=full)
        expected = np.linalg.svd(exact, full_matrices=full)
        assert [t.shape for t in (u, s, vh)] == [t.shape for t in expected]
        near(s, expected[1], dtype)
        k = min(m, n)
        near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], exact, dtype, 3)
        for vectors in (u, vh.swapaxes(-1, -2)):
            columns = vectors.shape[-1]
            products = vectors.swapaxes(-1, -2) @ vectors
            near(products, np.broadcast_to(np.eye(columns), batch + (columns, columns)), dtype, 3)
    near(linalg.svdvals(x), expected[1], dtype)
    near(linalg.svd(x, compute_uv=False), expected[1], dtype)
    if m and n:
        near(linalg.pinv(x), np.linalg.pinv(exact), dtype, 30)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n", [0, 1, 2, 6, 40])
def test_symmetric_matrices(batch, dtype, n):
    x = random(*batch, n, n, dtype=dtype)
    x = x + x.swapaxes(-1, -2)
    w, v = linalg.eigh(x)
    near(w, np.linalg.eigvalsh(x.astype(np.float64)), dtype)
    near(linalg.eigvalsh(x), np.linalg.eigvalsh(x.astype(np.float64)), dtype)
    near((v * w[..., None, :]) @ v.swapaxes(-1, -2), x, dtype, 3)
    near(v.swapaxes(-1, -2) @ v, np.broadcast_to(np.eye(n), x.shape), dtype, 3)
    one_triangle = np.triu(x) + np.tril(np.full_like(x, 7), -1)
    near(linalg.eigvalsh(one_triangle, UPLO="U"), np.linalg.eigvalsh(x.astype(np.float64)), dtype)


def hilbert(n):
    return 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0)


SPECIAL = {
    "zeros": np.zeros((4, 6)), "ones": np.ones((5, 3)), "identity": np.eye(4), "hilbert": hilbert(9),
    "rank 1": np.outer(np.arange(1, 8.0), np.arange(4.0)), "tiny": random(5, 4) * 1e-300, "huge": random(4, 5) * 1e300,
    "graded": np.diag(10.0 ** -np.arange(0, 280, 40)) @ random(7, 7), "jordan": np.eye(6) + np.eye(6, k=1),
    "permutation": np.eye(7)[[3, 1, 6, 0, 2, 5, 4]], "zero column": random(6, 3) * [1, 0, 1],
    "denormal": np.full((3, 3), 5e-324), "signs": np.sign(random(20, 20)), "equal rows": np.tile(random(1, 9), (8, 1)),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_singular_values_of_difficult_matrices(name):
    x = SPECIAL[name]
    largest = max(np.abs(x).max(), 1e-307)
    for x in (x, x.T):
        for full in (False, True):
            u, s, vh = (np.asarray(t) for t in linalg.svd(x, full_matrices=full))
            k = min(x.shape)
            assert np.all(np.diff(s) <= 0) and np.all(s >= 0)
            for vectors in (u, vh.T):
                np.testing.assert_allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-13)
            np.testing.assert_allclose((u[:, :k] * (s / largest)) @ vh[:k], x / largest, atol=1e-13)
        np.testing.assert_allclose(s / largest, np.linalg.svd(x, compute_uv=False) / largest, atol=1e-13)


def test_small_singular_values_of_columns_of_different_sizes_are_accurate():
    q, _ = np.linalg.qr(random(5, 5))
    sizes = 10.0 ** -np.arange(0, 100, 20)
    found = np.asarray(linalg.svdvals(q * sizes))
    np.testing.assert_allclose(found, sizes, rtol=1e-12)


def test_ill_conditioned_matrices():
    x = hilbert(8)  # condition 1.5e10
    b = x @ np.ones(8)
    np.testing.assert_allclose(linalg.solve(x, b), np.ones(8), atol=1e-5)
    np.testing.assert_allclose(linalg.lstsq(x, b)[0], np.ones(8), atol=1e-5)
    np.testing.assert_allclose(linalg.cholesky(x) @ linalg.cholesky(x).T, x, atol=1e-15)
    np.testing.assert_allclose(linalg.inv(x) @ x, np.eye(8), atol=1e-5)
    assert linalg.cond(x) == pytest.approx(np.linalg.cond(x), rel=1e-6)


@pytest.mark.parametrize("m, n", [(6, 3), (3, 6), (4, 4)])
def test_least_squares(m, n):
    a, b = random(m, n), random(m, 2)
    found = linalg.lstsq(a, b)
    expected = np.linalg.lstsq(a, b, rcond=None)
    near(found[0], expected[0], factor=100)
    near(found[1], ((a @ expected[0] - b) ** 2).sum(axis=0), factor=100)
    assert int(found[2]) == expected[2]
    near(found[3], expected[3])
    near(linalg.lstsq(a, b[:, 0])[0], expected[0][:, 0], factor=100)
    near(linalg.lstsq(np.stack([a, a]), b)[0][1], expected[0], factor=100)
    singular = np.outer(a[:, 0], a[0])
    assert int(linalg.matrix_rank(singular)) == 1 == int(linalg.lstsq(singular, b)[2])
    near(linalg.pinv(singular), np.linalg.pinv(singular, rcond=1e-13), factor=100)
    assert int(linalg.matrix_rank(np.diag([1, 1e-3, 1e-8]), rtol=1e-6)) == 2


def test_batches_of_solutions_broadcast():
    a, b = random(3, 1, 4, 4) + 4 * np.eye(4), random(2, 4, 1)
    near(linalg.solve(a, b), np.linalg.solve(a, b))
    near(linalg.solve(a[0, 0], b), np.linalg.solve(a[0, 0], b))
    near(linalg.triangular_solve(a, b), np.linalg.solve(np.tril(a), b))
    near(linalg.solve(a[0, 0], b[0, :, 0]), np.linalg.solve(a[0, 0], b[0, :, 0]))


def test_matrices_that_have_no_result_are_named():
    x = np.stack([[np.eye(2)] * 3] * 2)
    x[1, 2] = [[1, 2], [2, 4]]
    for function, message in [(linalg.inv, r"MatrixInverse: x\[1,2\] is singular: .* pinv\(\)"),
                              (lambda x: linalg.solve(x, x), r"MatrixSolve: a\[1,2\] is singular: lstsq\(\)")]:
        with pytest.raises(troupe.InvalidArgumentError, match=message):
            function(x)
    x[0, 1] = -np.eye(2)
    with pytest.raises(troupe.InvalidArgumentError, match=r"Cholesky: x\[0,1\] is not positive definite"):
        linalg.cholesky(x)
    with pytest.raises(troupe.InvalidArgumentError, match=r"Cholesky: x is not positive definite"):
        linalg.cholesky(-np.eye(2))
    with pytest.raises(troupe.InvalidArgumentError, match=r"TriangularSolve: a is singular: there is a 0"):
        linalg.triangular_solve(np.diag([1.0, 0.0]), np.ones(2))
    with pytest.raises(troupe.InvalidArgumentError, match="last two dimensions of 'x' differ: 2 and 3"):
        linalg.eigh(np.ones((2, 3)))
    with pytest.raises(ValueError, match="the mode is"):
        linalg.qr(np.ones((2, 3)), "full")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_give_nan_of_their_matrix_alone(bad):
    x = np.stack([np.eye(20) * 3 + 0.1] * 3)
    x[1, 7, 3] = bad
    results = [linalg.pinv(x), linalg.svdvals(x), linalg.eigvalsh(x), *linalg.qr(x), *linalg.svd(x), *linalg.eigh(x)]
    for result in results:
        values = np.asarray(result)
        assert np.all(np.isnan(values[1])) and np.all(np.isfinite(values[[0, 2]]))
    for function in (linalg.inv, linalg.det, linalg.cholesky, lambda x: linalg.solve(x, x)):
        values = np.asarray(function(x))
        assert np.all(np.isfinite(values[[0, 2]]))
        assert np.isinf(bad) or np.any(np.isnan(values[1]))


def test_powers_norms_and_condition_numbers():
    x = random(2, 4, 4)
    for n in (-3, -1, 0, 1, 2, 5):
        near(linalg.matrix_power(x, n), np.linalg.matrix_power(x, n), factor=1e3)
    for ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for axis in ((-2, -1), (0, 2)):
            for keepdims in (False, True):
                near(linalg.norm(x, ord, axis, keepdims), np.linalg.norm(x, ord, axis, keepdims), factor=3)
    for ord in (None, 0, 1, 2, 3, 0.5, -1, np.inf, -np.inf):
        near(linalg.norm(x, ord, axis=1), np.linalg.norm(x, ord, axis=1), factor=3)
    near(linalg.norm(x), np.linalg.norm(x))
    near(linalg.norm(x[0], 1), np.linalg.norm(x[0], 1))
    for p in (None, 2, -2, 1, np.inf, "fro"):
        near(linalg.cond(x, p), np.linalg.cond(x, p), factor=1e3)
    with pytest.raises(ValueError, match="no ord of matrices"):
        linalg.norm(x, 7, axis=(0, 1))


def test_integers_and_16_bits():
    assert linalg.inv(np.array([[2, 0], [0, 4]])).dtype == troupe.float64
    x = random(5, 4).astype(np.float16)
    u, s, vh = linalg.svd(x, full_matrices=False)
    assert s.dtype == troupe.float16
    np.testing.assert_allclose((u * s) @ vh, x, atol=1e-2)


def test_graphs_functions_and_gradients():
    x, b = random(3, 3) + 4 * np.eye(3), random(3)

    def loss(x):
        u, s, vh = linalg.svd(x @ x.T)
        w, v = linalg.eigh(x + troupe.transpose(x))
        q, r = linalg.qr(x)
        total = troupe.sum(linalg.solve(x, b)) + linalg.det(x) + linalg.slogdet(x)[1] + troupe.sum(r * linalg.inv(q))
        total = total + troupe.sum(s) + troupe.sum(w * v[0] ** 2)
        return total + linalg.norm(linalg.cholesky(x @ x.T)) + linalg.cond(x)

    value, gradient = troupe.value_and_grad(loss)(troupe.tensor(x))
    traced_value, traced_gradient = troupe.value_and_grad(troupe.function(loss))(troupe.tensor(x))
    np.testing.assert_array_equal(value, traced_value)
    near(traced_gradient, gradient.numpy())
    h = 1e-5
    for i in range(3):
        for j in range(3):
            moved = np.zeros((3, 3))
            moved[i, j] = h
            difference = (float(loss(troupe.tensor(x + moved))) - float(loss(troupe.tensor(x - moved)))) / (2 * h)
            assert float(gradient[i, j]) == pytest.approx(difference, rel=1e-6, abs=1e-6)
    g = troupe.Graph()
    fed = g.placeholder("float64", [None, None])
    y = linalg.svdvals(fed)
    with troupe.Session(g, threads=1) as session:
        near(session.run({fed: x}, y), np.linalg.svd(x, compute_uv=False))


def test_gradients_of_vectors_of_full_matrices_are_refused():
    with pytest.raises(troupe.UnimplementedError, match="full_matrices"):
        troupe.value_and_grad(lambda x: troupe.sum(linalg.svd(x)[0] ** 3))(troupe.tensor(random(4, 2)))
    with pytest.raises(troupe.UnimplementedError, match="full_matrices"):
        troupe.value_and_grad(lambda x: troupe.sum(linalg.qr(x, "complete")[0] ** 3))(troupe.tensor(random(4, 2)))
