"""Threads, signals and memory: many threads compute at once, Ctrl-C ends what takes long, nothing leaks."""

import gc
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import troupe

LONG = bool(os.environ.get("TROUPE_LONG_TESTS"))


def in_threads(count, function):
    errors = []

    def run(i):
        try:
            function(i)
        except BaseException as error:  # noqa: B902
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors and not any(thread.is_alive() for thread in threads), errors


def test_threads_share_a_session_whose_graph_grows():
    g = troupe.Graph()
    x = g.placeholder("float32", [None])
    y = x * 2
    with troupe.Session(g) as session:
        def run(i):
            mine = y
            for step in range(30):
                if step % 10 == 0:
                    mine = mine + float(i)  # adds nodes while others run steps
                found = session.run({x: np.full(100, step, np.float32)}, mine)
                assert (found == 2 * step + i * (step // 10 + 1)).all()

        in_threads(8, run)


def test_threads_compute_at_once():
    def run(i):
        x = troupe.full((60 + i, 70), float(i))
        v = troupe.Variable(troupe.ones((70, 5)))
        for _ in range(20):
            with troupe.GradientTape() as tape:
                y = troupe.sum((x @ v) * 2)
            assert (tape.gradient(y, v).numpy() == 2 * i * (60 + i)).all()
        large = troupe.full((300, 300), 1.0)
        assert ((large @ large).numpy() == 300).all()

    in_threads(8, run)


def test_threads_trace_call_and_drop_functions_at_once():
    w = troupe.Variable(troupe.ones((4, 4)))
    shared = troupe.function(lambda x, k: troupe.sum(x @ w) * k)

    def run(i):
        for step in range(6 if not LONG else 200):
            own = troupe.function(lambda x: shared(x, i) + troupe.sum(x))
            x = troupe.full((step % 3 + 1, 4), float(i))
            with troupe.GradientTape() as tape:
                y = own(x)
            rows = step % 3 + 1
            assert float(y) == 16 * rows * i * i + 4 * rows * i
            assert (tape.gradient(y, w).numpy() == rows * i * i).all()
            assert float(shared(x, i)) == 16 * rows * i * i
            del own, tape, y

    in_threads(8, run)
    assert 24 <= shared.traces  # 8 keys, 3 shapes; nothing is traced twice but within the threads' own functions


def test_other_threads_run_python_beside_a_large_op():
    x = troupe.random.normal((700, 700))
    done, turns = threading.Event(), []

    def compute():
        y = x
        for _ in range(20):
            y = troupe.clip(y @ x, -1, 1)
        done.set()

    thread = threading.Thread(target=compute)
    thread.start()
    while not done.wait(0):
        turns.append(1)
        if len(turns) % 1000 == 0:
            float(troupe.tensor(1.0) + 1)  # waits for the device without the interpreter's lock
    thread.join()
    assert len(turns) > 1


def interrupted(program, lines=("KeyboardInterrupt", "2.0")):
    """Runs a program, sends it Ctrl-C when it prints "begins", and returns what it prints then."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    try:
        assert process.stdout.readline() == "begins\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 0, errors
    assert out.split() == list(lines), (out, errors)


def test_ctrl_c_ends_a_step():
    interrupted("""
import numpy as np, troupe
g = troupe.Graph()
x = g.placeholder("float32", [])
forever, = troupe.while_loop(lambda i: i >= 0, lambda i: (i * 1,), (x,))
double = x * 2
session = troupe.Session(g)
session.run({x: 1}, double)
try:
    print("begins", flush=True)
    session.run({x: 1}, forever)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
print(session.run({x: 1}, double))
""")


def test_ctrl_c_ends_a_loop_of_eager_mode():
    interrupted("""
import troupe
x = troupe.tensor(1.0)
try:
    print("begins", flush=True)
    troupe.while_loop(lambda i: i >= 0, lambda i: (i * 1,), (x,))
except KeyboardInterrupt:
    print("KeyboardInterrupt")
print((x + 1).item())
""")


# Says "begins" when the main thread lets go of the interpreter's lock for the step.
TRACED = """
import sys, threading, troupe
sys.setswitchinterval(100)
go = threading.Event()
threading.Thread(target=lambda: (go.wait(), print("begins", flush=True)), daemon=True).start()

@troupe.function
def forever(x):
    return troupe.while_loop(lambda i: i >= 0, lambda i: (i * 1,), (x,))[0]

{function}
x = troupe.tensor(1.0)
call(-x)  # traced, and compiled
try:
    go.set()
    call(x)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
print((x + 1).item())
"""

GRADIENT = """
w = troupe.Variable(1.0)

@troupe.custom_gradient
def endless(x):
    return x * 2, forever

f = troupe.function(lambda x: endless(x * w))

def call(factor):
    with troupe.GradientTape() as tape:
        y = f(troupe.tensor(1.0))
    tape.gradient(y, w, output_gradients=factor)
"""


@pytest.mark.parametrize("function", [
    "call = forever", "call = troupe.function(lambda x: troupe.cond(x == x, lambda: forever(x), lambda: x))", GRADIENT
], ids=["loop", "inside a branch", "gradient"])
def test_ctrl_c_ends_loops_of_traced_functions(function):
    interrupted(TRACED.format(function=function))


@pytest.mark.parametrize("call", ["square(x)", "x @ x", "session.run({p: x}, q)"], ids=["traced", "op", "session"])
def test_ctrl_c_ends_long_kernels_at_the_next_op(call):
    interrupted(f"""
import numpy as np, troupe
square = troupe.function(lambda x: x @ x)
x = troupe.ones((1200, 1200))
g = troupe.Graph()
p = g.placeholder("float32", [1200, 1200])
q = p @ p
session = troupe.Session(g)
square(x)
try:
    print("begins", flush=True)
    while True:
        {call}
except KeyboardInterrupt:
    print("KeyboardInterrupt")
print(float(square(troupe.ones((2, 2)))[0, 0]))
""")


def test_daemon_threads_that_compute_do_not_disturb_the_end():
    done = subprocess.run([sys.executable, "-c", """
import threading, troupe
x = troupe.ones((400, 400))
begun = threading.Event()
def run():
    while True:
        x @ x
        begun.set()
for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
begun.wait()
print("ends")
"""], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ends\n", done.stderr[-2000:]


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ops(n):
    a, b = troupe.ones((16, 16)), troupe.ones((16, 16))
    for _ in range(n):
        b = (a + b) * 0.5
    assert np.isfinite(b.numpy()).all()


def tapes(n):
    w, x = troupe.Variable(troupe.ones((8, 8))), troupe.ones((8, 8))
    for _ in range(n):
        with troupe.GradientTape() as tape:
            y = troupe.sum(x @ w)
        tape.gradient(y, w)


def arrays(n):
    given = np.ones((64, 64), np.float32)
    for _ in range(n):
        troupe.tensor(given).numpy()[0, 0]


def slices(n):
    x = troupe.ones((4, 4))
    for _ in range(n):
        x[1:, 0]
        x[[0, 1]]


def errors(n):
    a, b = troupe.ones(2), troupe.ones(3)
    for _ in range(n):
        try:
            a + b
        except ValueError:
            pass


def custom(n):
    @troupe.custom_gradient
    def f(x):
        return x * 2, lambda dy: dy * x

    for _ in range(n):
        troupe.value_and_grad(f)(3.0)


def updates(n):
    w = troupe.Variable(troupe.ones(10))
    optimizer = troupe.optimizers.Adam()
    for _ in range(n):
        optimizer.minimize(lambda: troupe.sum(w * w), [w])


def functions(n):
    w, x = troupe.Variable(troupe.ones((4, 4))), troupe.ones((4, 4))
    for i in range(n):
        f = troupe.function(lambda x, i=i: troupe.sum(x @ w) * i)
        assert float(f(x)) == 64 * i
        if i % 10 == 0:
            with troupe.GradientTape() as tape:
                y = f(x)
            tape.gradient(y, w)


def traces(n):
    w = troupe.Variable(troupe.ones((4, 4)))
    f = troupe.function(lambda x, i: troupe.sum(x @ w) * i, max_traces=4)
    for i in range(n):
        assert float(f(troupe.ones((4, 4)), i)) == 64 * i


def sparse(n):
    w = troupe.Variable(troupe.ones((100, 4)))
    optimizer = troupe.optimizers.Adam()
    for i in range(n):
        with troupe.GradientTape() as tape:
            y = troupe.sum(w[[i % 100, 3]])
        optimizer.apply_gradients([(tape.gradient(y, w), w)])


def traced_pipelines(n):
    for i in range(n):
        p = troupe.data.range(3).map(troupe.function(lambda x, i=i: x * i + troupe.random.uniform(())))
        assert len(list(p)) == 3


@pytest.mark.parametrize("work, times", [(ops, 10**6 if LONG else 40000), (tapes, 10**5 if LONG else 5000),
                                         (arrays, 10**5 if LONG else 10000), (slices, 10**5 if LONG else 8000),
                                         (errors, 10**5 if LONG else 5000), (custom, 10**5 if LONG else 3000),
                                         (updates, 10**5 if LONG else 3000),
                                         (functions, 10**4 if LONG else 300), (traces, 10**4 if LONG else 300),
                                         (sparse, 10**5 if LONG else 3000),
                                         (traced_pipelines, 10**4 if LONG else 300)])
def test_memory_stays(work, times):
    work(times // 10)
    gc.collect()
    before = resident()
    work(times)
    gc.collect()
    assert resident() - before < 2 << 20, f"{(resident() - before) / times:.0f} bytes each"
