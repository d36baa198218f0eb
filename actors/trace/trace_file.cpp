#include "troupe/actors/trace/trace_file.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <troupe/messages/device_name.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr int kFirstTrack = 1000;  // tids below it are lanes of steps
constexpr int kNoThread = -1;      // of an arrow's end without a slice around it

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
    std::vector<std::int64_t> lanes;  // when each becomes free
    std::vector<bool> used(recording.tracks.size());
    std::vector<std::int64_t> slices_until(recording.tracks.size(), INT64_MIN);
    for (const TraceEvent& e : events) {
      const std::string& name = recording.names[e.name];
      if (e.kind == TraceKind::step) {
        add_step(e, pid, name, lanes);
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
    for (std::size_t i = 0; i < lanes.size(); ++i)
      name_thread(pid, static_cast<int>(i) + 1, i == 0 ? "steps" : fmt::format("steps ({})", i + 1),
                  static_cast<int>(i));
    for (std::size_t i = 0; i < used.size(); ++i)
      if (used[i])
        name_thread(pid, kFirstTrack + static_cast<int>(i), recording.tracks[i],
                    (recording.tracks[i].starts_with("device ") ? 1 : 2) * kFirstTrack + static_cast<int>(i));
  }

  // A task that pauses at the start or the end delays messages in flight there, and its steps.
  void note_steps(const std::vector<TraceEvent>& events) {
    std::int64_t first_end = INT64_MAX, last_begin = INT64_MIN;
    for (const TraceEvent& e : events) {
      if (e.kind != TraceKind::step) continue;
      longest_ = std::max(longest_, e.end_ns - e.begin_ns);
      if (e.cut) continue;
      first_end = std::min(first_end, e.end_ns);
      last_begin = std::max(last_begin, e.begin_ns);
    }
    if (first_end == INT64_MAX) return;  // no steps of its own
    first_ = std::max(first_, first_end - begin_);
    last_ = std::max(last_, end_ - last_begin);
  }

  void add_step(const TraceEvent& e, int pid, const std::string& name, std::vector<std::int64_t>& lanes) {
    auto lane = std::ranges::find_if(lanes, [&](std::int64_t free) { return free <= e.begin_ns; });
    if (lane == lanes.end()) lane = lanes.insert(lanes.end(), 0);
    *lane = e.end_ns;
    if (!e.cut) ++out_.steps;
    slice(e, pid, static_cast<int>(lane - lanes.begin()) + 1, name,
          fmt::format("\"step\":{},\"step_key\":\"{:x}\"{}", e.step.number, e.step.key, e.cut ? ",\"cut\":true" : ""));
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
          const std::int64_t at = (*rest)[i].at_ns;
          ++(at >= begin_ + std::max(longest_, first_) && at <= end_ - std::max(longest_, last_) ? out_.lost_arrows
                                                                                                 : out_.cut_arrows);
        }
    }
  }

  const std::vector<AlignedTrace>& traces_;
  std::int64_t begin_ = INT64_MIN, end_ = INT64_MAX;  // on our clock
  // A one-ended arrow is lost if it is further from the start and the end of the file than these: no message is in
  // flight that long.
  std::int64_t longest_ = 0;           // the longest step
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
