#!/usr/bin/env python3
"""Checks that every header compiles alone: that it includes, directly or through others, all that it uses.

    headers_alone.py SOURCES COMPILE_COMMANDS WORK [--without-cuda] [--launcher WORD]...

Headers of which each includes the one before are compiled together: so nothing is there for a header that it does not
include itself, and what many include is read less often. The build has compiled alone the headers that its sources begin
with. With ccache as the launcher only what has changed is compiled; WORK is a directory of the build for that reason:
seen from there, paths are the same in every clone.
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


def read_headers(root, with_cuda):
    """Path -> what it includes: paths of our headers, and <names> of others'."""
    includes = {}
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                path = os.path.relpath(os.path.join(place, name), root)
                if name.endswith(".hpp") and (with_cuda or "/cuda/" not in path):
                    with open(os.path.join(root, path), encoding="utf-8") as file:
                        includes[path] = {a or b for a, b in INCLUDE.findall(file.read())}
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
            first.add(include.group(1))
            path = os.path.join(root, include.group(1))  # of a batch: a source
    return first


def chains(closures):
    """As few lists of headers as possible, in each of which every header includes the one before: a matching of headers
    with one that they include."""
    follower = {}  # header -> the one that comes after it in its list

    def find(header, seen):
        for other in sorted(closures[header]):
            if other in closures and other not in seen:
                seen.add(other)
                if other not in follower or find(follower[other], seen):
                    follower[other] = header
                    return True
        return False

    followers = {header for header in closures if find(header, set())}
    out = []
    for first in closures:
        if first not in followers:
            chain = [first]
            while chain[-1] in follower:
                chain.append(follower[chain[-1]])
            out.append(chain)
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
    parser.add_argument("--without-cuda", action="store_true", help="the toolkit's headers are not there")
    parser.add_argument("--launcher", action="append", default=[], help="what stands before the compiler, word by word")
    options = parser.parse_args()
    root = os.path.realpath(options.sources)
    includes = read_headers(root, not options.without_cuda)
    begun = begun_with(root, options.compile_commands)
    closures = {header: closure(header, includes) for header in sorted(includes) if header not in begun}
    compiler, flags = compiler_and_flags(root, options.compile_commands)
    if not compiler:
        sys.exit(f"headers_alone: {options.compile_commands} has no source of {', '.join(FOLDERS)}")
    os.makedirs(options.work, exist_ok=True)

    def check(chain):
        name = chain[-1].replace("/", "_") + ".cpp"
        with open(os.path.join(options.work, name), "w", encoding="utf-8") as file:
            file.write("".join(f'#include "{header}"\n' for header in chain))
        command = [*options.launcher, compiler, *flags, "-O0", "-Werror", "-c", name, "-o", name + ".o"]
        return subprocess.run(command, cwd=options.work, capture_output=True, text=True, check=False)

    longest_first = sorted(chains(closures), key=lambda chain: -len(closures[chain[-1]]))
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for chain, result in zip(longest_first, threads.map(check, longest_first)):
            if result.returncode != 0:
                failed += 1
                print(f"One of {', '.join(chain)} does not compile alone:\n{result.stderr}")
    print(f"{len(closures)} headers in {len(longest_first)} chains, {failed} failed; "
          f"sources begin with {len(includes) - len(closures)} others")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
