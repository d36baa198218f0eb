#include "troupe/actors/trace/task_trace.hpp"

#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include <troupe/actors/http/json_text.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kMostSteps = 1'000'000;
constexpr std::int64_t kUnwanted =
    30'000'000'000;  // ns; a recording that nobody has asked about for this long is abandoned

nlohmann::json to_array(const TraceEvent& e) {
  return {static_cast<int>(e.kind),
          e.cut ? 1 : 0,
          static_cast<int>(e.dtype),
          e.rank,
          e.track,
          e.name,
          e.detail,
          e.begin_ns,
          e.end_ns,
          e.step.key,
          e.step.number,
          e.arrow,
          e.bytes,
          e.dims[0],
          e.dims[1],
          e.dims[2],
          e.dims[3]};
}

TraceEvent event_of(const nlohmann::json& a, const TraceRecording& recording) {
  TraceEvent e;
  const auto kind = a.at(0).get<int>(), dtype = a.at(2).get<int>(), rank = a.at(3).get<int>();
  e = {.cut = a.at(1).get<int>() != 0,
       .track = a.at(4).get<std::uint32_t>(),
       .name = a.at(5).get<std::uint32_t>(),
       .detail = a.at(6).get<std::uint32_t>(),
       .begin_ns = a.at(7).get<std::int64_t>(),
       .end_ns = a.at(8).get<std::int64_t>(),
       .step = {a.at(9).get<std::uint64_t>(), a.at(10).get<std::uint64_t>()},
       .arrow = a.at(11).get<std::uint64_t>(),
       .bytes = a.at(12).get<std::uint64_t>()};
  for (std::size_t i = 0; i < e.dims.size(); ++i) e.dims[i] = a.at(13 + i).get<std::int32_t>();
  const bool needs_no_track = kind == static_cast<int>(TraceKind::step) ||
                              (e.track == kInKeyedSlice && (kind == static_cast<int>(TraceKind::departs) ||
                                                            kind == static_cast<int>(TraceKind::arrives)));
  if (kind < 0 || kind > static_cast<int>(TraceKind::request) || dtype < 0 || dtype > 255 || rank < 0 ||
      rank > static_cast<int>(e.dims.size()) || e.name >= recording.names.size() ||
      e.detail >= recording.names.size() || (e.track >= recording.tracks.size() && !needs_no_track))
    invalid_argument("an event is out of range: {}", a.dump());
  e.kind = static_cast<TraceKind>(kind);
  e.dtype = static_cast<DType>(dtype);
  e.rank = static_cast<std::uint8_t>(rank);
  return e;
}

template <class Number>
Number number(const std::map<std::string, std::string>& parameters, const std::string& key, Number least, Number most) {
  const auto found = parameters.find(key);
  if (found == parameters.end()) return 0;
  Number out{};
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !(out >= least && out <= most))
    invalid_argument("{} must be a number from {} to {}, not '{}'", key, least, most, text);
  return out;
}

}  // namespace

const char* name(Trace::State state) {
  switch (state) {
    case Trace::State::idle:
      return "idle";
    case Trace::State::recording:
      return "recording";
    case Trace::State::waiting:
      return "waiting";
    case Trace::State::done:
      return "done";
  }
  return "?";
}

std::string name_of_clock() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string to_json(const TaskTrace& trace) {
  const Trace::Status& s = trace.status;
  nlohmann::json out{{"format", TaskTrace::kFormat},  {"task", trace.task},     {"clock", trace.clock},
                     {"now_ns", trace.now_ns},        {"state", name(s.state)}, {"steps", s.steps},
                     {"began_ns", s.began_ns},        {"ended_ns", s.ended_ns}, {"slow_step", s.slow_step},
                     {"slow_step_ns", s.slow_step_ns}};
  if (trace.recording) {
    const TraceRecording& r = *trace.recording;
    auto events = nlohmann::json::array();
    for (const TraceEvent& e : r.events) events.push_back(to_array(e));
    out["recording"] = {{"began_ns", r.began_ns}, {"ended_ns", r.ended_ns}, {"overwritten", r.overwritten},
                        {"tracks", r.tracks},     {"names", r.names},       {"events", std::move(events)}};
  }
  return json_text(out);
}

TaskTrace parse_task_trace(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    const int format = json.at("format").get<int>();
    if (format > TaskTrace::kFormat)
      fail(Code::failed_precondition,
           "the trace has format {}, written by a later Troupe; this program reads formats up to {}", format,
           TaskTrace::kFormat);
    TaskTrace out{
        .task = json.at("task"), .clock = json.at("clock"), .now_ns = json.at("now_ns"), .status = {}, .recording = {}};
    const auto state = json.at("state").get<std::string>();
    for (const auto known : {Trace::State::idle, Trace::State::recording, Trace::State::waiting, Trace::State::done})
      if (state == name(known)) out.status.state = known;
    out.status.steps = json.at("steps");
    out.status.began_ns = json.at("began_ns");
    out.status.ended_ns = json.at("ended_ns");
    out.status.slow_step = json.at("slow_step");
    out.status.slow_step_ns = json.at("slow_step_ns");
    if (!json.contains("recording")) return out;
    const auto& r = json.at("recording");
    TraceRecording& recording = out.recording.emplace();
    recording.began_ns = r.at("began_ns");
    recording.ended_ns = r.at("ended_ns");
    recording.overwritten = r.at("overwritten");
    recording.tracks = r.at("tracks").get<std::vector<std::string>>();
    recording.names = r.at("names").get<std::vector<std::string>>();
    for (const auto& event : r.at("events")) recording.events.push_back(event_of(event, recording));
    return out;
  } catch (const nlohmann::json::exception& error) {
    invalid_argument("malformed trace of a task: {}", error.what());
  }
}

std::string answer_trace(Trace& trace, const std::string& task, bool post,
                         const std::map<std::string, std::string>& parameters) {
  TaskTrace out{.task = task, .clock = name_of_clock(), .now_ns = 0, .status = {}, .recording = {}};
  if (post && parameters.contains("stop")) {
    trace.stop();
  } else if (post) {
    const auto slower = number<double>(parameters, "slower_than_ms", 1e-3, 1e9);
    trace.start({.steps = number<std::uint64_t>(parameters, "steps", 0, kMostSteps),
                 .slower_than_ns = std::llround(slower * 1e6),
                 .most_ns = kUnwanted});
  } else if (parameters.contains("events")) {
    constexpr std::int64_t kEver = INT64_MAX;
    const auto to = number<std::int64_t>(parameters, "to", 0, kEver);
    out.recording = trace.take(number<std::int64_t>(parameters, "from", 0, kEver), to == 0 ? kEver : to);
  } else {
    trace.keep_on();
  }
  out.status = trace.status();
  out.now_ns = Trace::now_ns();
  return to_json(out);
}

}  // namespace troupe
