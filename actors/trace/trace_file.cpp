#include "troupe/actors/trace/trace_file.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <troupe/messages/device_name.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/scheduler/trace/request_figures.hpp>

namespace troupe {
namespace {

constexpr int kFirstTrack = 1000;           // tids below it are lanes of steps
constexpr int kFirstRequestLane = 1 << 20;  // tids from here on are lanes of requests
constexpr int kLanesOfDoor = 1 << 16;       // tids of a track of requests
constexpr int kNoThread = -1;               // of an arrow's end without a slice around it

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

// The task's name as recorded in messages (PackedTask).
std::string packed(const std::string& task) {
  const std::string job = task.substr(0, task.find("/task:"));
  constexpr std::size_t kPrefix = 5, kKept = 12;  // "/job:"; PackedTask
  return job.size() <= kPrefix + kKept ? task : job.substr(0, kPrefix + kKept) + task.substr(job.size());
}

struct Line {
  std::int64_t at_ns;
  std::int64_t length_ns;  // of equal times the longer first
  int order;               // then this
  std::string text;
};

struct End {
  std::int64_t at_ns;
  int pid, tid;
  std::string name;
};

// Slices that overlap are laid out side by side: each in the first lane that is free.
class Lanes {
 public:
  explicit Lanes(int first_tid) : first_tid_(first_tid) {}
  // The tid of its lane. Slices come by their begin.
  int place(const TraceEvent& e) {
    auto lane = std::ranges::find_if(free_, [&](std::int64_t free) { return free <= e.begin_ns; });
    if (lane == free_.end()) lane = free_.insert(free_.end(), 0);
    *lane = e.end_ns;
    return first_tid_ + static_cast<int>(lane - free_.begin());
  }
  // Of all tids: "steps", "steps (2)" and so on.
  std::vector<std::pair<int, std::string>> names(const std::string& first) const {
    std::vector<std::pair<int, std::string>> out;
    for (std::size_t i = 0; i < free_.size(); ++i)
      out.emplace_back(first_tid_ + static_cast<int>(i), i == 0 ? first : fmt::format("{} ({})", first, i + 1));
    return out;
  }

 private:
  const int first_tid_;
  std::vector<std::int64_t> free_;  // when each becomes free
};

// Where a step or request is.
struct InLane {
  int tid;
  std::int64_t begin_ns, end_ns;
};

// All arrow ends with the same number between the same tasks.
struct Ends {
  std::vector<End> departs, arrives;
};

class Writer {
 public:
  explicit Writer(const std::vector<AlignedTrace>& traces) : traces_(traces) {
    if (traces.empty()) invalid_argument("no traces to write");
    for (const AlignedTrace& t : traces) {
      if (!t.trace.recording) invalid_argument("{} sent no recording", t.trace.task);
      begin_ = std::max(begin_, t.trace.recording->began_ns - t.offset_ns);
      end_ = std::min(end_, t.trace.recording->ended_ns - t.offset_ns);
    }
    if (end_ <= begin_)
      invalid_argument(
          "the recordings do not overlap in time: a ring buffer was too short, or they were stopped too soon");
  }

  TraceFile write(const std::string& cluster) {
    for (std::size_t i = 0; i < traces_.size(); ++i) add_task(traces_[i], static_cast<int>(i) + 1);
    add_arrows();
    std::ranges::stable_sort(lines_, [](const Line& a, const Line& b) {
      return std::tuple(a.at_ns, -a.length_ns, a.order) < std::tuple(b.at_ns, -b.length_ns, b.order);
    });
    out_.events = lines_.size();
    std::string& json = out_.json;
    json = "{\"displayTimeUnit\":\"ms\",\"otherData\":" + about(cluster) + ",\n\"traceEvents\":[\n";
    bool first = true;
    const auto put = [&](const std::string& text) {
      if (!std::exchange(first, false)) json += ",\n";
      json += text;
    };
    for (const std::string& line : names_) put(line);
    for (const Line& line : lines_) put(line.text);
    json += "\n]}\n";
    return std::move(out_);
  }

 private:
  std::string about(const std::string& cluster) const {
    std::string tasks;
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      const AlignedTrace& t = traces_[i];
      tasks += fmt::format(
          "{}{{\"pid\":{},\"task\":{},\"offset_ns\":{},\"uncertainty_ns\":{},\"overwritten\":{},\"slow_step\":{},"
          "\"slow_step_ns\":{}}}",
          i == 0 ? "" : ",", i + 1, quoted(t.trace.task), t.offset_ns, t.uncertainty_ns, t.trace.recording->overwritten,
          t.trace.status.slow_step, t.trace.status.slow_step_ns);
    }
    return fmt::format(
        "{{\"producer\":\"Troupe\",\"cluster\":{},\"microseconds\":{},\"steps\":{},\"arrows\":{},\"cut_arrows\":{},"
        "\"lost_arrows\":{},\"tasks\":[{}]}}",
        quoted(cluster), microseconds(end_ - begin_), out_.steps, out_.arrows, out_.cut_arrows, out_.lost_arrows,
        tasks);
  }

  void name_thread(int pid, int tid, const std::string& text, int order) {
    names_.push_back(
        fmt::format("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", pid,
                    tid, quoted(text)));
    names_.push_back(fmt::format(
        "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}}", pid,
        tid, order));
  }

  void slice(const TraceEvent& e, int pid, int tid, const std::string& name, const std::string& arguments) {
    lines_.push_back(
        {e.begin_ns, e.end_ns - e.begin_ns, 0,
         fmt::format(
             "{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{{}}}}}",
             troupe::name(e.kind), quoted(name), pid, tid, microseconds(e.begin_ns - begin_),
             microseconds(e.end_ns - e.begin_ns), arguments)});
  }

  void add_task(const AlignedTrace& aligned, int pid) {
    const TraceRecording& recording = *aligned.trace.recording;
    out_.overwritten += recording.overwritten;
    names_.push_back(
        fmt::format("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"tid\":0,\"args\":{{\"name\":{}}}}}", pid,
                    quoted(aligned.trace.task)));
    names_.push_back(fmt::format(
        "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"tid\":0,\"args\":{{\"sort_index\":{}}}}}", pid,
        pid));
    std::vector<TraceEvent> events;
    std::unordered_set<std::uint64_t> steps;
    for (TraceEvent e : recording.events) {
      e.begin_ns -= aligned.offset_ns;
      e.end_ns -= aligned.offset_ns;
      if (e.kind == TraceKind::step && e.end_ns > end_ && e.begin_ns < end_) {
        e.cut = true;
        e.end_ns = end_;
      }
      if (e.begin_ns < begin_ || e.end_ns > end_) continue;
      if (e.kind == TraceKind::step) steps.insert(e.step.key);
      events.push_back(e);
    }
    note_steps(events);
    const std::unordered_map<std::uint64_t, InLane> in_lanes = add_keyed_slices(events, pid, recording);
    std::vector<bool> used(recording.tracks.size());
    std::vector<std::int64_t> slices_until(recording.tracks.size(), INT64_MIN);
    for (const TraceEvent& e : events) {
      if (e.kind == TraceKind::step || e.kind == TraceKind::request) continue;
      if (e.track == kInKeyedSlice) {
        add_arrow_in_lane(e, pid, in_lanes, recording, aligned.trace.task);
        continue;
      }
      const bool runs_in_step =
          e.kind == TraceKind::kernel || e.kind == TraceKind::segment || e.kind == TraceKind::transfer;
      if (runs_in_step && !steps.contains(e.step.key)) continue;
      // The slice around an arrow's end may lie outside the file's time range, and is then missing.
      if (e.kind == TraceKind::departs || e.kind == TraceKind::arrives) {
        if (e.begin_ns > slices_until[e.track]) {
          add_arrow(e, pid, kNoThread, recording, aligned.trace.task);
          continue;
        }
      } else if (e.kind != TraceKind::mailbox) {
        slices_until[e.track] = std::max(slices_until[e.track], e.end_ns);
      }
      used[e.track] = true;
      add(e, pid, kFirstTrack + static_cast<int>(e.track), recording, aligned.trace.task);
    }
    for (std::size_t i = 0; i < used.size(); ++i)
      if (used[i])
        name_thread(pid, kFirstTrack + static_cast<int>(i), recording.tracks[i],
                    (recording.tracks[i].starts_with("device ") ? 2 : 3) * kFirstTrack + static_cast<int>(i));
  }

  // Adds steps and requests, and names their lanes. Returns where they are, by key.
  std::unordered_map<std::uint64_t, InLane> add_keyed_slices(const std::vector<TraceEvent>& events, int pid,
                                                             const TraceRecording& recording) {
    std::unordered_map<std::uint64_t, InLane> out;
    Lanes steps(1);
    std::map<std::uint32_t, Lanes> doors;  // by track
    for (const TraceEvent& e : events) {
      if (e.kind != TraceKind::step && e.kind != TraceKind::request) continue;
      const std::string& name = recording.names[e.name];
      int tid = 0;
      if (e.kind == TraceKind::step) {
        tid = steps.place(e);
        add_step(e, pid, tid, name);
      } else {
        const auto door = doors.try_emplace(e.track, kFirstRequestLane + static_cast<int>(doors.size()) * kLanesOfDoor);
        tid = door.first->second.place(e);
        add_request(e, pid, tid, name, recording.names[e.detail]);
      }
      out.insert_or_assign(e.step.key, InLane{tid, e.begin_ns, e.end_ns});
    }
    int order = 0;  // requests come before steps, devices and other actors
    for (const auto& [track, lanes] : doors)
      for (const auto& [tid, name] : lanes.names(recording.tracks[track])) name_thread(pid, tid, name, order++);
    order = kFirstTrack;
    for (const auto& [tid, name] : steps.names("steps")) name_thread(pid, tid, name, order++);
    return out;
  }

  // A task that pauses at the start or the end delays messages in flight there, and its steps.
  void note_steps(const std::vector<TraceEvent>& events) {
    std::int64_t first_end = INT64_MAX, last_begin = INT64_MIN;
    for (const TraceEvent& e : events) {
      if (e.kind != TraceKind::step && e.kind != TraceKind::request) continue;
      longest_ = std::max(longest_, e.end_ns - e.begin_ns);
      if (e.kind == TraceKind::request || e.cut) continue;
      first_end = std::min(first_end, e.end_ns);
      last_begin = std::max(last_begin, e.begin_ns);
    }
    if (first_end == INT64_MAX) return;  // no steps of its own
    first_ = std::max(first_, first_end - begin_);
    last_ = std::max(last_, end_ - last_begin);
  }

  void add_step(const TraceEvent& e, int pid, int tid, const std::string& name) {
    if (!e.cut) ++out_.steps;
    slice(e, pid, tid, name,
          fmt::format("\"step\":{},\"step_key\":\"{:x}\"{}", e.step.number, e.step.key, e.cut ? ",\"cut\":true" : ""));
  }

  void add_request(const TraceEvent& e, int pid, int tid, const std::string& name, const std::string& signature) {
    const RequestFigures figures = RequestFigures::of(e);
    const std::size_t slash = std::min(name.rfind('/'), name.size());
    std::string arguments = fmt::format("\"model\":{},\"version\":{},\"signature\":{}", quoted(name.substr(0, slash)),
                                        quoted(name.substr(std::min(slash + 1, name.size()))), quoted(signature));
    if (figures.trace_id != decltype(figures.trace_id){})
      arguments += fmt::format(",\"trace_id\":\"{:016x}{:016x}\"", figures.trace_id[0], figures.trace_id[1]);
    arguments += fmt::format(",\"queue_us\":{},\"batch_us\":{},\"run_us\":{}", figures.queued / kMicrosecond,
                             figures.batched / kMicrosecond, figures.run / kMicrosecond);
    if (figures.code != Code::ok) arguments += fmt::format(",\"error\":\"{}\"", troupe::name(figures.code));
    slice(e, pid, tid, name, arguments);
  }

  // An end is within its slice, wherever the thread was that told of it.
  void add_arrow_in_lane(TraceEvent e, int pid, const std::unordered_map<std::uint64_t, InLane>& in_lanes,
                         const TraceRecording& recording, const std::string& task) {
    const auto slice = in_lanes.find(e.step.key);
    if (slice == in_lanes.end()) return add_arrow(e, pid, kNoThread, recording, task);
    e.begin_ns = std::max(std::min(e.begin_ns, slice->second.end_ns), slice->second.begin_ns);
    add_arrow(e, pid, slice->second.tid, recording, task);
  }

  void add_arrow(const TraceEvent& e, int pid, int tid, const TraceRecording& recording, const std::string& task) {
    const std::string& detail = recording.names[e.detail];
    const std::string self = packed(task), other = detail.empty() ? self : detail;
    const bool departs = e.kind == TraceKind::departs, unique = (e.arrow & kUniqueArrow) != 0;
    Ends& ends = arrows_[{e.arrow, unique ? "" : departs ? self : other, unique ? "" : departs ? other : self}];
    (departs ? ends.departs : ends.arrives).push_back({e.begin_ns, pid, tid, recording.names[e.name]});
  }

  void add(const TraceEvent& e, int pid, int tid, const TraceRecording& recording, const std::string& task) {
    if (e.kind == TraceKind::departs || e.kind == TraceKind::arrives) return add_arrow(e, pid, tid, recording, task);
    const std::string& name = recording.names[e.name];
    const std::string& detail = recording.names[e.detail];
    if (e.kind == TraceKind::mailbox) {
      const std::string common =
          fmt::format("\"cat\":\"mailbox\",\"id\":\"{}.{}\",\"pid\":{},\"tid\":{}", pid, ++waits_, pid, tid);
      const std::string text = quoted(fmt::format("mailbox of {}", recording.tracks[e.track]));
      lines_.push_back({e.begin_ns, 0, 1,
                        fmt::format("{{\"ph\":\"b\",{},\"name\":{},\"ts\":{},\"args\":{{\"message\":{},\"step\":{}}}}}",
                                    common, text, microseconds(e.begin_ns - begin_), quoted(name), e.step.number)});
      lines_.push_back(
          {e.end_ns, 0, 2,
           fmt::format("{{\"ph\":\"e\",{},\"name\":{},\"ts\":{}}}", common, text, microseconds(e.end_ns - begin_))});
      return;
    }
    std::string arguments;
    const auto argument = [&](const char* key, const std::string& value) {
      arguments += fmt::format("{}\"{}\":{}", arguments.empty() ? "" : ",", key, value);
    };
    if (!detail.empty())
      argument(e.kind == TraceKind::kernel || e.kind == TraceKind::transfer ? "op" : "of", quoted(detail));
    if (e.step.key != 0 || e.step.number != 0) argument("step", std::to_string(e.step.number));
    if (e.step.key != 0) argument("step_key", fmt::format("\"{:x}\"", e.step.key));
    if (e.bytes != 0) argument("bytes", std::to_string(e.bytes));
    if (e.dtype != DType::invalid) {
      std::string shape;
      for (int i = 0; i < e.rank; ++i)
        shape += fmt::format("{}{}", i == 0 ? "" : ",", e.dims[static_cast<std::size_t>(i)]);
      argument("output", quoted(fmt::format("{}[{}]", troupe::name(e.dtype), shape)));
    }
    slice(e, pid, tid, name, arguments);
  }

  // Departures match arrivals in order: messages between two actors keep their order.
  void add_arrows() {
    for (auto& [key, ends] : arrows_) {
      std::ranges::sort(ends.departs, {}, &End::at_ns);
      std::ranges::sort(ends.arrives, {}, &End::at_ns);
      const std::size_t pairs = std::min(ends.departs.size(), ends.arrives.size());
      for (std::size_t i = 0; i < pairs; ++i) {
        const End &from = ends.departs[i], &to = ends.arrives[i];
        if (from.tid == kNoThread || to.tid == kNoThread) {
          ++out_.cut_arrows;
          continue;
        }
        const std::uint64_t id = ++out_.arrows;
        const auto end = [&](const char* phase, const End& at, int order) {
          lines_.push_back(
              {at.at_ns, 0, order,
               fmt::format(
                   "{{\"ph\":\"{}\",{}\"cat\":\"arrow\",\"id\":{},\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{}}}", phase,
                   *phase == 'f' ? "\"bp\":\"e\"," : "", id, quoted(to.name), at.pid, at.tid,
                   microseconds(at.at_ns - begin_))});
        };
        end("s", from, 3);
        end("f", to, 4);
      }
      for (const auto* rest : {&ends.departs, &ends.arrives})
        for (std::size_t i = pairs; i < rest->size(); ++i) {
          const auto& [at, pid, tid, name] = (*rest)[i];
          ++(tid != kNoThread && at >= begin_ + std::max(longest_, first_) && at <= end_ - std::max(longest_, last_)
                 ? out_.lost_arrows
                 : out_.cut_arrows);
        }
    }
  }

  const std::vector<AlignedTrace>& traces_;
  std::int64_t begin_ = INT64_MIN, end_ = INT64_MAX;  // on our clock
  // A one-ended arrow is lost if it is further from the start and the end of the file than these: no message is in
  // flight that long.
  std::int64_t longest_ = 0;           // the longest step or request
  std::int64_t first_ = 0, last_ = 0;  // until the first complete step of each task has ended, since the last has begun
  std::uint64_t waits_ = 0;
  std::vector<std::string> names_;
  std::vector<Line> lines_;
  std::map<std::tuple<std::uint64_t, std::string, std::string>, Ends> arrows_;  // by number, from and to
  TraceFile out_;
};

}  // namespace

TraceFile make_trace_file(const std::vector<AlignedTrace>& traces, const std::string& cluster) {
  return Writer(traces).write(cluster);
}

}  // namespace troupe
