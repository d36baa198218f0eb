#include "troupe/actors/http/server.hpp"

#include <fmt/format.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include <troupe/actors/http/acceptor.hpp>
#include <troupe/actors/http/connections.hpp>
#include <troupe/actors/http/exchange.hpp>
#include <troupe/actors/http/hangups.hpp>
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/http/memory_budget.hpp>
#include <troupe/actors/http/responses.hpp>
#include <troupe/actors/wire/authentication.hpp>
#include <troupe/actors/wire/socket.hpp>

namespace troupe {
namespace {

using Clock = Connections::Clock;

constexpr std::size_t kBodyPadding = 64;  // bytes that parsers of a body may want behind it
constexpr unsigned kSilence = 30;         // seconds without progress of an answer

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(Options given, Handler sync, AsyncHandler async)
      : options(std::move(given)),
        handler(std::move(sync)),
        answering(handler
                      ? [this](HttpRequest request, HttpReply reply) { enqueue(std::move(request), std::move(reply)); }
                      : std::move(async)),
        connections(limits()),
        memory(options.memory),
        acceptor(listen(),
                 [this](int socket, const sockaddr* from, socklen_t size) { return serve(socket, from, size); }) {
    options.port = acceptor.port();
    for (const auto& [path, page] : options.pages) pages.emplace(path, persistent_response(page, options.headers));
    start();
    acceptor.start();
    if (handler)
      for (unsigned i = 0; i < std::max(options.workers, 1u); ++i) workers.emplace_back([this] { work(); });
    sweeper = std::thread([this] { sweep(); });
  }
  ~Impl() {
    acceptor.stop();
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    wake.notify_all();
    swept.notify_all();
    for (std::thread& worker : workers) worker.join();
    sweeper.join();
    std::unordered_set<std::shared_ptr<HttpReply::State>> left;
    {
      const std::lock_guard lock(mutex);
      left.swap(suspended);  // no more are added
    }
    for (const auto& reply : left) reply->cut();
    for (const auto& reply : left) reply->give(HttpAnswer::of(ends()));
    loops.clear();
    waiting.clear();
    for (const auto& [path, page] : pages) MHD_destroy_response(page);
  }

  static Error ends() { return Error(Code::unavailable, "this task is ending"); }

  bool drain(std::chrono::nanoseconds timeout) {
    draining = true;
    acceptor.stop();
    std::unique_lock lock(mutex);
    return drained.wait_for(lock, timeout, [&] { return in_flight == 0; });
  }

  Connections::Limits limits() const {
    raise_descriptor_limit();
    const std::size_t all = std::min(options.max_connections, descriptors_for_connections());
    return {.all = all,
            .of_address = std::max<std::size_t>(all * 3 / 4, 1),
            .request = options.request_deadline,
            .answer = options.answer_deadline};
  }

  wire::Fd listen() const {
    try {
      return wire::listen_on(wire::resolve(options.host, options.port));
    } catch (const Error& error) {
      throw error.within(options.name);
    }
  }

  // A thread of the library with the connections it serves.
  struct Loop {
    Impl* server;
    std::atomic<std::size_t> connections{0};
    MHD_Daemon* daemon = nullptr;
    ~Loop() {
      if (daemon) MHD_stop_daemon(daemon);
    }
  };

  void start() {
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    std::vector<MHD_OptionItem> items = {
        // Never reached: `connections` closes others before.
        {MHD_OPTION_CONNECTION_LIMIT, static_cast<intptr_t>(options.max_connections + 1024), nullptr},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<intptr_t>(options.connection_memory), nullptr},
        {MHD_OPTION_CONNECTION_TIMEOUT, static_cast<intptr_t>(kSilence), nullptr},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, nullptr},
        {MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<intptr_t>(&Impl::on_completed), this},
        {MHD_OPTION_EXTERNAL_LOGGER, reinterpret_cast<intptr_t>(&Impl::log), nullptr}};
    if (options.tls.given()) {
      // Reports what is wrong with the files.
      if (options.client_certificates) const wire::TlsContext checked(options.tls);
      certificate = content_of(options.tls.certificate);
      key = content_of(options.tls.key);
      ca = content_of(options.tls.ca);
      flags |= MHD_USE_TLS;
      items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.data()});
      items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, key.data()});
      if (options.client_certificates) items.push_back({MHD_OPTION_HTTPS_MEM_TRUST, 0, ca.data()});
      items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>("NORMAL:-VERS-ALL:+VERS-TLS1.3")});
    }
    items.push_back({MHD_OPTION_END, 0, nullptr});
    for (unsigned i = 0; i < std::max(options.threads, 1u); ++i) {
      Loop& loop = loops.emplace_back(this);
      loop.daemon = MHD_start_daemon(flags, 0, nullptr, nullptr, &Impl::on_request, this, MHD_OPTION_NOTIFY_CONNECTION,
                                     &Impl::on_connection, &loop, MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
      if (!loop.daemon)
        fail(Code::unavailable, "cannot start a server at {}", HostPort{options.host, options.port}.to_string());
    }
  }

  // Gives a new connection to the thread that has the fewest.
  bool serve(int socket, const sockaddr* from, socklen_t size) {
    Loop& loop = *std::ranges::min_element(loops, {}, [](const Loop& one) { return one.connections.load(); });
    ++loop.connections;
    if (MHD_add_connection(loop.daemon, socket, from, size) == MHD_YES) return true;
    --loop.connections;
    return false;
  }

  // ---- Called by the library, on its thread

  static void log(void*, const char*, va_list) {}

  static void on_connection(void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode what) {
    Loop& loop = *static_cast<Loop*>(self);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) return loop.server->opened(connection);
    --loop.connections;
    loop.server->connections.closed(connection);
  }

  void opened(MHD_Connection* connection) {
    const auto* fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const auto* address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    connections.opened(connection, fd->connect_fd, address_of(address ? address->client_addr : nullptr));
    acceptor.served();
  }

  static void on_completed(void* self, MHD_Connection* connection, void** state, MHD_RequestTerminationCode) {
    const std::unique_ptr<HttpExchange> exchange(static_cast<HttpExchange*>(std::exchange(*state, nullptr)));
    auto* const impl = static_cast<Impl*>(self);
    impl->connections.answered(connection);
    if (exchange) impl->finished(*exchange);
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                               const char* body, std::size_t* size, void** state) {
    return static_cast<Impl*>(self)->take(connection, url, method, body, size, state);
  }

  // Called when the head has arrived, for each piece of the body, at its end, and again after resume().
  MHD_Result take(MHD_Connection* connection, const char* url, const char* method, const char* body, std::size_t* size,
                  void** state) {
    if (!*state) {
      if (options.tls.given() && options.client_certificates && !shows_certificate(connection)) return MHD_NO;
      auto exchange = std::make_unique<HttpExchange>();
      exchange->request.path = url;
      exchange->request.method = method;
      exchange->request.post = exchange->request.method == MHD_HTTP_METHOD_POST;
      expect_body(connection, *exchange);
      ++in_flight;
      HttpExchange& began = *exchange;
      *state = exchange.release();
      // Before the body is sent: the client asks, or it would take long to read what nobody wants.
      const bool asks = !header(connection, MHD_HTTP_HEADER_EXPECT).empty();
      if (began.refusal && (asks || began.announced > most_unwanted())) return send(connection, *began.refusal);
      return MHD_YES;
    }
    HttpExchange& exchange = *static_cast<HttpExchange*>(*state);
    if (*size > 0) {
      add_body(exchange, {body, *size});
      if (exchange.unwanted > most_unwanted()) return MHD_NO;  // closes the connection
      *size = 0;
      return MHD_YES;
    }
    if (!exchange.reply) return begin(connection, exchange);
    std::optional<HttpAnswer> answer;
    {
      const std::lock_guard lock(exchange.reply->mutex);
      if (!exchange.reply->answer) return MHD_YES;
      exchange.reply->taken = true;
      answer.swap(exchange.reply->answer);
    }
    {
      const std::lock_guard lock(mutex);
      suspended.erase(exchange.reply);
    }
    return send(connection, std::move(*answer));
  }

  void expect_body(MHD_Connection* connection, HttpExchange& exchange) {
    const std::string length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    std::size_t bytes = 0;
    if (std::from_chars(length.data(), length.data() + length.size(), bytes).ec != std::errc()) return;
    exchange.announced = bytes;
    if (may_hold(exchange, bytes)) exchange.request.body.reserve(bytes + kBodyPadding);
  }

  // Bytes of a refused body that are read: a client that is still sending mostly sees an answer only after that.
  std::size_t most_unwanted() const { return 4 * options.max_body + (1 << 20); }

  bool may_hold(HttpExchange& exchange, std::size_t bytes) {
    if (bytes > options.max_body)
      exchange.refusal = HttpAnswer{
          413, "application/json",
          json_text({{"error", fmt::format("the request body is too long: at most {} bytes", options.max_body)}})};
    else if (!exchange.memory.grow(memory, bytes))
      exchange.refusal = busy("too many requests with long bodies");
    return !exchange.refusal;
  }

  void add_body(HttpExchange& exchange, std::string_view piece) {
    std::string& body = exchange.request.body;
    const std::size_t bytes = body.size() + piece.size();
    // Without a length, as much as the text then has room for.
    if (!exchange.refusal && bytes > exchange.memory.bytes() && may_hold(exchange, bytes))
      may_hold(exchange, std::min(std::max(bytes, 2 * body.capacity()), options.max_body));
    if (exchange.refusal) {
      body = std::string();
      exchange.unwanted += piece.size();
    } else {
      body += piece;
    }
  }

  static HttpAnswer busy(const std::string& why) {
    HttpAnswer answer = HttpAnswer::of(Error(Code::unavailable, why + ": retry later"));
    answer.headers.emplace(MHD_HTTP_HEADER_RETRY_AFTER, "1");
    return answer;
  }

  MHD_Result begin(MHD_Connection* connection, HttpExchange& exchange) {
    connections.asked(connection);
    HttpRequest& request = exchange.request;
    try {
      if (exchange.refusal) return send(connection, std::move(*exchange.refusal));
      if (handler && !request.post && request.method != MHD_HTTP_METHOD_GET && request.method != MHD_HTTP_METHOD_HEAD)
        return send(connection, {405, "application/json", json_text({{"error", "only GET and POST are supported"}})});
      if (const auto page = pages.find(request.path); page != pages.end() && !request.post)
        return queue(connection, 200, page->second);
      if (!allowed(connection, request.path))
        fail(Code::unauthenticated,
             "this path needs the introspection token of the cluster: Authorization: Bearer TOKEN; troupe-launch and "
             "--introspect-port print an address with it");
      MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &Impl::add_parameter, &request);
      for (const std::string& name : options.request_headers)
        if (const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name.c_str()))
          request.headers.emplace(name, value);
      if (handler && options.prompt_paths.contains(request.path)) return send(connection, handler(request));
    } catch (...) {
      return send(connection, HttpAnswer::of(current_error()));
    }
    return call(connection, exchange);
  }

  // Calls the handler, and awaits its answer if there is none when it returns.
  MHD_Result call(MHD_Connection* connection, HttpExchange& exchange) {
    const auto reply = exchange.reply = std::make_shared<HttpReply::State>();
    reply->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    reply->hangups = &hangups;
    std::optional<HttpAnswer> failed;
    try {
      answering(std::move(exchange.request), HttpReply(reply));
    } catch (...) {
      failed = HttpAnswer::of(current_error());
    }
    std::unique_lock lock(reply->mutex);
    if (failed && (!reply->answer || reply->dropped)) reply->answer = std::move(failed);
    if (!reply->answer) {
      const std::lock_guard all(mutex);
      if (!ending) {
        suspended.insert(reply);
        MHD_suspend_connection(connection);
        reply->suspended = connection;
        return MHD_YES;
      }
      reply->answer = HttpAnswer::of(ends());
    }
    reply->taken = true;
    const std::optional<HttpAnswer> answer = std::exchange(reply->answer, std::nullopt);
    const std::uint64_t watched = std::exchange(reply->watched, 0);
    if (watched != 0) hangups.forget(watched);
    reply->hangups = nullptr;
    std::function<void()> unneeded = std::move(reply->gone);
    lock.unlock();
    return send(connection, std::move(*answer));
  }

  void finished(HttpExchange&) {
    const std::lock_guard lock(mutex);
    if (--in_flight == 0) drained.notify_all();
  }

  static MHD_Result add_parameter(void* request, MHD_ValueKind, const char* name, const char* value) {
    static_cast<HttpRequest*>(request)->parameters.insert_or_assign(name, value ? value : "");
    return MHD_YES;
  }

  MHD_Result send(MHD_Connection* connection, HttpAnswer answer) {
    MHD_Response* const response = make_response(answer, options.headers);
    if (response && draining) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    const MHD_Result result = queue(connection, answer.status, response);
    if (response) MHD_destroy_response(response);
    return result;
  }

  MHD_Result queue(MHD_Connection* connection, int status, MHD_Response* response) {
    if (!response) return MHD_NO;
    connections.answers(connection);
    return MHD_queue_response(connection, static_cast<unsigned>(status), response);
  }

  static bool shows_certificate(MHD_Connection* connection) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!info) return false;
    auto* const session = static_cast<gnutls_session_t>(info->tls_session);
    unsigned status = 0, count = 0;
    return gnutls_certificate_get_peers(session, &count) && count > 0 &&
           gnutls_certificate_verify_peers2(session, &status) == GNUTLS_E_SUCCESS && status == 0;
  }

  static std::string header(MHD_Connection* connection, const char* name) {
    const char* const value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value ? value : "";
  }

  bool allowed(MHD_Connection* connection, const std::string& path) {
    if (options.open_paths.contains(path)) return true;
    std::string wanted;
    {
      const std::lock_guard lock(mutex);
      wanted = options.token;
    }
    if (wanted.empty()) return options.any_host || speaks_to_this_machine(header(connection, MHD_HTTP_HEADER_HOST));
    constexpr std::string_view kBearer = "Bearer ";
    const std::string given = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    return given.starts_with(kBearer) && wire::equal_secrets(given.substr(kBearer.size()), wanted);
  }

  // Without a token: rejects browser requests from a page elsewhere whose host name resolves to this machine.
  static bool speaks_to_this_machine(const std::string& host) {
    const std::string name = host.substr(0, host.ends_with(']') ? host.size() : host.rfind(':'));
    return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
  }

  // ---- Our own threads

  struct Waiting {
    HttpRequest request;
    HttpReply reply;
  };

  void enqueue(HttpRequest request, HttpReply reply) {
    {
      const std::lock_guard lock(mutex);
      if (!ending && waiting.size() < options.max_waiting) {
        waiting.push_back({std::move(request), std::move(reply)});
        wake.notify_one();
        return;
      }
    }
    reply.send(HttpAnswer::of(ending ? ends() : Error(Code::unavailable, "too many queued requests: retry later")));
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return ending || !waiting.empty(); });
      if (ending) return;
      Waiting asked = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      answer(std::move(asked));
      lock.lock();
    }
  }

  // Destroys the request and its reply, which has a lock of its own, without the server's.
  void answer(Waiting asked) const {
    HttpAnswer out;
    try {
      out = handler(asked.request);
    } catch (...) {
      out = HttpAnswer::of(current_error());
    }
    asked.reply.send(std::move(out));
  }

  void sweep() {
    std::unique_lock lock(mutex);
    while (!ending) {
      lock.unlock();
      const Clock::time_point next = connections.cut_late();
      lock.lock();
      swept.wait_until(lock, std::max(next, Clock::now() + kSweep), [&] { return ending.load(); });
    }
  }

  static constexpr std::chrono::milliseconds kSweep{50};

  Options options;
  const Handler handler;  // null: there is an asynchronous one
  const AsyncHandler answering;
  std::string certificate, key, ca;
  Connections connections;
  MemoryBudget memory;
  Hangups hangups;
  Acceptor acceptor;
  std::map<std::string, MHD_Response*> pages;
  std::atomic<std::size_t> in_flight{0};
  std::atomic<bool> draining{false}, ending{false};
  std::mutex mutex;  // guards the token and the members below
  std::condition_variable wake, swept, drained;
  std::deque<Waiting> waiting;
  std::unordered_set<std::shared_ptr<HttpReply::State>> suspended;
  std::deque<Loop> loops;
  std::vector<std::thread> workers;
  std::thread sweeper;
};

HttpServer::HttpServer(Options options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler), nullptr)) {}
HttpServer::HttpServer(Options options, AsyncHandler handler)
    : impl_(std::make_unique<Impl>(std::move(options), nullptr, std::move(handler))) {}
HttpServer::~HttpServer() = default;
HostPort HttpServer::address() const { return {impl_->options.host, impl_->options.port}; }

bool HttpServer::drain(std::chrono::nanoseconds timeout) { return impl_->drain(timeout); }

void HttpServer::set_token(std::string token) {
  const std::lock_guard lock(impl_->mutex);
  impl_->options.token = std::move(token);
}

}  // namespace troupe
