#include "troupe/scheduler/trace/trace.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_set>
#include <utility>

namespace troupe {
namespace {

constexpr std::uint32_t kNoTrack = 0xffffffffu;
constexpr std::size_t kMostTracks = 1 << 14;
constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostNames = 1 << 16;  // per thread

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using Names = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool is_slice(TraceKind kind) {
  return kind != TraceKind::departs && kind != TraceKind::arrives && kind != TraceKind::mailbox;
}

}  // namespace

const char* name(TraceKind kind) {
  switch (kind) {
    case TraceKind::step:
      return "step";
    case TraceKind::segment:
      return "segment";
    case TraceKind::kernel:
      return "kernel";
    case TraceKind::transfer:
      return "transfer";
    case TraceKind::message:
      return "message";
    case TraceKind::mailbox:
      return "mailbox";
    case TraceKind::work:
      return "work";
    case TraceKind::departs:
      return "departs";
    case TraceKind::arrives:
      return "arrives";
    case TraceKind::request:
      return "request";
  }
  return "?";
}

std::uint64_t trace_hash(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ull;
  for (const std::uint64_t number : numbers) {  // the finalizer of splitmix64, by Vigna
    hash = (hash ^ number) + 0x9e3779b97f4a7c15ull;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
    hash ^= hash >> 31;
  }
  return hash == 0 ? 1 : hash;
}

TraceStep TraceStep::of(SessionId session, StepId step, std::uint64_t number) {
  return {trace_hash({session.value, step.value}), number};
}

// ---- What a thread has recorded ------------------------------------------------------------------------------------

struct Trace::Buffer {
  std::mutex mutex;
  std::vector<TraceEvent> events;  // from `next` on once it is full
  std::size_t capacity = 0;
  std::size_t next = 0;
  std::uint64_t overwritten = 0;
  std::int64_t lost_until_ns = 0;  // the end of the last event that was overwritten
  Names names;
  std::vector<std::string> texts;
  std::atomic<bool> in_use{true};  // by a thread

  void clear(std::size_t size) {
    const std::lock_guard lock(mutex);
    events.clear();
    events.shrink_to_fit();
    capacity = std::max<std::size_t>(size, 1);
    next = 0;
    overwritten = 0;
    lost_until_ns = 0;
    names.clear();
    texts.clear();
  }
  std::uint32_t number(std::string_view text) {
    if (const auto it = names.find(text); it != names.end()) return it->second;
    if (texts.size() >= kMostNames) return 0;
    const auto id = static_cast<std::uint32_t>(texts.size());
    names.emplace(text, id);
    texts.emplace_back(text);
    return id;
  }
  void put(const TraceEvent& event) {
    if (events.size() < capacity) return events.push_back(event);
    TraceEvent& oldest = events[next];
    lost_until_ns = std::max(lost_until_ns, oldest.end_ns);
    ++overwritten;
    oldest = event;
    next = (next + 1) % capacity;
  }
};

struct Trace::ThreadPlace {
  std::uint64_t trace = 0;  // Trace::id_
  std::shared_ptr<Buffer> buffer;
  std::uint32_t track = kNoTrack;
  bool has_track = false;

  explicit ThreadPlace(std::uint64_t id) : trace(id) {}
  ThreadPlace(ThreadPlace&&) = default;
  ThreadPlace& operator=(ThreadPlace&&) = default;
  ~ThreadPlace() {
    if (buffer) buffer->in_use.store(false);
  }
};

Trace::ThreadPlace& Trace::place() {
  thread_local std::deque<ThreadPlace> places;
  for (ThreadPlace& p : places)
    if (p.trace == id_) return p;
  std::erase_if(places, [](const ThreadPlace& p) { return p.buffer.use_count() == 1; });  // of destroyed traces
  ThreadPlace& mine = places.emplace_back(id_);
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : buffers_)
    if (bool free = false; buffer->in_use.compare_exchange_strong(free, true)) {
      mine.buffer = buffer;
      return mine;
    }
  if (buffers_.size() >= kMostThreads) return mine;
  mine.buffer = std::make_shared<Buffer>();
  mine.buffer->clear(options_.events_per_thread);
  buffers_.push_back(mine.buffer);
  return mine;
}

// ---- Trace ---------------------------------------------------------------------------------------------------------

Trace::Trace() : id_(next_id()) {}
Trace::~Trace() = default;

std::int64_t Trace::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Trace::start(const TraceOptions& options) {
  const std::lock_guard lock(mutex_);
  on_.store(false);
  options_ = options;
  for (const auto& buffer : buffers_) buffer->clear(options.events_per_thread);
  open_.clear();
  last_begins_.clear();
  unplaced_.store(0);
  status_ = {.state = options.slower_than_ns > 0 ? State::waiting : State::recording, .began_ns = now_ns()};
  began_ns_.store(status_.began_ns);
  until_ns_.store(options.most_ns > 0 ? status_.began_ns + options.most_ns : INT64_MAX);
  on_.store(true);
}

void Trace::stop() {
  const std::lock_guard lock(mutex_);
  if (!on_.exchange(false)) return;
  status_.ended_ns = now_ns();
  status_.state = State::done;
}

void Trace::keep_on() {
  const std::lock_guard lock(mutex_);
  if (options_.most_ns > 0) until_ns_.store(now_ns() + options_.most_ns);
}

Trace::Status Trace::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Trace::begin_step(const TraceStep& step, std::string name) {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  open_.insert_or_assign(step.key, OpenStep{step, std::move(name), now});
}

void Trace::end_step(std::uint64_t key) {
  const std::int64_t now = now_ns();
  std::unique_lock lock(mutex_);
  auto ended = open_.extract(key);
  if (ended.empty() || !on()) return;
  const OpenStep step = std::move(ended.mapped());
  lock.unlock();
  add({.kind = TraceKind::step, .begin_ns = step.begin_ns, .end_ns = now, .step = step.step}, step.name);
  lock.lock();
  if (!on() || step.begin_ns < status_.began_ns) return;
  ++status_.steps;
  const std::int64_t took = now - step.begin_ns;
  if (options_.slower_than_ns > 0) {
    last_begins_.push_back(step.begin_ns);
    if (last_begins_.size() > options_.steps + 1) last_begins_.pop_front();
    if (took <= options_.slower_than_ns) return;
    status_.slow_step = step.step.number;
    status_.slow_step_ns = took;
    status_.began_ns = *std::ranges::min_element(last_begins_);
  } else if (options_.skip > 0) {
    if (status_.steps < options_.skip) return;
    options_.skip = 0;
    status_.steps = 0;
    status_.began_ns = now_ns();
    began_ns_.store(status_.began_ns);
    return;
  } else if (options_.steps == 0 || status_.steps < options_.steps) {
    return;
  }
  on_.store(false);
  status_.ended_ns = now_ns();
  status_.state = State::done;
}

std::uint32_t Trace::add_track(std::string name) {
  const std::lock_guard lock(mutex_);
  if (tracks_.size() >= kMostTracks) return kNoTrack;
  tracks_.push_back(std::move(name));
  return static_cast<std::uint32_t>(tracks_.size() - 1);
}

std::uint32_t Trace::thread_track() {
  ThreadPlace& mine = place();
  if (!std::exchange(mine.has_track, true)) {
    char text[16] = {};
    pthread_getname_np(pthread_self(), text, sizeof text);
    mine.track = add_track(fmt::format("thread {} ({})", text, gettid()));
  }
  return mine.track;
}

void Trace::add(TraceEvent event, std::string_view name, std::string_view detail) {
  if (!on() || event.begin_ns < began_ns_.load(std::memory_order_relaxed)) return;
  if (event.end_ns > until_ns_.load(std::memory_order_relaxed)) return stop();
  ThreadPlace& mine = place();
  if (!mine.buffer || (event.track == kNoTrack && event.kind != TraceKind::step)) {
    unplaced_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard lock(mine.buffer->mutex);
  event.name = mine.buffer->number(name);
  event.detail = mine.buffer->number(detail);
  mine.buffer->put(event);
}

TraceRecording Trace::take(std::int64_t from_ns, std::int64_t to_ns) const {
  const std::lock_guard lock(mutex_);
  TraceRecording out;
  out.tracks = tracks_;
  out.overwritten = unplaced_.load();
  out.began_ns = from_ns == 0 ? status_.began_ns : std::max(from_ns, began_ns_.load());
  out.ended_ns = std::min(to_ns, status_.ended_ns != 0 ? status_.ended_ns : now_ns());
  Names names;
  const auto number = [&](const std::string& text) {
    const auto [it, is_new] = names.emplace(text, static_cast<std::uint32_t>(out.names.size()));
    if (is_new) out.names.push_back(text);
    return it->second;
  };
  for (const auto& buffer : buffers_) {
    const std::lock_guard buffer_lock(buffer->mutex);
    std::vector<std::uint32_t> renumbered;
    for (const std::string& text : buffer->texts) renumbered.push_back(number(text));
    for (TraceEvent event : buffer->events) {
      event.name = renumbered.at(event.name);
      event.detail = renumbered.at(event.detail);
      out.events.push_back(event);
    }
    out.overwritten += buffer->overwritten;
    out.began_ns = std::max(out.began_ns, buffer->lost_until_ns);
  }
  const std::uint32_t nothing = number("");
  for (const auto& [key, step] : open_) {
    const std::uint32_t name = number(step.name);
    out.events.push_back({.kind = TraceKind::step,
                          .cut = true,
                          .name = name,
                          .detail = nothing,
                          .begin_ns = step.begin_ns,
                          .end_ns = out.ended_ns,
                          .step = step.step});
  }
  std::erase_if(out.events, [&](const TraceEvent& e) {
    return e.begin_ns < out.began_ns || e.end_ns > out.ended_ns || e.end_ns < e.begin_ns;
  });
  std::unordered_set<std::uint64_t> steps;
  for (const TraceEvent& e : out.events)
    if (e.kind == TraceKind::step) steps.insert(e.step.key);
  std::erase_if(out.events, [&](const TraceEvent& e) {
    const bool runs_in_step =
        e.kind == TraceKind::kernel || e.kind == TraceKind::segment || e.kind == TraceKind::transfer;
    return runs_in_step && e.step.key != 0 && !steps.contains(e.step.key);
  });
  std::ranges::sort(out.events, [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin_ns != b.begin_ns               ? a.begin_ns < b.begin_ns
           : is_slice(a.kind) != is_slice(b.kind) ? is_slice(a.kind)
                                                  : a.end_ns > b.end_ns;
  });
  return out;
}

// ---- TraceSlice ----------------------------------------------------------------------------------------------------

TraceSlice::TraceSlice(Trace& trace, std::uint32_t track, TraceKind kind, std::string_view name, const TraceStep& step,
                       std::string_view detail)
    : name_(name), detail_(detail) {
  begin(trace, track, kind, step);
}

TraceSlice::TraceSlice(Trace& trace, TraceKind kind, std::string_view name, const TraceStep& step,
                       std::string_view detail)
    : name_(name), detail_(detail) {
  if (!trace.on()) return;
  begin(trace, current_ && current_->trace_ == &trace ? current_->event_.track : trace.thread_track(), kind, step);
}

TraceSlice::TraceSlice(TraceKind kind, std::string_view name, const TraceStep& step, std::string_view detail)
    : name_(name), detail_(detail) {
  if (current_) begin(*current_->trace_, current_->event_.track, kind, step.key != 0 ? step : current_->event_.step);
}

void TraceSlice::begin(Trace& trace, std::uint32_t track, TraceKind kind, const TraceStep& step) {
  trace_ = &trace;
  event_.track = track;
  event_.kind = kind;
  event_.step = step;
  event_.begin_ns = Trace::now_ns();
  outer_ = std::exchange(current_, this);
}

TraceSlice::~TraceSlice() {
  if (!trace_) return;
  current_ = outer_;
  event_.end_ns = Trace::now_ns();
  trace_->add(event_, name_, detail_);
}

void TraceSlice::arrow(Trace& trace, TraceKind end, std::uint64_t id, std::string_view name, const TraceStep& step,
                       std::string_view task) {
  if (!trace.on()) return;
  const bool within = current_ && current_->trace_ == &trace;
  const std::optional<TraceSlice> own =
      within ? std::optional<TraceSlice>()
             : std::optional<TraceSlice>(std::in_place, trace, TraceKind::work, name, step);
  const std::int64_t now = Trace::now_ns();
  trace.add({.kind = end, .track = current_->event_.track, .begin_ns = now, .end_ns = now, .step = step, .arrow = id},
            name, task);
}

}  // namespace troupe
