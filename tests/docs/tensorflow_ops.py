"""The page of TensorFlow 1.10's ops, docs/reference/tensorflow-ops.md, of the rows in tensorflow_ops.txt.

A name of C++ that no public header declares is an error; names of Python: tests/python/tensorflow_ops_test.py.
"""
import os
import re
import sys

ROWS = "tests/docs/tensorflow_ops.txt"


def read_kinds(text):
    """[(kind, [(name, functions of C++, functions of Python, note)])].

    >>> read_kinds("# Rows\\n== Math\\ntf.add | add |\\n    troupe.add |\\ntf.zeta | | | no kernel\\n")
    [('Math', [('tf.add', ['add'], ['troupe.add'], ''), ('tf.zeta', [], [], 'no kernel')])]
    """
    kinds = []
    for line in re.sub(r"\n +", " ", text).splitlines():
        if line.startswith("== "):
            kinds.append((line[3:], []))
        elif line and not line.startswith("#"):
            name, cpp, python, note = [cell.strip() for cell in line.split("|")]
            kinds[-1][1].append((name, cpp.split(), python.split(), note))
    return kinds


def declares(header, name):
    """Whether the text of a header declares a function or class, or a member A::b.

    >>> header = "Output add(Output a);\\nclass Queue {\\n  int size() const;\\n};"
    >>> [declares(header, name) for name in ("add", "Queue::size", "size", "Queue::add_many")]
    [True, True, False, False]
    """
    outer, _, last = name.rpartition("::")
    if not outer:
        function = rf"[A-Za-z_][\w:<>,&* ]*[ &*]{last}\("
        return re.search(rf"^(?:(?:class|struct) {last}\b(?!;)|{function})", header, re.MULTILINE) is not None
    owner = rf"^(?:class|struct|namespace) (?:\w+::)*{outer.rpartition('::')[2]}\b"
    member = rf"[ &*]{last}(?:\(| =|\{{|;)"
    return all(re.search(found, header, re.MULTILINE) for found in (owner, member))


def public_headers(root):
    """{path: text without comments}, those of the builder first."""
    def text(path):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return file.read()

    paths = re.findall(r"^  ([a-z_/0-9]+\.hpp)", text("tools/cmake/PublicHeaders.cmake"), re.MULTILINE)
    paths.sort(key=lambda path: not path.startswith("graph/builder/"))
    return {path: re.sub(r"//.*", "", text(path)) for path in paths}


def page(root, made):
    """The text of the page; `made` says by what. Exits with all problems of the rows."""
    headers = public_headers(root)
    with open(os.path.join(root, ROWS), encoding="utf-8") as file:
        kinds = read_kinds(file.read())
    problems, seen, without = [], set(), []

    def link(name):
        path = next((path for path, header in headers.items() if declares(header, name)), None)
        if path is None:
            problems.append(f"no public header declares {name}")
        return f"[`{name}`](../../{path})"

    tables = ""
    for kind, rows in kinds:
        tables += f"\n## {kind}\n\n| TensorFlow | C++ | Python | note |\n|---|---|---|---|\n"
        for name, cpp, python, note in rows:
            if name in seen:
                problems.append(f"{name} has two rows")
            seen.add(name)
            if not cpp and not python:
                without.append(name)
                if not note:
                    problems.append(f"{name} has neither functions nor a reason")
            functions = " ".join(f"`{function}`" for function in python)
            tables += f"| `{name}` | {' '.join(map(link, cpp))} | {functions} | {note} |\n"
    if problems:
        sys.exit("\n".join(f"{ROWS}: {problem}" for problem in problems))
    return (f"# TensorFlow's ops\n\n{made}"
            f"The {len(seen)} ops that the guides of TensorFlow 1.10 list, by kind, with our functions for each: where "
            f"there are several,\nthey do it together, or the note says more. {len(without)} have none, and a reason. "
            "Our own ops: [ops and dtypes](ops.md). Models:\n[TensorFlow models](../guide/tensorflow.md).\n") + tables
