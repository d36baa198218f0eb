#!/usr/bin/env python3
"""Checks that every header compiles alone: that it includes, directly or through others, all that it uses.

    headers_alone.py SOURCES COMPILE_COMMANDS WORK [--without FOLDER]... [--launcher WORD]...

Headers of which each includes the one before, or all that the one before includes, are compiled together: a header then
finds nothing that it does not include itself, and what many include is read less often. Headers that sources begin with
are not compiled again: the build has done so. With ccache as the launcher only what has changed is compiled. WORK is a
directory of the build, so that paths seen from there are the same in every clone.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FOLDERS = ["messages", "graph", "devices", "kernels", "scheduler", "actors", "apps"]
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|(<[^>]+>))', re.MULTILINE)
NO_CODE = re.compile(r"//[^\n]*|^\s*#\s*include.*$", re.MULTILINE)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
DECLARED = re.compile(r"(?:class|struct|enum|using|concept|define)\s+(\w+)|\b(\w+)\s*(?=[({=;,\[:])")
# Words that look declared where they are used.
COMMON = set("""bool char const constexpr decltype default delete double else explicit false float for function if int
    int32_t int64_t move noexcept nullptr operator optional override private protected public requires return size_t
    sizeof static_assert std string string_view switch this troupe true uint16_t uint32_t uint64_t uint8_t unsigned
    vector void while""".split())


def ours(name):
    """graph/op.hpp for troupe/graph/op.hpp."""
    return name[len("troupe/"):] if name.startswith("troupe/") else ""


def read_headers(root, without):
    """Path -> what it includes: paths of our headers, and <names> of others'."""
    includes = {}
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                path = os.path.relpath(os.path.join(place, name), root)
                if name.endswith(".hpp") and not any(f"/{part}/" in path for part in without):
                    with open(os.path.join(root, path), encoding="utf-8") as file:
                        includes[path] = {ours(a) or ours(b[1:-1]) or a or b for a, b in INCLUDE.findall(file.read())}
    return includes


def closure(header, includes):
    found, left = set(), [header]
    while left:
        for name in includes.get(left.pop(), ()):
            if name not in found:
                found.add(name)
                left.append(name)
    return found


def begun_with(root, compile_commands):
    """The headers that come first in what the build compiles: in a source, or in the first of a batch."""
    first = set()
    with open(compile_commands, encoding="utf-8") as file:
        commands = json.load(file)
    for command in commands:
        path, made = command["file"], re.search(r" -o (\S+)", command["command"])
        if not made or not os.path.exists(os.path.join(command["directory"], made.group(1))):
            continue  # not of what is built by default
        while path.endswith((".cpp", ".cu")) and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                include = INCLUDE.search(file.read())
            if not include or not include.group(1):
                break
            first.add(ours(include.group(1)) or include.group(1))
            path = os.path.join(root, include.group(1))  # of a batch: a source
    return first


class Words:
    """The words in our headers, and those that they declare, without comments and includes."""

    def __init__(self, root, headers):
        self.said, self.declared = {}, {}
        for header in headers:
            with open(os.path.join(root, header), encoding="utf-8") as file:
                text = NO_CODE.sub("", file.read())
            self.said[header] = set(WORD.findall(text))
            self.declared[header] = {one or other for one, other in DECLARED.findall(text)}


def may_follow(header, others, closures, words):
    """May these headers be there, in the same file, when this one is compiled? Yes, if it includes them; or if it
    includes all that they do, and says nothing that only they declare."""
    known = set().union(*(words.said.get(name, ()) for name in closures[header]))
    return all(other in closures[header] or
               closures[other] <= closures[header] and not words.declared[other] & words.said[header] - known - COMMON
               for other in others)


def chains(headers, closures, words):
    """Few lists of headers, in each of which every header may follow those before it."""
    out = []
    for header in sorted(headers, key=lambda header: (len(closures[header]), header)):
        fitting = [chain for chain in out if closures[chain[-1]] <= closures[header] | {header} and
                   may_follow(header, chain, closures, words)]
        if fitting:
            max(fitting, key=lambda chain: len(closures[chain[-1]])).append(header)
        else:
            out.append([header])
    return out


def compiler_and_flags(root, compile_commands):
    """Of all sources of these folders: one compiler, the language, and all places of headers and definitions."""
    compiler, flags = None, []
    with open(compile_commands, encoding="utf-8") as file:
        commands = json.load(file)
    for command in commands:
        words = shlex.split(command["command"])
        path = os.path.relpath(command["file"], root)
        if not command["file"].endswith(".cpp") or "/tests/" in "/" + path or "/bench/" in path:
            continue
        compiler = words[0]
        for index, word in enumerate(words):
            pair = [word, words[index + 1]] if word == "-isystem" else [word]
            if re.match(r"-[ID]|-isystem|-std=|-W[^l]|-march|-f(no-)?math", word) and pair not in flags:
                if "_EXPORTS" not in word:
                    flags.append(pair)
    return compiler, [word for pair in flags for word in pair]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources")
    parser.add_argument("compile_commands")
    parser.add_argument("work")
    parser.add_argument("--without", action="append", default=[], help="folders whose libraries are not there")
    parser.add_argument("--launcher", action="append", default=[], help="what stands before the compiler, word by word")
    options = parser.parse_args()
    root = os.path.realpath(options.sources)
    includes = read_headers(root, options.without)
    begun = begun_with(root, options.compile_commands)
    closures = {header: closure(header, includes) for header in includes}
    compiler, flags = compiler_and_flags(root, options.compile_commands)
    if not compiler:
        sys.exit(f"headers_alone: {options.compile_commands} has no source of {', '.join(FOLDERS)}")
    os.makedirs(options.work, exist_ok=True)

    def check(chain):
        name = chain[-1].replace("/", "_") + ".cpp"
        with open(os.path.join(options.work, name), "w", encoding="utf-8") as file:
            file.write("".join(f'#include <troupe/{header}>\n' for header in chain))
        command = [*options.launcher, compiler, *flags, "-O0", "-Werror", "-c", name, "-o", name + ".o"]
        return subprocess.run(command, cwd=options.work, capture_output=True, text=True, check=False)

    left = chains([header for header in includes if header not in begun], closures, Words(root, includes))
    longest_first = sorted(left, key=lambda chain: -len(closures[chain[-1]]))
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for chain, result in zip(longest_first, threads.map(check, longest_first)):
            if result.returncode != 0:
                failed += 1
                print(f"One of {', '.join(chain)} does not compile alone:\n{result.stderr}")
    checked = sum(map(len, left))
    print(f"{checked} headers in {len(left)} chains, {failed} failed; "
          f"sources begin with {len(includes) - checked} others")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
