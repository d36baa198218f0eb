// All data connections of a task, served by one thread (epoll). At most one connection is open to each peer.
//
//   WireOptions options{.self = {"worker", 0}, .cluster = "demo", .token = token, .incarnation = {random_id()}};
//   Wire wire(options, handler);
//   wire.listen();                                 // the others dial the returned port
//   wire.dial({"ps", 0}, "127.0.0.1", 7701, 5s);   // handler.connected() or handler.dial_failed() follows
//   wire.send({"ps", 0}, Push{...});
//
// Threads: every public function is thread-safe and may be called by the handler, except shutdown() and the destructor,
// which join the wire thread. None blocks on a socket (but dial() resolves a non-numeric host name on the calling
// thread).
//
// Order and priorities of frames: chunk.hpp. A frame accepted by send() may still be lost with its connection;
// handler.disconnected() then reports that.
//
// With WireOptions::tls no byte is examined before the peer has presented a valid certificate, and no byte of a frame
// before both sides have proved that they know the token (authentication.hpp). A peer that cannot is dropped silently;
// with too many strangers, the oldest is dropped.
// The first frame in each direction is a Hello. A connection that begins with anything else, or with a wrong Hello, is
// closed with a Goodbye that gives the reason. A Hello from a task that already has an open connection is rejected with
// already_exists, whatever its incarnation: the caller retries until its deadline, by which time the old connection has
// ended or been found dead. If two tasks dial each other at once, the connection of the lower TaskName is kept.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>

#include <troupe/actors/wire/ask.hpp>
#include <troupe/actors/wire/connection.hpp>
#include <troupe/actors/wire/defaults.hpp>
#include <troupe/actors/wire/handshake.hpp>
#include <troupe/actors/wire/tls.hpp>
#include <troupe/messages/local.hpp>

struct epoll_event;

namespace troupe {

// A connection, unique in a process: a peer that reconnects gets a new PeerId.
using PeerId = Id<struct PeerTag>;

using wire::LinkCounters;

// Events, delivered on the wire thread: return quickly, because nothing else is served meanwhile. Heartbeat, Credit,
// Hello and Goodbye are not passed to frame(). frame() may throw Error, which closes the connection; the others must
// not throw.
class WireHandler {
 public:
  virtual ~WireHandler() = default;
  virtual void connected(PeerId peer, const Hello& hello) = 0;
  virtual void frame(PeerId peer, Frame&& frame) = 0;
  // All frames from one read of a socket have been passed to frame().
  virtual void frames_end() {}
  // Called once per connected(). Code::ok: an orderly end, by either side.
  virtual void disconnected(PeerId peer, const TaskName& name, const Error& reason) = 0;
  // A dial() has ended without a connection.
  virtual void dial_failed(const TaskName& name, const Error& reason) = 0;
  virtual void heartbeat(PeerId) {}
  // The peer has been silent for suspect_after (true), or was heard again (false).
  virtual void suspected(PeerId, const TaskName&, bool) {}
  // A caller from `address` that is not a peer of this task was rejected.
  virtual void refused(const std::string& /*address*/, const Error& /*reason*/) {}
  // A question from a caller that knows the token (ask.hpp); answer it with Wire::answer().
  virtual void asked(PeerId /*question*/, const std::string& /*text*/) {}
};

struct WireOptions {
  TaskName self;
  std::string cluster;
  std::string token;
  Incarnation incarnation;
  std::function<Error(const TaskName&)> admit;  // returns an error for a forbidden peer name; null: any is allowed
  std::string listen_host = "127.0.0.1";
  std::uint16_t listen_port = 0;  // 0: any free port
  std::string address;            // address that others dial for this task; "": the listening address
  // Grows while this task makes progress; sent to peers in heartbeats. Called on the wire's thread, once per
  // heartbeat_every. Null: no progress is reported.
  std::function<std::uint64_t()> progress;
  std::shared_ptr<const wire::TlsContext> tls;  // null: unencrypted, no certificates
  bool shared_memory = false;                   // tasks on one host pass frames through shared memory; not with TLS
  wire::ConnectionOptions connection;
  std::chrono::milliseconds heartbeat_every{500};
  std::chrono::milliseconds suspect_after{2000};
  std::chrono::milliseconds down_after = wire::kDefaultDownAfter;
  std::chrono::milliseconds handshake_timeout = wire::kDefaultHandshakeTimeout;
  std::chrono::milliseconds close_timeout{2000};  // to send the queue and the Goodbye, and for the peer to close
  // How long the thread polls after an event before it sleeps: an answer is often in flight.
  std::chrono::microseconds awake{200};
  // Maximum incoming connections that are not open yet; beyond it the oldest is dropped.
  std::size_t max_strangers = wire::kDefaultMaxStrangers;
  std::size_t max_connections = wire::kDefaultMaxConnections;  // maximum open connections
};

class Wire {
 public:
  // Starts the thread. Throws invalid_argument for invalid options. `handler` must outlive the Wire.
  Wire(WireOptions options, WireHandler& handler);
  ~Wire();

  // Starts listening and returns the port. Throws unavailable, naming the address.
  std::uint16_t listen();
  // Starts accepting connections on this socket, from listen_on().
  void listen(wire::Fd listener);
  // Ends in connected() or dial_failed(). Does nothing if the peer is connected or being dialled. Transient failures
  // (nobody listens yet) are retried with growing pauses until `timeout`. Throws unavailable for a host that cannot be
  // resolved.
  void dial(const TaskName& peer, const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout);
  // Returns Code::ok if the frame is being sent or waits for the end of the thread's Cork, unavailable if no connection
  // is open, and other codes if it cannot be encoded.
  Error send(PeerId peer, const Frame& frame);
  Error send(const TaskName& peer, const Frame& frame);
  // Drops the queue and says Goodbye with `reason`; disconnected() follows with it.
  void close(PeerId peer, Error reason);
  // While held, the peer's bulk data earns no credit: it stops after connection.window bytes; other frames flow.
  void hold_credit(PeerId peer, bool hold);
  // Call in WireHandler::frame: `bytes` of the frame's bulk data earn the peer no credit while the handle lives. For
  // frames queued for later work.
  LocalHandle defer_credit(PeerId peer, std::uint64_t bytes);
  // Answers WireHandler::asked(); does nothing if the caller is gone.
  void answer(PeerId question, Error error, std::string text);
  // Counters of a connection, also after its end; null if none is open. Reading them takes no lock.
  std::shared_ptr<const LinkCounters> counters(PeerId peer) const;
  // Stops listening and dialling; sends the queues and a Goodbye to all peers, for at most close_timeout; joins the
  // thread. Each connection's disconnected() gets Code::ok. Later calls do nothing.
  void shutdown();

 private:
  using Clock = wire::Clock;
  using Connection = wire::Connection;

  enum class Stage { connecting, securing, proving, asking, greeting, open, closing, draining, closed };
  struct Link {
    PeerId id;
    Stage stage = Stage::greeting;
    bool dialed = false;
    bool leaving = false;  // shutdown() has begun: drops the peer's frames, but counts its credits
    TaskName peer;         // known if dialed or open
    std::string address;
    std::shared_ptr<Connection> connection;
    std::unique_ptr<wire::Authentication> authentication;  // during authentication, and until its Hello has arrived
    std::unique_ptr<wire::Questioned> questioned;          // for a caller with a question
    std::shared_ptr<std::atomic<bool>> flush_asked;
    bool blocked = false;                       // sending resumes when memory is free
    std::optional<wire::SharedMemory> offered;  // to the peer; its answer is pending
    Hello hello;                                // from the peer, until then
    std::uint32_t interest = 0;
    Clock::time_point deadline;  // in every stage but open
    Clock::time_point next_heartbeat;
    // How long queued bytes have made no progress, and the bytes sent at its start.
    std::chrono::milliseconds stuck{0};
    std::uint64_t sent = 0;
  };
  struct Dial {
    wire::Address address;
    Clock::time_point started;
    Clock::time_point deadline;
    Clock::time_point next_attempt;
    PeerId link;  // of the current attempt; 0: none
    Error last_error;
  };

  void post(std::function<void()> command);

  // wire.cpp, on the wire thread
  void run();
  int await_events(std::span<epoll_event> events, int milliseconds);
  static bool hears(const Link& link);
  bool serve_shared();
  bool shared_sleep();
  void run_commands();
  void on_event(std::uint64_t id, std::uint32_t events);
  void accept_all();
  void pause_accepting();
  Clock::time_point next_timer() const;
  void run_timers(Clock::time_point now);
  void run_dials(Clock::time_point now);
  void check_peer(Link& link, Clock::time_point now);
  std::uint64_t progress(Clock::time_point now);
  bool takes_nothing(Link& link) const;
  void watch(Link& link, std::uint32_t interest);
  void flush(Link& link);
  void read(Link& link);

  // links.cpp, on the wire thread
  Link& add_link(wire::Fd socket, Stage stage, std::string address);
  void start_attempt(const TaskName& peer, Dial& dial);
  void finish_connect(Link& link);
  bool is_done(Link& link, wire::Channel::SetUp state);
  void secure(Link& link);
  void prove(Link& link);
  void greet(Link& link);
  void hear(Link& link);
  void tell(Link& link);
  void make_room_for_stranger();
  void on_frame(Link& link, Frame&& frame);
  void on_hello(Link& link, const Hello& hello);
  bool may_share(const Link& link) const;
  void offer_memory(Link& link, const Hello& hello);
  void answer_offer(Link& link, const std::string& place);
  void on_answer(Link& link, bool used);
  void share(Link& link, wire::SharedMemory memory);
  void open_link(Link& link, const Hello& hello);
  Error duplicate(const Link& link, const Hello& hello);
  static Error gone() { return Error(Code::unavailable, "the caller has gone"); }
  enum class Farewell { none, goodbye };
  void end_link(Link& link, const Error& reason, Farewell farewell);
  void end_attempt(Link& link, const Error& reason);
  void fail_dial(const TaskName& peer, const Error& reason);
  void leave_silently(Link& link);
  void say_goodbye(Link& link, const Error& reason, bool drop);
  void close_link(Link& link);
  void leave_all();

  std::shared_ptr<Connection> find(PeerId peer) const;
  static Error send_on(const std::shared_ptr<Connection>& connection, const Frame& frame);

  const WireOptions options_;
  WireHandler& handler_;
  wire::Fd epoll_;
  wire::Fd event_;

  std::mutex commands_mutex_;
  std::vector<std::function<void()>> commands_;

  mutable std::mutex peers_mutex_;  // changed by the wire thread only
  std::map<TaskName, PeerId> open_peers_;
  std::unordered_map<PeerId, std::shared_ptr<Connection>> open_connections_;

  // Owned by the wire thread.
  wire::Handshake handshake_;
  std::uint64_t progress_ = 0;
  Clock::time_point progress_due_;
  const std::shared_ptr<const wire::TokenKey> key_;
  std::string address_;  // address that others dial for this task
  wire::Fd listener_;
  Clock::time_point accept_again_ = Clock::time_point::max();
  std::uint64_t last_id_ = 1;
  std::unordered_map<std::uint64_t, Link> links_;
  std::vector<std::uint64_t> ended_;
  std::vector<std::uint64_t> shared_;  // links that share memory with their peer
  std::map<TaskName, Dial> dials_;
  bool leaving_ = false;

  std::mutex shutdown_mutex_;
  std::thread thread_;
};

}  // namespace troupe
