#!/usr/bin/env python3
"""symbols.py LIBRARY HEADER LIST: the library exports the functions of the list and nothing else, and the header
declares them. A name that leaves the list breaks programs: it needs another TROUPE_ABI_MAJOR. Each function says what
threads may do."""
import re
import subprocess
import sys


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in lines.splitlines()}


def declared(text):
    return set(re.findall(r"^TROUPE_API [^;(]*?\b(troupe_\w+)\(", text, re.MULTILINE))


def without_threads(text):
    """Functions in paragraphs that do not say "Threads:"."""
    return {name for part in text.split("\n\n") if "Threads:" not in part for name in declared(part)}


def main():
    library, header, listed = sys.argv[1:]
    with open(header, encoding="utf-8") as file:
        text = file.read()
    with open(listed, encoding="utf-8") as file:
        names = file.read().split()
    problems = [f"{listed} is not sorted, or has a name twice"] if names != sorted(set(names)) else []
    for what, found in (("exported by the library", exported(library)), ("declared in troupe.h", declared(text))):
        problems += [f"{name} is {what}, but not in {listed}" for name in sorted(found - set(names))]
        problems += [f"{name} is in {listed}, but not {what}" for name in sorted(set(names) - found)]
    problems += [f"{name}: its comment does not say what threads may do" for name in sorted(without_threads(text))]
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()
