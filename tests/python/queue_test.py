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


WAITS = {
    "a call": "take = q.dequeue",
    "a traced function": "take = troupe.function(lambda: q.dequeue())",
    "a session": """
g = troupe.Graph()
next = troupe.queue.FIFOQueue(1, "int64", shapes=[[]], graph=g).dequeue()
session = troupe.Session(g)
take = lambda: session.run(fetches=next)
""",
}


@pytest.mark.parametrize("waits", WAITS)
def test_a_thread_that_waits_does_not_keep_the_interpreter(waits):
    program = ("import threading, troupe\n"
               "q = troupe.queue.FIFOQueue(1, 'int64', shapes=[[]])\n" + WAITS[waits] + "\n"
               "begins = threading.Event()\n"
               "def run():\n"
               "    begins.set()\n"
               "    take()\n"
               "threading.Thread(target=run, daemon=True).start()\n"
               "begins.wait()\n"
               "print(int(q.size()), flush=True)\n")
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_queue_that_nobody_holds_is_freed_with_its_elements():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    element = np.ones(1_000_000, np.float32)
    for i in range(60):
        q = troupe.queue.FIFOQueue(3, "float32", shapes=[[1_000_000]])
        q.enqueue(troupe.tensor(element) + i)
        assert int(q.size()) == 1
        if i == 20:
            before = resident()
    assert resident() - before < 80_000_000  # all 39 would be 156 MB


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_lets_go_of_its_parents_queue():
    program = ("import os, sys, troupe\n"
               "q = troupe.queue.FIFOQueue(1, 'int64', shapes=[[]])\n"
               "q.enqueue(3)\n"
               "child = os.fork()\n"
               "if child == 0:\n"
               "    del q\n"
               "    sys.exit(7)\n"
               "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(q.dequeue()))\n")
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "7 3\n"), done.stderr


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


def test_ctrl_c_ends_a_session_that_waits():
    g = troupe.Graph()
    q = numbers(graph=g)
    put, take = q.enqueue(np.int64(1)), q.dequeue()
    with troupe.Session(g) as session:
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.run(fetches=take)
        timer.join(30)
        session.run(targets=[put])
        assert session.run(fetches=take) == 1


def test_the_first_nodes_of_a_graph_may_be_resources():
    for make in [lambda g: numbers(graph=g), lambda g: troupe.ConditionalAccumulator("float32", graph=g),
                 lambda g: troupe.lookup.MutableHashTable("int64", "int64", 0, graph=g)]:
        g = troupe.Graph()
        resource = make(g)
        with troupe.Session(g) as session:
            fetch = resource.num_accumulated() if hasattr(resource, "num_accumulated") else resource.size()
            assert session.run(fetches=fetch) == 0


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


def test_the_lowest_priority_leaves_first():
    q = troupe.queue.PriorityQueue(10, ["string", "float32"], shapes=[[], [2]])
    q.enqueue([3, "c", [1.0, 2.0]])
    q.enqueue_many([[1, 3, 2], ["a", "d", "b"], np.zeros((3, 2), np.float32)])
    priorities, texts, values = q.dequeue_many(4)
    assert priorities.numpy().tolist() == [1, 2, 3, 3] and texts.numpy().tolist() == [b"a", b"b", b"c", b"d"]
    np.testing.assert_array_equal(values, [[0, 0], [0, 0], [1, 2], [0, 0]])


def test_elements_are_padded_to_the_largest():
    q = troupe.queue.PaddingFIFOQueue(10, ["float32", "string"], shapes=[[None, 2, None], [None]])
    q.enqueue([np.ones((1, 2, 3), np.float32), ["x"]])
    q.enqueue([np.full((2, 2, 1), 2, np.float32), []])
    q.enqueue([np.full((0, 2, 4), 3, np.float32), ["y", "z"]])
    values, texts = q.dequeue_many(3)
    expected = np.zeros((3, 2, 2, 4), np.float32)
    expected[0, :1, :, :3], expected[1, :, :, :1] = 1, 2
    np.testing.assert_array_equal(values, expected)
    assert texts.numpy().tolist() == [[b"x", b""], [b"", b""], [b"y", b"z"]]
    with pytest.raises(troupe.InvalidArgumentError, match=r"component 0 must be float32\[\?,2,\?\]|\[\?,2,\?\]"):
        q.enqueue([np.zeros((1, 3, 1), np.float32), ["x"]])
    with pytest.raises(troupe.InvalidArgumentError, match="needs a rank"):
        troupe.queue.PaddingFIFOQueue(10, "float32", shapes=[None])


def test_elements_of_several_shapes_are_no_rows():
    q = troupe.queue.FIFOQueue(10, "int64")
    q.enqueue(troupe.tensor([1, 2]))
    q.enqueue(troupe.tensor([3]))
    with pytest.raises(troupe.InvalidArgumentError, match="PaddingFIFOQueue"):
        q.dequeue_many(2)


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

    dense = troupe.ConditionalAccumulator("float32", [3])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        theirs = tf.compat.v1.ConditionalAccumulator(tf.float32, [3])
        for step in range(4):
            for _ in range(5):
                value = rng.normal(size=3).astype(np.float32)
                at = step + int(rng.integers(0, 3)) - 1
                if at >= 0:
                    dense.apply_grad(value, at)
                    session.run(theirs.apply_grad(value, local_step=at))
            count = session.run(theirs.num_accumulated())
            assert int(dense.num_accumulated()) == count > 0
            np.testing.assert_allclose(dense.take_grad(1), session.run(theirs.take_grad(1)), rtol=1e-6)

    queues = [(troupe.queue.FIFOQueue(20, "int64", shapes=[[]]), tf.queue.FIFOQueue(20, tf.int64, shapes=[[]])),
              (troupe.queue.PriorityQueue(20, "int64", shapes=[[]]), tf.queue.PriorityQueue(20, tf.int64, shapes=[[]]))]
    for ours, theirs in queues:
        two = isinstance(ours, troupe.queue.PriorityQueue)
        for _ in range(60):
            size = int(ours.size())
            assert size == int(theirs.size())
            many = int(rng.integers(1, 4))
            if rng.integers(0, 2) == 0 and size + many <= 20:
                values = rng.integers(0, 10**12, many)  # priorities of which no two are equal
                given = [values, np.arange(many)] if two else values
                ours.enqueue_many(given)
                theirs.enqueue_many(given)
            elif size >= many:
                expected = theirs.dequeue_many(many)
                found = ours.dequeue_many(many)
                for x, y in zip(found, expected) if two else [(found, expected)]:
                    np.testing.assert_array_equal(x, y)
        ours.close()
        theirs.close()
        if int(ours.size()) > 0 and not two:  # TensorFlow's loses the elements of a closed queue of priorities
            expected = theirs.dequeue_up_to(30)
            np.testing.assert_array_equal(ours.dequeue_up_to(30), expected)
        for queue, error in [(ours, troupe.OutOfRangeError), (theirs, tf.errors.OutOfRangeError)]:
            with pytest.raises(error):
                queue.dequeue_many(30)


def test_hash_tables():
    table = troupe.lookup.MutableHashTable("string", "int64", -1)
    table.insert(["a", "b"], [1, 2])
    np.testing.assert_array_equal(table.lookup(["b", "c", "a"]), [2, -1, 1])
    np.testing.assert_array_equal(table[["a", "z"]], [1, -1])
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
