#!/usr/bin/env python3
"""Reports the time of a build by folder, and folders whose cost has increased.

    build_report.py BUILD_DIRECTORY [--slowest N] [--strict] [--write] [--traces]

Reads ninja's log: the seconds of the jobs that last made each object. Seconds per 1,000 lines are given in units of
the compile time of tools/build_reference.cpp in the same build, so that machines can be compared, and checked against
tools/build_costs.json: a folder whose cost has increased by more than a quarter gets a warning.
"""
import argparse
import collections
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
COSTS = os.path.join(ROOT, "tools", "build_costs.json")
FOLDERS = ["messages", "graph", "devices", "kernels", "scheduler", "actors", "apps", "tools", "tests"]
REFERENCE = "build_reference.cpp.o"
GROWTH = 1.25
SMALL = 5.0  # seconds: smaller folders are not judged
LIMIT = 12.0  # seconds per source


def read_log(directory):
    """Output -> seconds, for all objects still in the build."""
    with open(os.path.join(directory, "build.ninja"), encoding="utf-8") as rules:
        outputs = set(re.findall(r"^build (\S+\.o): ", rules.read(), re.MULTILINE))
    times = {}
    with open(os.path.join(directory, ".ninja_log"), encoding="utf-8") as log:
        for line in log:
            fields = line.rstrip("\n").split("\t")
            if len(fields) == 5 and fields[3] in outputs:
                times[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return times


def folder_of(output):
    """The folder of the CMakeLists.txt: graph/CMakeFiles/troupe_graph_objects.dir/ops/all.cpp.o -> graph"""
    return output.partition("CMakeFiles/")[0].rstrip("/") or "."


def lines_of(folder, folders):
    """Lines of its sources, excluding those of other `folders` inside it."""
    lines = 0
    for place, inside, names in os.walk(os.path.join(ROOT, folder)):
        inside[:] = [name for name in inside if os.path.relpath(os.path.join(place, name), ROOT) not in folders]
        for name in names:
            if name.endswith((".cpp", ".hpp", ".cu", ".cuh")):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    lines += sum(1 for _ in file)
    return lines


def print_traces(directory):
    """Headers by their own cost over all sources, from a clang build with -ftime-trace."""
    cost, count = collections.Counter(), collections.Counter()
    for place, _, names in os.walk(directory):
        for name in names:
            if not name.endswith(".json") or "CMakeFiles" not in place:
                continue
            with open(os.path.join(place, name), encoding="utf-8") as file:
                events = [e for e in json.load(file).get("traceEvents", []) if e["name"] == "Source"]
            events.sort(key=lambda e: (e["ts"], -e["dur"]))
            within = []
            for event in events:
                while within and within[-1]["ts"] + within[-1]["dur"] <= event["ts"]:
                    within.pop()
                header = os.path.relpath(event["args"]["detail"], ROOT)
                header = event["args"]["detail"] if header.startswith("..") else header
                cost[header] += event["dur"]
                count[header] += 1
                if within:
                    parent = os.path.relpath(within[-1]["args"]["detail"], ROOT)
                    cost[within[-1]["args"]["detail"] if parent.startswith("..") else parent] -= event["dur"]
                within.append(event)
    print(f"{'seconds':>8} {'included':>8}  header (without its includes)")
    for header, microseconds in cost.most_common(40):
        print(f"{microseconds / 1e6:8.1f} {count[header]:8}  {header}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--slowest", type=int, default=10, metavar="N", help="number of slowest sources to list (10)")
    parser.add_argument("--strict", action="store_true", help="fail on a warning for a folder or a slow source")
    parser.add_argument("--write", action="store_true", help="write the current costs to tools/build_costs.json")
    parser.add_argument("--costs", default=COSTS, metavar="FILE",
                        help="read costs from FILE instead of tools/build_costs.json")
    parser.add_argument("--traces", action="store_true",
                        help="list headers by cost, from a clang build with -ftime-trace")
    options = parser.parse_args()
    if options.traces:
        print_traces(options.directory)
        return 0
    try:
        times = read_log(options.directory)
    except OSError as error:
        sys.exit(f"build_report: {error}: build with ninja first")
    reference = next((seconds for output, seconds in times.items() if output.endswith(REFERENCE)), None)
    seconds, sources, slowest = collections.Counter(), collections.Counter(), {}
    for output, took in times.items():
        if output.endswith(REFERENCE):
            continue
        folder = folder_of(output)
        seconds[folder] += took
        sources[folder] += 1
        if took > slowest.get(folder, (0, ""))[0]:
            slowest[folder] = (took, re.sub(r".*\.dir/", "", output)[:-2])
    total = sum(seconds.values()) or 1
    comparable = reference is not None and reference > 0.5
    try:
        with open(options.costs, encoding="utf-8") as file:
            before = json.load(file)
    except OSError:
        before = {}
    now, warnings = {}, []
    print(f"{'folder':<28}{'objects':>8}{'seconds':>9}{'share':>7}{'lines':>8}  {'per 1,000':>9} {'before':>7}"
          "  slowest")
    for folder, took in seconds.most_common():
        lines = lines_of(folder, seconds)
        cost = took / lines * 1000 / reference if comparable and lines else 0
        known = before.get(folder, 0)
        if cost:
            now[folder] = round(cost, 3)
        if comparable and known and took >= SMALL and cost > GROWTH * known:
            warnings.append(f"{folder} takes {cost / known - 1:.0%} longer to compile per line than before: why?")
        print(f"{folder:<28}{sources[folder]:>8}{took:>9.1f}{took / total:>7.0%}{lines:>8}  {cost:>9.3f} {known:>7.3f}"
              f"  {slowest[folder][1]} {slowest[folder][0]:.1f}")
    print(f"{'all':<28}{sum(sources.values()):>8}{total:>9.1f}")
    print("slowest: " + ", ".join(f"{re.sub(r'.*[.]dir/', '', output)[:-2]} {took:.1f}" for output, took in
                                  sorted(times.items(), key=lambda item: -item[1])[: options.slowest]))
    warnings += [f"{output} takes {took:.1f} s, more than {LIMIT:.0f}" for output, took in times.items()
                 if took > LIMIT and not output.endswith(REFERENCE)]
    if not comparable:
        print("Not compared with earlier builds: the reference was not compiled, or came from a cache.")
    for warning in warnings:
        print("WARNING: " + warning)
    if options.write:
        if not comparable:
            sys.exit("build_report: nothing to write: do a clean build without a cache")
        with open(options.costs, "w", encoding="utf-8") as file:
            json.dump(now, file, indent=1, sort_keys=True)
            file.write("\n")
    return 1 if options.strict and warnings else 0


if __name__ == "__main__":
    sys.exit(main())
