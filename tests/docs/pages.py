#!/usr/bin/env python3
"""Runs what README.md, docs/start and docs/guide show, so that it stays true. Each fenced block there has a name, which
readers do not see:

    <!-- test: NAME -->
    ```sh

    pages.py cut ROOT DIR                writes blocks of C++ (and what they print) for the build, DIR/NAME.cpp or .inc
    pages.py check ROOT                  every block is known, JSON is JSON, commands of ours exist; no link of any page
                                         is broken, README.md is short and leads everywhere, CONTRIBUTING.md names real
                                         files
    pages.py output ROOT NAME PROGRAM    runs the program of block NAME, and compares its output with NAME_output
    pages.py run ROOT BIN WORK GROUP     runs the commands of a group in WORK, with the programs in BIN

A new block: a mark above it, and its name in a table below. Blocks of C++ are completed in pages_test.cpp.
"""
import doctest
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field

BLOCK = re.compile(r"(?:^<!-- test: (?P<name>[\w-]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
                   re.MULTILINE | re.DOTALL)

# Not run, and why.
SKIPPED = {
    "saving_layout": "a list of files: tests/actors/model/saved_model_test.cpp",
    "data_files_output": "what data_files prints, which is compared",
    "picture": "a drawing",
    "demo": "builds everything; CI runs tools/test.sh, and demo_output is compared",
    "c_build": "tests/consumer builds a program in C like that",
    "build": "installs packages and builds everything, as CI does",
    "install": "tests/consumer installs it, and builds a project with it",
    "op_library_cluster": "tests/consumer does it",
    "op_library_error": "tests/actors/plugins/op_libraries_test.cpp",
    "own_launch": "pages_own_task does it, with the program above; tests/consumer with one that is installed",
    "python_cluster_launch": "tests/python/guide_test.py does it, with the script above",
    "python_install": "installs packages and builds the wheel",
    "top": "needs a cluster that runs: tests/tools/top_cluster_test.cpp",
    "provenance_output": "numbers of one job: tests/apps/provenance_test.cpp",
    "recommend_data": "a line of a file",
    "sentence_encoder": "needs weights: tests/python/sentence_encoder_test.py runs it with random ones",
    "tags_data": "a line of a file",
    "tensorflow_export": "needs TensorFlow: tests/actors/model/tensorflow_model_test.cpp",
    "tensorflow_loaded": "needs TensorFlow: tests/actors/model/tensorflow_export_test.cpp",
    "trace": "needs a cluster that runs: tests/apps/trace_test.cpp",
}


@dataclass
class Command:
    """A block of commands: `bash -e` runs it in build/release/bin of a directory of its own, with the programs."""

    group: str
    replace: list = field(default_factory=list)  # (text in the block, what is run): shorter jobs, free ports
    after: str = ""  # block whose directory it goes on in
    before: str = ""  # commands that make what the block takes as there
    text: str = ""  # run in the place of a block that is not commands
    prints: str = ""  # block that shows what it prints
    creates: list = field(default_factory=list)  # files that are there then
    says: str = "Test accuracy: "  # what is in its output


FEW = "--epochs 1 --digits 320,64"
SERVE = "digits=models/digits --rest-port $P --no-grpc"
PACKAGES = """mkdir packages
for i in $(seq 80); do
  printf 'game%s\\ta game\\tis::game\\nfont%s\\ta font\\tis::font\\n' $i $i
done > packages/train.tsv
cp packages/train.tsv packages/test.tsv
for i in $(seq 200); do printf 'game%s\\tlibc libgame\\nfont%s\\tlibc libfont\\n' $i $i; done > packages/depends.tsv"""
# A model of the tests of ONNX whose input 0 takes 4 examples at a time, and 8 examples.
SCORES = """cp /usr/share/libonnx-testdata/data/pytorch-converted/test_Linear/model.onnx scores
seq -s, -f '0_%g' 0 9 > points.csv
for i in $(seq 8); do seq -s, $i $((i + 9)) >> points.csv; done"""
COMMANDS = {
    "demo_output": Command("launch", prints="demo_output", text="troupe-launch --ps 2 --workers 2 -- troupe-mnist "
                           "--mode sync --epochs 5 2>&1 | sed 's/^.*worker[^ ]* //'"),
    "launch": Command("launch", [("--epochs 5", FEW), ("/tmp/digits", "digits")], creates=["digits"]),
    "first_mnist": Command("launch", [("--epochs 5", FEW)]),
    "first_cluster": Command("launch", [("--epochs 5", FEW)]),
    "checkpoints": Command("launch", [("--epochs 50", FEW), ("/tmp/digits", "digits")], creates=["digits"],
                           says='"event":"final"'),
    "checkpoints_local": Command("launch", [("--epochs 50", FEW), ("/tmp/digits", "digits")], creates=["digits"]),
    "allreduce": Command("launch", [("--epochs 5", FEW)]),
    "inputs": Command("launch", [("--epochs 1", FEW)]),
    "page": Command("launch", [("--epochs 50", FEW), ("--model cnn ", "")]),
    "by_hand": Command("hand", [("7701", "PORT"), ("7711", "PORT"), ("7712", "PORT"),
                                ("--mode sync --job", f"--mode sync {FEW} --job")]),
    "curves": Command("hand", [("--epochs 20", FEW), ("/tmp/curves", "curves"),
                               ("tensorboard --logdir", "# not installed: tensorboard --logdir")],
                      creates=["curves"]),
    "certificates": Command("hand", creates=["ca.pem", "task.pem", "task.key"], says=""),
    "tls": Command("hand", [("--job", f"{FEW} --job"), ("$TLS\n# on 10.0.0.2", "$TLS &\n# on 10.0.0.2")],
                   after="certificates", before="""cat > cluster.json <<END
{"name": "digits", "token": "$(troupe-launch --make-token)", "ps": ["127.0.0.1:PORT"],
 "worker": ["127.0.0.1:PORT", "127.0.0.1:PORT"]}
END
chmod 600 cluster.json"""),
    "first_served": Command("hand", [("--epochs 5", FEW), ("digits=models/digits", SERVE), (":8501", ":$P")],
                            before="P=PORT", creates=["models/digits/1/model.pb"], says='"predictions"'),
    "serve": Command("hand", [("digits=models/digits", SERVE), (":8501", ":$P")], after="first_served", before="P=PORT",
                     says='"state":"AVAILABLE"'),
    "serve_shared": Command("hand", [("digits=models/digits", SERVE), ("localhost:8501", "localhost:$P"),
                                     ("--rest-port 8601 --grpc-port 8600", "--rest-port $Q --no-grpc"),
                                     ("localhost:8601", "localhost:$Q")], after="first_served", before="P=PORT Q=PORT",
                            says='"state":"AVAILABLE"'),
    "serve_cluster": Command("hand", [("digits=models/digits", SERVE), (":8501", ":$P")], after="first_served",
                             before="P=PORT", says='{"ready":true}'),
    "publish": Command("hand", [("--epochs 5 --publish", f"{FEW} --publish"), ("--epochs 5 --seed", f"{FEW} --seed"),
                                ("stable - 0.05", "stable - 1")],
                       says="version 2 of models/digits is rejected, version 1"),
    "onnx": Command("hand", creates=["again.onnx"], says=""),
    "other_models": Command("hand", creates=["mm/model.pb", "mm.onnx", "served/1/saved_model.pb"], says="examples/s"),
    "batch_cluster": Command("hand", [("7711", "PORT"), ("7712", "PORT"), ("--batch 2", "--batch 4")], before=SCORES,
                             creates=["scores.npz"], says="8 examples in 2 batches"),
    "data_files": Command("hand", before="""cat > points.csv <<END
x_0,x_1,label
1.5,-2.5,3
0.25,0,4
3,7,5
END""", prints="data_files_output", creates=["points.npz", "points.tfrecord.gz"], says=""),
    "tags": Command("launch", [("--epochs 5", "--epochs 2")], before=PACKAGES, says="Micro-F1: "),
    "tags_encoder": Command("launch", [("--weights all-MiniLM-L6-v2", "--layers 1 --features 16 --heads 2 --batch 2")],
                            before=PACKAGES, says="Micro-F1: "),
    "tags_cluster": Command("launch", [("--epochs 5", "--epochs 2")], before=PACKAGES, says="Micro-F1: "),
    "language": Command("launch", [("--epochs 3", "--epochs 1 --batch 4")], before=PACKAGES,
                        says="Bits per character: "),
    "recommend": Command("launch", [("--epochs 3", "--epochs 1")], before=PACKAGES, says="Recall at 20: "),
    "recommend_cluster": Command("launch", [("--epochs 3", "--epochs 1")], before=PACKAGES, says="Recall at 20: "),
    "provenance": Command("hand", before="""command -v jq >/dev/null || jq() { cat >/dev/null; }
troupe-launch --ps 1 --workers 2 -- troupe-mnist --epochs 1 --digits 640,64 --provenance DIR""",
                          says='{"version":8,"applied":[{"worker":'),
}
TIMEOUT = 100  # seconds of a block

# Blocks of C++ in the place of which less is computed.
FEW_DIGITS = [("draw_digits()", "draw_digits({.train = 640, .test = 100})")]
SHORTER = {"program": FEW_DIGITS, "own_task": FEW_DIGITS}
PROGRAMS = ("program", "own_task")  # whole ones
PYTHON = "python_"  # names of blocks that tests/python/guide_test.py runs


@dataclass
class Block:
    """A fenced block: name ("" without a mark), language, text, and where it is."""

    name: str
    language: str
    text: str
    page: str
    line: int

    def __str__(self):
        return f"{self.page}:{self.line}: block '{self.name}' of {self.language or 'text'}"


def read(root, page):
    with open(os.path.join(root, page), encoding="utf-8") as file:
        return file.read()


def markdown(root, folder=""):
    """The pages of the repository, by their paths from its root."""
    top = [file for file in os.listdir(root) if file.endswith(".md")] if not folder else []
    below = [os.path.relpath(os.path.join(place, file), root)
             for place, _, files in os.walk(os.path.join(root, folder or "docs")) for file in files]
    return sorted(top + [path for path in below if path.endswith(".md")])


def tested_pages(root):
    """The pages whose blocks are all run, or skipped by name."""
    return ["README.md", "docs/reference/cluster-file.md"] + markdown(root, "docs/start") + markdown(root, "docs/guide")


def blocks(root):
    found = []
    for page in tested_pages(root):
        text = read(root, page)
        found += [Block(m["name"] or "", m["language"], m["text"], page, text.count("\n", 0, m.start("text")) + 1)
                  for m in BLOCK.finditer(text)]
    return found


def cut(root, directory):
    shutil.rmtree(directory, ignore_errors=True)  # blocks that are gone
    os.makedirs(directory)

    def write(name, text):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    for block in blocks(root):
        text = block.text
        for old, new in SHORTER.get(block.name, []):
            if old not in text:
                sys.exit(f"{block} has no '{old}' any more: see SHORTER in {__file__}")
            text = text.replace(old, new)
        if block.language == "cpp":
            whole = re.search(r"\bint main\(", text)
            write(f"{block.name}.{'cpp' if whole else 'inc'}", f'#line {block.line} "{block.page}"\n{text}')
        elif block.language == "c":
            write(f"{block.name}.c", f'#line {block.line} "{block.page}"\n{block.text}')
        elif block.language in ("text", "json"):
            write(f"{block.name}.inc", f'R"({text})"\n')


def block_problems(root):
    tested = set(PROGRAMS)
    for source in ("pages_test.cpp", "training_pages_test.cpp", "op_library_page.cpp"):
        tested |= set(re.findall(r"#include <pages/(\w+)\.inc>", read(os.path.dirname(__file__), source)))
    programs_in_c = re.search(r"set\(c_programs ([^)]*)\)", read(os.path.dirname(__file__), "CMakeLists.txt"))[1]
    tested |= {name + end for name in programs_in_c.split() for end in ("", "_output")}
    consumer = read(root, "tests/consumer/CMakeLists.txt") + read(root, "apps/examples/op_library/CMakeLists.txt")
    problems, seen = [], []
    for block in blocks(root):
        if not block.name:
            problems.append(f"{block}: no name: write <!-- test: NAME --> above it (tests/docs/pages.py)")
            continue
        seen.append(block.name)
        if block.name.startswith(PYTHON) and block.language in ("python", "text"):
            continue
        known = set(SKIPPED) | set(COMMANDS) | tested
        if block.name not in known and block.language not in ("json", "cmake"):
            problems.append(f"{block} is neither run nor skipped: add it to a table of pages.py or to pages_test.cpp")
        if block.language == "json":
            try:
                json.loads(block.text)
            except ValueError as error:
                problems.append(f"{block} is not JSON: {error}")
        if block.language == "cmake":
            lines = block.text.replace("my_program", "consumer").splitlines()
            problems += [f"{block}: tests/consumer/CMakeLists.txt does not say '{command}'"
                         for command in lines if command not in consumer]
        if block.language == "sh":
            problems += [f"{block}: there is no {script}" for script in re.findall(r"\btools/[\w.-]+", block.text)
                         if not os.path.exists(os.path.join(root, script))]
    problems += [f"there is no block '{name}' any more: take it out of tests/docs"
                 for name in sorted((set(SKIPPED) | set(COMMANDS) | tested) - set(seen))]
    return problems + [f"two blocks are named '{name}'" for name in sorted({n for n in seen if seen.count(n) > 1})]


LINK = re.compile(r"!?\[[^\]]*\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(text):
    """As GitHub names headings.

    >>> sorted(anchors("# The `wire`, again\\n## A b\\n"))
    ['a-b', 'the-wire-again']
    """
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)}


def links(page, text):
    """What a page links to: (path from the root, anchor or None).

    >>> links("docs/a/b.md", "[x](../c.md#d) ![y](z.png) [w](#e) [v](https://f)")
    [('docs/c.md', 'd'), ('docs/a/z.png', None), ('docs/a/b.md', 'e')]
    """
    return [(os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page, anchor or None)
            for path, anchor in LINK.findall(FENCE.sub("", text))]


def link_problems(root):
    problems = []
    for page in markdown(root):
        for path, anchor in links(page, read(root, page)):
            if not os.path.exists(os.path.join(root, path)):
                problems.append(f"{page}: a link to {path}, which does not exist")
            elif anchor and anchor not in anchors(read(root, path)):
                problems.append(f"{page}: a link to {path}#{anchor}, and there is no such heading")
    return problems


def reach_problems(root, clicks=2):
    reached = near = {"README.md"}
    for _ in range(clicks):
        near = {path for page in near for path, _ in links(page, read(root, page)) if path.endswith(".md")}
        near = {path for path in near if os.path.exists(os.path.join(root, path))}
        reached = reached | near
    return [f"{page} is more than {clicks} clicks from README.md: link to it from docs/README.md"
            for page in markdown(root) if page not in reached]


README_LINES = 150


def length_problems(root):
    lines = read(root, "README.md").count("\n")
    if lines <= README_LINES:
        return []
    return [f"README.md has {lines} lines, more than {README_LINES}: move something to docs"]


def contributing_problems(root):
    """CONTRIBUTING.md says where to add things: the files that its tables name exist."""
    problems = []
    for row in re.findall(r"^\|.*\|$", read(root, "CONTRIBUTING.md"), re.MULTILINE):
        for path in re.findall(r"`([\w./*-]+/[\w./*-]*)`", row):
            if not glob.glob(os.path.join(root, path)):
                problems.append(f"CONTRIBUTING.md: there is no {path}, in the row {row[:60]}...")
    return problems


def check(root):
    problems = ["the runner itself is broken: see above"] if doctest.testmod().failed else []
    for find in (block_problems, link_problems, reach_problems, length_problems, contributing_problems):
        problems += find(root)
    sys.exit("\n".join(problems) or None)


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
HASH = re.compile(r"\b[0-9a-f]{16,}\b")
TIMED = re.compile(r"^ ?(?:images|examples|steps|s\b|ms\b)")  # units of what differs from run to run


def same_line(shown, printed):
    """Are they equal, but for hashes and times, and 2 % of other numbers? "..." is any text.

    >>> same_line("loss 0.950, 21409 images/s", "loss 0.951, 99999 images/s")
    True
    >>> same_line("loss 0.950", "loss 0.850"), same_line("loss 0.950", "cost 0.950")
    (False, False)
    >>> same_line("at ... s", "at 1 and 2 s")
    True
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
    """The first line of `shown` that `printed` lacks in this order. Any lines may come before the first, and at "…".

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
    def __init__(self, root, programs, work):
        self.blocks = {block.name: block.text for block in blocks(root)}
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
        process = subprocess.Popen(["bash", "-eo", "pipefail", "-c", text], cwd=at, env=env, text=True,
                                   errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
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


def output(root, name, program):
    shown = {block.name: block.text for block in blocks(root)}[name + "_output"]
    done = subprocess.run([program], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    line = difference(shown, done.stdout)
    sys.exit(f"it ended with {done.returncode}, and printed no '{line}':\n{done.stdout}{done.stderr}"
             if done.returncode != 0 or line is not None else None)


def run(root, programs, work, group):
    runner = Runner(root, programs, work)
    failed = False
    for name in (n for n, c in COMMANDS.items() if c.group == group):
        problem = runner.run(name)
        print(f"{name}: {problem or 'ok'}", flush=True)
        failed = failed or problem is not None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    actions = {"cut": cut, "check": check, "output": output, "run": run}
    if len(sys.argv) < 3 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]](*sys.argv[2:])
