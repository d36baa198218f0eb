"""Processes made by fork() and spawn."""

import os
import signal
import subprocess
import sys

BEGIN = """
import multiprocessing, os, sys
import numpy as np, troupe

def product():
    g = troupe.Graph()
    x = g.placeholder("f32", [300, 300])
    y = g.op("MatMul", [x, x])
    return troupe.Session(g), x, y

def run(session, x, y):
    return session.run({x: np.ones((300, 300), np.float32)}, y)

def checked(label, function):
    try:
        function()
    except troupe.Error as error:
        print(label, error.code, "spawn" in str(error), flush=True)
    else:
        print(label, "ran", flush=True)
"""


def printed(*command):
    """Ends children that hang, too."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        out, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    assert process.returncode == 0, errors
    return out.splitlines()


def test_a_forked_child_gets_errors_and_ends():
    assert printed("-c", BEGIN + """
session, x, y = product()
run(session, x, y)
elements = troupe.data.range(10**6).iterate(threads=2)
next(elements)
child = os.fork()
if child == 0:
    checked("old session", lambda: run(session, x, y))
    checked("new session", product)
    checked("old loop", lambda: next(elements))
    checked("loop in place", lambda: list(troupe.data.range(3).iterate(threads=0)))
    session.close()
    sys.exit(7)  # also lets go of all objects
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
checked("parent", lambda: run(session, x, y))
""") == ["old session failed_precondition True", "new session failed_precondition True",
         "old loop failed_precondition True", "loop in place ran", "child ended with 7", "parent ran"]


def test_children_may_use_it_if_the_parent_has_not():
    assert printed("-c", BEGIN + """
child = os.fork()
if child == 0:
    checked("child", lambda: run(*product()))
    sys.exit(0)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
checked("parent", lambda: run(*product()))
""") == ["child ran", "child ended with 0", "parent ran"]


def test_spawned_processes_compute(tmp_path):
    program = tmp_path / "spawn.py"
    program.write_text(BEGIN + """
def total(n):
    return float(run(*product())[0, 0]) + n

if __name__ == "__main__":
    run(*product())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(total, [1, 2]))
""")
    assert printed(program) == ["[301.0, 302.0]"]
