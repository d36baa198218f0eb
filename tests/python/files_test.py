"""Files of tensors beside NumPy, and beside safetensors where it is installed (tools/setup.sh --with-python)."""

import zipfile

import numpy as np
import pytest
import troupe

DTYPES = [
    "float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"
]


def arrays():
    random = np.random.default_rng(5)
    found = {f"of/{d}": random.integers(0, 2, (3, 5)).astype(d) for d in DTYPES}
    found.update({
        "noise": random.standard_normal((40, 70)).astype(np.float32),
        "scalar": np.array(-1.5),
        "empty": np.zeros((2, 0, 3), np.float32),
        "é": np.arange(3),
    })
    return found


def assert_same(found, wanted):
    assert set(found) == set(wanted)
    for name, want in wanted.items():
        have = np.asarray(found[name])
        assert have.dtype == want.dtype and have.shape == want.shape, name
        np.testing.assert_array_equal(have, want, name)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_numpy_is_read(tmp_path, save):
    save(tmp_path / "a.npz", **arrays())
    assert_same(troupe.TensorFile(tmp_path / "a.npz"), arrays())


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("zip64", [False, True])
def test_numpy_reads_npz(tmp_path, compress, zip64):
    path = tmp_path / "a.npz"
    troupe.save_npz(path, arrays(), compress=compress, zip64=zip64)
    assert_same(dict(np.load(path)), arrays())
    assert_same(troupe.TensorFile(path), arrays())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        kinds = {i.compress_type for i in archive.infolist()}
        assert kinds == {zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED}
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_npy_of_numpy_is_read_and_ours_by_numpy(tmp_path):
    path = tmp_path / "a.npy"
    for name, want in arrays().items():
        np.save(path, want)
        assert_same({name: troupe.load_npy(path)}, {name: want})
        troupe.save_npy(path, want)
        assert_same({name: np.load(path)}, {name: want})
    for order in "CF":
        for dtype in ["<i4", ">i4", ">f8"]:
            want = np.arange(24).reshape(2, 3, 4).astype(dtype).copy(order)
            np.save(path, want)
            np.testing.assert_array_equal(troupe.load_npy(path), want)
    with open(path, "wb") as file:
        np.lib.format.write_array(file, np.arange(4), version=(2, 0))
    np.testing.assert_array_equal(troupe.load_npy(path), np.arange(4))


def test_npy_that_has_no_dtype_here_is_refused(tmp_path):
    path = tmp_path / "a.npy"
    for value in [np.array(["text"]), np.array([b"bytes"]), np.array([1j]), np.array([{}], dtype=object)]:
        np.save(path, value)
        with pytest.raises(troupe.Error, match="Troupe has no dtype for NumPy's"):
            troupe.load_npy(path)


def test_safetensors_read_what_the_reference_writes_and_the_reverse(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    import safetensors

    path = tmp_path / "a.safetensors"
    reference.save_file(arrays(), path, metadata={"format": "np", "é": "a\n\"b\""})
    ours = troupe.TensorFile(path)
    assert_same(ours, arrays())
    assert ours.metadata == {"format": "np", "é": "a\n\"b\""}
    troupe.save_safetensors(path, arrays(), {"k": "v é"})
    assert_same(reference.load_file(path), arrays())
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"k": "v é"}


def test_bf16_is_in_safetensors_only(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    want = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    troupe.save_safetensors(tmp_path / "a.safetensors", {"x": want})
    assert_same(troupe.TensorFile(tmp_path / "a.safetensors"), {"x": want})
    with pytest.raises(troupe.Error, match="NumPy has no dtype for tensor 'x' of bf16"):
        troupe.save_npz(tmp_path / "a.npz", {"x": want})


def test_damaged_files_say_what_is_wrong(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(100))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(troupe.Error, match="a.npz': zip archive: no end record"):
        troupe.TensorFile(path)
    with pytest.raises(troupe.Error, match="cannot open"):
        troupe.TensorFile(tmp_path / "gone.safetensors")
    troupe.save_npz(path, {"x": np.arange(3)})
    with pytest.raises(KeyError):
        troupe.TensorFile(path)["y"]
