#include "troupe/actors/wire/wire.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <troupe/actors/wire/cork.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kEventId = 0;
constexpr std::uint64_t kListenerId = 1;
constexpr std::size_t kFlushBudget = 1 << 20;
constexpr std::size_t kReadBudget = 1 << 20;
constexpr std::chrono::milliseconds kAcceptPause{50};

void check_options(const WireOptions& o) {
  const auto require = [](bool holds, std::string_view what) {
    if (!holds) invalid_argument("invalid wire options: {}", what);
  };
  require(!o.self.job.empty() && o.self.index >= 0, "self must name a task");
  require(o.self.job.size() <= wire::Authentication::kMaxJob, "the job name of self has more than 64 bytes");
  require(o.connection.chunk_bytes > 0 && o.connection.chunk_bytes <= wire::kMaxChunk, "chunk_bytes out of range");
  require(o.connection.window >= 2 * wire::kMaxChunk, "window must hold two chunks of 256 KiB");
  require(o.heartbeat_every.count() > 0, "heartbeat_every must be positive");
  require(o.heartbeat_every < o.suspect_after && o.suspect_after <= o.down_after,
          "need heartbeat_every < suspect_after <= down_after");
}

void add_to_epoll(int epoll, int fd, std::uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
    fail(Code::resource_exhausted, "cannot watch a socket: {}", wire::errno_text(errno));
}

void set_interest(int epoll, int fd, std::uint64_t id, std::uint32_t interest) {
  epoll_event event{};
  event.events = interest;
  event.data.u64 = id;
  ::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
}

}  // namespace

Wire::Wire(WireOptions options, WireHandler& handler)
    : options_(std::move(options)),
      handler_(handler),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      handshake_(options_.self, options_.cluster, options_.incarnation),
      key_(std::make_shared<const wire::TokenKey>(options_.token, options_.cluster)),
      address_(options_.address) {
  check_options(options_);
  if (!epoll_ || !event_) fail(Code::resource_exhausted, "no free file descriptors: {}", wire::errno_text(errno));
  add_to_epoll(epoll_.get(), event_.get(), kEventId);
  thread_ = std::thread([this] { run(); });
}

Wire::~Wire() { shutdown(); }

std::uint16_t Wire::listen() {
  wire::Fd listener = wire::listen_on(wire::resolve(options_.listen_host, options_.listen_port));
  const std::uint16_t port = wire::port_of(listener);
  listen(std::move(listener));
  return port;
}

void Wire::listen(wire::Fd listener) {
  post([this, socket = std::make_shared<wire::Fd>(std::move(listener))] {
    if (leaving_) return;
    if (options_.address.empty()) address_ = wire::address_text(options_.listen_host, wire::port_of(*socket));
    listener_ = std::move(*socket);
    add_to_epoll(epoll_.get(), listener_.get(), kListenerId);
  });
}

void Wire::dial(const TaskName& peer, const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout) {
  Dial dial;
  dial.address = wire::resolve(host, port);
  dial.started = dial.next_attempt = Clock::now();
  dial.deadline = dial.started + timeout;
  post([this, peer, dial = std::move(dial)] {
    if (leaving_) {
      handler_.dial_failed(peer, Error(Code::cancelled, "this task is shutting down"));
    } else if (!open_peers_.contains(peer)) {
      dials_.try_emplace(peer, dial);
    }
  });
}

std::shared_ptr<Wire::Connection> Wire::find(PeerId peer) const {
  const std::lock_guard lock(peers_mutex_);
  const auto it = open_connections_.find(peer);
  return it == open_connections_.end() ? nullptr : it->second;
}

Error Wire::send_on(const std::shared_ptr<Connection>& connection, const Frame& frame) {
  wire::Cork* const cork = wire::Cork::current();
  if (!cork) return connection->send(frame);
  cork->add(connection);
  return connection->queue(frame);
}

Error Wire::send(PeerId peer, const Frame& frame) {
  const auto connection = find(peer);
  if (!connection) return Error(Code::unavailable, fmt::format("connection {} is not open", peer.value));
  return send_on(connection, frame);
}

Error Wire::send(const TaskName& peer, const Frame& frame) {
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(peers_mutex_);
    if (const auto it = open_peers_.find(peer); it != open_peers_.end()) connection = open_connections_.at(it->second);
  }
  if (!connection) return Error(Code::unavailable, fmt::format("no connection to {}", peer.to_string()));
  return send_on(connection, frame);
}

void Wire::close(PeerId peer, Error reason) {
  post([this, peer, reason = std::move(reason)] {
    const auto it = links_.find(peer.value);
    if (it != links_.end() && it->second.stage == Stage::open) end_link(it->second, reason, Farewell::goodbye);
  });
}

void Wire::answer(PeerId question, Error error, std::string text) {
  post([this, question, error = std::move(error), text = std::move(text)] {
    const auto it = links_.find(question.value);
    if (it == links_.end() || it->second.stage != Stage::asking) return;
    it->second.questioned->answer(error, text);
    tell(it->second);
  });
}

void Wire::hold_credit(PeerId peer, bool hold) {
  if (const auto connection = find(peer)) connection->hold_credit(hold);
}

namespace {

class DeferredCredit final : public LocalWork {
 public:
  DeferredCredit(std::weak_ptr<wire::Connection> connection, std::uint64_t bytes)
      : connection_(std::move(connection)), bytes_(bytes) {}
  ~DeferredCredit() override {
    if (const auto connection = connection_.lock()) connection->taken(bytes_);
  }

 private:
  const std::weak_ptr<wire::Connection> connection_;
  const std::uint64_t bytes_;
};

}  // namespace

LocalHandle Wire::defer_credit(PeerId peer, std::uint64_t bytes) {
  const auto it = links_.find(peer.value);
  if (it == links_.end()) return nullptr;
  it->second.connection->defer(bytes);
  return std::make_shared<DeferredCredit>(it->second.connection, bytes);
}

std::shared_ptr<const LinkCounters> Wire::counters(PeerId peer) const {
  const auto connection = find(peer);
  return connection ? std::shared_ptr<const LinkCounters>(connection, &connection->counters()) : nullptr;
}

void Wire::shutdown() {
  const std::lock_guard lock(shutdown_mutex_);
  if (!thread_.joinable()) return;
  post([this] { leave_all(); });
  thread_.join();
}

void Wire::post(std::function<void()> command) {
  {
    const std::lock_guard lock(commands_mutex_);
    commands_.push_back(std::move(command));
  }
  const std::uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof one);  // a full counter means that the thread is about to wake anyway
}

void Wire::run_commands() {
  std::uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof count);
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(commands_mutex_);
    commands.swap(commands_);
  }
  for (auto& command : commands) command();
}

void Wire::run() {
  std::array<epoll_event, 64> events;
  while (!leaving_ || !links_.empty()) {
    const auto now = Clock::now();
    const auto timer = next_timer();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timer - now).count();
    const int wait =
        timer == Clock::time_point::max() ? -1 : static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
    const int count = await_events(events, wait);
    serve_shared();
    for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0))))
      on_event(event.data.u64, event.events);
    if (const auto then = Clock::now(); then >= timer) run_timers(then);
    for (const std::uint64_t id : ended_) {
      links_.erase(id);
      std::erase(shared_, id);
    }
    ended_.clear();
  }
}

// Like epoll_wait(), but first polls for a while, yielding its core: an answer is often in flight.
int Wire::await_events(std::span<epoll_event> events, int milliseconds) {
  const auto look = [&](int wait) {
    return ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait);
  };
  for (const auto soon = Clock::now() + options_.awake;;) {
    if (const int count = look(0); count > 0 || milliseconds == 0 || serve_shared()) return count;
    if (Clock::now() >= soon) return shared_sleep() ? look(milliseconds) : 0;
    std::this_thread::yield();
  }
}

// True if the link reads frames.
bool Wire::hears(const Link& link) {
  return link.stage == Stage::open || (link.stage == Stage::closing && link.leaving);
}

// Serves shared memory, which no socket reports. Returns false if there was nothing to do.
bool Wire::serve_shared() {
  bool some = false;
  for (const std::uint64_t id : shared_) {
    Link& link = links_.at(id);
    if (link.blocked && link.stage != Stage::closed && link.connection->writable()) {
      some = true;
      flush(link);
    }
    if (!hears(link) || !link.connection->buffered()) continue;
    some = true;
    read(link);
  }
  return some;
}

// Switches to notification by sockets. Returns false if something has already arrived.
bool Wire::shared_sleep() {
  bool asleep = true;
  for (const std::uint64_t id : shared_) {
    const Link& link = links_.at(id);
    if (link.stage == Stage::closed) continue;
    const bool nothing = link.connection->sleep(link.blocked);
    asleep = asleep && (nothing || (!hears(link) && !link.blocked));
  }
  return asleep;
}

void Wire::on_event(std::uint64_t id, std::uint32_t events) {
  if (id == kEventId) return run_commands();
  if (id == kListenerId) return accept_all();
  const auto it = links_.find(id);
  if (it == links_.end() || it->second.stage == Stage::closed) return;
  Link& link = it->second;
  if (link.stage == Stage::connecting) return finish_connect(link);
  if (link.stage == Stage::securing) return secure(link);
  if (link.stage == Stage::proving) return prove(link);
  if (link.stage == Stage::asking) {
    const bool waits = link.questioned->asked();
    return waits ? end_link(link, gone(), Farewell::none) : hear(link);
  }
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read(link);
  if ((events & EPOLLOUT) && link.stage != Stage::closed) flush(link);
}

void Wire::accept_all() {
  std::string address;
  // Not all at once: early connections must be served before they become the oldest.
  for (std::size_t room = std::max<std::size_t>(options_.max_strangers / 2, 1); listener_ && room > 0; --room) {
    int error = 0;
    wire::Fd socket = wire::accept_from(listener_, address, error);
    if (error == EINTR || error == ECONNABORTED) continue;
    // Without a free descriptor the listener would stay readable, and the loop would spin.
    if (error != 0 && error != EAGAIN && error != EWOULDBLOCK) pause_accepting();
    if (error != 0) return;
    make_room_for_stranger();
    wire::tune(socket);
    secure(add_link(std::move(socket), Stage::securing, address));
  }
}

// Closing connections count until they are gone, and go first; authenticated ones go last.
void Wire::make_room_for_stranger() {
  std::size_t strangers = 0;
  Link* oldest = nullptr;
  const auto age = [](const Link& link) {
    const bool leaves = link.stage == Stage::closing || link.stage == Stage::draining;
    const bool has_proved = link.stage == Stage::greeting || link.stage == Stage::asking;
    return std::pair(leaves ? 0 : has_proved ? 2 : 1, link.id.value);
  };
  for (auto& [id, link] : links_) {
    if (link.dialed || !link.peer.job.empty() || link.stage == Stage::closed) continue;
    ++strangers;
    if (!oldest || age(link) < age(*oldest)) oldest = &link;
  }
  if (strangers >= options_.max_strangers)
    end_link(*oldest, Error(Code::resource_exhausted, "too many unauthenticated connections"), Farewell::none);
}

void Wire::pause_accepting() {
  accept_again_ = Clock::now() + kAcceptPause;
  set_interest(epoll_.get(), listener_.get(), kListenerId, 0);
}

void Wire::watch(Link& link, std::uint32_t interest) {
  if (link.interest == interest || link.stage == Stage::closed) return;
  epoll_event event{};
  event.events = interest;
  event.data.u64 = link.id.value;
  ::epoll_ctl(epoll_.get(), link.interest == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, link.connection->fd(), &event);
  link.interest = interest;
}

void Wire::flush(Link& link) {
  const Stage stage = link.stage;
  if (stage == Stage::connecting || stage == Stage::securing || stage == Stage::proving || stage == Stage::asking ||
      stage == Stage::draining || stage == Stage::closed)
    return;
  link.flush_asked->store(false);
  if (link.stage == Stage::open && !link.leaving) link.connection->grant_credit();
  const auto written = link.connection->flush(kFlushBudget);
  link.blocked = written == Connection::Written::blocked && link.connection->shares();
  const bool more = (written == Connection::Written::blocked && !link.blocked) || written == Connection::Written::more;
  watch(link, more ? EPOLLIN | EPOLLOUT : EPOLLIN);
  if (link.stage == Stage::closing && link.connection->finished()) {
    link.connection->shut_write();
    link.stage = Stage::draining;
  }
}

void Wire::read(Link& link) {
  using Received = Connection::Received;
  if (link.stage == Stage::draining || (link.stage == Stage::closing && !link.leaving)) {
    if (link.connection->discard() == Received::end) close_link(link);
    return;
  }
  Received received{};
  try {
    received = link.connection->receive(kReadBudget, [&](Frame&& frame) { on_frame(link, std::move(frame)); });
  } catch (...) {
    const Error error = current_error();
    handler_.frames_end();
    const bool broken = error.code() == Code::unavailable;
    return end_link(link, error, broken ? Farewell::none : Farewell::goodbye);
  }
  handler_.frames_end();
  if (received == Received::end)
    return end_link(link,
                    Error(Code::unavailable, "the connection ended without a Goodbye: the process has probably died"),
                    Farewell::none);
  if (!link.connection->buffered() || link.stage == Stage::closed || link.connection->shares()) return;
  post([this, id = link.id] {
    const auto it = links_.find(id.value);
    if (it != links_.end() && it->second.stage != Stage::closed) read(it->second);
  });
}

Wire::Clock::time_point Wire::next_timer() const {
  auto next = accept_again_;
  for (const auto& [id, link] : links_)
    next = std::min(next, link.stage == Stage::open ? link.next_heartbeat : link.deadline);
  for (const auto& [peer, dial] : dials_)
    next = std::min(next, dial.link == PeerId{} ? std::min(dial.next_attempt, dial.deadline) : dial.deadline);
  return next;
}

void Wire::run_timers(Clock::time_point now) {
  if (now >= accept_again_) {
    accept_again_ = Clock::time_point::max();
    if (listener_) set_interest(epoll_.get(), listener_.get(), kListenerId, EPOLLIN);
  }
  run_dials(now);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, link] : links_) ids.push_back(id);
  for (const std::uint64_t id : ids) {
    Link& link = links_.at(id);
    if (link.stage == Stage::open)
      check_peer(link, now);
    else if (link.stage != Stage::closed && now >= link.deadline)
      end_link(link,
               Error(Code::deadline_exceeded,
                     link.stage == Stage::securing ? "TLS handshake timeout"
                     : link.stage == Stage::proving
                         ? link.dialed ? "no answer; the task may not have joined yet" : "authentication timeout"
                     : link.stage == Stage::asking ? "timeout of the question, or of reading the answer"
                                                   : "timeout waiting for Hello"),
               Farewell::none);
  }
}

void Wire::run_dials(Clock::time_point now) {
  std::vector<TaskName> late;
  for (auto& [peer, dial] : dials_) {
    if (now >= dial.deadline)
      late.push_back(peer);
    else if (dial.link == PeerId{} && now >= dial.next_attempt)
      start_attempt(peer, dial);
  }
  for (const TaskName& peer : late) {
    const Dial& dial = dials_.at(peer);
    const double seconds = std::chrono::duration<double>(dial.deadline - dial.started).count();
    fail_dial(peer, Error(Code::deadline_exceeded,
                          fmt::format("cannot reach {} at {} within {:.1f} s: {}", peer.to_string(), dial.address.text,
                                      seconds, dial.last_error ? dial.last_error.message() : "no answer")));
  }
}

// Called once per heartbeat_every. Detects a peer that keeps sending but never reads. Time is counted in calls, so that
// a suspended process does not blame its peers.
bool Wire::takes_nothing(Link& link) const {
  const std::uint64_t sent = link.connection->sent();
  const bool waits = (link.blocked || (link.interest & EPOLLOUT) != 0) && sent == link.sent;
  link.sent = sent;
  link.stuck = waits ? link.stuck + options_.heartbeat_every : std::chrono::milliseconds(0);
  return link.stuck >= options_.down_after;
}

void Wire::check_peer(Link& link, Clock::time_point now) {
  LinkCounters& counters = link.connection->counters();
  const auto silence = now.time_since_epoch() - std::chrono::nanoseconds(counters.last_heard.load());
  // A process that was suspended must not blame its peers: it first reads data that arrived meanwhile.
  if (silence >= options_.suspect_after && (wire::readable(link.connection->fd()) || link.connection->buffered()))
    return;
  const auto down = [&](fmt::format_string<std::string, double> why) {
    return Error(Code::unavailable,
                 fmt::format(why, link.peer.to_string(), std::chrono::duration<double>(options_.down_after).count()));
  };
  if (silence >= options_.down_after)
    return end_link(link, down("nothing received from {} for {:.1f} s"), Farewell::goodbye);
  const bool suspect = silence >= options_.suspect_after;
  if (counters.suspect.exchange(suspect) != suspect) handler_.suspected(link.id, link.peer, suspect);
  if (now < link.next_heartbeat) return;
  link.next_heartbeat = now + options_.heartbeat_every;
  if (takes_nothing(link))
    return end_link(link, down("{} has not read its queued data for {:.1f} s"), Farewell::goodbye);
  // One queued heartbeat is enough.
  if (!counters.control_waits) (void)link.connection->send(Heartbeat{progress(now)});
}

// Queried once per round of heartbeats to all peers.
std::uint64_t Wire::progress(Clock::time_point now) {
  if (options_.progress && now >= progress_due_) {
    progress_ = options_.progress();
    progress_due_ = now + options_.heartbeat_every / 2;
  }
  return progress_;
}

}  // namespace troupe
