#!/usr/bin/env python3
"""cluster.py LAUNCHER PROGRAM cluster: `PROGRAM cluster` prints the same parameters by itself and as the tasks of a
cluster.
cluster.py LAUNCHER PROGRAM clients: two clients, one after the other, share a variable of `PROGRAM node`, which ends in
order when it is asked to."""
import re
import signal
import subprocess
import sys

launcher, program, what = sys.argv[1:]
SECONDS = 100


def parameters(*before):
    command = [*before, program, "cluster"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    found = re.findall(r"parameters ([0-9a-f]{64})", done.stdout)
    if done.returncode != 0 or len(found) != 1:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return found[0]


def cluster():
    alone = parameters()
    together = parameters(launcher, "--ps", "1", "--workers", "2", "--")
    sys.exit(None if alone == together else f"{alone} alone, {together} on a cluster")


def clients():
    with subprocess.Popen([launcher, "--workers", "1", "--", program, "node"], stderr=subprocess.PIPE,
                          text=True) as node:
        try:
            said = []
            for line in node.stderr:
                said.append(line)
                file = re.search(r"--cluster (\S+)", line)
                if file:
                    break
            else:
                sys.exit(f"the node has ended:\n{''.join(said)}")
            for count in ("2", "3"):
                subprocess.run([program, "client", file[1], count], timeout=SECONDS, check=True)
            node.send_signal(signal.SIGTERM)
            rest = node.communicate(timeout=SECONDS)[1]
            # The launcher says how a task ended that did not end with 0.
            if node.returncode != 128 + signal.SIGTERM or "ended with" in rest:
                sys.exit(f"the launcher ended with {node.returncode}:\n{''.join(said)}{rest}")
        finally:
            node.kill()


{"cluster": cluster, "clients": clients}[what]()
