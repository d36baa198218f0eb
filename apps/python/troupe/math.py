"""Functions of tensors with NumPy's names, elementwise, over axes, and of matrices.

They compute at once for values and add nodes for tensors of a graph. Operands broadcast. Dtypes follow NumPy 2: numbers
of Python take the dtype of the tensors beside them, and functions such as exp() make floats of integers.
"""

from __future__ import annotations

import builtins
import typing

from . import _troupe
from ._core import Axis, Tensor, TensorLike

__all__ = [
    "abs", "absolute", "add", "add_n", "all", "any", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argmax", "argmin", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "clip", "cos", "cosh",
    "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "cumulative_logsumexp", "digamma", "divide", "dot",
    "einsum", "equal", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floor_divide", "fmod", "greater",
    "greater_equal", "hypot", "inner", "invert", "isfinite", "isinf", "isnan", "l1_norm", "l2_norm", "left_shift",
    "less", "less_equal", "lgamma", "log", "log10", "log1p", "log2", "log_sum", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logsumexp", "matmul", "max", "maximum", "mean", "min", "minimum",
    "multiply", "negative", "not_equal", "outer", "polygamma", "power", "prod", "reciprocal", "remainder",
    "right_shift", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "softplus", "sqrt", "square",
    "squared_difference", "std", "subtract", "sum", "sum_square", "tan", "tanh", "tensordot", "trace", "var",
    "where", "xlogy",
]


def exp(x: TensorLike) -> Tensor:
    """e to the power of x.

    >>> troupe.exp([0., 1.])
    Tensor([1.       , 2.7182817], dtype=float32)
    """
    return _troupe.exp(x)


def exp2(x: TensorLike) -> Tensor:
    """2 to the power of x.

    >>> troupe.exp2([0., 3.])
    Tensor([1., 8.], dtype=float32)
    """
    return _troupe.exp2(x)


def expm1(x: TensorLike) -> Tensor:
    """exp(x) - 1, exact near 0.

    >>> troupe.expm1([0., 1e-10])
    Tensor([0.e+00, 1.e-10], dtype=float32)
    """
    return _troupe.expm1(x)


def log(x: TensorLike) -> Tensor:
    """The natural logarithm.

    >>> troupe.log([1., 2.])
    Tensor([0.       , 0.6931472], dtype=float32)
    """
    return _troupe.log(x)


def log2(x: TensorLike) -> Tensor:
    """The logarithm to base 2.

    >>> troupe.log2([1., 8.])
    Tensor([0., 3.], dtype=float32)
    """
    return _troupe.log2(x)


def log10(x: TensorLike) -> Tensor:
    """The logarithm to base 10.

    >>> troupe.log10([1., 100.])
    Tensor([0., 2.], dtype=float32)
    """
    return _troupe.log10(x)


def log1p(x: TensorLike) -> Tensor:
    """log(1 + x), exact near 0.

    >>> troupe.log1p([0., 1e-10])
    Tensor([0.e+00, 1.e-10], dtype=float32)
    """
    return _troupe.log1p(x)


def sqrt(x: TensorLike) -> Tensor:
    """The square root.

    >>> troupe.sqrt([4., 9.])
    Tensor([2., 3.], dtype=float32)
    """
    return _troupe.sqrt(x)


def rsqrt(x: TensorLike) -> Tensor:
    """1 / sqrt(x).

    >>> troupe.rsqrt([4., 16.])
    Tensor([0.5 , 0.25], dtype=float32)
    """
    return _troupe.rsqrt(x)


def sin(x: TensorLike) -> Tensor:
    """The sine.

    >>> troupe.sin([0., 1.])
    Tensor([0.      , 0.841471], dtype=float32)
    """
    return _troupe.sin(x)


def cos(x: TensorLike) -> Tensor:
    """The cosine.

    >>> troupe.cos([0., 1.])
    Tensor([1.       , 0.5403023], dtype=float32)
    """
    return _troupe.cos(x)


def tan(x: TensorLike) -> Tensor:
    """The tangent.

    >>> troupe.tan([0., 1.])
    Tensor([0.       , 1.5574079], dtype=float32)
    """
    return _troupe.tan(x)


def arcsin(x: TensorLike) -> Tensor:
    """The inverse of the sine.

    >>> troupe.arcsin([0., 1.])
    Tensor([0.       , 1.5707964], dtype=float32)
    """
    return _troupe.arcsin(x)


def arccos(x: TensorLike) -> Tensor:
    """The inverse of the cosine.

    >>> troupe.arccos([0., 1.])
    Tensor([1.5707964, 0.       ], dtype=float32)
    """
    return _troupe.arccos(x)


def arctan(x: TensorLike) -> Tensor:
    """The inverse of the tangent.

    >>> troupe.arctan([0., 1.])
    Tensor([0.       , 0.7853982], dtype=float32)
    """
    return _troupe.arctan(x)


def sinh(x: TensorLike) -> Tensor:
    """The hyperbolic sine.

    >>> troupe.sinh([0., 1.])
    Tensor([0.       , 1.1752012], dtype=float32)
    """
    return _troupe.sinh(x)


def cosh(x: TensorLike) -> Tensor:
    """The hyperbolic cosine.

    >>> troupe.cosh([0., 1.])
    Tensor([1.       , 1.5430806], dtype=float32)
    """
    return _troupe.cosh(x)


def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent.

    >>> troupe.tanh([0., 1.])
    Tensor([0.       , 0.7615942], dtype=float32)
    """
    return _troupe.tanh(x)


def arcsinh(x: TensorLike) -> Tensor:
    """The inverse of the hyperbolic sine.

    >>> troupe.arcsinh([0., 1.])
    Tensor([0.       , 0.8813736], dtype=float32)
    """
    return _troupe.arcsinh(x)


def arccosh(x: TensorLike) -> Tensor:
    """The inverse of the hyperbolic cosine.

    >>> troupe.arccosh([1., 2.])
    Tensor([0.      , 1.316958], dtype=float32)
    """
    return _troupe.arccosh(x)


def arctanh(x: TensorLike) -> Tensor:
    """The inverse of the hyperbolic tangent.

    >>> troupe.arctanh([0., 0.5])
    Tensor([0.        , 0.54930615], dtype=float32)
    """
    return _troupe.arctanh(x)


def erf(x: TensorLike) -> Tensor:
    """The error function.

    >>> troupe.erf([0., 1.])
    Tensor([0.       , 0.8427008], dtype=float32)
    """
    return _troupe.erf(x)


def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x).

    >>> troupe.erfc([0., 1.])
    Tensor([1.       , 0.1572992], dtype=float32)
    """
    return _troupe.erfc(x)


def lgamma(x: TensorLike) -> Tensor:
    """The logarithm of the absolute value of the gamma function.

    >>> troupe.lgamma([1., 5.])
    Tensor([0.       , 3.1780539], dtype=float32)
    """
    return _troupe.lgamma(x)


def digamma(x: TensorLike) -> Tensor:
    """The derivative of lgamma().

    >>> troupe.digamma([1., 5.])
    Tensor([-0.5772157,  1.5061177], dtype=float32)
    """
    return _troupe.digamma(x)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)).

    >>> troupe.sigmoid([0., 2.])
    Tensor([0.5     , 0.880797], dtype=float32)
    """
    return _troupe.sigmoid(x)


def softplus(x: TensorLike) -> Tensor:
    """log(1 + exp(x)).

    >>> troupe.softplus([0., 2.])
    Tensor([0.6931472, 2.126928 ], dtype=float32)
    """
    return _troupe.softplus(x)


def reciprocal(x: TensorLike) -> Tensor:
    """1 / x.

    >>> troupe.reciprocal([2., 4.])
    Tensor([0.5 , 0.25], dtype=float32)
    """
    return _troupe.reciprocal(x)


def floor(x: TensorLike) -> Tensor:
    """The greatest whole number that is not above x.

    >>> troupe.floor([1.7, -1.7])
    Tensor([ 1., -2.], dtype=float32)
    """
    return _troupe.floor(x)


def ceil(x: TensorLike) -> Tensor:
    """The least whole number that is not below x.

    >>> troupe.ceil([1.7, -1.7])
    Tensor([ 2., -1.], dtype=float32)
    """
    return _troupe.ceil(x)


def round(x: TensorLike) -> Tensor:
    """The nearest whole number; of two the even one.

    >>> troupe.round([0.5, 1.5, 2.7])
    Tensor([0., 2., 3.], dtype=float32)
    """
    return _troupe.round(x)


def absolute(x: TensorLike) -> Tensor:
    """The absolute value.

    >>> troupe.abs([-1, 2])
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.absolute(x)


def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1.

    >>> troupe.sign([-3., 0., 5.])
    Tensor([-1.,  0.,  1.], dtype=float32)
    """
    return _troupe.sign(x)


def square(x: TensorLike) -> Tensor:
    """x times x.

    >>> troupe.square([-3, 2])
    Tensor([9, 4], dtype=int64)
    """
    return _troupe.square(x)


def negative(x: TensorLike) -> Tensor:
    """-x.

    >>> troupe.negative([-3, 2])
    Tensor([ 3, -2], dtype=int64)
    """
    return _troupe.negative(x)


def isnan(x: TensorLike) -> Tensor:
    """Whether elements are NaN.

    >>> troupe.isnan([0., float('nan')])
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.isnan(x)


def isinf(x: TensorLike) -> Tensor:
    """Whether elements are infinite.

    >>> troupe.isinf([0., float('inf')])
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.isinf(x)


def isfinite(x: TensorLike) -> Tensor:
    """Whether elements are neither infinite nor NaN.

    >>> troupe.isfinite([0., float('inf')])
    Tensor([ True, False], dtype=bool)
    """
    return _troupe.isfinite(x)


def logical_not(x: TensorLike) -> Tensor:
    """Whether elements are false, or 0.

    >>> troupe.logical_not([0, 2])
    Tensor([ True, False], dtype=bool)
    """
    return _troupe.logical_not(x)


def invert(x: TensorLike) -> Tensor:
    """Each bit turned; of bools, whether they are false.

    >>> troupe.invert([0, 5])
    Tensor([-1, -6], dtype=int64)
    """
    return _troupe.invert(x)


abs = absolute


def add(a: TensorLike, b: TensorLike) -> Tensor:
    """a + b.

    >>> troupe.add([1, 2], 10)
    Tensor([11, 12], dtype=int64)
    """
    return _troupe.add(a, b)


def subtract(a: TensorLike, b: TensorLike) -> Tensor:
    """a - b.

    >>> troupe.subtract([1, 2], 10)
    Tensor([-9, -8], dtype=int64)
    """
    return _troupe.subtract(a, b)


def multiply(a: TensorLike, b: TensorLike) -> Tensor:
    """a * b.

    >>> troupe.multiply([1, 2], 10)
    Tensor([10, 20], dtype=int64)
    """
    return _troupe.multiply(a, b)


def divide(a: TensorLike, b: TensorLike) -> Tensor:
    """a / b, of integers as float64.

    >>> troupe.divide([1, 2], 4)
    Tensor([0.25, 0.5 ], dtype=float64)
    """
    return _troupe.divide(a, b)


def floor_divide(a: TensorLike, b: TensorLike) -> Tensor:
    """floor(a / b).

    >>> troupe.floor_divide([7, -7], 2)
    Tensor([ 3, -4], dtype=int64)
    """
    return _troupe.floor_divide(a, b)


def remainder(a: TensorLike, b: TensorLike) -> Tensor:
    """a - b floor(a / b): has the sign of b.

    >>> troupe.remainder([7, -7], 3)
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.remainder(a, b)


def fmod(a: TensorLike, b: TensorLike) -> Tensor:
    """The remainder of C: has the sign of a.

    >>> troupe.fmod([7, -7], 3)
    Tensor([ 1, -1], dtype=int64)
    """
    return _troupe.fmod(a, b)


def power(a: TensorLike, b: TensorLike) -> Tensor:
    """a to the power of b.

    >>> troupe.power([2., 3.], 2)
    Tensor([4., 9.], dtype=float32)
    """
    return _troupe.power(a, b)


def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """The greater of both, NaN if one is.

    >>> troupe.maximum([1, 5], 3)
    Tensor([3, 5], dtype=int64)
    """
    return _troupe.maximum(a, b)


def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """The lesser of both, NaN if one is.

    >>> troupe.minimum([1, 5], 3)
    Tensor([1, 3], dtype=int64)
    """
    return _troupe.minimum(a, b)


def arctan2(a: TensorLike, b: TensorLike) -> Tensor:
    """The angle of the point (x, y), in [-pi, pi], for a = y and b = x.

    >>> troupe.arctan2([1., -1.], [0., 0.])
    Tensor([ 1.5707964, -1.5707964], dtype=float32)
    """
    return _troupe.arctan2(a, b)


def hypot(a: TensorLike, b: TensorLike) -> Tensor:
    """sqrt(a**2 + b**2), also where squares overflow.

    >>> troupe.hypot([3.], [4.])
    Tensor([5.], dtype=float32)
    """
    return _troupe.hypot(a, b)


def logaddexp(a: TensorLike, b: TensorLike) -> Tensor:
    """log(exp(a) + exp(b)), without overflow.

    >>> troupe.logaddexp([0.], [0.])
    Tensor([0.6931472], dtype=float32)
    """
    return _troupe.logaddexp(a, b)


def xlogy(a: TensorLike, b: TensorLike) -> Tensor:
    """a log(b), 0 where a is 0.

    >>> troupe.xlogy([0., 2.], [0., 1.])
    Tensor([0., 0.], dtype=float32)
    """
    return _troupe.xlogy(a, b)


def squared_difference(a: TensorLike, b: TensorLike) -> Tensor:
    """(a - b)**2.

    >>> troupe.squared_difference([1., 5.], 3)
    Tensor([4., 4.], dtype=float32)
    """
    return _troupe.squared_difference(a, b)


def equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether elements are equal.

    >>> troupe.equal([1, 2], [1, 3])
    Tensor([ True, False], dtype=bool)
    """
    return _troupe.equal(a, b)


def not_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether elements differ.

    >>> troupe.not_equal([1, 2], [1, 3])
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.not_equal(a, b)


def less(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a < b.

    >>> troupe.less([1, 2], 2)
    Tensor([ True, False], dtype=bool)
    """
    return _troupe.less(a, b)


def less_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a <= b.

    >>> troupe.less_equal([1, 2], 1)
    Tensor([ True, False], dtype=bool)
    """
    return _troupe.less_equal(a, b)


def greater(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a > b.

    >>> troupe.greater([1, 2], 1)
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.greater(a, b)


def greater_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether a >= b.

    >>> troupe.greater_equal([1, 2], 2)
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.greater_equal(a, b)


def logical_and(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether both are true, or not 0.

    >>> troupe.logical_and([0, 1], [1, 1])
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.logical_and(a, b)


def logical_or(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether one of both is true, or not 0.

    >>> troupe.logical_or([0, 0], [0, 1])
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.logical_or(a, b)


def logical_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """Whether exactly one of both is true, or not 0.

    >>> troupe.logical_xor([1, 0], [1, 1])
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.logical_xor(a, b)


def bitwise_and(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that both have; of bools, logical_and().

    >>> troupe.bitwise_and([6, 5], 3)
    Tensor([2, 1], dtype=int64)
    """
    return _troupe.bitwise_and(a, b)


def bitwise_or(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that one of both has; of bools, logical_or().

    >>> troupe.bitwise_or([6, 5], 3)
    Tensor([7, 7], dtype=int64)
    """
    return _troupe.bitwise_or(a, b)


def bitwise_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """The bits that exactly one of both has.

    >>> troupe.bitwise_xor([6, 5], 3)
    Tensor([5, 6], dtype=int64)
    """
    return _troupe.bitwise_xor(a, b)


def left_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """Bits of a moved b places up.

    >>> troupe.left_shift([1, 3], 2)
    Tensor([ 4, 12], dtype=int64)
    """
    return _troupe.left_shift(a, b)


def right_shift(a: TensorLike, b: TensorLike) -> Tensor:
    """Bits of a moved b places down; the sign is repeated.

    >>> troupe.right_shift([8, -8], 2)
    Tensor([ 2, -2], dtype=int64)
    """
    return _troupe.right_shift(a, b)


def clip(x: TensorLike, low: typing.Optional[TensorLike], high: typing.Optional[TensorLike]) -> Tensor:
    """x, but not below low nor above high; None: no bound.

    >>> troupe.clip([1, 5, 9], 2, 8)
    Tensor([2, 5, 8], dtype=int64)
    """
    return _troupe.clip(x, low, high)


def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    """a where the condition is true, else b.

    >>> troupe.where([True, False], [1, 2], 0)
    Tensor([1, 0], dtype=int64)
    """
    return _troupe.where(condition, a, b)


def sum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sums of elements over axes; by default, of all. Small integers are summed as int64.

    >>> troupe.sum([[1., 2.], [3., 4.]], axis=0)
    Tensor([4., 6.], dtype=float32)
    """
    return _troupe.sum(x, axis, keepdims)


def prod(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Products over axes; by default, of all.

    >>> troupe.prod([[1., 2.], [3., 4.]], axis=0)
    Tensor([3., 8.], dtype=float32)
    """
    return _troupe.prod(x, axis, keepdims)


def mean(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Means over axes; by default, of all. Of integers: float64.

    >>> troupe.mean([[1., 2.], [3., 4.]], axis=1)
    Tensor([1.5, 3.5], dtype=float32)
    """
    return _troupe.mean(x, axis, keepdims)


def max(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest element over axes, NaN if there is one; by default, of all.

    >>> troupe.max([[1, 2], [3, 4]], axis=0)
    Tensor([3, 4], dtype=int64)
    """
    return _troupe.max(x, axis, keepdims)


def min(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The least element over axes, NaN if there is one; by default, of all.

    >>> troupe.min([[1, 2], [3, 4]], axis=0)
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.min(x, axis, keepdims)


def any(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether one element is true, or not 0.

    >>> troupe.any([[True, False], [False, False]], axis=1)
    Tensor([ True, False], dtype=bool)
    """
    return _troupe.any(x, axis, keepdims)


def all(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true, or not 0.

    >>> troupe.all([[True, False], [True, True]], axis=1)
    Tensor([False,  True], dtype=bool)
    """
    return _troupe.all(x, axis, keepdims)


def var(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean of squared distances from the mean.

    >>> troupe.var([[1., 2.], [3., 6.]], axis=1)
    Tensor([0.25, 2.25], dtype=float32)
    """
    return _troupe.var(x, axis, keepdims)


def std(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The root of var().

    >>> troupe.std([[1., 2.], [3., 7.]], axis=1)
    Tensor([0.5, 2. ], dtype=float32)
    """
    return _troupe.std(x, axis, keepdims)


def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))), without overflow.

    >>> troupe.logsumexp([[0., 0.], [1000., 1000.]], axis=1)
    Tensor([6.9314718e-01, 1.0006932e+03], dtype=float32)
    """
    return _troupe.logsumexp(x, axis, keepdims)


def count_nonzero(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0.

    >>> troupe.count_nonzero([[0, 1], [2, 3]], axis=0)
    Tensor([1, 2], dtype=int64)
    """
    return _troupe.count_nonzero(x, axis, keepdims)


def l2_norm(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The root of the sum of squares, with gradient 0 at 0.

    >>> troupe.l2_norm([[3., 4.]], axis=1)
    Tensor([5.], dtype=float32)
    """
    return _troupe.l2_norm(x, axis, keepdims)


def argmax(x: TensorLike, axis: typing.Optional[int] = None, keepdims: bool = False) -> Tensor:
    """The index of the greatest element along an axis; by default, of all in their order.

    >>> troupe.argmax([[1, 5, 2], [7, 0, 3]], axis=1)
    Tensor([1, 0], dtype=int64)
    """
    return _troupe.argmax(x, axis, keepdims)


def argmin(x: TensorLike, axis: typing.Optional[int] = None, keepdims: bool = False) -> Tensor:
    """The index of the least element along an axis; by default, of all in their order.

    >>> troupe.argmin([[1, 5, 2], [7, 0, 3]], axis=1)
    Tensor([0, 1], dtype=int64)
    """
    return _troupe.argmin(x, axis, keepdims)


def cumsum(x: TensorLike, axis: typing.Optional[int] = None, exclusive: bool = False, reverse: bool = False
           ) -> Tensor:
    """Running sums along an axis, by default of all elements in order; exclusive: without the element itself;
    reverse: from the end.

    >>> troupe.cumsum([1, 2, 3], axis=0)
    Tensor([1, 3, 6], dtype=int64)
    """
    return _troupe.cumsum(x, axis, exclusive, reverse)


def cumprod(x: TensorLike, axis: typing.Optional[int] = None, exclusive: bool = False, reverse: bool = False
            ) -> Tensor:
    """Running products along an axis, by default of all elements in order; exclusive: without the element itself;
    reverse: from the end.

    >>> troupe.cumprod([1, 2, 3], axis=0)
    Tensor([1, 2, 6], dtype=int64)
    """
    return _troupe.cumprod(x, axis, exclusive, reverse)


def cumulative_logsumexp(x: TensorLike, axis: typing.Optional[int] = None, exclusive: bool = False,
                         reverse: bool = False) -> Tensor:
    """Running logsumexp() along an axis, by default of all elements in order.

    >>> troupe.cumulative_logsumexp([0., 0.], axis=0)
    Tensor([0.       , 0.6931472], dtype=float32)
    """
    return _troupe.cumulative_logsumexp(x, axis, exclusive, reverse)


def matmul(a: TensorLike, b: TensorLike, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """The product of matrices [..., m, k] x [..., k, n] -> [..., m, n], as a @ b. Leading dimensions broadcast;
    vectors are rows on the left and columns on the right.

    >>> troupe.matmul([[1., 2.], [3., 4.]], [1., 1.])
    Tensor([3., 7.], dtype=float32)
    """
    return _troupe.matmul(a, b, transpose_a, transpose_b)


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """The product of vectors, or of the last dimension of a and the last but one of b.

    >>> troupe.dot([1., 2.], [3., 4.])
    Tensor(11., dtype=float32)
    """
    left, right = _troupe.tensor(a), _troupe.tensor(b)
    if left.ndim == 0 or right.ndim == 0:
        return _troupe.multiply(left, right)
    return _troupe.tensordot(left, right, [left.ndim - 1], [builtins.max(right.ndim - 2, 0)])


def einsum(equation: str, *operands: TensorLike) -> Tensor:
    """Einstein summation.

    >>> troupe.einsum('ij,j->i', [[1., 2.], [3., 4.]], [1., 10.])
    Tensor([21., 43.], dtype=float32)
    """
    return _troupe.einsum(equation, list(operands))


def tensordot(a: TensorLike, b: TensorLike, axes: typing.Any = 2) -> Tensor:
    """Sums of products over the last `axes` dimensions of a and the first of b, or over axes ([of a], [of b]).

    >>> troupe.tensordot(troupe.ones((2, 3)), troupe.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    if isinstance(axes, int):
        return _troupe.tensordot_last(a, b, axes)
    of_a, of_b = ([x] if isinstance(x, int) else list(x) for x in axes)
    return _troupe.tensordot(a, b, of_a, of_b)


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """Products of all pairs of elements: [m] x [n] -> [m, n].

    >>> troupe.outer([1, 2], [3, 4])
    Tensor([[3, 4],
            [6, 8]], dtype=int64)
    """
    return _troupe.outer(a, b)


def inner(a: TensorLike, b: TensorLike) -> Tensor:
    """Sums of products over the last dimensions.

    >>> troupe.inner([1, 2], [3, 4])
    Tensor(11, dtype=int64)
    """
    return _troupe.inner(a, b)


def trace(x: TensorLike) -> Tensor:
    """The sum of the main diagonal of matrices [..., n, n] -> [...].

    >>> troupe.trace([[1., 2.], [3., 4.]])
    Tensor(5., dtype=float32)
    """
    return _troupe.trace(x)


def l1_norm(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sums of absolute values over axes; by default, of all.

    >>> troupe.l1_norm([3., -4.])
    Tensor(7., dtype=float32)
    """
    return _troupe.l1_norm(x, axis, keepdims)


def sum_square(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sums of squares over axes; by default, of all.

    >>> troupe.sum_square([3., -4.])
    Tensor(25., dtype=float32)
    """
    return _troupe.sum_square(x, axis, keepdims)


def log_sum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Logarithms of sums over axes; by default, of all.

    >>> troupe.log_sum([0.5, 0.5])
    Tensor(0., dtype=float32)
    """
    return _troupe.log_sum(x, axis, keepdims)


def cummax(x: TensorLike, axis: int, reverse: bool = False) -> typing.Tuple[Tensor, Tensor]:
    """The greatest element so far along an axis, and its index, of equal ones the first; NaN stays. reverse: from the
    end.

    >>> troupe.cummax([1, 3, 2], 0)
    (Tensor([1, 3, 3], dtype=int64), Tensor([0, 1, 1], dtype=int64))
    """
    return _troupe.cummax(x, axis, reverse)


def cummin(x: TensorLike, axis: int, reverse: bool = False) -> typing.Tuple[Tensor, Tensor]:
    """The least element so far along an axis, and its index, of equal ones the first; NaN stays. reverse: from the end.

    >>> troupe.cummin([3, 1, 2], 0)
    (Tensor([3, 1, 1], dtype=int64), Tensor([0, 1, 1], dtype=int64))
    """
    return _troupe.cummin(x, axis, reverse)


def add_n(inputs: typing.Sequence[TensorLike]) -> Tensor:
    """The sum of tensors of one shape, from left to right.

    >>> troupe.add_n([[1., 2.], [3., 4.], [5., 6.]])
    Tensor([ 9., 12.], dtype=float32)
    """
    return _troupe.add_n(list(inputs))


def polygamma(n: int, x: TensorLike) -> Tensor:
    """The n-th derivative of digamma(), n >= 1, for x > 0.

    >>> troupe.polygamma(1, [1.])
    Tensor([1.644934], dtype=float32)
    """
    return _troupe.polygamma(n, x)
