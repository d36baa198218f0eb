// The wait graph: what the actors of a cluster wait for at an instant, and the root causes.
//
// Things can wait or be waited for: a step, a segment, a tensor, a slot of a training step, a worker, a task. Their ids
// are the same on all tasks, so that reports of several tasks fit together:
//
//   step/<session>/<step>                            a step, for its client
//   part/<session>/<step>/<task>                     a task's part of it
//   segment/<session>/<step>/<device>/<n>            a segment that has not run
//   tensor/<session>/<step>/<edge>                   a tensor that crosses devices
//   device/<device>                                  a device's compute stream
//   link/<task>/<to task>                            room on a connection
//   task/<task>                                      a process
//   worker/<job>/<task>                              a worker of a training job
//   version/<job>/<shard>/<version>                  parameters of a shard
//   slot/<job>/<turn>/<slot>                         a micro-batch; with one phase a turn is a step
//   token/<job>/<task>                               the next token of a worker
//   barrier/<job>, join/<job>/<task>, save/<job>
//   collective/<group>/<channel>/<sequence>/<task>   a task's part in a collective
//   client/<task>/<n>                                a waiting thread of a program
//   answer/<task>/<n>                                the answer of another task to it
//   meeting/<task>                                   a task connecting to its cluster
//   coming/<to task>/<task>                          a link that it needs
//   data/<task>                                      the batches that a worker waits for
//   pipeline/<task>                                  those who make them, by their slowest stage
//   actor/<task>/<kind>                              an actor busy with one message, with others queued
//
// Sessions, jobs and groups are hexadecimal, all other numbers decimal; tasks and devices have their usual names. A
// report that something waits for a thing states what the thing is and its task, but not what the thing waits for in
// turn: its own task does that.
//
// Plain data; the analysis sends no queries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct WaitThing {
  enum class State : std::uint8_t {
    waits,  // for the targets of its waits
    works,  // in progress: running, computing, on its way
    stuck,  // does nothing and waits for nothing known
    never,  // cannot come any more; `text` says why
  };
  std::string id;
  std::string text;  // for display: "slot 1 of step 7", "MatMul 'dense/matmul' on /job:worker/task:0/device:CPU:0"
  std::string task;  // its location, "/job:worker/task:0"; "": none in particular
  State state = State::waits;
  std::int64_t for_ns = 0;  // time in this state; 0: unknown
};

struct Wait {
  std::string waiter;  // ids of things
  std::string awaited;
  // "tensor", "segment", "token", "staging", "credit", "barrier", "peer", "reply", "collective", "join", "data"
  std::string kind;
  // For display, "" if the awaited thing's text suffices: "2 of 3 slots are staged, slot 1 is missing".
  std::string text;
  std::uint64_t have = 0;
  std::uint64_t need = 0;
  std::int64_t for_ns = 0;  // 0: unknown
};

// Kind of a wait in a collective where the rank has sent what it can, and waits in its turn for others. Ranks that have
// begun wait for each other in normal operation: only those that have not begun matter.
inline constexpr const char* kInTurn = "in turn";

// The report of an actor, a task, or a cluster.
struct Waiting {
  std::vector<WaitThing> things;
  std::vector<Wait> waits;
  void append(Waiting other);
};

// A task that has not answered, or is known to be gone.
struct SilentTask {
  std::string task;
  std::string text;  // why: "no answer within 0.9 s: it is stopped, too busy or unreachable"
};

// The end of a chain of waits.
struct RootCause {
  enum class Kind : std::uint8_t {
    silent,    // a task that does not answer
    deadlock,  // a cyclic wait
    never,     // waits for something that cannot come
    working,   // something in progress
    stuck,     // something idle, though nothing blocks it
  };
  Kind kind = Kind::working;
  std::string text;                 // one line, for display
  std::vector<std::string> things;  // ids; for a deadlock: the whole cycle
  std::size_t waiters = 0;          // number of things that wait for it, directly or through others
  std::int64_t for_ns = 0;
};

struct WaitAnalysis {
  std::vector<RootCause> causes;  // worst first: deadlock, never, silent, stuck, working; then those with more waiters
  // Each cause, with the chain from the first waiter down to it; the worst causes, and how many more. Or "Nothing
  // waits."
  std::string text;
  // What `troupe-top --why` prints: the same, but work in progress has one line each and no chain.
  std::string brief;
};

// Merges the reports of several tasks about a thing or wait: the graver state counts, and the longer of two texts. A
// thing on a silent task waits for that task, whatever else is reported. A thing that waits for several needs all of
// them, so a cycle never ends. A thing that is waited for, with no report of what it waits for itself, is stuck. Equal
// input in any order gives equal output. Takes linear time in things and waits; with more than some hundred causes,
// `waiters` may count direct waiters only.
WaitAnalysis analyse(const Waiting& waiting, const std::vector<SilentTask>& silent);

// For display: "0.2 s", "12.3 s", "2 min 5 s", "3 h 20 min".
std::string wait_time(std::int64_t ns);

const char* name(RootCause::Kind kind);
const char* name(WaitThing::State state);

}  // namespace troupe
