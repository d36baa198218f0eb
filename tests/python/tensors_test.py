"""Tensors and arrays share memory, and keep it alive."""

import gc

import numpy as np
import pytest
import troupe

TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_round_trip(code, shape):
    given = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(code)
    found = troupe.tensor(given).numpy()
    assert found.dtype == given.dtype and found.shape == given.shape
    np.testing.assert_array_equal(found, given)


def test_nothing_is_copied():
    given = np.arange(1000, dtype=np.float32)
    found = troupe.tensor(given).numpy()
    assert np.shares_memory(given, found)
    assert not found.flags.writeable, "the tensor's memory is another's"


def test_the_array_lives_as_long_as_its_tensor():
    tensor = troupe.tensor(np.full(1 << 16, 7, np.int64))
    gc.collect()
    assert tensor.numpy().sum() == 7 << 16


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    given = np.array([1.5, -2, 3e38], ml_dtypes.bfloat16)
    tensor = troupe.tensor(given)
    assert tensor.dtype == "bf16"
    np.testing.assert_array_equal(tensor.numpy(), given)


def test_strings():
    tensor = troupe.tensor([["a", "bc"], ["", "d\u00e9"]])
    assert tensor.dtype == "string" and tensor.shape == (2, 2)
    assert tensor.numpy().tolist() == [[b"a", b"bc"], [b"", "d\u00e9".encode()]]


def test_other_types_are_refused():
    with pytest.raises((troupe.Error, TypeError)):
        troupe.tensor(np.zeros(3, np.complex64))
