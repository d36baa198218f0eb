"""Graphs, ops by name, sessions."""

import threading

import numpy as np
import pytest
import troupe


def test_a_graph_of_ops_by_name():
    g = troupe.Graph()
    x = g.placeholder("f32", [None, 3], name="x")
    w = g.constant(np.ones((3, 2), np.float32))
    y = g.op("MatMul", [x, w], name="product")
    assert y.shape == (None, 2) and y.dtype == "f32" and y.name == "product"
    with troupe.Session(g, threads=1) as session:
        given = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(session.run({x: given}, y), given @ np.ones((3, 2), np.float32))
        z = g.op("Neg", [y])  # the graph grows
        first, second = session.run({x: given}, [y, z])
        np.testing.assert_array_equal(first, -second)


def test_what_is_fed_never_changes():
    g = troupe.Graph()
    x = g.placeholder("f32", [1024])
    y = g.op("Exp", [g.op("Neg", [x])])  # in place where they may
    given = np.ones(1024, np.float32)
    with troupe.Session(g, threads=1) as session:
        np.testing.assert_allclose(session.run({x: given}, y), np.exp(-1), rtol=1e-6)
    assert (given == 1).all()


def test_constants_do_not_follow_their_array():
    g = troupe.Graph()
    array = np.ones(3, np.float32)
    y = g.op("Neg", [g.constant(array)])
    array[:] = 5
    with troupe.Session(g, threads=1) as session:
        assert session.run(fetches=y).tolist() == [-1, -1, -1]


def test_gradients():
    g = troupe.Graph()
    x = g.placeholder("f64", [])
    unrelated = g.placeholder("f64", [])
    y = g.op("Mul", [g.op("Exp", [x]), x])
    dx, none = troupe.gradients([y], [x, unrelated])
    assert none is None
    with troupe.Session(g, threads=1) as session:
        assert session.run({x: np.float64(2)}, dx) == pytest.approx(3 * np.exp(2))


def test_errors_have_a_code_and_name_the_node():
    g = troupe.Graph()
    with pytest.raises(troupe.Error, match="MatMul") as caught:
        g.op("MatMul", [np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)], name="wrong")
    assert caught.value.code == "invalid_argument"
    with pytest.raises(troupe.Error, match="no attribute 'colour'"):
        g.op("Neg", [np.float32(1)], colour=3)
    with pytest.raises(troupe.Error, match="must be of type bool"):
        g.op("MatMul", [np.ones((2, 3)), np.ones((3, 2))], transpose_a="yes, please")
    assert "MatMul" in troupe.ops()


def test_other_threads_of_python_run_beside_a_step():
    g = troupe.Graph()
    n = g.placeholder("f32", [600, 600])
    y = n
    for _ in range(40):
        y = g.op("MatMul", [y, n])
    done, turns = threading.Event(), []
    with troupe.Session(g, threads=1) as session:
        thread = threading.Thread(target=lambda: (session.run({n: np.zeros((600, 600), np.float32)}, y), done.set()))
        thread.start()
        while not done.wait(0):
            turns.append(1)
        thread.join()
    assert len(turns) > 1
