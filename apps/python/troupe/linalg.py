"""Linear algebra with NumPy's names: matrices are the last two dimensions [..., m, n], those before them a batch.

Results have the dtype of the arguments, integers become floats, and all is computed in double precision. A matrix with
NaN or infinite elements has results of NaN. A matrix that has no result, such as the inverse of a singular one, is an
InvalidArgumentError that names its place in the batch. All functions but matrix_rank() have gradients.
"""

from __future__ import annotations

import typing

from . import _troupe, arrays, math, tensors
from ._core import Axis, Tensor, TensorLike

__all__ = [
    "cholesky", "cholesky_solve", "cofactors", "cond", "det", "eigh", "eigvalsh", "inv", "logdet", "lstsq",
    "matrix_power", "matrix_rank", "norm", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "triangular_solve",
]


def det(x: TensorLike) -> Tensor:
    """Determinants of matrices [..., n, n] -> [...].

    >>> troupe.linalg.det([[1., 2.], [3., 4.]])
    Tensor(-2., dtype=float32)
    """
    return _troupe.linalg_det(x)


def slogdet(x: TensorLike) -> typing.Tuple[Tensor, Tensor]:
    """Signs of determinants, and logarithms of their absolute values: [..., n, n] -> [...], [...].

    >>> [float(t) for t in troupe.linalg.slogdet([[2., 0.], [0., 0.5]])]
    [1.0, 0.0]
    """
    return _troupe.linalg_slogdet(x)


def logdet(x: TensorLike) -> Tensor:
    """The logarithm of the determinants of matrices [..., n, n] -> [...]; NaN where one is negative.

    >>> troupe.linalg.logdet([[2., 0.], [0., 0.5]])
    Tensor(0., dtype=float32)
    """
    return _troupe.linalg_logdet(x)


def cofactors(x: TensorLike) -> Tensor:
    """det(x) inv(x).T of matrices [..., n, n], also of singular ones: the derivatives of det().

    >>> troupe.linalg.cofactors([[1., 2.], [3., 4.]]).numpy().round(3)
    array([[ 4., -3.],
           [-2.,  1.]], dtype=float32)
    """
    return _troupe.linalg_cofactors(x)


def inv(x: TensorLike) -> Tensor:
    """Inverses of matrices [..., n, n]. Raises InvalidArgumentError for singular ones: pinv() has a result for them.

    >>> troupe.linalg.inv([[2., 0.], [0., 4.]])
    Tensor([[0.5 , 0.  ],
            [0.  , 0.25]], dtype=float32)
    """
    return _troupe.linalg_inv(x)


def cholesky(x: TensorLike) -> Tensor:
    """Lower triangular L with x = L L^T, of positive definite x [..., n, n], of which the lower triangle is read.

    >>> troupe.linalg.cholesky([[4., 0.], [0., 9.]])
    Tensor([[2., 0.],
            [0., 3.]], dtype=float32)
    """
    return _troupe.linalg_cholesky(x)


def cholesky_solve(l: TensorLike, b: TensorLike) -> Tensor:
    """x with L L^T x = b, for L [..., n, n] of cholesky() and b [..., n, k] or [n].

    >>> troupe.linalg.cholesky_solve([[2., 0.], [0., 3.]], [4., 9.])
    Tensor([1., 1.], dtype=float32)
    """
    return _troupe.linalg_cholesky_solve(l, b)


def solve(a: TensorLike, b: TensorLike, adjoint: bool = False) -> Tensor:
    """x with a x = b, for a [..., n, n] and b [..., n, k] or [n]; adjoint: for a's transpose. Batches broadcast.

    Raises InvalidArgumentError for singular matrices: lstsq() has a result for them.

    >>> troupe.linalg.solve([[2., 0.], [0., 4.]], [[1.], [1.]])
    Tensor([[0.5 ],
            [0.25]], dtype=float32)
    """
    return _troupe.linalg_solve(a, b, adjoint)


def triangular_solve(a: TensorLike, b: TensorLike, lower: bool = True, adjoint: bool = False) -> Tensor:
    """solve() for triangular a; the elements of the other triangle are not read. adjoint: for a's transpose.

    >>> troupe.linalg.triangular_solve([[2., 0.], [1., 4.]], [[2.], [5.]])
    Tensor([[1.],
            [1.]], dtype=float32)
    """
    return _troupe.linalg_triangular_solve(a, b, lower, adjoint)


def qr(x: TensorLike, mode: str = "reduced") -> typing.Any:
    """q and r with x = q r: orthonormal columns q [..., m, k] and an upper triangular r [..., k, n], k = min(m, n).

    mode "complete": q [..., m, m] and r [..., m, n]; "r": r alone, of mode "reduced". The gradient is that of matrices
    whose first k columns are independent.

    >>> q, r = troupe.linalg.qr([[3., 1.], [4., 2.], [0., 2.]])
    >>> bool(troupe.all(abs(q @ r - [[3., 1.], [4., 2.], [0., 2.]]) < 1e-6)), q.shape
    (True, (3, 2))
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: the mode is 'reduced', 'complete' or 'r', not {mode!r}")
    q, r = _troupe.linalg_qr(x, mode == "complete")
    return r if mode == "r" else (q, r)


def _lower(x: TensorLike, UPLO: str, function: str) -> TensorLike:
    if UPLO not in ("L", "U"):
        raise ValueError(f"{function}: UPLO is 'L' or 'U', not {UPLO!r}")
    return x if UPLO == "L" else arrays.swapaxes(x, -1, -2)


def eigh(x: TensorLike, UPLO: str = "L") -> typing.Tuple[Tensor, Tensor]:
    """Eigenvalues w [..., n], ascending, and orthonormal eigenvectors, the columns of v [..., n, n], of symmetric x.

    The lower triangle of x is read, or with UPLO="U" the upper one. The signs of the vectors are arbitrary: gradients
    are those of results that do not depend on them.

    >>> w, v = troupe.linalg.eigh([[2., 1.], [1., 2.]])
    >>> np.round(w.numpy(), 5)
    array([1., 3.], dtype=float32)
    """
    return _troupe.linalg_eigh(_lower(x, UPLO, "eigh"))


def eigvalsh(x: TensorLike, UPLO: str = "L") -> Tensor:
    """The eigenvalues of eigh(): [..., n, n] -> [..., n].

    >>> np.round(troupe.linalg.eigvalsh([[2., 1.], [1., 2.]]).numpy(), 5)
    array([1., 3.], dtype=float32)
    """
    return _troupe.linalg_eigvalsh(_lower(x, UPLO, "eigvalsh"))


def svd(x: TensorLike, full_matrices: bool = True, compute_uv: bool = True) -> typing.Any:
    """u, s and vh with x = u diag(s) vh; or s alone. s [..., k] descends, k = min(m, n).

    u [..., m, m] and vh [..., n, n]; unless full_matrices, u [..., m, k] and vh [..., k, n]. Gradients of u and vh need
    full_matrices=False or m = n, and are those of results that do not depend on the signs of the vectors.

    >>> u, s, vh = troupe.linalg.svd([[0., 2.], [1., 0.], [0., 0.]])
    >>> u.shape, s.numpy().tolist(), vh.shape
    ((3, 3), [2.0, 1.0], (2, 2))
    """
    return _troupe.linalg_svd(x, full_matrices) if compute_uv else svdvals(x)


def svdvals(x: TensorLike) -> Tensor:
    """The singular values of svd(), descending: [..., m, n] -> [..., min(m, n)].

    >>> troupe.linalg.svdvals([[0., 2.], [1., 0.]])
    Tensor([2., 1.], dtype=float32)
    """
    return _troupe.linalg_svdvals(x)


def pinv(x: TensorLike, rtol: typing.Optional[float] = None) -> Tensor:
    """Pseudo-inverses of Moore and Penrose: [..., m, n] -> [..., n, m].

    Singular values up to rtol times the largest count as 0; by default max(m, n) times the epsilon of the dtype. The
    gradient is that of matrices that keep their rank.

    >>> troupe.linalg.pinv([[2., 0.], [0., 0.], [0., 4.]])
    Tensor([[0.5 , 0.  , 0.  ],
            [0.  , 0.  , 0.25]], dtype=float32)
    """
    return _troupe.linalg_pinv(x, -1.0 if rtol is None else rtol)


def matrix_rank(x: TensorLike, rtol: typing.Optional[float] = None) -> Tensor:
    """The number of singular values that do not count as 0 (pinv()): int64 [..., m, n] -> [...].

    >>> int(troupe.linalg.matrix_rank([[1., 2.], [2., 4.]]))
    1
    """
    return _troupe.linalg_matrix_rank(x, -1.0 if rtol is None else rtol)


def lstsq(a: TensorLike, b: TensorLike, rcond: typing.Optional[float] = None
          ) -> typing.Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The x of least |a x - b|, and among several that of least |x|, for a [..., m, n] and b [..., m, k] or [m].

    Returns x [..., n, k] or [n], sums of squares of a x - b [..., k] or [], the rank of a, and its singular values.
    Unlike NumPy's, the sums are there for any rank. rcond: rtol of pinv().

    >>> x, squares, rank, s = troupe.linalg.lstsq([[1., 0.], [1., 1.], [1., 2.]], [1., 3., 5.])
    >>> np.round(x.numpy(), 4)
    array([1., 2.], dtype=float32)
    """
    rtol = -1.0 if rcond is None else rcond
    x = _troupe.linalg_lstsq(a, b, rtol)
    rest = math.matmul(a, x) - b
    squares = math.sum(rest * rest, axis=-1 if x.ndim == 1 else -2)
    return x, squares, matrix_rank(a, rcond), svdvals(a)


def matrix_power(x: TensorLike, n: int) -> Tensor:
    """The product of n matrices x [..., m, m]; of -n inverses, if n is negative.

    >>> troupe.linalg.matrix_power([[1., 1.], [0., 1.]], 5)
    Tensor([[1., 5.],
            [0., 1.]], dtype=float32)
    """
    square = inv(x) if n < 0 else _troupe.tensor(x)
    n = abs(n)
    product: typing.Optional[Tensor] = None
    while n > 0:
        if n % 2 == 1:
            product = square if product is None else math.matmul(product, square)
        n //= 2
        if n > 0:
            square = math.matmul(square, square)
    if product is not None:
        return product
    return arrays.broadcast_to(tensors.eye(square.shape[-1], dtype=square.dtype), square.shape)


def norm(x: TensorLike, ord: typing.Union[None, int, float, str] = None, axis: Axis = None, keepdims: bool = False
         ) -> Tensor:
    """Norms of vectors along one axis, or of matrices along two.

    Without an axis x is a vector or a matrix, or its elements are one vector if there is no ord either. Vectors: ord is
    2 by default, any number p for (sum |x|^p)^(1/p), 0 for the number of elements that are not 0, inf and -inf for the
    largest and the smallest |x|. Matrices: "fro" by default, "nuc" for the sum of singular values, 2 and -2 for the
    largest and the smallest one, 1 and -1 of the columns' and inf and -inf of the rows' sums of |x|.

    >>> troupe.linalg.norm([3., 4.])
    Tensor(5., dtype=float32)
    >>> troupe.linalg.norm([[1., -2.], [3., 4.]], 1)
    Tensor(6., dtype=float32)
    """
    tensor = _troupe.tensor(x)
    if axis is None and ord is None:
        return math.l2_norm(tensor, None, keepdims)
    if axis is None:
        if tensor.ndim not in (1, 2):
            raise ValueError(f"norm: with ord, but no axis, x is a vector or a matrix: its shape is {tensor.shape}")
        axis = -1 if tensor.ndim == 1 else (-2, -1)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if len(axes) == 1:
        return _vector_norm(tensor, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError(f"norm: there are one or two axes, not {len(axes)}")
    return _matrix_norm(tensor, ord, axes, keepdims)


def _vector_norm(x: Tensor, ord: typing.Union[None, int, float, str], axis: int, keepdims: bool) -> Tensor:
    if isinstance(ord, str):
        raise ValueError(f"norm: ord {ord!r} is one of matrices")
    if ord is None or ord == 2:
        return math.l2_norm(x, axis, keepdims)
    if ord == 0:
        return math.sum(tensors.cast(x != 0, x.dtype), axis, keepdims)
    sizes = math.absolute(x)
    if ord == float("inf"):
        return math.max(sizes, axis, keepdims)
    if ord == float("-inf"):
        return math.min(sizes, axis, keepdims)
    if ord == 1:
        return math.sum(sizes, axis, keepdims)
    return math.power(math.sum(math.power(sizes, float(ord)), axis, keepdims), 1.0 / ord)


def _matrix_norm(x: Tensor, ord: typing.Union[None, int, float, str], axes: typing.Tuple[int, ...], keepdims: bool
                 ) -> Tensor:
    if ord is None or ord == "fro":
        return math.l2_norm(x, axes, keepdims)
    if ord in (1, -1, float("inf"), float("-inf")):
        summed, other = axes if abs(ord) == 1 else axes[::-1]
        sums = math.sum(math.absolute(x), summed, keepdims=True)
        largest = (math.max if ord > 0 else math.min)(sums, other, keepdims=True)
        return largest if keepdims else arrays.squeeze(largest, axes)
    if ord not in (2, -2, "nuc"):
        raise ValueError(f"norm: {ord!r} is no ord of matrices: use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    values = svdvals(arrays.moveaxis(x, axes, (-2, -1)))
    found = {2: math.max, -2: math.min, "nuc": math.sum}[ord](values, -1)
    if not keepdims:
        return found
    rank = len(x.shape)
    return arrays.expand_dims(found, sorted(a % rank for a in axes))


def cond(x: TensorLike, p: typing.Union[None, int, float, str] = None) -> Tensor:
    """Condition numbers of matrices, norm(x, p) norm(inv(x), p): [..., m, n] -> [...]. p = None, 2 or -2: quotients of
    the largest and the smallest singular values, also of matrices that are not square.

    >>> troupe.linalg.cond([[4., 0.], [0., 2.]])
    Tensor(2., dtype=float32)
    """
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return norm(x, p, axis=(-2, -1)) * norm(inv(x), p, axis=(-2, -1))
