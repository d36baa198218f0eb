#!/usr/bin/env python3
"""Checks a trace written by troupe-top --trace or troupe-mnist --trace.

    tools/check_trace.py FILE [--tasks N] [--steps N] [--requests N] [--across] [--lossy]

The file must be JSON in the trace event format; slices of a thread must be nested; every arrow must have two ends, each
inside a slice, the second not before the first (within the clock uncertainty of the two tasks); every wait must end;
all work of a step must lie inside a slice of that step on its task; and no arrow in between may be lost. A request
counts if arrows lead from it, over requests on other tasks, to a step with kernels. Prints the errors and exits with 1,
or prints a summary."""

import argparse
import bisect
import json
import sys
from collections import defaultdict

SHOWN = 20
IN_STEP = ("kernel", "transfer", "segment")


def ns(microseconds):
    return round(microseconds * 1000)


class Checker:
    def __init__(self, trace):
        self.errors = []
        self.slices = defaultdict(list)  # (begin, end, event) by (pid, tid)
        self.outer = {}  # likewise, outermost slices: their begins and ends
        self.steps = defaultdict(list)   # (begin, end) by (pid, key)
        self.whole_steps = defaultdict(int)  # by pid
        self.kernels = self.waits = 0
        self.arrows = {}
        self.followed = 0  # requests, to kernels
        self.processes, self.threads, self.uncertain = {}, {}, {}
        self.check(trace)

    def error(self, text):
        self.errors.append(text)

    def check(self, trace):
        if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
            return self.error("no traceEvents")
        self.about = trace.get("otherData", {})
        for task in self.about.get("tasks", []):
            self.uncertain[task["pid"]] = task["uncertainty_ns"]
        by_phase = defaultdict(list)
        for event in trace["traceEvents"]:
            if self.well_formed(event):
                by_phase[event["ph"]].append(event)
        for event in by_phase["M"]:
            if event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            if event["name"] == "thread_name":
                self.threads[event["pid"], event["tid"]] = event["args"]["name"]
        self.check_slices(by_phase["X"])
        self.check_steps(by_phase["X"])
        self.check_arrows(by_phase["s"], by_phase["f"])
        self.check_waits(by_phase["b"], by_phase["e"])
        self.follow_requests(by_phase["X"])

    def well_formed(self, event):
        phase = event.get("ph")
        if phase not in ("M", "X", "s", "f", "b", "e"):
            self.error(f"unknown phase: {event}")
            return False
        needed = ["name", "pid", "tid"] + (["args"] if phase == "M" else ["ts", "cat"])
        needed += ["dur", "args"] if phase == "X" else []
        needed += ["id"] if phase in "sfbe" else []
        missing = [key for key in needed if key not in event]
        if missing:
            self.error(f"{', '.join(missing)} missing: {event}")
            return False
        if any(not isinstance(event[key], (int, float)) or event[key] < 0 for key in ("ts", "dur") if key in event):
            self.error(f"invalid time: {event}")
            return False
        return True

    def where(self, event):
        place = event["pid"], event["tid"]
        process, thread = self.processes.get(place[0], place[0]), self.threads.get(place, place[1])
        return f"{process}, {thread}: '{event['name']}' at {event['ts']} us"

    # ---- Slices ----

    def check_slices(self, events):
        for event in events:
            begin = ns(event["ts"])
            self.slices[event["pid"], event["tid"]].append((begin, begin + ns(event["dur"]), event))
        for place, slices in self.slices.items():
            if place[0] not in self.processes:
                self.error(f"process {place[0]} has no name")
            if place not in self.threads:
                self.error(f"thread {place} has no name")
            slices.sort(key=lambda s: (s[0], -s[1]))
            around = []
            begins, ends = self.outer[place] = [], []
            for begin, end, event in slices:
                while around and around[-1][1] <= begin:
                    around.pop()
                if around and end > around[-1][1]:
                    outer = around[-1][2]["name"]
                    self.error(f"not nested: {self.where(event)} ends after '{outer}', in which it begins")
                if not around:
                    begins.append(begin)
                    ends.append(end)
                around.append((begin, end, event))

    def check_steps(self, events):
        for event in events:
            if event["cat"] == "step":
                begin = ns(event["ts"])
                self.steps[event["pid"], event["args"]["step_key"]].append((begin, begin + ns(event["dur"])))
                self.whole_steps[event["pid"]] += not event["args"].get("cut", False)
        for event in events:
            if event["cat"] not in IN_STEP:
                continue
            self.kernels += event["cat"] == "kernel"
            key = event["args"].get("step_key")
            begin, end = ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])
            steps = self.steps.get((event["pid"], key), [])
            if not steps:
                self.error(f"not in a step: {self.where(event)}")
            elif not any(b <= begin and end <= e for b, e in steps):
                self.error(f"outside its step: {self.where(event)}")

    # ---- Arrows and waits ----

    def in_slice(self, event):
        begins, ends = self.outer.get((event["pid"], event["tid"]), ([], []))
        at = ns(event["ts"])
        last = bisect.bisect_right(begins, at) - 1
        return last >= 0 and at <= ends[last]

    def check_arrows(self, begins, ends):
        sides = []
        for events, side in ((begins, "begin"), (ends, "end")):
            by_id = {}
            for event in events:
                if event["id"] in by_id:
                    self.error(f"a second {side} of arrow {event['id']}: {self.where(event)}")
                by_id[event["id"]] = event
                if not self.in_slice(event):
                    self.error(f"the {side} of arrow {event['id']} is not in a slice: {self.where(event)}")
            sides.append(by_id)
        for id, event in sides[0].items():
            other = sides[1].get(id)
            if other is None:
                self.error(f"arrow {id} has no end: {self.where(event)}")
                continue
            self.arrows[id] = (event, other)
            slack = 0
            if event["pid"] != other["pid"]:
                slack = self.uncertain.get(event["pid"], 0) + self.uncertain.get(other["pid"], 0)
            if ns(other["ts"]) + slack < ns(event["ts"]):
                self.error(f"arrow {id} ends before it begins: {self.where(other)}, {self.where(event)}")
        for id, event in sides[1].items():
            if id not in sides[0]:
                self.error(f"arrow {id} has no begin: {self.where(event)}")

    def check_waits(self, begins, ends):
        open = {(e["cat"], e["id"]): e for e in begins}
        self.waits = len(open)
        for event in ends:
            begin = open.pop((event["cat"], event["id"]), None)
            if begin is None:
                self.error(f"a wait ends without a begin: {self.where(event)}")
            elif ns(event["ts"]) < ns(begin["ts"]):
                self.error(f"a wait ends before it begins: {self.where(event)}")
        for event in open.values():
            self.error(f"a wait without an end: {self.where(event)}")

    # ---- Requests ----

    def slice_at(self, event):
        """The index of the slice of a lane, whose slices follow one another, that an arrow's end is in."""
        place = event["pid"], event["tid"]
        return place, bisect.bisect_right(self.slices[place], ns(event["ts"]), key=lambda s: s[0]) - 1

    def follow_requests(self, events):
        with_kernels = {(e["pid"], e["args"].get("step_key")) for e in events if e["cat"] == "kernel"}
        leads_to = defaultdict(list)
        for begin, end in self.arrows.values():
            leads_to[self.slice_at(begin)].append(self.slice_at(end))

        def reaches_kernels(at, before=()):
            (pid, _), index = at
            event = self.slices[at[0]][index][2] if index >= 0 else {"cat": ""}
            if event["cat"] == "step":
                return (pid, event["args"]["step_key"]) in with_kernels
            return event["cat"] == "request" and at not in before and any(
                reaches_kernels(next, (*before, at)) for next in leads_to[at])

        for place, slices in self.slices.items():
            self.followed += sum(event["cat"] == "request" and reaches_kernels((place, i))
                                 for i, (_, _, event) in enumerate(slices))

    def across(self):
        return sum(a["pid"] != b["pid"] for a, b in self.arrows.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--tasks", type=int, default=1, help="minimum number of tasks")
    parser.add_argument("--steps", type=int, default=0, help="minimum number of whole steps on a task")
    parser.add_argument("--requests", type=int, default=0, help="minimum number of requests that lead to kernels")
    parser.add_argument("--across", action="store_true", help="require arrows between tasks")
    parser.add_argument("--lossy", action="store_true", help="allow lost arrows: a lost connection lost messages")
    options = parser.parse_args()
    try:
        with open(options.file, encoding="utf-8") as file:
            trace = json.load(file)
    except (OSError, ValueError) as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 1
    checker = Checker(trace)
    errors = checker.errors
    if len(checker.processes) < options.tasks:
        errors.append(f"{len(checker.processes)} tasks, expected {options.tasks}")
    most = max(checker.whole_steps.values(), default=0)
    if most < options.steps:
        errors.append(f"{most} whole steps, expected {options.steps}")
    if checker.followed < options.requests:
        errors.append(f"{checker.followed} requests lead to kernels, expected {options.requests}")
    if options.across and checker.across() == 0:
        errors.append("no arrow between tasks")
    if options.steps > 0 and checker.kernels == 0:
        errors.append("no kernel")
    if not errors and checker.about.get("lost_arrows", 0) > 0 and not options.lossy:
        errors.append(f"{checker.about['lost_arrows']} arrows are lost")
    for error in errors[:SHOWN]:
        print(f"{options.file}: {error}", file=sys.stderr)
    if len(errors) > SHOWN:
        print(f"{options.file}: and {len(errors) - SHOWN} more", file=sys.stderr)
    if errors:
        return 1
    print(f"{options.file}: {len(checker.processes)} tasks, {sum(checker.whole_steps.values())} whole steps, "
          f"{checker.kernels} kernels, "
          f"{len(checker.arrows)} arrows ({checker.across()} between tasks), {checker.waits} waits in mailboxes, "
          f"{checker.followed} requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
