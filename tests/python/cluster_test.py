"""Clusters of scripts: python -m troupe.launch, Cluster."""

import doctest
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import troupe.cluster
import troupe.launch

BEGIN = """
import os, sys
import numpy as np, troupe
cluster = troupe.Cluster.from_environment(threads=1)
"""


@pytest.fixture
def start(tmp_path):
    """Starts a script as a cluster; all its processes have ended after the test."""
    started = []

    def launch(options, script, *arguments):
        (tmp_path / "train.py").write_text(BEGIN + script)
        command = [sys.executable, "-m", "troupe.launch", *options, str(tmp_path / "train.py"), *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield launch
    for process in started:
        process.kill()  # the launcher's tasks end with it
        process.wait()


def end_of(process):
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


def test_examples_of_the_documentation():
    assert doctest.testmod(troupe.cluster).failed == 0
    assert doctest.testmod(troupe.launch).failed == 0


def test_a_script_is_every_task(start):
    code, out, errors = end_of(start(["--ps", "1", "--workers", "2"], """
print(cluster.name, sys.argv[1:], {job: len(a) for job, a in cluster.addresses.items()}, flush=True)
if cluster.job == "ps":
    cluster.serve()
    sys.exit(0)
group = cluster.group()
print(group.rank, group.ranks, group.all_reduce(np.array([1.0, cluster.index])).tolist(), flush=True)
print([int(a) for a in group.all_gather(np.int32(cluster.index))], float(group.broadcast(np.float64(cluster.index), 1)))
if cluster.is_chief:
    assert cluster.wait_for("ps", 0, 10)
    g = troupe.Graph()
    x = g.placeholder("f32", [None, 2])
    with g.device("/job:ps/task:0"):
        y = g.op("MatMul", [x, np.ones((2, 2), np.float32)])
    with troupe.Session(g, cluster=cluster) as session:
        print(session.run({x: np.ones((1, 2), np.float32)}, y).tolist(), flush=True)
group.barrier()
""", "--epochs", "5"))
    assert code == 0, errors
    assert out.splitlines() == ["/job:worker/task:0 ['--epochs', '5'] {'ps': 1, 'worker': 2}", "0 2 [2.0, 1.0]",
                                "[0, 1] 1.0", "[[2.0, 2.0]]"]
    assert "[ps/0] /job:ps/task:0 ['--epochs', '5']" in errors and "[worker/1] 1 2 [2.0, 1.0]" in errors


def test_a_queue_outlives_a_task_that_is_killed_and_keeps_what_that_had_taken(start):
    code, out, errors = end_of(start(["--ps", "1", "--workers", "2", "--grace", "5"], """
import signal, threading
if cluster.job == "ps":
    cluster.serve()
    sys.exit(0)
cluster.wait_for("ps", 0, 30)
g = troupe.Graph()
x = g.placeholder("int64", [])
with g.device("/job:ps/task:0"):
    numbers = troupe.queue.FIFOQueue(3, "int64", shapes=[[]], name="numbers", graph=g)
    ready = troupe.queue.FIFOQueue(3, "int64", shapes=[[]], name="ready", graph=g)
    orders = troupe.queue.FIFOQueue(3, "int64", shapes=[[]], name="orders", graph=g)
put, take, size, five = numbers.enqueue(x), numbers.dequeue(), numbers.size(), numbers.dequeue_many(5)
order, await_order, all_there, await_all = orders.enqueue(x), orders.dequeue(), ready.enqueue(x), ready.dequeue()
session = troupe.Session(g, cluster=cluster, container="shared")
if not cluster.is_chief:
    for i in range(5):  # the chief takes two of them, or there would be no room
        session.run({x: i}, targets=[put])
    session.run({x: 1}, targets=[all_there])
    threading.Thread(target=lambda: session.run(fetches=five), daemon=True).start()
    session.run(fetches=await_order)
    os.kill(os.getpid(), signal.SIGKILL)
print([int(session.run(fetches=take)) for _ in range(2)])
session.run(fetches=await_all)
while session.run(fetches=size) > 0:
    pass  # the other task takes them, and waits for two more
for _ in range(2):
    with troupe.Session(g, cluster=cluster, container="other") as other:
        other.run({x: 7}, targets=[put])
        print(int(other.run(fetches=size)))
    cluster.reset_container("other")
session.run({x: 1}, targets=[order])
print([int(session.run(fetches=take)) for _ in range(3)], int(session.run(fetches=size)), flush=True)
"""))
    assert out.splitlines() == ["[0, 1]", "1", "1", "[2, 3, 4] 0"], errors


@pytest.mark.parametrize("options, mode", [
    (["--workers", "2"], ""), (["--ps", "1", "--workers", "2"], ""),
    (["--ps", "1", "--workers", "2"], "async(staleness_aware=true)"),
    (["--ps", "1", "--workers", "2"], "ssp(slots=2)")],
    ids=["allreduce", "sync", "async", "ssp"])
def test_models_of_keras_train_on_the_cluster(start, options, mode):
    code, out, errors = end_of(start([*options, "--grace", "5"], """
from troupe import keras
x = np.random.default_rng(3).random((64, 3), np.float32)
model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
model.fit(x, x @ np.float32([[1], [-2], [3]]), epochs=60, batch_size=8, verbose=0, mode="MODE")
if cluster.is_chief:
    print(np.abs(model.get_weights()[0].reshape(-1) - [1, -2, 3]).max() < 0.5)
""".replace("MODE", mode)))
    assert (code, out) == (0, "True\n"), errors


def test_synchronous_training_of_keras_has_the_bits_of_one_process(start):
    training = """
import hashlib
from troupe import keras
keras.utils.set_random_seed(5)
x = np.random.default_rng(3).random((64, 3), np.float32)
model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, x @ np.float32([[1], [-2], [3]]), epochs=3, batch_size=8, verbose=0, MODE)
digest = hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()
"""
    found = {}
    exec("import numpy as np" + training.replace("MODE", "slots=2"), found)  # noqa: S102
    code, out, errors = end_of(start(["--ps", "2", "--workers", "2", "--grace", "5"], training.replace(
        "MODE", "mode='sync(slots=2)'") + "if cluster.is_chief: print(digest)\n"))
    assert (code, out) == (0, found["digest"] + "\n"), errors


def test_input_tasks_make_the_elements_of_traced_functions(start):
    script = """
from troupe import data, keras

@troupe.function
def noisy(e):
    return {**e, "x": e["x"] + troupe.random.uniform((3,))}

x = np.random.default_rng(3).random((64, 3), np.float32)
points = data.from_tensors({"x": x, "y": x @ np.float32([[1], [-2], [3]])}).map(noisy, seed=3).shuffle(5).batch(8)
model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
model.compile(optimizer=keras.optimizers.SGD(0.3), loss="mse")
model.fit(points, epochs=3, verbose=0)
"""
    code, out, errors = end_of(start(["--ps", "1", "--workers", "1", "--inputs", "1", "--grace", "5"],
                                     script + "if cluster.is_chief: print(model.get_weights()[0].tobytes().hex())"))
    names = {"np": np, "troupe": troupe}
    exec(script, names)  # in this process
    assert (code, out) == (0, names["model"].get_weights()[0].tobytes().hex() + "\n"), errors


def test_the_error_of_the_chief_ends_all(start):
    code, _, errors = end_of(start(["--ps", "1", "--workers", "2", "--grace", "0.2"], """
if cluster.is_chief:
    raise ValueError("no data")
cluster.wait_for("worker", 9)  # that never comes
"""))
    assert code == 1 and "ValueError: no data" in errors


def test_ctrl_c_ends_all(start):
    process = start(["--workers", "2"], """
print(os.getpid(), flush=True)
cluster.wait_for("worker", 9)
""")
    chief = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    code, _, errors = end_of(process)
    assert code == 130 and "KeyboardInterrupt" in errors
    assert not pathlib.Path(f"/proc/{chief}").exists()


def test_a_process_is_one_task():
    with troupe.Cluster.from_environment(arguments=["train.py"]) as cluster:
        assert (cluster.job, cluster.index, cluster.is_chief, cluster.addresses) == ("local", 0, True, {})
        with pytest.raises(troupe.Error, match="a task of a cluster already"):
            troupe.Cluster.from_environment(arguments=["train.py"])
    with pytest.raises(troupe.Error, match="the task is closed"):
        cluster.name


def test_options_of_the_task_are_taken_off_the_arguments():
    arguments = ["train.py", "--introspect-port", "0", "--epochs", "5"]
    with troupe.Cluster.from_environment(arguments=arguments):
        assert arguments == ["train.py", "--epochs", "5"]
    with pytest.raises(troupe.Error, match="cluster"):
        troupe.Cluster.from_environment(arguments=["train.py", "--job", "ps", "--task", "0"])


def test_the_launcher_gets_its_options_and_the_interpreter_the_script():
    launcher, *line = troupe.launch.command(["--ps=2", "--fail-fast", "--workers", "2", "-m", "train", "--ps", "9"])
    assert os.access(launcher, os.X_OK)
    assert line == ["--ps=2", "--fail-fast", "--workers", "2", "--", sys.executable, "-m", "train", "--ps", "9"]
