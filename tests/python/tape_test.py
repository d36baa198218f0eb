"""Gradients, variables and optimizers of eager mode."""

import threading

import numpy as np
import pytest
import troupe


def test_nested_sources_keep_their_form():
    params = {"w": troupe.Variable([[1.0], [2.0]]), "layers": [(troupe.tensor(3.0), troupe.Variable(4.0))]}
    with troupe.GradientTape() as tape:
        tape.watch(params["layers"][0][0])
        y = troupe.sum(params["w"] * params["layers"][0][0]) * params["layers"][0][1]
    found = tape.gradient(y, params)
    assert found["w"].tolist() == [[12], [12]] and isinstance(found["layers"][0], tuple)
    assert float(found["layers"][0][0]) == 12 and float(found["layers"][0][1]) == 9


def test_unconnected_sources():
    x, other = troupe.tensor(2.0), troupe.Variable([1.0, 2.0])
    for zero, expected in (("none", None), ("zero", [0, 0])):
        with troupe.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        dx, none = tape.gradient(y, [x, other], unconnected_gradients=zero)
        assert float(dx) == 4 and (none if none is None else none.tolist()) == expected
    with pytest.raises(ValueError, match="unconnected_gradients"):
        tape.gradient(y, x, unconnected_gradients="ones")


def test_output_gradients_and_several_targets():
    x = troupe.tensor([1.0, 2.0])
    with troupe.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = x * x, x * 3
    assert tape.gradient(y, x, output_gradients=[10.0, 1.0]).tolist() == [20, 4]
    assert tape.gradient([y, z], x).tolist() == [5, 7]


def test_a_tape_is_used_once_unless_persistent():
    x = troupe.tensor(2.0)
    with troupe.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(troupe.FailedPreconditionError, match="persistent"):
        tape.gradient(y, x)


def test_gradients_of_gradients():
    x = troupe.tensor(3.0)
    with troupe.GradientTape() as outer:
        outer.watch(x)
        with troupe.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        first = inner.gradient(y, x)
    assert float(first) == 27 and float(outer.gradient(first, x)) == 18


def test_recording_stops_and_goes_on():
    x = troupe.tensor(3.0)
    with troupe.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * 5
        w = y * z
    assert float(tape.gradient(w, x)) == 45 * 6


def test_misuse_is_said():
    x = troupe.tensor(1.0)
    tape = troupe.GradientTape()
    with pytest.raises(troupe.FailedPreconditionError, match="use it in `with`"):
        tape.watch(x)
    with pytest.raises(troupe.FailedPreconditionError, match="recorded nothing"):
        tape.gradient(x, x)
    with pytest.raises(ValueError, match="not floating"):
        with troupe.GradientTape() as tape:
            tape.watch(troupe.tensor(1))
    with pytest.raises(ValueError, match="neither a tensor nor a variable"):
        with troupe.GradientTape() as tape:
            tape.watch(1.0)
    with pytest.raises(troupe.FailedPreconditionError, match="entered once"):
        with tape:
            pass


def test_tapes_left_in_another_order_are_an_error_and_harmless():
    x = troupe.tensor(2.0)
    outer, inner = troupe.GradientTape(), troupe.GradientTape()
    outer.__enter__()
    inner.__enter__()
    inner.watch(x)
    with pytest.raises(troupe.FailedPreconditionError, match="reverse order"):
        outer.__exit__(None, None, None)
    y = x * x
    inner.__exit__(None, None, None)
    assert float(inner.gradient(y, x)) == 4
    forgotten = troupe.GradientTape()
    forgotten.__enter__()
    del forgotten
    assert float(x * x) == 4


def test_a_tape_is_left_on_its_thread():
    tape, said = troupe.GradientTape(), []

    def leave():
        try:
            tape.__exit__(None, None, None)
        except troupe.FailedPreconditionError as error:
            said.append(str(error))

    with tape:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    assert said and "thread" in said[0]


def test_custom_gradients():
    @troupe.custom_gradient
    def scaled(x, y):
        return (x * y, x + y), lambda da, db: (da * 100, None)

    x, y = troupe.tensor(2.0), troupe.tensor(5.0)
    with troupe.GradientTape() as tape:
        tape.watch([x, y])
        a, b = scaled(x, y)
    dx, dy = tape.gradient([a, b], [x, y])
    assert float(a) == 10 and float(b) == 7 and float(dx) == 100 and dy is None


def test_custom_gradients_in_graphs():
    @troupe.custom_gradient
    def halved(x):
        return x * 3, lambda dy: dy * x

    g = troupe.Graph()
    x = g.placeholder("float32", [2])
    y = halved(x)
    dx, = troupe.gradients([y], [x])
    with troupe.Session(g, threads=1) as session:
        assert [v.tolist() for v in session.run({x: [5, 7]}, [y, dx])] == [[15, 21], [5, 7]]


def test_errors_of_python_pass_through():
    class Mine(Exception):
        pass

    def body(i, x):
        raise Mine("here")

    with pytest.raises(Mine, match="here"):
        troupe.while_loop(lambda i, x: i < 3, body, (0, 1.0))
    g = troupe.Graph()
    x = g.placeholder("float32", [])
    with pytest.raises(Mine, match="here"):
        troupe.while_loop(lambda i, x: i < 3, body, (g.constant(0), x))
    assert float(troupe.tensor(1.0) + 1) == 2

    @troupe.custom_gradient
    def wrong(x):
        def grad(dy):
            raise Mine("back")
        return x * 1, grad

    with pytest.raises(Mine, match="back"):
        troupe.value_and_grad(wrong)(1.0)


def loops(x, n):
    i, total = troupe.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t * x), (0 * n, x))
    last, all_of_them = troupe.scan(lambda s, row: (s + row, s * row), x[0] * 0, x)
    branch = troupe.cond(troupe.sum(x) > 0, lambda: troupe.sum(x), lambda: -troupe.sum(x))
    return troupe.sum(total) + last + troupe.sum(all_of_them) + branch


def test_loops_and_branches_are_the_same_for_values_and_graphs():
    given = np.array([1.0, -2.0, 3.0], np.float32)
    g = troupe.Graph()
    x, n = g.placeholder("float32", [3]), g.placeholder("int64", [])
    y = loops(x, n)
    dx, = troupe.gradients([y], [x])
    with troupe.Session(g, threads=1) as session:
        value, gradient = session.run({x: given, n: np.int64(4)}, [y, dx])
    eager = troupe.tensor(given)
    with troupe.GradientTape() as tape:
        tape.watch(eager)
        z = loops(eager, troupe.tensor(4))
    assert float(z) == value
    np.testing.assert_array_equal(tape.gradient(z, eager).numpy(), gradient)


def test_variables():
    v = troupe.Variable(np.arange(3), dtype="float32", name="v", trainable=False)
    assert v.shape == (3,) and v.dtype == "float32" and v.name == "v" and not v.trainable and len(v) == 3
    before = v.read()
    assert v.assign_add([1, 1, 1]) is v
    assert v.numpy().tolist() == [1, 2, 3] and before.tolist() == [0, 1, 2]
    v.assign_sub(np.ones(3))
    v.assign(v * 2)
    assert (v + 1).tolist() == [1, 3, 5] and v[1:].tolist() == [2, 4] and (1 - v).tolist() == [1, -1, -3]
    with pytest.raises(troupe.InvalidArgumentError):
        v.assign([1.0, 2.0])
    assert v.numpy().tolist() == [0, 2, 4]
    with troupe.GradientTape() as tape:
        y = troupe.sum(v * v)
    assert tape.gradient(y, v) is None  # not trainable
    with troupe.GradientTape() as tape:
        tape.watch(v)
        y = troupe.sum(v * v)
    assert tape.gradient(y, v).tolist() == [0, 4, 8]


def test_a_variable_leaves_the_array_it_was_made_of():
    given = np.ones(1000, np.float32)
    v = troupe.Variable(given)
    v.assign_add(np.ones(1000, np.float32))
    assert (given == 1).all() and (v.numpy() == 2).all()


NAMES = ["SGD", "Momentum", "Adagrad", "RMSprop", "Adam", "AdamW", "Adamax", "Nadam", "Adadelta", "Ftrl", "Lion"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("clipping", [{}, {"clipnorm": 0.5}, {"global_clipnorm": 0.5}, {"clipvalue": 0.1}])
def test_optimizers_reduce_a_loss(name, clipping):
    w = troupe.Variable([3.0, -2.0])
    optimizer = getattr(troupe.optimizers, name)(learning_rate=0.05, **clipping)
    losses = [float(optimizer.minimize(lambda: troupe.sum(w * w), [w])) for _ in range(20)]
    assert losses[-1] < losses[0] and optimizer.iterations == 20


def test_apply_gradients_is_minimize():
    a, b = troupe.Variable([3.0]), troupe.Variable([3.0])
    first, second = troupe.optimizers.Adam(0.1), troupe.optimizers.Adam(0.1)
    for _ in range(5):
        first.minimize(lambda: troupe.sum(a * a), [a])
        with troupe.GradientTape() as tape:
            loss = troupe.sum(b * b)
        second.apply_gradients(zip(tape.gradient(loss, [b]), [b]))
    assert a.numpy().tobytes() == b.numpy().tobytes()
    assert len(first.variables) == 3


def test_learning_rates_change_and_states_stay():
    w = troupe.Variable([8.0])
    optimizer = troupe.optimizers.SGD(0.25, momentum=0.5)
    optimizer.minimize(lambda: troupe.sum(w), [w])
    optimizer.learning_rate = 0.0
    optimizer.minimize(lambda: troupe.sum(w), [w])
    assert w.tolist() == [7.75]
    assert optimizer.learning_rate == 0.0
    schedule = troupe.optimizers.schedules.CosineDecay(0.1, 10, warm_up=5)
    optimizer.learning_rate = schedule
    assert optimizer.learning_rate is schedule and schedule(4) == pytest.approx(0.1)
    with pytest.raises(troupe.InvalidArgumentError, match="learning_rate|rate"):
        optimizer.learning_rate = -1.0


def test_optimizers_refuse():
    w = troupe.Variable([1.0])
    with pytest.raises(troupe.InvalidArgumentError, match="beta1"):
        troupe.optimizers.Adam(beta_1=2.0)
    with pytest.raises(ValueError, match="no variable has a gradient"):
        troupe.optimizers.SGD().apply_gradients([(None, w)])
    with pytest.raises(troupe.InvalidArgumentError, match="is not a Variable"):
        troupe.optimizers.SGD().apply_gradients([(troupe.ones(1), troupe.ones(1))])
    with pytest.raises(ValueError, match="give one of"):
        troupe.optimizers.SGD(clipnorm=1.0, clipvalue=1.0)
