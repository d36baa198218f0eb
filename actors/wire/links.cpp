// Life cycle of a Wire's connection: connect or accept, Hello, open, Goodbye, closed.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include <troupe/actors/wire/wire.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kShortestDialPause{10};
constexpr std::chrono::milliseconds kLongestDialPause{500};
constexpr std::size_t kFlushAll = 1 << 20;
constexpr std::chrono::seconds kAnswerPatience{30};  // for this task to answer, and for the caller to read it

// True if the same dial may succeed later.
bool may_dial_again(Code code) {
  return code == Code::unavailable || code == Code::already_exists || code == Code::deadline_exceeded ||
         code == Code::ok;
}

}  // namespace

Wire::Link& Wire::add_link(wire::Fd socket, Stage stage, std::string address) {
  const PeerId id{++last_id_};
  Link& link = links_[id.value];
  link.id = id;
  link.stage = stage;
  link.address = std::move(address);
  link.deadline = Clock::now() + options_.handshake_timeout;
  link.flush_asked = std::make_shared<std::atomic<bool>>(false);
  // One flush request at a time: senders that find a pending one need not wake the thread again.
  auto wake = [this, id, asked = link.flush_asked] {
    if (asked->exchange(true)) return;
    post([this, id] {
      const auto it = links_.find(id.value);
      if (it != links_.end()) flush(it->second);
    });
  };
  auto channel = options_.tls ? options_.tls->channel(std::move(socket), stage == Stage::connecting)
                              : wire::plain_channel(std::move(socket));
  link.connection = std::make_shared<Connection>(std::move(channel), options_.connection, std::move(wake));
  watch(link, stage == Stage::connecting ? EPOLLOUT : EPOLLIN);
  return link;
}

void Wire::start_attempt(const TaskName& peer, Dial& dial) {
  wire::Fd socket = wire::start_connect(dial.address);
  if (!socket) {
    dial.last_error = Error(Code::resource_exhausted, "no free file descriptor");
    dial.next_attempt = Clock::now() + kLongestDialPause;
    return;
  }
  wire::tune(socket, &dial.address);
  Link& link = add_link(std::move(socket), Stage::connecting, dial.address.text);
  link.dialed = true;
  link.peer = peer;
  dial.link = link.id;
}

void Wire::finish_connect(Link& link) {
  if (const int code = link.connection->connect_error(); code != 0)
    return end_link(link, Error(Code::unavailable, wire::errno_text(code)), Farewell::none);
  link.stage = Stage::securing;
  secure(link);
}

// If not done, watches the link for the needed event.
bool Wire::is_done(Link& link, wire::Channel::SetUp state) {
  if (state == wire::Channel::SetUp::done) return true;
  watch(link, state == wire::Channel::SetUp::wants_read ? EPOLLIN : EPOLLOUT);
  return false;
}

// Sets up the layer below frames; does nothing for plain TCP.
void Wire::secure(Link& link) {
  try {
    if (!is_done(link, link.connection->channel().set_up())) return;
    using wire::Authentication;
    // Without a token there is no proof, and others may know this task by another address.
    const std::string& address = link.dialed ? link.address : address_;
    Authentication::Local self{.task = options_.self,
                               .incarnation = options_.incarnation,
                               .address = options_.token.empty() ? std::string() : address,
                               .exported = link.connection->channel().exported()};
    link.authentication =
        std::make_unique<Authentication>(link.dialed ? Authentication::dial(key_, std::move(self), link.peer)
                                                     : Authentication::listen(key_, std::move(self)));
  } catch (...) {
    return end_link(link, current_error(), Farewell::none);
  }
  link.stage = Stage::proving;
  prove(link);
}

void Wire::prove(Link& link) {
  try {
    if (!is_done(link, authenticate(link.connection->channel(), *link.authentication))) return;
  } catch (...) {
    // Tells a peer that expects TLS immediately that there is none.
    if (!link.dialed && link.authentication->heard_tls())
      (void)::send(link.connection->fd(), "TROUPE", 6, MSG_NOSIGNAL | MSG_DONTWAIT);
    return end_link(link, current_error(), Farewell::none);
  }
  if (link.authentication->purpose() == wire::Authentication::Purpose::link) return greet(link);
  link.stage = Stage::asking;
  link.questioned = std::make_unique<wire::Questioned>();
  hear(link);
}

// ---- A question ----------------------------------------------------------------------------------------------------

void Wire::hear(Link& link) {
  wire::Questioned& questioned = *link.questioned;
  if (!questioned.to_send().empty()) return tell(link);
  std::array<char, 512> bytes;
  try {
    while (questioned.wants() > 0) {
      const auto n =
          read_some(link.connection->channel(), std::span(bytes).first(std::min(bytes.size(), questioned.wants())));
      if (!n) return watch(link, EPOLLIN);
      if (*n == 0) return end_link(link, gone(), Farewell::none);
      questioned.received({bytes.data(), *n});
    }
  } catch (...) {
    return end_link(link, current_error(), Farewell::none);
  }
  link.deadline = Clock::now() + kAnswerPatience;
  watch(link, EPOLLRDHUP);
  handler_.asked(link.id, questioned.question());
}

void Wire::tell(Link& link) {
  wire::Questioned& questioned = *link.questioned;
  try {
    while (!questioned.done()) {
      const auto n = write_some(link.connection->channel(), questioned.to_send());
      if (!n) return watch(link, EPOLLOUT);
      questioned.sent(*n);
    }
    if (!link.connection->channel().flushed()) return watch(link, EPOLLOUT);
  } catch (...) {
    return end_link(link, current_error(), Farewell::none);
  }
  leave_silently(link);
}

// ---- Frames --------------------------------------------------------------------------------------------------------

void Wire::greet(Link& link) {
  link.stage = Stage::greeting;
  watch(link, EPOLLIN);
  if (link.dialed) {
    Hello hello = handshake_.hello_to(link.peer);
    if (may_share(link)) hello.memory = kSharesMemory;
    (void)link.connection->send(hello);
    flush(link);
  }
  if (options_.tls) read(link);  // a Hello may have arrived with the end of the proof
}

void Wire::on_frame(Link& link, Frame&& frame) {
  const auto check_greeted = [&] {
    if (link.stage == Stage::greeting) fail(Code::unauthenticated, "a {} before the Hello", kind_name(frame));
  };
  const auto hand_on = [&] {
    check_greeted();
    if (!link.leaving) handler_.frame(link.id, std::move(frame));
  };
  std::visit(Overloaded{
                 [&](const Goodbye& goodbye) {
                   const std::string who = link.peer.job.empty() ? link.address : link.peer.to_string();
                   const Error reason =
                       goodbye.reason ? goodbye.reason.within(who + " closed the connection") : Error();
                   end_link(link, reason, Farewell::none);
                 },
                 [&](const Hello& hello) {
                   if (link.stage != Stage::greeting || link.offered) fail(Code::failed_precondition, "a second Hello");
                   on_hello(link, hello);
                 },
                 [&](const SharedMemoryAnswer& answer) { on_answer(link, answer.used); },
                 [&](const Credit& credit) {
                   check_greeted();
                   link.connection->add_credit(credit.bytes);
                   flush(link);
                 },
                 [&](const Heartbeat& heartbeat) {
                   check_greeted();
                   if (link.leaving) return;
                   wire::LinkCounters& counters = link.connection->counters();
                   if (counters.peer_progress.exchange(heartbeat.progress) != heartbeat.progress)
                     counters.progress_at = Clock::now().time_since_epoch().count();
                   handler_.heartbeat(link.id);
                 },
                 [&](const ControlBytes&) { hand_on(); },
                 [&](const auto& other) {
                   static_assert(std::remove_cvref_t<decltype(other)>::kReceiver != Receiver::link);
                   hand_on();
                 },
             },
             frame);
}

void Wire::on_hello(Link& link, const Hello& hello) {
  Error error = handshake_.check(hello, link.dialed ? &link.peer : nullptr);
  if (!error && wire::Authentication::Peer{hello.from, hello.incarnation} != link.authentication->peer())
    error =
        Error(Code::unauthenticated, fmt::format("{} authenticated, but {} says Hello",
                                                 link.authentication->peer().task.to_string(), hello.from.to_string()));
  if (!error && !open_peers_.contains(hello.from) && open_peers_.size() >= options_.max_connections)
    error = Error(Code::resource_exhausted, fmt::format("{} is at its limit of {} connections (--max-connections)",
                                                        options_.self.to_string(), open_peers_.size()));
  if (!error && !link.dialed && options_.admit) error = options_.admit(hello.from);
  if (!error && !link.dialed) error = duplicate(link, hello);
  if (error) return end_link(link, error, Farewell::goodbye);
  if (!link.dialed && may_share(link) && hello.memory == kSharesMemory) offer_memory(link, hello);
  if (link.offered) return;
  if (!link.dialed) (void)link.connection->send(handshake_.hello_to(hello.from));
  if (link.dialed && !hello.memory.empty()) answer_offer(link, hello.memory);
  open_link(link, hello);
}

// ---- Shared memory: created by the called peer; the caller decides -------------------------------------------------

bool Wire::may_share(const Link& link) const {
  return options_.shared_memory && !options_.tls && wire::within_host(link.connection->fd());
}

void Wire::offer_memory(Link& link, const Hello& hello) {
  try {
    link.offered.emplace(wire::SharedMemory::create());
  } catch (const Error&) {
    return;  // not possible then
  }
  Hello answer = handshake_.hello_to(hello.from);
  answer.memory = link.offered->place();
  link.hello = hello;
  (void)link.connection->send(answer);
}

void Wire::answer_offer(Link& link, const std::string& place) {
  std::optional<wire::SharedMemory> memory;
  try {
    if (may_share(link)) memory.emplace(wire::SharedMemory::open(place));
  } catch (const Error&) {  // possibly in another container: use the socket
  }
  (void)link.connection->send(SharedMemoryAnswer{memory.has_value()});
  if (memory) share(link, std::move(*memory));
}

void Wire::on_answer(Link& link, bool used) {
  if (!link.offered) fail(Code::failed_precondition, "a SharedMemoryAnswer without an offer");
  wire::SharedMemory memory = std::move(*link.offered);
  link.offered.reset();
  if (const Error error = duplicate(link, link.hello)) return end_link(link, error, Farewell::goodbye);
  if (used) share(link, std::move(memory));
  open_link(link, link.hello);
}

void Wire::share(Link& link, wire::SharedMemory memory) {
  if (link.connection->flush(kFlushAll) != Connection::Written::all)
    fail(Code::unavailable, "the socket does not accept the first frames");
  link.connection->share(std::move(memory));
  link.connection->counters().shared_memory.store(true, std::memory_order_relaxed);
  shared_.push_back(link.id.value);
}

// Decides whether to keep this connection, dialled by the peer. A losing dial of ours is dropped silently: the peer
// does not know of it yet, or prefers its own as well.
Error Wire::duplicate(const Link& link, const Hello& hello) {
  if (open_peers_.contains(hello.from))
    return Error(Code::already_exists,
                 fmt::format("{} already has a connection to {}", options_.self.to_string(), hello.from.to_string()));
  const auto dial = dials_.find(hello.from);
  if (dial == dials_.end()) return {};
  const auto mine = links_.find(dial->second.link.value);
  if (mine == links_.end() || mine->first == link.id.value) return {};
  if (mine->second.stage == Stage::greeting && options_.self < hello.from)
    return Error(Code::already_exists,
                 fmt::format("{} dials too, and its connection is kept", options_.self.to_string()));
  close_link(mine->second);
  return {};
}

void Wire::open_link(Link& link, const Hello& hello) {
  handshake_.joined(hello);
  link.authentication.reset();
  dials_.erase(hello.from);
  link.stage = Stage::open;
  link.peer = hello.from;
  link.next_heartbeat = Clock::now() + options_.heartbeat_every;
  link.connection->counters().progress_at = Clock::now().time_since_epoch().count();
  {
    const std::lock_guard lock(peers_mutex_);
    open_peers_[link.peer] = link.id;
    open_connections_[link.id] = link.connection;
  }
  link.connection->handshake_done();
  handler_.connected(link.id, hello);
}

// Ends a link in any stage and notifies the handler once.
void Wire::end_link(Link& link, const Error& reason, Farewell farewell) {
  const Stage stage = link.stage;
  if (stage == Stage::closed) return;
  if (stage == Stage::closing || stage == Stage::draining || link.leaving) return close_link(link);
  if (stage == Stage::open) {
    const std::lock_guard lock(peers_mutex_);
    open_peers_.erase(link.peer);
    open_connections_.erase(link.id);
  }
  if (farewell == Farewell::goodbye)
    say_goodbye(link, reason, true);
  else if ((stage == Stage::securing || (stage == Stage::proving && link.authentication->heard_tls())) &&
           reason.code() == Code::unauthenticated)
    leave_silently(link);
  else
    close_link(link);
  if (stage == Stage::open)
    handler_.disconnected(link.id, link.peer, reason);
  else if (link.dialed)
    end_attempt(link, reason);
  else
    handler_.refused(link.address, reason);
}

void Wire::end_attempt(Link& link, const Error& reason) {
  const auto it = dials_.find(link.peer);
  if (it == dials_.end() || it->second.link != link.id) return;
  Dial& dial = it->second;
  dial.link = PeerId{};
  dial.last_error = reason;
  if (!may_dial_again(reason.code())) return fail_dial(link.peer, reason);
  // Retries after a quarter of the time waited so far, within limits, so that a late peer is met soon after it comes
  // up.
  const auto now = Clock::now();
  dial.next_attempt =
      now + std::clamp<Clock::duration>((now - dial.started) / 4, kShortestDialPause, kLongestDialPause);
}

void Wire::fail_dial(const TaskName& peer, const Error& reason) {
  const auto node = dials_.extract(peer);
  if (const auto it = links_.find(node.mapped().link.value); it != links_.end()) close_link(it->second);
  handler_.dial_failed(node.key(), reason);
}

// Closes the socket only after the channel has reported the reason in its own way.
void Wire::leave_silently(Link& link) {
  link.stage = Stage::draining;
  link.deadline = Clock::now() + options_.close_timeout;
  link.connection->shut_write();
  watch(link, EPOLLIN);
}

// First sends or drops the queue, then sends a Goodbye. The peer is then expected to close its end first: closing ours
// with unread data in it could destroy the Goodbye in flight.
void Wire::say_goodbye(Link& link, const Error& reason, bool drop) {
  if (!link.leaving) link.connection->stop_receiving();
  link.stage = Stage::closing;
  link.deadline = Clock::now() + options_.close_timeout;
  link.connection->finish(Error(Code::unavailable, "the connection is closed"), Goodbye{reason}, drop);
  flush(link);
}

void Wire::close_link(Link& link) {
  if (link.stage == Stage::closed) return;
  link.stage = Stage::closed;
  link.connection->stop_receiving();
  link.connection->close(Error(Code::unavailable, "the connection is closed"));  // leaves epoll with its descriptor
  ended_.push_back(link.id.value);
}

void Wire::leave_all() {
  if (std::exchange(leaving_, true)) return;
  listener_.reset();
  while (!dials_.empty())
    fail_dial(TaskName(dials_.begin()->first), Error(Code::cancelled, "this task is shutting down"));
  {
    const std::lock_guard lock(peers_mutex_);
    open_peers_.clear();
    open_connections_.clear();
  }
  for (auto& [id, link] : links_) {
    if (link.stage == Stage::open) {
      link.leaving = true;
      say_goodbye(link, Error(), false);
      handler_.disconnected(link.id, link.peer, Error());
    } else if (link.stage == Stage::connecting || link.stage == Stage::securing || link.stage == Stage::proving ||
               link.stage == Stage::asking || link.stage == Stage::greeting) {
      close_link(link);
    }
  }
}

}  // namespace troupe
