#!/usr/bin/env python3
"""Runs what README.md shows, so that it stays true. Each fenced block has a name, which readers do not see:

    <!-- test: NAME -->
    ```sh

    readme.py cut README DIR                writes blocks of C++ (and what they print) for the build, DIR/NAME.cpp or .inc
    readme.py check README ROOT             every block is known, JSON is JSON, commands of ours are there
    readme.py run README BIN WORK GROUP     runs the commands of a group in WORK, with the programs in BIN

A new block: a mark in README, and its name in one of the tables below. Blocks of C++ are completed in readme_test.cpp.
"""
import doctest
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field

BLOCK = re.compile(r"(?:^<!-- test: (?P<name>[\w-]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

# Not run, and why.
SKIPPED = {
    "picture": "a drawing",
    "folders": "a drawing",
    "demo": "builds everything; CI runs tools/test.sh, and demo_output is compared",
    "build": "installs packages and builds everything, as CI does",
    "install": "tests/consumer installs it, and builds a project with it",
    "own_launch": "readme_own_task does it, with the program above; tests/consumer with one that is installed",
    "top": "needs a cluster that runs: tests/tools/top_cluster_test.cpp",
    "provenance_output": "numbers of one job: tests/apps/provenance_test.cpp",
    "trace": "needs a cluster that runs: tests/apps/trace_test.cpp",
}


@dataclass
class Command:
    """A block of commands, run as `bash -e` in build/release/bin of a directory of its own, with links to the programs."""

    group: str
    replace: list = field(default_factory=list)  # (text in the block, what is run): shorter jobs, free ports
    after: str = ""  # block whose directory it goes on in
    before: str = ""  # commands that make what the block takes as there
    text: str = ""  # run in the place of a block that is not commands
    prints: str = ""  # block that shows what it prints
    creates: list = field(default_factory=list)  # files that are there then
    says: str = "Test accuracy: "  # what is in its output


FEW = "--epochs 1 --digits 320,64"
COMMANDS = {
    "demo_output": Command("launch", text="troupe-launch --ps 2 --workers 2 -- troupe-mnist --mode sync --epochs 5 2>&1 "
                           "| sed 's/^.*worker[^ ]* //'", prints="demo_output"),
    "launch": Command("launch", [("--epochs 5", FEW)]),
    "checkpoints": Command("launch", [("--epochs 50", FEW), ("/tmp/digits", "digits")], creates=["digits"],
                           says='"event":"final"'),
    "checkpoints_local": Command("launch", [("--epochs 50", FEW), ("/tmp/digits", "digits")], creates=["digits"]),
    "allreduce": Command("launch", [("--epochs 5", FEW)]),
    "page": Command("launch", [("--epochs 50", FEW), ("--model cnn ", "")]),
    "by_hand": Command("hand", [("7701", "PORT"), ("7711", "PORT"), ("7712", "PORT"),
                                ("--mode sync --job", f"--mode sync {FEW} --job")]),
    "curves": Command("hand", [("--epochs 20", FEW), ("/tmp/curves", "curves"),
                               ("tensorboard --logdir", "# needs TensorBoard: tensorboard --logdir")], creates=["curves"]),
    "certificates": Command("hand", creates=["ca.pem", "task.pem", "task.key"], says=""),
    "tls": Command("hand", [("--job", f"{FEW} --job"), ("--task 0 --cluster cluster.json $TLS\n# on 10.0.0.2",
                                                         "--task 0 --cluster cluster.json $TLS &\n# on 10.0.0.2")],
                   after="certificates", before="""cat > cluster.json <<END
{"name": "digits", "token": "$(troupe-launch --make-token)", "ps": ["127.0.0.1:PORT"], "worker": ["127.0.0.1:PORT", "127.0.0.1:PORT"]}
END
chmod 600 cluster.json"""),
    "provenance": Command("hand", before="""command -v jq >/dev/null || jq() { cat >/dev/null; }  # where it is not installed
troupe-launch --ps 1 --workers 2 -- troupe-mnist --epochs 1 --digits 640,64 --provenance DIR""",
                          says='{"version":8,"applied":[{"worker":'),
}
TIMEOUT = 100  # seconds of a block

# Blocks of C++ in the place of which less is computed.
FEW_DIGITS = [("draw_digits()", "draw_digits({.train = 640, .test = 100})")]
SHORTER = {"program": FEW_DIGITS, "own_task": FEW_DIGITS}


def blocks(readme):
    """The fenced blocks in order: name ("" without a mark), language, text, line."""
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    return [(m["name"] or "", m["language"], m["text"], text.count("\n", 0, m.start("text")) + 1) for m in BLOCK.finditer(text)]


def cut(readme, directory):
    shutil.rmtree(directory, ignore_errors=True)  # blocks that are gone
    os.makedirs(directory)

    def write(name, text):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    for name, language, text, line in blocks(readme):
        for old, new in SHORTER.get(name, []):
            if old not in text:
                sys.exit(f"{readme}:{line}: block '{name}' has no '{old}' any more: see SHORTER in {__file__}")
            text = text.replace(old, new)
        if language == "cpp":
            whole = re.search(r"\bint main\(", text)
            write(f"{name}.{'cpp' if whole else 'inc'}", f'#line {line} "README.md"\n{text}')
        elif language == "text":
            write(f"{name}.inc", f'R"({text})"\n')


def check(readme, root):
    problems = ["the runner itself is broken: see above"] if doctest.testmod().failed else []
    with open(os.path.join(os.path.dirname(__file__), "readme_test.cpp"), encoding="utf-8") as file:
        tested = set(re.findall(r'#include <readme/(\w+)\.inc>', file.read())) | {"program", "own_task"}
    with open(os.path.join(root, "tests/consumer/CMakeLists.txt"), encoding="utf-8") as file:
        consumer = file.read()
    seen = []
    for name, language, text, line in blocks(readme):
        where = f"{readme}:{line}: block '{name}' of {language or 'text'}"
        if not name:
            problems.append(f"{readme}:{line}: a block without a name: write <!-- test: NAME --> above it (tests/docs/readme.py)")
            continue
        seen.append(name)
        if name not in SKIPPED and name not in COMMANDS and name not in tested and language not in ("json", "cmake"):
            problems.append(f"{where} is neither run nor skipped: add it to a table of tests/docs/readme.py or to readme_test.cpp")
        if language == "json":
            try:
                json.loads(text)
            except ValueError as error:
                problems.append(f"{where} is not JSON: {error}")
        if language == "cmake":
            for command in text.replace("my_program", "consumer").splitlines():
                if command not in consumer:
                    problems.append(f"{where}: tests/consumer/CMakeLists.txt does not say '{command}'")
        if language == "sh":
            problems += [f"{where}: there is no {script}" for script in re.findall(r"\btools/[\w.-]+", text)
                         if not os.path.exists(os.path.join(root, script))]
    for name in sorted((set(SKIPPED) | set(COMMANDS) | tested) - set(seen)):
        problems.append(f"{readme}: there is no block '{name}' any more: take it out of tests/docs")
    problems += [f"{readme}: two blocks are named '{name}'" for name in sorted({n for n in seen if seen.count(n) > 1})]
    sys.exit("\n".join(problems) or None)


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
HASH = re.compile(r"\b[0-9a-f]{16,}\b")
TIMED = re.compile(r"^ ?(?:images|steps|s\b|ms\b)")  # units of what differs from run to run


def same_line(shown, printed):
    """Are they equal, but for hashes and times, and 2 % of other numbers? "..." is any text.

    >>> same_line("loss 0.950, 21409 images/s", "loss 0.951, 99999 images/s")
    True
    >>> same_line("loss 0.950", "loss 0.850"), same_line("loss 0.950", "cost 0.950"), same_line("at ... s", "at 1 and 2 s")
    (False, False, True)
    """
    shown, printed = HASH.sub("HASH", shown.strip()), HASH.sub("HASH", printed.strip())
    if "..." in shown:
        return re.fullmatch(".*".join(re.escape(part) for part in shown.split("...")), printed) is not None
    if NUMBER.sub("N", shown) != NUMBER.sub("N", printed):
        return False
    for a, b in zip(NUMBER.finditer(shown), NUMBER.finditer(printed)):
        x, y = (float(m[0].replace(",", "")) for m in (a, b))
        if not TIMED.match(shown[a.end():]) and abs(x - y) > 0.02 * abs(x):
            return False
    return True


def difference(shown, printed):
    """The first line of `shown` that `printed` does not have in this order; any lines may come before the first, and at "…".

    >>> difference("a 1\\n…\\nc 3", "zero\\na 1\\nb\\nb\\nc 3\\nd")
    >>> difference("a\\nc", "a\\nb\\nc")
    'c'
    """
    left = [line for line in printed.splitlines() if line.strip()]
    anywhere = True
    for line in shown.splitlines():
        if line.strip() in ("…", "..."):
            anywhere = True
            continue
        while anywhere and left and not same_line(line, left[0]):
            left.pop(0)
        if not left or not same_line(line, left[0]):
            return line
        left.pop(0)
        anywhere = False
    return None


class Runner:
    def __init__(self, readme, programs, work):
        self.blocks = {name: text for name, _, text, _ in blocks(readme)}
        self.work = os.path.abspath(work)
        self.programs = os.path.abspath(programs)
        self.ports = []

    def free_port(self, _):
        while True:
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                port = listener.getsockname()[1]
            if port not in self.ports:
                self.ports.append(port)
                return str(port)

    def directory(self, name):
        place = os.path.join(self.work, COMMANDS[name].after or name)
        folder = os.path.join(place, "build/release/bin")
        if not COMMANDS[name].after:
            shutil.rmtree(place, ignore_errors=True)
            os.makedirs(folder)
            for program in os.listdir(self.programs):
                if program.startswith("troupe-"):
                    os.symlink(os.path.join(self.programs, program), os.path.join(folder, program))
        return place, folder

    def run(self, name):
        """What is wrong with the block, or None."""
        command = COMMANDS[name]
        text = command.text or self.blocks[name]
        for old, new in command.replace:
            if old not in text:
                return f"it has no '{old}' any more: see COMMANDS in {__file__}"
            text = text.replace(old, new)
        place, folder = self.directory(name)
        # The launcher's and the program's own output alike; tasks that were started with & end with the job.
        text = re.sub("PORT", self.free_port, f"{command.before}\n{text}\nwait")
        at = place if "cd build/release/bin" in text else folder
        env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
        process = subprocess.Popen(["bash", "-eo", "pipefail", "-c", text], cwd=at, env=env, text=True, errors="replace",
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            printed, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return f"it has not ended in {TIMEOUT} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what has been left behind
            except ProcessLookupError:
                pass
        end = "\n    ".join([""] + printed.splitlines()[-12:])
        if process.returncode != 0:
            return f"it ended with {process.returncode}:{end}"
        for file in command.creates:
            if not os.path.exists(os.path.join(folder, file)):
                return f"it has made no '{file}':{end}"
        if command.says not in printed:
            return f"it does not print '{command.says}':{end}"
        if command.prints:
            line = difference(self.blocks[command.prints], printed)
            if line is not None:
                return f"it does not print '{line}':{end}"
        return None


def run(readme, programs, work, group):
    runner = Runner(readme, programs, work)
    failed = False
    for name in (n for n, c in COMMANDS.items() if c.group == group):
        problem = runner.run(name)
        print(f"{name}: {problem or 'ok'}", flush=True)
        failed = failed or problem is not None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    actions = {"cut": cut, "check": check, "run": run}
    if len(sys.argv) < 4 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]](*sys.argv[2:])
