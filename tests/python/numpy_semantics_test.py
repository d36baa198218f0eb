"""Tensors beside NumPy on random cases: operators, functions, dtypes, broadcasting, indices."""

import itertools

import numpy as np
import pytest
import troupe

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = ["bool"] + INTEGERS + FLOATS
SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (4, 1, 3), (0, 3), (1, 0)]


def values(rng, dtype, shape, low=-4, high=5):
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype in INTEGERS:
        return np.asarray(rng.integers(max(low, 0) if dtype.startswith("u") else low, high, shape)).astype(dtype)
    return np.asarray(rng.standard_normal(shape) * 2).astype(dtype)


def check(ours, theirs, what, exact=False):
    theirs = np.asarray(theirs)
    found = ours.numpy()
    assert str(ours.dtype) == theirs.dtype.name, f"{what}: {ours.dtype}, NumPy {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{what}: {ours.shape}, NumPy {theirs.shape}"
    if exact or theirs.dtype.kind in "biu":
        np.testing.assert_array_equal(found, theirs, err_msg=what)
    else:
        tolerance = {2: 4e-3, 4: 2e-5, 8: 1e-12}[theirs.dtype.itemsize]
        np.testing.assert_allclose(found, theirs, rtol=tolerance, atol=tolerance, err_msg=what)


def broadcastable(a, b):
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


PAIRS = [pair for pair in itertools.product(SHAPES, SHAPES) if broadcastable(*pair)]

ARITHMETIC = {
    "+": lambda a, b: a + b, "*": lambda a, b: a * b, "/": lambda a, b: a / b, "-": lambda a, b: a - b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "maximum": lambda a, b: (troupe if isinstance(a, troupe.Tensor) else np).maximum(a, b),
    "minimum": lambda a, b: (troupe if isinstance(a, troupe.Tensor) else np).minimum(a, b),
}


@pytest.mark.parametrize("op", ARITHMETIC)
def test_operators_of_all_dtypes_broadcast_and_promote_as_numpy(op):
    rng = np.random.default_rng(1)
    function = ARITHMETIC[op]
    for case, (da, db) in enumerate(itertools.product(DTYPES, DTYPES)):
        if op == "-" and da == db == "bool":
            continue  # an error for both
        shapes = PAIRS[case % len(PAIRS)]
        a, b = values(rng, da, shapes[0]), values(rng, db, shapes[1])
        if op in ("/", "//", "%"):
            b = np.where(b == 0, np.ones_like(b), b)  # NumPy warns, and integers have no quotient
        with np.errstate(all="ignore"):
            check(function(troupe.tensor(a), troupe.tensor(b)), function(a, b), f"{da}{a.shape} {op} {db}{b.shape}")


BITS = {"&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b}


@pytest.mark.parametrize("op", BITS)
def test_bits_of_all_integers(op):
    rng = np.random.default_rng(2)
    for case, (da, db) in enumerate(itertools.product(["bool"] + INTEGERS, ["bool"] + INTEGERS)):
        if np.result_type(da, db).kind == "f":
            continue
        shapes = PAIRS[case % len(PAIRS)]
        a, b = values(rng, da, shapes[0]), values(rng, db, shapes[1])
        check(BITS[op](troupe.tensor(a), troupe.tensor(b)), BITS[op](a, b), f"{da} {op} {db}")
    for dtype in ["bool"] + INTEGERS:
        a = values(rng, dtype, (2, 3))
        check(~troupe.tensor(a), ~a, f"~{dtype}")


@pytest.mark.parametrize("number", [2, 3.5, True, -1, 0.5, 2.0])
@pytest.mark.parametrize("op", ["+", "*", "/", "<", "==", "maximum"])
def test_numbers_of_python_are_weak(op, number):
    rng = np.random.default_rng(3)
    for dtype in DTYPES:
        if dtype.startswith("u") and number == -1:
            continue
        a = values(rng, dtype, (2, 3))
        with np.errstate(all="ignore"):
            check(ARITHMETIC[op](troupe.tensor(a), number), ARITHMETIC[op](a, number), f"{dtype} {op} {number!r}")
            if op in "+*/":
                b = np.where(a == 0, np.ones_like(a), a)
                check(ARITHMETIC[op](number, troupe.tensor(b)), ARITHMETIC[op](number, b), f"{number!r} {op} {dtype}")


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, 2.5])
def test_powers(exponent):
    rng = np.random.default_rng(4)
    for dtype in INTEGERS + FLOATS:
        a = abs(values(rng, dtype, (2, 3)))
        check(troupe.tensor(a)**exponent, a**exponent, f"{dtype}**{exponent}")
        check(exponent**troupe.tensor(a), exponent**a, f"{exponent}**{dtype}")


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh,
    "sinh": np.sinh, "cosh": np.cosh, "arctan": np.arctan, "arcsinh": np.arcsinh, "sign": np.sign,
    "square": np.square, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.round, "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not,
}
OF_POSITIVE = {"log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
               "arccosh": np.arccosh}


@pytest.mark.parametrize("name", list(FUNCTIONS) + list(OF_POSITIVE))
def test_functions_of_all_dtypes(name):
    rng = np.random.default_rng(5)
    theirs = FUNCTIONS.get(name) or OF_POSITIVE[name]
    for dtype in DTYPES:
        if dtype == "bool" and name == "sign":
            continue  # an error in NumPy
        x = values(rng, dtype, (3, 4))
        if name in OF_POSITIVE:
            x = (abs(x.astype(float)) + 1).astype(dtype)
        with np.errstate(all="ignore"):
            expected = theirs(x)
        if dtype in INTEGERS + ["bool"] and name in ("floor", "ceil", "round", "abs", "square") and \
                expected.dtype != x.dtype:
            continue  # float16 of bools in some versions of NumPy
        check(getattr(troupe, name)(x), expected, f"{name}({dtype})")


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "max": np.max, "min": np.min, "any": np.any,
              "all": np.all, "var": np.var, "std": np.std, "argmax": np.argmax, "argmin": np.argmin,
              "count_nonzero": np.count_nonzero}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_any_axes(name):
    rng = np.random.default_rng(6)
    one_axis = name.startswith("arg")
    for dtype in DTYPES:
        if dtype == "float16" and name in ("sum", "prod", "mean", "var", "std"):
            continue  # NumPy adds up in float32 in blocks of its own
        for axis in (None, 0, -1, 1) if one_axis else (None, 0, -1, (0, 2), (2, 1), (0, 1, 2), ()):
            for keepdims in (False, True):
                x = values(rng, dtype, (2, 3, 4))
                expected = REDUCTIONS[name](x, axis=axis, keepdims=keepdims)
                check(getattr(troupe, name)(x, axis=axis, keepdims=keepdims), expected,
                      f"{name}({dtype}, {axis}, {keepdims})")


def random_slice(rng, size):
    limits = [None] + list(range(-size - 2, size + 3))
    step = rng.choice([None, 1, 2, 3, -1, -2])
    return slice(rng.choice(limits), rng.choice(limits), step)


def random_entry(rng, size, arrays):
    kind = rng.integers(0, 6 if arrays else 2)
    if kind == 0 and size:
        return int(rng.integers(-size, size))
    if kind == 2 and size:
        return rng.integers(-size, size, (3,))
    if kind == 3 and size:
        return rng.integers(-size, size, (2, 1))
    if kind == 4:
        return rng.integers(0, 2, (size,)).astype(bool)
    if kind == 5 and size:
        return np.int32(rng.integers(-size, size))
    return random_slice(rng, size)


def random_index(rng, shape, arrays):
    entries = [random_entry(rng, size, arrays) for size in shape[:rng.integers(0, len(shape) + 1)]]
    if rng.integers(0, 3) == 0 and len(entries) < len(shape):
        place = int(rng.integers(0, len(entries) + 1))
        left = len(shape) - len(entries)
        last = [random_entry(rng, size, arrays) for size in shape[place + left:]] if rng.integers(0, 2) else \
            [slice(None)] * (len(entries) - place)
        entries = entries[:place] + [Ellipsis] + last
    for _ in range(rng.integers(0, 2)):
        entries.insert(int(rng.integers(0, len(entries) + 1)), None)
    return entries[0] if len(entries) == 1 and rng.integers(0, 2) else tuple(entries)


@pytest.mark.parametrize("arrays", [False, True], ids=["slices", "arrays"])
def test_indices(arrays):
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(4000):
        shape = tuple(rng.integers(0, 5, rng.integers(1, 5)))
        x = np.arange(np.prod(shape)).reshape(shape)
        index = random_index(rng, shape, arrays)
        try:
            expected = x[index]
        except IndexError as error:
            with pytest.raises(IndexError):
                troupe.tensor(x)[index]
                pytest.fail(f"{shape}[{index}]: NumPy refuses it: {error}")
            continue
        check(troupe.tensor(x)[index], expected, f"{shape}[{index}]", exact=True)
        compared += 1
    assert compared > 2000


def test_masks_of_several_dimensions():
    rng = np.random.default_rng(8)
    x = rng.integers(0, 9, (3, 4, 5))
    for dims in (1, 2, 3):
        mask = rng.integers(0, 2, x.shape[:dims]).astype(bool)
        check(troupe.tensor(x)[mask], x[mask], f"mask of {dims}")
        check(troupe.tensor(x)[troupe.tensor(mask)], x[mask], f"tensor mask of {dims}")
    mask = x[0] > 3
    check(troupe.tensor(x)[:, mask], x[:, mask], "mask after a slice")
    check(troupe.tensor(x)[1, mask], x[1, mask], "mask after a number")


ARRAYS = {
    "transpose": lambda m, x: m.transpose(x, (2, 0, 1)),
    "transposed": lambda m, x: m.transpose(x),
    "swapaxes": lambda m, x: m.swapaxes(x, 0, -1),
    "moveaxis": lambda m, x: m.moveaxis(x, (0, 1), (-1, 0)),
    "reshape": lambda m, x: m.reshape(x, (4, -1)),
    "squeeze": lambda m, x: m.squeeze(m.expand_dims(x, 1), 1),
    "expand_dims": lambda m, x: m.expand_dims(x, (0, -1)),
    "concatenate": lambda m, x: m.concatenate([x, x[:, :1]], axis=1),
    "stack": lambda m, x: m.stack([x, x], axis=-1),
    "split": lambda m, x: m.split(x, 2, axis=2)[1],
    "split at": lambda m, x: m.split(x, [1, 3], axis=2)[1],
    "tile": lambda m, x: m.tile(x, (2, 1, 1, 3)),
    "repeat": lambda m, x: m.repeat(x, 2, axis=1),
    "repeat all": lambda m, x: m.repeat(x, 3),
    "repeat each": lambda m, x: m.repeat(x, [1, 0, 2], axis=1),
    "flip": lambda m, x: m.flip(x),
    "flip axes": lambda m, x: m.flip(x, (0, 2)),
    "roll": lambda m, x: m.roll(x, 5),
    "roll axes": lambda m, x: m.roll(x, (1, -2), (0, 2)),
    "pad": lambda m, x: m.pad(x, ((1, 0), (0, 2), (1, 1)), constant_values=7),
    "pad reflect": lambda m, x: m.pad(x, 1, mode="reflect"),
    "broadcast_to": lambda m, x: m.broadcast_to(x, (5, 2, 3, 4)),
    "triu": lambda m, x: m.triu(x, 1),
    "tril": lambda m, x: m.tril(x, -1),
    "take": lambda m, x: m.take(x, [[0, -1]], axis=2),
    "take all": lambda m, x: m.take(x, [3, -2]),
    "take_along_axis": lambda m, x: m.take_along_axis(x, m.argsort(x, axis=1), axis=1),
    "sort": lambda m, x: m.sort(x, axis=0),
    "argwhere": lambda m, x: m.argwhere(x > 3),
    "where": lambda m, x: m.where(x > 3, x, -x),
    "clip": lambda m, x: m.clip(x, 2, 5),
    "cumsum": lambda m, x: m.cumsum(x, axis=1),
    "cumprod": lambda m, x: m.cumprod(x, axis=2),
    "cumsum all": lambda m, x: m.cumsum(x),
    "cumprod all": lambda m, x: m.cumprod(x[0]),
    "unique": lambda m, x: m.unique(x, return_inverse=False, return_counts=True)[1],
    "bincount": lambda m, x: m.bincount(m.reshape(x, -1), minlength=12),
    "searchsorted": lambda m, x: m.searchsorted(m.sort(x[0, 0]), x[1], side="right"),
    "meshgrid": lambda m, x: m.meshgrid(x[0, 0], x[0, :, 0])[0],
    "einsum": lambda m, x: m.einsum("ijk,ljk->il", x, x),
    "tensordot": lambda m, x: m.tensordot(x, x, axes=([1, 2], [1, 2])),
    "dot": lambda m, x: m.dot(x, x[0, 0]),
    "outer": lambda m, x: m.outer(x[0, 0], x[1, 1]),
    "inner": lambda m, x: m.inner(x, x),
    "matmul": lambda m, x: m.matmul(x, m.swapaxes(x, 1, 2)),
    "diagonal": lambda m, x: m.diagonal(x[0], 1),
    "trace": lambda m, x: m.trace(x[0]),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_functions_of_arrays(name, dtype):
    if name == "bincount" and dtype == "float32":
        pytest.skip("of integers only")
    x = np.random.default_rng(9).permutation(24).reshape(2, 3, 4).astype(dtype)
    check(ARRAYS[name](troupe, troupe.tensor(x)), ARRAYS[name](np, x), name)


COMPARISONS = ["less", "less_equal", "equal", "not_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_integers_outside_of_the_dtype(name):
    for dtype in "int8", "uint8", "int64", "uint64":
        limits = np.iinfo(dtype)
        x = np.array([limits.min, 1, limits.max], dtype)
        for number in -2**70, limits.min - 1, limits.min, 1, limits.max, limits.max + 1, 2**70:
            ours, theirs = getattr(troupe, name), getattr(np, name)
            check(ours(troupe.tensor(x), number), theirs(x, number), (dtype, number))
            check(ours(number, troupe.tensor(x)), theirs(number, x), (number, dtype))


def test_operators_compare_as_functions_do():
    x = np.uint8([0, 200])
    t = troupe.tensor(x)
    for compare in (lambda v: v < 300, lambda v: v == -1, lambda v: v != -1, lambda v: -1 > v, lambda v: 256 >= v):
        check(compare(t), compare(x), "operators")
    g = troupe.Graph()
    fed = g.placeholder("u8", [None])
    with troupe.Session(g, threads=1) as session:
        assert session.run({fed: x}, fed <= 1000).all()


@pytest.mark.parametrize("name", COMPARISONS)
def test_false_is_less_than_true(name):
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    check(getattr(troupe, name)(troupe.tensor(x), troupe.tensor(y)), getattr(np, name)(x, y), name)


def test_common_dtypes():
    for a, b in itertools.product(DTYPES, DTYPES):
        ours = (troupe.zeros(1, a) * troupe.zeros(1, b)).dtype
        assert str(ours) == np.result_type(a, b).name, (a, b)


def test_bfloat16_with_others():
    expected = {"bool": "bfloat16", "int8": "bfloat16", "uint8": "bfloat16", "int16": "float32", "uint16": "float32",
                "int32": "float64", "int64": "float64", "float16": "float32", "float32": "float32",
                "float64": "float64"}
    for dtype, common in expected.items():
        assert (troupe.ones(1, "bfloat16") * troupe.ones(1, dtype)).dtype == common, dtype
    assert (troupe.ones(1, "bfloat16") * 2.5).dtype == "bfloat16"
