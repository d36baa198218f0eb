#!/usr/bin/env python3
"""Makes the pages of docs/reference that follow from the code.

    reference.py write ROOT BIN      writes them (cmake --build build/release --target reference)
    reference.py check ROOT BIN      fails if one of them is not what it would write

    troupe-*.md     each command's --help, of the programs in BIN
    metrics.md      the families of /metrics, in actors/introspection/{metrics,serving_metrics}.cpp
    headers.md      the headers that are installed, and how each begins
    tensorflow-ops.md   TensorFlow 1.10's ops and our functions: tensorflow_ops.py

ops.md is made by write_kernel_table (tests/repository). events.md is written by hand; `check` compares its tables with
the events in the code. The example of cluster-file.md is parsed by pages_test.cpp.
"""
import doctest
import os
import re
import subprocess
import sys

import tensorflow_ops

COMMANDS = {
    "troupe-launch": "Starts a cluster of processes on one machine.",
    "troupe-mnist": "Trains on MNIST or on built-in digits, in every mode.",
    "troupe-language": "Learns to write text character by character, in every mode, and writes some.",
    "troupe-recommend": "Learns which packages depend on which, in every mode, and recommends others.",
    "troupe-tags": "Tags packages by name and description, in every mode.",
    "troupe-node": "A task that offers its devices to clients.",
    "troupe-serve": "Serves models over gRPC and REST.",
    "troupe-top": "Shows a running cluster, records traces, tells why it waits.",
    "troupe-checkpoint": "Lists, verifies and compares checkpoints.",
    "troupe-data": "Looks at data sets, checks and converts them.",
    "troupe-model": "Looks into models of Troupe, TensorFlow and ONNX, runs and converts them.",
    "troupe-bench": "Measures Troupe beside its peers.",
    "troupe-chaos": "Breaks clusters on purpose and checks the result.",
}
MADE = "<!-- Made by `cmake --build build/release --target reference`; a test checks that it is current. -->\n\n"


def escaped(text):
    """Text in a cell of a table.

    >>> escaped("local|sync")
    'local\\\\|sync'
    """
    return text.replace("|", "\\|").replace("<", "&lt;")


def option_row(head, text):
    """A line of --help as a row.

    >>> option_row("--count N", "How many [3]")
    '| `--count N` | How many | 3 |'
    >>> option_row("--mode a|b", "Which")
    '| `--mode a\\\\|b` | Which | |'
    """
    default = re.search(r" \[([^\[\]]*)\]$", text)
    shown = f"{default[1]} " if default else ""
    help_text = text[: default.start()] if default else text
    return f"| `{escaped(head)}` | {escaped(help_text)} | {escaped(shown)}|"


def option_rows(lines):
    """The options of a group of --help: two spaces, the option, its help from column 26 on, wrapped.

    >>> option_rows(["  --count N               How many", "                          of them [3]"])
    ['| `--count N` | How many of them | 3 |']
    """
    rows = []
    for line in lines:
        if re.match(r"  \S", line):
            rows.append([line[2:26].strip() if len(line) > 26 and line[25] == " " else line.strip(), line[26:].strip()
                         if len(line) > 26 and line[25] == " " else ""])
        else:
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
    return [option_row(head, text) for head, text in rows]


def prose(text):
    """Paragraphs as they are, indented lines as a block of commands."""
    out, block = [], []
    for line in text.splitlines() + [""]:
        if line.startswith("  "):
            block.append(line[2:])
            continue
        if block:
            out += ["", "```text", *block, "```", ""]
            block = []
        out.append(escaped(line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def command_page(name, help_text):
    usage, rest = help_text.split("\n\n", 1)
    groups = re.split(r"\n\n(?=[A-Z][^\n]*:\n  -|Arguments:\n)", "\n\n" + rest)
    page = f"# {name}\n\n{MADE}```text\n{usage.removeprefix('Usage: ').strip()}\n```\n\n{prose(groups[0])}\n"
    for group in groups[1:]:
        title, *lines = group.rstrip("\n").split("\n")
        page += f"\n## {title.rstrip(':')}\n\n| name | does | default |\n|---|---|---|\n"
        page += "\n".join(option_rows(lines)) + "\n"
    return page


def joined(literals):
    """Adjacent string literals of C++.

    >>> joined('"a b "\\n    "c"')
    'a b c'
    """
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))


def metrics_page(source):
    literal = r'("(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*)'
    add = r"\b(?:f|families)\.add(?:_seconds)?\("
    calls = re.findall(add + r"\s*" + literal + r",\s*" + literal + r",\s*" + literal, source)
    if len(calls) != len(re.findall(add, source)):
        sys.exit("reference.py no longer reads metrics.cpp: not every add() has a literal name, type and help")
    rows = {(joined(name), joined(kind), joined(text)) for name, kind, text in calls}
    histogram = r"\bf\.add_histogram\("
    histograms = re.findall(histogram + r"\s*" + literal + r",\s*" + literal, source)
    if len(histograms) != len(re.findall(histogram, source)):
        sys.exit("reference.py no longer reads serving_metrics.cpp: an add_histogram() has no literal name or help")
    rows = sorted(rows | {(joined(name), "histogram", joined(text)) for name, text in histograms})
    page = f"# Metrics\n\n{MADE}The families of `/metrics`, for Prometheus: of one task at its introspector's address, "
    page += "of all tasks at `troupe-top --web PORT`.\nOur samples have the label `task`; those of served models are "
    page += "there by the names of TensorFlow Serving\nand Triton, too, and at `/metrics` of `troupe-serve`. "
    page += "How to look: "
    page += "[introspection](../guide/introspection.md).\n\n| metric | type | meaning |\n|---|---|---|\n"
    return page + "".join(f"| `{name}` | {kind} | {escaped(text)} |\n" for name, kind, text in rows)


def first_words(header):
    """The sentences that open a header: the first, and others while they are short.

    >>> first_words("// A task. It runs what others send, and owns devices.\\n// More follows.\\n#pragma once\\n")
    'A task. It runs what others send, and owns devices.'
    >>> first_words("// The cluster file: which tasks there are.\\n//   {}\\n")
    'The cluster file: which tasks there are.'
    """
    lines = []
    for line in header.splitlines():
        if not line.startswith("// ") or line.startswith("//  "):
            break
        lines.append(line[3:].strip())
    text = ""
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", " ".join(lines)):
        if len(text) > 40:
            break
        text = f"{text} {sentence}".strip()
    return re.sub(r":$", ".", text)


def headers_page(root):
    def text(path):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return file.read()

    page = f"# Public headers\n\n{MADE}These headers are installed (`tools/cmake/PublicHeaders.cmake`); most programs "
    page += "need `#include <troupe/troupe.hpp>` only. Each opens with its contract.\n\n"
    page += "| header | contents |\n|---|---|\n"
    for path in re.findall(r"^  ([a-z_/0-9]+\.hpp)", text("tools/cmake/PublicHeaders.cmake"), re.MULTILINE):
        page += f"| [`<troupe/{path}>`](../../{path}) | {escaped(first_words(text(path)))} |\n"
    return page


def pages(root, programs):
    made = {}
    for name in COMMANDS:
        shown = subprocess.run([os.path.join(programs, name), "--help"], check=True, capture_output=True, text=True)
        made[f"{name}.md"] = command_page(name, shown.stdout)
    made["metrics.md"] = metrics_page("".join(
        open(os.path.join(root, f"actors/introspection/{name}.cpp"), encoding="utf-8").read()
        for name in ("metrics", "serving_metrics")))
    made["headers.md"] = headers_page(root)
    made["tensorflow-ops.md"] = tensorflow_ops.page(root, MADE)
    return made


def told_events(root):
    """The events that the code tells of: of jobs, in JSON of the programs, of members."""
    told = set()
    for folder in ("actors/model", "actors/training", "apps", "apps/mnist", "tools/checkpoint"):
        for file in os.listdir(os.path.join(root, folder)):
            if not file.endswith((".cpp", ".hpp")):
                continue
            with open(os.path.join(root, folder, file), encoding="utf-8") as source:
                told |= set(re.findall(r'(?:\.kind = |tell_warning\(\w+, |{"event", )"(\w+)"', source.read()))
    folder = os.path.join(root, "scheduler/training")
    for file in os.listdir(folder):
        with open(os.path.join(folder, file), encoding="utf-8") as source:
            told |= set(re.findall(r"case MembershipEvent::Kind::(\w+):", source.read()))
    return told


def event_problems(root, page):
    shown = set(re.findall(r"^\| `(\w+)` ", page, re.MULTILINE))
    told = told_events(root)
    return [f"docs/reference/events.md has no row for {kind}" for kind in sorted(told - shown)] + [
        f"docs/reference/events.md has a row for {kind}, of which no code tells" for kind in sorted(shown - told)]


def write(root, programs):
    folder = os.path.join(root, "docs/reference")
    os.makedirs(folder, exist_ok=True)
    for name, text in pages(root, programs).items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def check(root, programs):
    broken = doctest.testmod().failed or doctest.testmod(tensorflow_ops).failed
    problems = ["the generator itself is broken: see above"] if broken else []
    folder = os.path.join(root, "docs/reference")
    for name, text in pages(root, programs).items():
        path = os.path.join(folder, name)
        found = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = file.read()
        if found != text:
            problems.append(f"docs/reference/{name} is not current: cmake --build build/release --target reference")
    with open(os.path.join(folder, "events.md"), encoding="utf-8") as file:
        problems += event_problems(root, file.read())
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
