"""Queues, accumulators and hash tables: in eager mode, traced functions and graphs."""
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import troupe


def numbers(capacity=10, **options):
    return troupe.queue.FIFOQueue(capacity, "int64", shapes=[[]], **options)


def test_elements_leave_in_order():
    q = numbers()
    q.enqueue(1)
    q.enqueue_many(troupe.tensor([2, 3, 4]))
    assert int(q.size()) == 4
    assert int(q.dequeue()) == 1
    np.testing.assert_array_equal(q.dequeue_many(2), [2, 3])
    q.close()
    assert bool(q.is_closed())
    np.testing.assert_array_equal(q.dequeue_up_to(5), [4])
    with pytest.raises(troupe.OutOfRangeError, match="is closed"):
        q.dequeue()
    with pytest.raises(troupe.CancelledError, match="is closed"):
        q.enqueue(1)


def test_a_thread_waits_for_another():
    q, found = numbers(1), []
    taker = threading.Thread(target=lambda: found.extend(int(q.dequeue()) for _ in range(100)))
    taker.start()
    for i in range(100):
        q.enqueue(i)
    taker.join(30)
    assert found == list(range(100))


def test_close_in_another_thread_ends_a_wait():
    q = numbers()
    closer = threading.Timer(0.05, q.close)
    closer.start()
    with pytest.raises(troupe.OutOfRangeError):
        q.dequeue()
    closer.join(30)


def test_ctrl_c_ends_a_wait_and_takes_nothing():
    q = numbers()
    q.enqueue(5)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        q.dequeue_many(2)
    timer.join(30)
    assert int(q.dequeue()) == 5


def test_a_thread_that_waits_does_not_keep_the_interpreter():
    program = ("import threading, troupe\n"
               "q = troupe.queue.FIFOQueue(1, 'int64')\n"
               "threading.Thread(target=q.dequeue, daemon=True).start()\n"
               "print(int(q.size()))\n")
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_traced_functions_keep_the_order_of_the_program():
    q = numbers()

    @troupe.function
    def put_and_take(x):
        q.enqueue(x)
        q.enqueue(x + 1)
        first = q.dequeue()
        return first * 10, q.dequeue(), q.size()

    for i in range(3):
        first, second, left = put_and_take(troupe.tensor(i))
        assert (int(first), int(second), int(left)) == (10 * i, i + 1, 0)


def test_ctrl_c_ends_a_traced_function_that_waits():
    q = numbers()

    @troupe.function
    def take():
        return q.dequeue()

    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        take()
    timer.join(30)
    q.enqueue(1)
    assert int(take()) == 1


def test_graphs_have_queues():
    g = troupe.Graph()
    x = g.placeholder("float32", [2])
    q = troupe.queue.FIFOQueue(3, ["float32", "string"], shapes=[[2], []], graph=g)
    put, take, size = q.enqueue([x, "text"]), q.dequeue(), q.size()
    with troupe.Session(g) as session:
        session.run({x: np.array([1, 2], np.float32)}, targets=[put])
        assert session.run(fetches=size) == 1
        found, text = session.run(fetches=list(take))
        np.testing.assert_array_equal(found, [1, 2])
        assert text.item() == b"text"


def test_shuffled_queues_follow_from_their_seed():
    def order(seed):
        q = troupe.queue.RandomShuffleQueue(100, 10, "int64", shapes=[[]], seed=seed)
        q.enqueue_many(troupe.arange(50))
        first = q.dequeue_many(40).numpy().tolist()
        q.close()
        return first + q.dequeue_up_to(20).numpy().tolist()

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(50)) != order(1)


def test_means_of_gradients():
    a = troupe.ConditionalAccumulator("float32", [2])
    grads = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    for grad in grads:
        a.apply_grad(grad)
    assert int(a.num_accumulated()) == 5
    sums = grads[0]
    for grad in grads[1:]:
        sums = sums + grad
    np.testing.assert_array_equal(a.take_grad(3), sums / np.float32(5))
    a.apply_grad(grads[0], local_step=0)
    assert int(a.num_accumulated()) == 0, "a gradient of an earlier step"
    a.set_global_step(7)
    a.apply_grad(grads[0], local_step=7)
    np.testing.assert_array_equal(a.take_grad(1), grads[0])


def test_tensorflow_has_the_same_rules():
    tf = pytest.importorskip("tensorflow")
    rng = np.random.default_rng(1)
    ours = troupe.SparseConditionalAccumulator("float32", [6, 2])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        theirs = tf.compat.v1.SparseConditionalAccumulator(tf.float32, [6, 2])
        for step in range(3):
            for _ in range(4):
                rows = np.sort(rng.choice(6, 3, replace=False)).astype(np.int64)
                values = rng.normal(size=(3, 2)).astype(np.float32)
                at = int(rng.integers(0, 3))
                ours.apply_grad(rows, values, at)
                session.run(theirs.apply_grad(rows, values, local_step=at))
            count = session.run(theirs.num_accumulated())
            assert int(ours.num_accumulated()) == count
            if count == 0:
                continue
            expected = session.run(theirs.take_indexed_slices_grad(1))
            indices, values = ours.take_grad(1)
            np.testing.assert_array_equal(indices, expected.indices)
            np.testing.assert_allclose(values, expected.values, rtol=1e-6)


def test_hash_tables():
    table = troupe.lookup.MutableHashTable("string", "int64", -1)
    table.insert(["a", "b"], [1, 2])
    np.testing.assert_array_equal(table.lookup(["b", "c", "a"]), [2, -1, 1])
    table.insert(["b"], [5])
    table.remove(["a", "z"])
    keys, values = table.export()
    assert keys.numpy().tolist() == [b"b"] and values.numpy().tolist() == [5]
    table.import_entries(["x", "y"], [7, 8])
    assert int(table.size()) == 2
    np.testing.assert_array_equal(table.lookup(["x", "b"], default_value=0), [7, 0])


def test_hash_tables_in_traced_functions():
    table = troupe.lookup.MutableHashTable("int64", "int64", 0)

    @troupe.function
    def count(words):
        table.insert(words, table.lookup(words) + 1)
        return table.lookup(words)

    count(troupe.tensor([1, 2]))
    np.testing.assert_array_equal(count(troupe.tensor([2, 3])), [2, 1])
