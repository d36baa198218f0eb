#!/usr/bin/env python3
"""Counts the tests of CTest runs by their GoogleTest results, and names those that failed or were skipped.

    test_summary.py NAME=RESULTS.xml... [--suites] [--slowest N]

RESULTS.xml is written by `ctest --output-junit`, with the full output of all tests. Exit code 1: a test failed.
"""
import argparse
import collections
import re
import sys
import xml.etree.ElementTree

Test = collections.namedtuple("Test", "run process name result seconds")  # result: passed, failed, skipped
MANY = 20  # above this number, skipped tests of a process are only counted

LINE = re.compile(r"^\[ (RUN     |      OK| FAILED | SKIPPED) \] ([^\s,]+)(?:,.*)?(?: \((\d+) ms\))?$", re.MULTILINE)
RESULTS = {"      OK": "passed", " FAILED ": "failed", " SKIPPED": "skipped"}


def tests_of_entry(run, entry):
    """The tests of one process. A process without GoogleTest output counts as one test."""
    name, seconds = entry.get("name"), float(entry.get("time") or 0)
    skipped = entry.find("skipped") is not None
    failed = not skipped and entry.get("status") in ("fail", "notrun")
    begun, ended = [], {}
    for what, test, milliseconds in LINE.findall(entry.findtext("system-out") or ""):
        if what == "RUN     ":
            begun.append(test)
        elif milliseconds:  # not in the list of failed tests at the end
            ended[test] = Test(run, name, test, RESULTS[what], int(milliseconds) / 1000)
    if not begun:
        return [Test(run, name, name, "failed" if failed else "skipped" if skipped else "passed", seconds)]
    out = [ended.get(test) or Test(run, name, test, "failed", 0) for test in begun]
    if failed and not any(test.result == "failed" for test in out):
        out.append(Test(run, name, name + " (its process)", "failed", seconds))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=RESULTS.xml")
    parser.add_argument("--suites", action="store_true", help="print the number of tests per suite")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="list the slowest N tests")
    options = parser.parse_args()
    tests = []
    for run in options.runs:
        name, _, path = run.partition("=")
        try:
            entries = xml.etree.ElementTree.parse(path).getroot().iter("testcase")
            tests += [test for entry in entries for test in tests_of_entry(name, entry)]
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            tests.append(Test(name, path, f"{path}: {error}", "failed", 0))
    if options.suites:
        suites = collections.Counter((test.run, test.name.rpartition(".")[0] or test.name) for test in tests)
        for (run, suite), count in sorted(suites.items()):
            print(f"  {run}: {suite}: {count}")
    for test in sorted(tests, key=lambda test: -test.seconds)[: options.slowest]:
        print(f"  {test.run}: {test.name}: {test.seconds:.2f} s")
    skipped = collections.Counter((test.run, test.process) for test in tests if test.result == "skipped")
    for (run, process), count in skipped.items():
        if count > MANY:
            print(f"  {run}: {process}: {count} tests (Skipped)")
    for result in ("skipped", "failed"):
        for test in tests:
            if test.result == result and (result == "failed" or skipped[test.run, test.process] <= MANY):
                print(f"  {test.run}: {test.name} ({result.capitalize()})")
    counts = collections.Counter(test.result for test in tests)
    good = len(tests) - counts["failed"]
    skipped = f" ({counts['skipped']} skipped)" if counts["skipped"] else ""
    percent = 100 * good // len(tests) if tests else 0
    print(f"{percent}% tests passed, {counts['failed']} tests failed out of {len(tests)}{skipped}")
    return 1 if counts["failed"] or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
