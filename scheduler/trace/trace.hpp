// Records the activity of a task: steps, segments, kernels, messages of actors, requests for models, and the ends of
// arrows between them.
// One Trace per task; while it is off, checking it costs one relaxed load.
//
// Each thread writes into a ring of its own: the oldest events are overwritten, and the start of the complete range is
// known. Times are nanoseconds of the steady clock. All methods are thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <troupe/messages/dtype.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

enum class TraceKind : std::uint8_t {
  step,  // of a client, or a slot of a worker; on tasks other than the client's: its part
  segment,
  kernel,
  transfer,  // a Send, Push, Contribute or Fetch node
  message,   // an actor handles it
  mailbox,   // a message has waited for its actor, on the actor's track
  work,      // an update of a shard, a batch being gathered, stages of its pipeline
  departs,   // an arrow begins in the enclosing slice, at begin_ns
  arrives,   // and ends
  request,   // for a model (request_figures.hpp); those of a track overlap
};
const char* name(TraceKind kind);

// The step that an event belongs to, or the request.
struct TraceStep {
  std::uint64_t key = 0;     // unique in the cluster; 0: none
  std::uint64_t number = 0;  // for display
  static TraceStep of(SessionId session, StepId step, std::uint64_t number);
};

// Equal numbers give equal hashes on all tasks.
std::uint64_t trace_hash(std::initializer_list<std::uint64_t> numbers);

// In TraceEvent::arrow: its number is unique in the cluster. Otherwise it is unique between the two tasks.
inline constexpr std::uint64_t kUniqueArrow = std::uint64_t{1} << 63;

// In TraceEvent::track of an arrow's end: it is in the slice of the step or request that TraceEvent::step names.
inline constexpr std::uint32_t kInKeyedSlice = 0xfffffffeu;

struct TraceEvent {
  TraceKind kind = TraceKind::work;
  bool cut = false;  // a step that had not ended when the recording did
  DType dtype = DType::invalid;
  std::uint8_t rank = 0;  // of the first output, if up to 4; with dtype invalid: not known
  std::uint32_t track = 0;
  std::uint32_t name = 0;    // in TraceRecording::names
  std::uint32_t detail = 0;  // likewise: a kernel's op, the other task of an arrow
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  TraceStep step;
  std::uint64_t arrow = 0;  // the same at both ends
  std::uint64_t bytes = 0;
  std::array<std::int32_t, 4> dims{};
};

// The recording of a task: all of [began_ns, ended_ns], and nothing else.
struct TraceRecording {
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;
  std::uint64_t overwritten = 0;  // events before began_ns that were lost
  std::vector<std::string> tracks;
  std::vector<std::string> names;
  std::vector<TraceEvent> events;  // by begin; of equal ones, the longer first
};

struct TraceOptions {
  std::uint64_t steps = 0;  // ends by itself after this many steps of this task; 0: does not
  std::uint64_t skip = 0;   // steps before the first that counts
  // Ends with the first step that takes longer; `steps` is then the number of steps wanted before it. 0: does not.
  std::int64_t slower_than_ns = 0;
  std::int64_t most_ns = 0;                              // ends after this time; 0: does not. See keep_on()
  std::size_t events_per_thread = std::size_t{1} << 17;  // 96 bytes each
};

class Trace {
 public:
  enum class State : std::uint8_t { idle, recording, waiting, done };
  struct Status {
    State state = State::idle;
    std::uint64_t steps = 0;    // steps that have ended since it began
    std::int64_t began_ns = 0;  // after a step that was too slow: of the first step wanted
    std::int64_t ended_ns = 0;
    std::uint64_t slow_step = 0;  // the number of the step that was too slow, if one was
    std::int64_t slow_step_ns = 0;
  };

  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Discards earlier recordings.
  void start(const TraceOptions& options = {});
  void stop();
  // The recording is still wanted: TraceOptions::most_ns counts from now on.
  void keep_on();
  Status status() const;
  // The events within [from_ns, to_ns], or since Status::began_ns. Segments and kernels of steps that began before are
  // left out.
  TraceRecording take(std::int64_t from_ns = 0, std::int64_t to_ns = INT64_MAX) const;

  // Begin and end a step of this task. Its events lie between the two.
  void begin_step(const TraceStep& step, std::string name);
  void end_step(std::uint64_t key);

  // A track for slices that do not overlap, except by nesting.
  std::uint32_t add_track(std::string name);
  std::uint32_t thread_track();  // of the calling thread
  // `event` without name and detail.
  void add(TraceEvent event, std::string_view name, std::string_view detail = {});

  static std::int64_t now_ns();

 private:
  struct Buffer;
  struct ThreadPlace;
  struct OpenStep {
    TraceStep step;
    std::string name;
    std::int64_t begin_ns;
  };
  ThreadPlace& place();

  const std::uint64_t id_;
  std::atomic<bool> on_{false};
  std::atomic<std::int64_t> began_ns_{0};
  std::atomic<std::int64_t> until_ns_{INT64_MAX};
  mutable std::mutex mutex_;  // guards the members below
  TraceOptions options_;
  Status status_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<std::string> tracks_;
  std::unordered_map<std::uint64_t, OpenStep> open_;
  std::deque<std::int64_t> last_begins_;  // of the latest steps to end, while it waits for a slow one
  std::atomic<std::uint64_t> unplaced_{0};
};

// An activity of a thread, for the lifetime of this object. Slices of a thread are nested.
class TraceSlice {
 public:
  // On a track; `name` and `detail` must outlive it.
  TraceSlice(Trace& trace, std::uint32_t track, TraceKind kind, std::string_view name, const TraceStep& step = {},
             std::string_view detail = {});
  // On the track of the thread's innermost slice, if that is of this trace, otherwise on the thread's own. Does nothing
  // if the trace is off.
  TraceSlice(Trace& trace, TraceKind kind, std::string_view name, const TraceStep& step = {},
             std::string_view detail = {});
  // Within the thread's innermost slice. Does nothing if there is none.
  explicit TraceSlice(TraceKind kind, std::string_view name, const TraceStep& step = {}, std::string_view detail = {});
  TraceSlice(const TraceSlice&) = delete;
  TraceSlice& operator=(const TraceSlice&) = delete;
  ~TraceSlice();

  // The thread's innermost slice; null: nothing is recorded.
  static TraceSlice* current() { return current_; }
  Trace& trace() const { return *trace_; }
  std::uint32_t track() const { return event_.track; }
  const TraceStep& step() const { return event_.step; }
  TraceEvent& event() { return event_; }

  // An arrow begins or ends now, in the innermost slice of this thread, or in one of its own. `task`: the task at the
  // other end; "": this one.
  static void arrow(Trace& trace, TraceKind end, std::uint64_t id, std::string_view name, const TraceStep& step,
                    std::string_view task);

 private:
  void begin(Trace& trace, std::uint32_t track, TraceKind kind, const TraceStep& step);

  Trace* trace_ = nullptr;  // null: nothing is recorded
  std::string_view name_, detail_;
  TraceEvent event_;
  TraceSlice* outer_ = nullptr;
  static inline constinit thread_local TraceSlice* current_ = nullptr;
};

}  // namespace troupe
