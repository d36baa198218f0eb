// Who waits for whom: what the actors of a cluster wait for at an instant, and what that comes down to.
//
// Things are what can wait or be waited for: a step, a segment, a tensor, a slot of a training step, a worker, a task.
// Their ids are the same on all tasks, so that reports of tasks fit together:
//
//   step/<session>/<step>                     a step, for its client           part/<session>/<step>/<task>     a task's part of it
//   segment/<session>/<step>/<device>/<n>     a segment that has not run       tensor/<session>/<step>/<edge>   a tensor that crosses devices
//   device/<device>                           a device's compute stream        link/<task>/<to task>            room on a connection
//   task/<task>                               a process                        worker/<job>/<task>              a worker of a training job
//   version/<job>/<shard>/<version>           parameters of a shard            slot/<job>/<step>/<slot>         a micro-batch
//   token/<job>/<task>                        the next token of a worker       barrier/<job>, join/<job>/<task>, save/<job>
//   collective/<group>/<channel>/<sequence>/<task>                             a task's part in a collective
//   client/<task>/<n>                         a thread of a program that waits  answer/<task>/<n>                of another task, for it
//   meeting/<task>                            one that connects to its cluster coming/<to task>/<task>          a link that it needs
//   actor/<task>/<kind>                       an actor that is long at one message, with others behind it
//
// Sessions, jobs and groups are hexadecimal, all other numbers decimal; tasks and devices are written as ever. Whoever
// says that it waits for a thing says what that is and on which task, and not what it waits for in turn: its own task
// does that.
//
// Plain data; the analysis asks nobody.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct WaitThing {
  enum class State : std::uint8_t {
    waits,  // for what its waits say
    works,  // it is being done: runs, computes, is on its way
    stuck,  // it does nothing and waits for nothing that is known
    never,  // it cannot come any more; `text` says why
  };
  std::string id;
  std::string text;  // for people: "slot 1 of step 7", "MatMul 'dense/matmul' on /job:worker/task:0/device:CPU:0"
  std::string task;  // where it is, "/job:worker/task:0"; "": nowhere in particular
  State state = State::waits;
  std::int64_t for_ns = 0;  // how long it has been so; 0: unknown
};

struct Wait {
  std::string waiter;  // ids of things
  std::string awaited;
  std::string
      kind;  // "tensor", "segment", "token", "staging", "credit", "barrier", "peer", "reply", "collective", "join"
  std::string
      text;  // for people, "" if the awaited thing's text says all: "2 of 3 slots are staged, slot 1 is missing"
  std::uint64_t have = 0;
  std::uint64_t need = 0;
  std::int64_t for_ns = 0;  // 0: unknown
};

// Of a wait in a collective: for a rank that has sent what it can, and waits in its turn for others. Ranks that have
// begun wait for each other while all is well: what counts are those that have not.
inline constexpr const char* kInTurn = "in turn";

// What one actor, one task, or a cluster says.
struct Waiting {
  std::vector<WaitThing> things;
  std::vector<Wait> waits;
  void append(Waiting other);
};

// A task that was asked and has not answered, or is known to be gone.
struct SilentTask {
  std::string task;
  std::string text;  // why: "has not answered for 1.0 s: stopped, or too busy, or cut off"
};

// The end of a chain of waits.
struct RootCause {
  enum class Kind : std::uint8_t {
    silent,    // a task that does not answer
    deadlock,  // waits in a circle
    never,     // waits for what cannot come
    working,   // something that is being done
    stuck,     // something that does nothing, though nothing keeps it
  };
  Kind kind = Kind::working;
  std::string text;                 // one line, for people
  std::vector<std::string> things;  // ids; of a deadlock: all of the circle
  std::size_t waiters = 0;          // how many things wait for it, at once or through others
  std::int64_t for_ns = 0;
};

struct WaitAnalysis {
  std::vector<RootCause> causes;  // worst first: deadlock, never, silent, stuck, working; then those with more waiters
  // Each cause, and the chain from who waits first down to it; the worst, and how many more. "Nothing waits." if so.
  std::string text;
  // What `troupe-top --why` prints: the same, but what is being done has one line each and no chain.
  std::string brief;
};

// What several tasks say of one thing or wait is put together: the graver state counts, of two texts the longer. A
// thing on a silent task waits for that task, whatever else is said of it. Who waits for several things needs them all,
// so a circle never ends. What is waited for, and of which nobody says what it waits for, is stuck. Equal input in any
// order gives equal output. Takes time in proportion to things and waits; of more than some hundred causes `waiters`
// may count only those that wait directly.
WaitAnalysis analyse(const Waiting& waiting, const std::vector<SilentTask>& silent);

// For people: "0.2 s", "12.3 s", "2 min 5 s", "3 h 20 min".
std::string wait_time(std::int64_t ns);

const char* name(RootCause::Kind kind);
const char* name(WaitThing::State state);

}  // namespace troupe
