"""Functions that are traced: what they are traced for, variables, gradients, results of any form."""

import gc
import threading

import numpy as np
import pytest
import troupe


def test_is_traced_once_for_each_kind_of_arguments():
    traced = []

    @troupe.function
    def add(x, y=1, *, scale=1.0):
        traced.append((x.shape, y if isinstance(y, int) else None, scale))
        return (x + y) * scale

    x = troupe.tensor([1.0, 2.0])
    assert add(x).numpy().tolist() == [2, 3]
    assert add(x + 1).numpy().tolist() == [3, 4]
    assert len(traced) == 1
    assert add(x, 2).numpy().tolist() == [3, 4]
    assert add(x, troupe.tensor([2.0, 2.0])).numpy().tolist() == [3, 4]
    assert add(x, scale=10.0).numpy().tolist() == [20, 30]
    assert add(np.array([5, 6, 7], np.float32)).numpy().tolist() == [6, 7, 8]
    assert add.traces == len(traced) == 5
    add(x, 2)
    assert add.traces == 5
    assert "traced 5 times" in add.explain(x)


def test_lists_of_numbers_in_it_are_constants():
    @troupe.function
    def f(x):
        return x + troupe.tensor([[1.0]]), x @ [[1.0], [2.0]], troupe.SparseTensor([[0, 1]], [4.0], [1, 2]) @ [1.0, 2.0]

    assert [y.tolist() for y in f(troupe.tensor([[1.0, 2.0]]))] == [[[2, 3]], [[5]], [8]]


def test_results_have_the_form_that_the_function_returns():
    @troupe.function
    def f(x):
        return {"sum": troupe.sum(x), "parts": [x, (x * 2, None)], "n": 3}

    x = troupe.ones((2,))
    for _ in range(2):
        found = f(x)
        assert float(found["sum"]) == 2 and found["n"] == 3
        assert found["parts"][1][0].numpy().tolist() == [2, 2] and found["parts"][1][1] is None
    assert troupe.function(lambda: None)() is None
    assert troupe.function(lambda: 7)() == 7


def test_variables_are_read_and_changed_in_each_call():
    v = troupe.Variable(1.0)

    @troupe.function
    def step(x):
        before = v.read()
        v.assign_add(x)
        return before, v * 10

    for i in range(3):
        before, after = step(troupe.tensor(2.0))
        assert float(before) == 1 + 2 * i and float(after) == 10 * (3 + 2 * i)
    assert float(v.read()) == 7


def test_methods_and_objects():
    class Scale:
        def __init__(self, factor):
            self.factor = factor
            self.v = None

        @troupe.function
        def __call__(self, x):
            if self.v is None:
                self.v = troupe.Variable(float(self.factor))
            return x * self.v

    a, b = Scale(2), Scale(3)
    x = troupe.tensor(5.0)
    assert [float(a(x)), float(b(x)), float(a(x))] == [10, 15, 10]
    assert Scale.__dict__["__call__"].traces == 2


def test_training_has_the_bits_of_lines():
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=(8, 1)).astype(np.float32)) for _ in range(5)]

    def train(decorate):
        w = troupe.Variable(np.ones((3, 1), np.float32))
        optimizer = troupe.optimizers.Adam(0.1)

        @decorate
        def step(x, y):
            with troupe.GradientTape() as tape:
                loss = troupe.mean((x @ w - y) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))
            return loss

        return [step(troupe.tensor(x), troupe.tensor(y)).numpy().tobytes() for x, y in data] + [
            w.read().numpy().tobytes()]

    assert train(lambda f: f) == train(troupe.function)


def test_gradients_flow_through():
    w = troupe.Variable([[1.0], [2.0]])
    f = troupe.function(lambda x: troupe.tanh(x @ w))
    x = troupe.tensor([[0.5, -0.25]])

    def gradients(fn):
        with troupe.GradientTape() as tape:
            tape.watch(x)
            y = fn(x)
        return [g.numpy().tobytes() for g in tape.gradient(y, [x, w])]

    assert gradients(f) == gradients(f.python_function)


def test_loops_and_branches():
    @troupe.function
    def f(x):
        x = troupe.while_loop(lambda v: v < 100, lambda v: v * 2, [x])[0]
        return troupe.cond(x > 150, lambda: x - 150, lambda: x)

    assert float(f(troupe.tensor(3.0))) == 42
    assert float(f(troupe.tensor(4.0))) == 128


def test_values_are_not_there_while_it_is_traced():
    @troupe.function
    def f(x):
        return x if x > 0 else -x

    with pytest.raises(troupe.FailedPreconditionError, match="has no value before the function runs"):
        f(troupe.tensor(1.0))

    leaked = []
    g = troupe.function(lambda x: leaked.append(x + 1) or x)
    g(troupe.tensor(1.0))
    with pytest.raises(troupe.Error, match="no value"):
        leaked[0].numpy()
    with pytest.raises(troupe.Error, match="no value outside of it"):
        leaked[0] + troupe.tensor(1.0)
    del g
    gc.collect()
    for use in (lambda: leaked[0].shape, lambda: leaked[0] + troupe.tensor(1.0)):
        with pytest.raises(troupe.Error, match="belongs to a graph that has ended"):
            use()


def test_exceptions_of_the_function_pass():
    @troupe.function
    def f(x):
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            f(troupe.tensor(1.0))
    with pytest.raises(troupe.InvalidArgumentError, match="inner dimensions differ"):
        troupe.function(lambda x: x @ x)(troupe.ones((2, 3)))


def test_objects_that_die_are_told_apart():
    class Thing:
        pass

    @troupe.function
    def f(thing, x):
        return x + thing.value

    for value in range(20):  # their ids repeat
        thing = Thing()
        thing.value = float(value)
        assert float(f(thing, troupe.tensor(1.0))) == 1 + value
        del thing


def test_retracing_is_told_and_reduced(capfd):
    f = troupe.function(lambda x: x + 1)
    for n in range(1, 7):
        f(troupe.ones((n,)))
    assert "is traced for the 5th time" in capfd.readouterr().err
    g = troupe.function(lambda x: x + 1, reduce_retracing=True)
    for n in range(1, 7):
        assert g(troupe.ones((n,))).shape == (n,)
    assert g.traces == 2


def test_threads_share_one_trace():
    v = troupe.Variable(0.0)
    f = troupe.function(lambda x: [v.assign_add(x), 0][1])
    one = troupe.tensor(1.0)
    threads = [threading.Thread(target=lambda: [f(one) for _ in range(200)]) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert float(v.read()) == 1600 and f.traces == 1
