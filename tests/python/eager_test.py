"""Tensors of eager mode: how they are made, read, printed, and what they refuse."""

import gc
import subprocess
import sys

import numpy as np
import pytest
import troupe


def printed(program, *arguments):
    done = subprocess.run([sys.executable, *arguments, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("given", [troupe.float32, "float32", "f32", np.float32, np.dtype("float32")])
def test_dtypes_have_many_names(given):
    x = troupe.tensor([1, 2], given)
    assert x.dtype is troupe.float32 and x.dtype == given
    assert str(x.dtype) == "float32" and repr(x.dtype) == "troupe.float32"


def test_dtypes_of_python():
    assert troupe.tensor(1).dtype == "int64" and troupe.tensor(1.0).dtype == "float32"
    assert troupe.tensor(True).dtype == "bool" and troupe.tensor("a").dtype == "string"
    assert troupe.tensor([1, 2.5]).dtype == "float32" and troupe.tensor(np.float64(1)).dtype == "float64"
    assert troupe.tensor([np.float64(1)]).dtype == "float64" and troupe.tensor([]).dtype == "float32"
    assert troupe.float32 != "int32" and troupe.float32 != 3 and {troupe.float32: 1}[troupe.float32] == 1


def test_attributes():
    x = troupe.zeros((2, 3), "int32")
    assert x.shape == (2, 3) and x.ndim == 2 and x.size == 6 and len(x) == 2 and x.T.shape == (3, 2)
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert int(troupe.tensor(5)) == 5 and float(troupe.tensor(2.5)) == 2.5 and bool(troupe.tensor([1.0]))
    assert troupe.tensor([[7]]).item() == 7 and list("abc")[troupe.tensor(1)] == "b"
    assert [row.tolist() for row in troupe.tensor([[1], [2]])] == [[1], [2]]
    assert (2 in troupe.tensor([1, 2])) is True


def test_text():
    x = troupe.tensor([[1.5, -2], [3, 4]])
    assert repr(x) == "Tensor([[ 1.5, -2. ],\n        [ 3. ,  4. ]], dtype=float32)"
    assert str(x) == "[[ 1.5 -2. ]\n [ 3.   4. ]]"
    assert repr(troupe.zeros((0, 3))) == "Tensor([], shape=(0, 3), dtype=float32)"
    assert repr(troupe.tensor(3)) == "Tensor(3, dtype=int64)"
    y = troupe.Graph().placeholder("float32", [None, 2], name="y")
    assert repr(y) == 'Tensor("y", shape=(None, 2), dtype=float32)'
    assert repr(troupe.Variable([1.0], name="w")) == "Variable([1.], dtype=float32, name='w')"


def test_arrays_share_memory_both_ways():
    given = np.arange(8, dtype=np.float32)
    x = troupe.tensor(given)
    assert np.shares_memory(x.numpy(), given) and np.shares_memory(np.asarray(x), given)
    y = x + 1
    assert np.shares_memory(y.numpy(), y.numpy()) and not y.numpy().flags.writeable
    with pytest.raises(ValueError):
        y.numpy()[0] = 5
    copied = np.array(y)
    copied[0] = 5
    assert y[0].item() == 1
    held = y.numpy()
    del x, y
    gc.collect()
    assert held.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_dlpack_both_ways():
    x = troupe.tensor([[1.0, 2], [3, 4]])
    assert x.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(x)
    assert array.tolist() == [[1, 2], [3, 4]] and np.shares_memory(array, x.numpy())
    back = troupe.from_dlpack(array)
    assert np.shares_memory(back.numpy(), array) and back.dtype == "float32"
    del x, back
    gc.collect()
    assert array.sum() == 10
    torch = pytest.importorskip("torch")
    assert torch.from_dlpack(troupe.ones((2, 2))).sum() == 4


def test_other_arrays():
    transposed = np.arange(6).reshape(2, 3).T
    np.testing.assert_array_equal(troupe.tensor(transposed).numpy(), transposed)
    np.testing.assert_array_equal(troupe.tensor(np.arange(6)[::-2]).numpy(), [5, 3, 1])
    with pytest.raises(troupe.InvalidArgumentError, match="complex64"):
        troupe.tensor(np.zeros(3, np.complex64))
    with pytest.raises(troupe.InvalidArgumentError, match=">i4|byte order"):
        troupe.tensor(np.zeros(3, ">i4"))
    with pytest.raises(troupe.InvalidArgumentError, match="cannot hold None"):
        troupe.tensor([None, 1])
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    assert troupe.tensor(read_only).tolist() == [0, 0, 0]


def test_numpy_leaves_operators_to_tensors():
    x = troupe.tensor([1.0, 2.0])
    for made in (np.ones(2, np.float32) + x, np.float32(1) * x, [1.0, 2.0] * x, np.ones(2, np.float32) @ x,
                 np.ones(2, np.float32) < x):
        assert isinstance(made, troupe.Tensor)
    assert isinstance(np.exp(x), np.ndarray)  # functions of NumPy make arrays


def test_unknown_operands_are_type_errors():
    for wrong in (object(), {}, lambda: 0):
        with pytest.raises(TypeError):
            troupe.ones(2) + wrong
    assert (troupe.ones(2) == None) is False  # noqa: E711


ERRORS = [
    (lambda: troupe.ones((2, 3)) @ troupe.ones((2, 3)), ValueError, r"MatMul.*inner dimensions differ"),
    (lambda: troupe.ones(2) + troupe.ones(3), ValueError, r"Add"),
    (lambda: troupe.zeros(2)[5], IndexError, r"index 5 is out of range for dimension 0 of size 2"),
    (lambda: troupe.zeros(2)[0, 0], IndexError, r"2 indices are too many for a tensor of 1 dimensions"),
    (lambda: troupe.zeros(2)[[7]], IndexError, r"index 7 is out of range"),
    (lambda: troupe.zeros(2)[1.5], IndexError, r"integers or bools, not of float32"),
    (lambda: troupe.zeros(2)[::0], ValueError, r"step 0"),
    (lambda: troupe.tensor(1, "float23"), ValueError, r"'float23' is no dtype"),
    (lambda: bool(troupe.zeros(2)), ValueError, r"neither true nor false"),
    (lambda: float(troupe.zeros(2)), ValueError, r"2 elements is no number"),
    (lambda: troupe.tensor(300, "uint8"), ValueError, r"300 is not a value of dtype uint8"),
    (lambda: troupe.tensor([1, 2], "uint8") + 300, ValueError, r"300 is not a value of dtype uint8"),
    (lambda: troupe.reshape(troupe.zeros(4), (3, -1)), ValueError, r"Reshape"),
    (lambda: troupe.reshape(troupe.zeros(4), "ab"), ValueError, r"reshape: 'ab' is not an integer"),
    (lambda: troupe.op("Nothing", [1.0]), LookupError, r"Nothing"),
    (lambda: troupe.op("Placeholder", T="float32"), NotImplementedError, r"no meaning in eager mode"),
    (lambda: troupe.op("Neg", [1.0], colour=3), ValueError, r"no attribute 'colour'"),
    (lambda: len(troupe.tensor(1)), TypeError, r"a scalar has no len"),
    (lambda: -troupe.tensor([True]), ValueError, r"use ~"),
    (lambda: troupe.broadcast_to([1, 2], (3,)), ValueError, r"broadcast_to"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_say_what_is_wrong(case):
    call, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        call()


def test_errors_have_codes():
    with pytest.raises(troupe.Error) as caught:
        troupe.ones(2) + troupe.ones(3)
    assert type(caught.value) is troupe.InvalidArgumentError and caught.value.code == "invalid_argument"
    assert issubclass(troupe.OutOfRangeError, IndexError) and troupe.NotFoundError.code == "not_found"


def test_one_function_for_values_and_graphs():
    def f(x):
        y = troupe.where(x > 1, x * 2, x - 1)
        return troupe.concatenate([y[:, ::-1], troupe.nn.softmax(y)], axis=1).sum(1)

    given = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)
    g = troupe.Graph()
    x = g.placeholder("float32", [None, 3])
    y = f(x)
    with troupe.Session(g, threads=1) as session:
        np.testing.assert_array_equal(session.run({x: given}, y), f(troupe.tensor(given)).numpy())


def test_values_become_constants_of_graphs_and_graphs_stay_apart():
    g, other = troupe.Graph(), troupe.Graph()
    x = g.placeholder("float32", [2])
    with troupe.Session(g, threads=1) as session:
        assert session.run({x: [1, 2]}, x * troupe.tensor([3.0, 4.0])).tolist() == [3, 8]
    with pytest.raises(troupe.InvalidArgumentError, match="another graph"):
        x + other.placeholder("float32", [2])
    with pytest.raises(troupe.FailedPreconditionError):
        x.numpy()
    with pytest.raises(troupe.FailedPreconditionError):
        bool(x > 1)


def test_random_numbers_begin_again_with_a_seed():
    troupe.set_seed(5)
    first = troupe.random.normal((2, 3))
    second = troupe.random.normal((2, 3))
    assert not bool(troupe.all(first == second))
    troupe.set_seed(5)
    assert bool(troupe.all(first == troupe.random.normal((2, 3))))


def test_strings():
    x = troupe.tensor([["a", b"bc"]])
    assert x.tolist() == [[b"a", b"bc"]] and x[0, 1].item() == b"bc" and (x == "a").tolist() == [[True, False]]


def test_values_outlive_the_interpreters_end():
    assert printed("""
import atexit
values = []
def late():
    x, = values
    print(x.tolist())
    try:
        x + x
    except troupe.FailedPreconditionError as error:
        print("ending" in str(error))
atexit.register(late)  # runs after what is registered later
import troupe
values.append(troupe.ones(3))
""") == "[1.0, 1.0, 1.0]\nTrue\n"


def test_threads_can_be_set_before_the_first_op():
    assert printed("""
import troupe
troupe.set_threads(1)
troupe.ones(3) + 1
try:
    troupe.set_threads(2)
except troupe.FailedPreconditionError as error:
    print(error)
""").startswith("set_threads: ops have run already")


def test_the_import_starts_nothing():
    assert printed("""
import threading, troupe, os
print(len(os.listdir("/proc/self/task")) == 1 or threading.active_count() == 1)
""") == "True\n"
