#include "troupe/actors/http/server.hpp"

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <iterator>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/wire/authentication.hpp>
#include <troupe/actors/wire/socket.hpp>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kConnectionMemory = 8 << 10;  // for a request's head
constexpr unsigned kSilence = 30;                   // seconds without progress of an answer

struct StatusOfCode {
  Code code;
  int status;
};
constexpr std::array<StatusOfCode, 13> kStatuses = {{{Code::invalid_argument, 400},
                                                     {Code::out_of_range, 400},
                                                     {Code::unauthenticated, 401},
                                                     {Code::permission_denied, 403},
                                                     {Code::not_found, 404},
                                                     {Code::failed_precondition, 409},
                                                     {Code::already_exists, 409},
                                                     {Code::aborted, 409},
                                                     {Code::resource_exhausted, 429},
                                                     {Code::internal, 500},
                                                     {Code::unimplemented, 501},
                                                     {Code::unavailable, 503},
                                                     {Code::deadline_exceeded, 504}}};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Raises the descriptor limit to the maximum allowed for this process: shells limit it to 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Half of the descriptors: the rest are for authenticated peers and files.
std::size_t descriptors_for_connections() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur / 2) : 512;
}

// The address without the port, so that all ports of a caller count together.
std::string address_of(const sockaddr* address) {
  if (!address) return {};
  if (address->sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return {reinterpret_cast<const char*>(&v4), sizeof v4};
  }
  if (address->sa_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return {reinterpret_cast<const char*>(&v6), 8};  // one host may own all addresses with this prefix
}

// ---- Connections ---------------------------------------------------------------------------------------------------

// All open connections, and their deadlines. Cutting a connection is shutdown(): the library then sees end of file and
// closes it. A descriptor is listed here exactly while the library has it open.
class Connections {
 public:
  struct Limits {
    std::size_t all, of_address;
    std::chrono::milliseconds request, answer;  // deadlines
  };
  explicit Connections(const Limits& limits) : limits_(limits), idle_{limits.request, {}}, taking_{limits.answer, {}} {}

  void opened(MHD_Connection* connection, int fd, const std::string& address) {
    const std::lock_guard lock(mutex_);
    Open& open = open_.emplace(connection, Open{.fd = fd, .address = address}).first->second;
    put(connection, open, &idle_);
    const std::size_t of_address = ++by_address_[address];
    if (of_address > limits_.of_address)
      cut_oldest([&](const Open& other) { return other.address == address && &other != &open; });
    else if (open_.size() > limits_.all)
      cut_oldest([&](const Open& other) { return &other != &open; });
  }
  void closed(MHD_Connection* connection) {
    const std::lock_guard lock(mutex_);
    const auto it = open_.find(connection);
    if (it == open_.end()) return;
    put(connection, it->second, nullptr);
    if (const auto count = by_address_.find(it->second.address); --count->second == 0) by_address_.erase(count);
    open_.erase(it);
  }
  // The states of a connection: request complete, answer ready, answer sent.
  void asked(MHD_Connection* connection) { moves(connection, nullptr); }
  void answers(MHD_Connection* connection) { moves(connection, &taking_); }
  void answered(MHD_Connection* connection) { moves(connection, &idle_); }
  // Cuts connections past their deadline. Returns the next deadline.
  Clock::time_point cut_late() {
    const std::lock_guard lock(mutex_);
    return std::min(cut_late(idle_), cut_late(taking_));
  }

 private:
  struct Line {
    std::chrono::milliseconds deadline;
    std::list<MHD_Connection*> connections;  // ordered by deadline
  };
  struct Open {
    int fd;
    std::string address;
    Line* line = nullptr;  // its list; null while a request is being handled
    std::list<MHD_Connection*>::iterator place;
    Clock::time_point until;
    bool is_cut = false;
  };
  void moves(MHD_Connection* connection, Line* line) {
    const std::lock_guard lock(mutex_);
    if (const auto it = open_.find(connection); it != open_.end() && it->second.line != line)
      put(connection, it->second, line);
  }
  static void put(MHD_Connection* connection, Open& open, Line* line) {
    if (open.line) open.line->connections.erase(open.place);
    open.line = line;
    if (!line) return;
    open.place = line->connections.insert(line->connections.end(), connection);
    open.until = Clock::now() + line->deadline;
  }
  static void cut(Open& open) {
    if (std::exchange(open.is_cut, true)) return;
    ::shutdown(open.fd, SHUT_RDWR);
  }
  Clock::time_point cut_late(Line& line) {
    const auto now = Clock::now();
    for (MHD_Connection* connection : line.connections) {
      Open& open = open_.at(connection);
      if (open.until > now) return open.until;
      cut(open);
    }
    return now + line.deadline;
  }
  void cut_oldest(const std::function<bool(const Open&)>& may) {
    for (const Line* line : {&idle_, &taking_})
      for (MHD_Connection* connection : line->connections) {
        Open& open = open_.at(connection);
        if (open.is_cut || !may(open)) continue;
        return cut(open);
      }
  }

  const Limits limits_;
  std::mutex mutex_;
  std::unordered_map<MHD_Connection*, Open> open_;
  std::unordered_map<std::string, std::size_t> by_address_;
  Line idle_, taking_;  // awaiting a request; taking an answer
};

// One request, from its first line until its answer has been sent.
struct Exchange {
  HttpRequest request;
  bool too_long = false, given = false;
  std::optional<HttpAnswer> answer;
};

}  // namespace

int http_status_of(Code code) {
  const auto found = std::ranges::find(kStatuses, code, &StatusOfCode::code);
  return found == kStatuses.end() ? 500 : found->status;
}

Code code_of_http_status(int status) {
  // The first of several codes for one status; 409 usually means a wrong state.
  const auto found = std::ranges::find(kStatuses, status, &StatusOfCode::status);
  return found == kStatuses.end() ? Code::internal : found->code;
}

HttpAnswer HttpAnswer::of(const Error& error) {
  return {http_status_of(error.code()), "application/json", json_text({{"error", error.message()}})};
}

class HttpServer::Impl {
 public:
  Impl(Options given, Handler handle)
      : options(std::move(given)), handler(std::move(handle)), connections(limits()), listener(listen()) {
    options.port = wire::port_of(listener);
    for (const auto& [path, page] : options.pages) pages.emplace(path, make_response(page, MHD_RESPMEM_PERSISTENT));
    start();
    for (unsigned i = 0; i < std::max(options.workers, 1u); ++i) workers.emplace_back([this] { work(); });
    sweeper = std::thread([this] { sweep(); });
  }
  ~Impl() {
    MHD_quiesce_daemon(daemon);  // returns ownership of the socket
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    wake.notify_all();
    swept.notify_all();
    for (std::thread& worker : workers) worker.join();
    sweeper.join();
    std::deque<Waiting> left;
    {
      const std::lock_guard lock(mutex);
      left.swap(waiting);  // no more are added
    }
    for (const Waiting& asked : left) resume(asked, HttpAnswer::of(ends()));
    MHD_stop_daemon(daemon);
    for (const auto& [path, page] : pages) MHD_destroy_response(page);
  }

  static Error ends() { return Error(Code::unavailable, "this task is ending"); }

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
      throw error.within("the introspector");
    }
  }

  void start() {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    std::vector<MHD_OptionItem> items = {
        {MHD_OPTION_LISTEN_SOCKET, listener.get(), nullptr},
        {MHD_OPTION_CONNECTION_LIMIT, static_cast<intptr_t>(options.max_connections + 64), nullptr},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<intptr_t>(kConnectionMemory), nullptr},
        {MHD_OPTION_CONNECTION_TIMEOUT, static_cast<intptr_t>(kSilence), nullptr},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, nullptr},
        {MHD_OPTION_NOTIFY_CONNECTION, reinterpret_cast<intptr_t>(&Impl::on_connection), this},
        {MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<intptr_t>(&Impl::on_completed), this},
        {MHD_OPTION_EXTERNAL_LOGGER, reinterpret_cast<intptr_t>(&Impl::log), nullptr}};
    if (options.tls.given()) {
      const wire::TlsContext checked(options.tls);  // reports what is wrong with the files
      certificate = content_of(options.tls.certificate);
      key = content_of(options.tls.key);
      ca = content_of(options.tls.ca);
      flags |= MHD_USE_TLS;
      items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.data()});
      items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, key.data()});
      items.push_back({MHD_OPTION_HTTPS_MEM_TRUST, 0, ca.data()});
      items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>("NORMAL:-VERS-ALL:+VERS-TLS1.3")});
    }
    items.push_back({MHD_OPTION_END, 0, nullptr});
    daemon = MHD_start_daemon(flags, 0, nullptr, nullptr, &Impl::on_request, this, MHD_OPTION_ARRAY, items.data(),
                              MHD_OPTION_END);
    if (!daemon)
      fail(Code::unavailable, "cannot start a server at {}", HostPort{options.host, options.port}.to_string());
  }

  // ---- Called by the library, on its thread

  static void log(void*, const char*, va_list) {}

  static void on_connection(void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode what) {
    Connections& connections = static_cast<Impl*>(self)->connections;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) return connections.closed(connection);
    const auto* fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const auto* address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    connections.opened(connection, fd->connect_fd, address_of(address ? address->client_addr : nullptr));
  }

  static void on_completed(void* self, MHD_Connection* connection, void** state, MHD_RequestTerminationCode) {
    delete static_cast<Exchange*>(std::exchange(*state, nullptr));
    static_cast<Impl*>(self)->connections.answered(connection);
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                               const char* body, std::size_t* size, void** state) {
    return static_cast<Impl*>(self)->take(connection, url, method, body, size, state);
  }

  // Called when the head has arrived, for each piece of the body, at its end, and again after resume().
  MHD_Result take(MHD_Connection* connection, const char* url, std::string_view method, const char* body,
                  std::size_t* size, void** state) {
    if (!*state) {
      if (options.tls.given() && !shows_certificate(connection)) return MHD_NO;
      auto exchange = std::make_unique<Exchange>();
      exchange->request.path = url;
      exchange->request.post = method == MHD_HTTP_METHOD_POST;
      *state = exchange.release();
      return MHD_YES;
    }
    Exchange& exchange = *static_cast<Exchange*>(*state);
    if (*size > 0) {
      exchange.too_long = exchange.too_long || exchange.request.body.size() + *size > options.max_body;
      if (!exchange.too_long) exchange.request.body.append(body, *size);
      *size = 0;
      return MHD_YES;
    }
    if (exchange.answer) return send(connection, *exchange.answer);
    if (exchange.given) return MHD_YES;
    exchange.given = true;
    connections.asked(connection);
    return begin(connection, exchange, method);
  }

  MHD_Result begin(MHD_Connection* connection, Exchange& exchange, std::string_view method) {
    try {
      if (exchange.too_long)
        return send(connection, {413, "application/json", json_text({{"error", "the request body is too long"}})});
      if (!exchange.request.post && method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
        return send(connection, {405, "application/json", json_text({{"error", "only GET and POST are supported"}})});
      if (const auto page = pages.find(exchange.request.path); page != pages.end() && !exchange.request.post)
        return queue(connection, 200, page->second);
      if (!allowed(connection, exchange.request.path))
        fail(Code::unauthenticated,
             "this path needs the introspection token of the cluster: Authorization: Bearer TOKEN; troupe-launch and "
             "--introspect-port print an address with it");
      MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &Impl::add_parameter, &exchange.request);
      if (options.prompt_paths.contains(exchange.request.path)) return send(connection, handler(exchange.request));
    } catch (...) {
      return send(connection, HttpAnswer::of(current_error()));
    }
    {
      const std::lock_guard lock(mutex);
      if (ending) return send(connection, HttpAnswer::of(ends()));
      if (waiting.size() < options.max_waiting) {
        MHD_suspend_connection(connection);
        waiting.push_back({connection, &exchange});
        wake.notify_one();
        return MHD_YES;
      }
    }
    return send(connection, HttpAnswer::of(Error(Code::unavailable, "too many queued requests: retry later")));
  }

  static MHD_Result add_parameter(void* request, MHD_ValueKind, const char* name, const char* value) {
    static_cast<HttpRequest*>(request)->parameters.insert_or_assign(name, value ? value : "");
    return MHD_YES;
  }

  // Returns null if out of memory. With PERSISTENT, `answer` must outlive the response.
  MHD_Response* make_response(const HttpAnswer& answer, MHD_ResponseMemoryMode mode) const {
    MHD_Response* const response =
        MHD_create_response_from_buffer(answer.body.size(), const_cast<char*>(answer.body.data()), mode);
    if (!response) return nullptr;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
    for (const auto& [name, value] : options.headers) MHD_add_response_header(response, name.c_str(), value.c_str());
    return response;
  }

  MHD_Result send(MHD_Connection* connection, const HttpAnswer& answer) {
    MHD_Response* const response = make_response(answer, MHD_RESPMEM_MUST_COPY);
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
    if (wanted.empty()) return speaks_to_this_machine(header(connection, MHD_HTTP_HEADER_HOST));
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
    MHD_Connection* connection;
    Exchange* exchange;  // stays until the connection is resumed and the answer sent
  };

  static void resume(const Waiting& asked, HttpAnswer answer) {
    asked.exchange->answer = std::move(answer);
    MHD_resume_connection(asked.connection);
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return ending || !waiting.empty(); });
      if (ending) return;
      const Waiting asked = waiting.front();
      waiting.pop_front();
      lock.unlock();
      HttpAnswer answer;
      try {
        answer = handler(asked.exchange->request);
      } catch (...) {
        answer = HttpAnswer::of(current_error());
      }
      resume(asked, std::move(answer));
      lock.lock();
    }
  }

  void sweep() {
    std::unique_lock lock(mutex);
    while (!ending) {
      lock.unlock();
      const Clock::time_point next = connections.cut_late();
      lock.lock();
      swept.wait_until(lock, std::max(next, Clock::now() + kSweep), [&] { return ending; });
    }
  }

  static constexpr std::chrono::milliseconds kSweep{50};

  Options options;
  const Handler handler;
  std::string certificate, key, ca;
  Connections connections;
  wire::Fd listener;
  std::map<std::string, MHD_Response*> pages;
  std::mutex mutex;  // guards the token and the members below
  std::condition_variable wake, swept;
  std::deque<Waiting> waiting;
  bool ending = false;
  MHD_Daemon* daemon = nullptr;
  std::vector<std::thread> workers;
  std::thread sweeper;
};

HttpServer::HttpServer(Options options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}
HttpServer::~HttpServer() = default;
HostPort HttpServer::address() const { return {impl_->options.host, impl_->options.port}; }

void HttpServer::set_token(std::string token) {
  const std::lock_guard lock(impl_->mutex);
  impl_->options.token = std::move(token);
}

}  // namespace troupe
