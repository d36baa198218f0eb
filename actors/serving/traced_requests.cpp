#include "troupe/actors/serving/traced_requests.hpp"

#include <atomic>
#include <charconv>
#include <utility>

namespace troupe {
namespace {

constexpr std::uint64_t kRequestKeys = 1, kStepArrows = 2, kAskArrows = 3;  // what is hashed

std::uint64_t next_request_key() {
  static std::atomic<std::uint64_t> last{0};
  return trace_hash({kRequestKeys, last.fetch_add(1, std::memory_order_relaxed)});
}

// Of "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"; zeros: there is none.
std::array<std::uint64_t, 2> trace_id_of(const std::string& traceparent) {
  constexpr std::size_t kBegin = 3, kDigits = 16;
  std::array<std::uint64_t, 2> out{};
  if (traceparent.size() < kBegin + 2 * kDigits) return out;
  const char* at = traceparent.data() + kBegin;
  for (std::uint64_t& half : out) {
    const auto [end, error] = std::from_chars(at, at + kDigits, half, 16);
    if (error != std::errc() || end != at + kDigits) return {};
    at = end;
  }
  return out;
}

// Between tasks, or "" and this one.
void add_arrow_end(Trace& trace, TraceKind end, const TraceStep& slice, std::uint64_t arrow, Nanoseconds at,
                   const std::string& task) {
  trace.add({.kind = end,
             .track = kInKeyedSlice,
             .begin_ns = at,
             .end_ns = at,
             .step = slice,
             .arrow = arrow & ~kUniqueArrow},
            "request", task);
}

}  // namespace

TracedRequest::TracedRequest(Trace& trace, std::uint32_t track)
    : trace_(trace), track_(track), key_(next_request_key()), arrived_(Trace::now_ns()) {}

void TracedRequest::start(const Servable& servable, ServingRequest& request) {
  servable_ = servable.id().to_string();
  try {
    signature_ = servable.signature_named(request.signature);
  } catch (const Error&) {
    signature_.clear();  // the request will be refused
  }
  figures_.trace_id = trace_id_of(request.trace);
  request.traced = key_;
}

void TracedRequest::end(const ServingResult& result) const {
  if (servable_.empty()) return;
  TraceEvent event{.kind = TraceKind::request,
                   .track = track_,
                   .begin_ns = arrived_,
                   .end_ns = Trace::now_ns(),
                   .step = {.key = key_}};
  RequestFigures figures = figures_;
  figures.queued = result.times.queued;
  figures.batched = result.times.batched;
  figures.run = result.times.run;
  figures.code = result.error.code();
  figures.write_to(event);
  trace_.add(event, servable_, signature_);
}

void trace_step(Trace& trace, std::uint64_t request, const TraceStep& step, Nanoseconds started) {
  const std::uint64_t arrow = trace_hash({kStepArrows, request, step.key});
  add_arrow_end(trace, TraceKind::departs, {.key = request}, arrow, started, "");
  add_arrow_end(trace, TraceKind::arrives, step, arrow, started, "");
}

void trace_ask(Trace& trace, TraceKind end, std::uint64_t request, std::uint64_t number, const TaskName& other) {
  add_arrow_end(trace, end, {.key = request}, trace_hash({kAskArrows, number}), Trace::now_ns(), other.to_string());
}

}  // namespace troupe
