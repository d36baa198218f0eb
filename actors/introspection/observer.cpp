#include "troupe/actors/introspection/observer.hpp"

#include <algorithm>
#include <mutex>

#include <troupe/actors/wire/ask.hpp>
#include <troupe/actors/wire/wire.hpp>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFinding{900};  // to find the introspector by asking the task
constexpr std::chrono::milliseconds kAnswer{2500};  // for a task that queries all others for up to a second

}  // namespace

class Observer::Impl {
 public:
  explicit Impl(Options given) : options(std::move(given)), wire(options.network.wire()) {
    if (options.address.empty() && !options.cluster) invalid_argument("no address: pass HOST:PORT or --cluster FILE");
    if (HttpTarget::is_url(options.address)) {
      current = HttpTarget::parse(options.address);
      current->tls = options.network.tls;
      if (options.address.starts_with("https") != current->tls.given())
        invalid_argument("{}: {}", current->address.to_string(),
                         current->tls.given()
                             ? "with certificates the address must begin with https://"
                             : "https needs the cluster's certificates: --tls-cert, --tls-key and --tls-ca");
    } else if (!options.address.empty()) {
      tasks.push_back(HostPort::parse(options.address));
    }
    if (options.cluster)
      for (const auto& [task, address] : options.cluster->tasks)
        if (std::ranges::find(tasks, address) == tasks.end()) tasks.push_back(address);
    for (const HostPort& task : tasks) options.network.check(task);
  }

  // Asks the task that answered last, then the others in turn.
  std::string get(const std::string& path) {
    std::string said;
    Error refused;
    const auto note = [&](const std::string& who, const Error& error) {
      if (error.code() == Code::unauthenticated && HttpTarget::is_url(options.address) && !options.cluster)
        throw Error(error.code(),
                    fmt::format("{}: {}; pass the whole address printed by troupe-launch or --introspect-port, "
                                "http://HOST:PORT/#token=TOKEN, in quotes, or the cluster file with --cluster",
                                who, current && current->token.empty() ? "it needs a token" : "wrong token"));
      // Other tasks may still answer: the cluster file may list a different address for the one given here.
      if (error.code() == Code::unauthenticated && options.cluster && !refused) refused = error.within(who);
      if ((error.code() == Code::unauthenticated && !options.cluster) || error.code() == Code::invalid_argument ||
          error.code() == Code::not_found)
        throw error.within(who);
      said += fmt::format("\n  {}: {}", who, error.message());
    };
    std::vector<HttpTarget> asked;
    const auto ask = [&](const HttpTarget& target, std::string& body) {
      if (std::ranges::any_of(asked, [&](const HttpTarget& t) { return t.address == target.address; })) return false;
      asked.push_back(target);
      try {
        body = http_get(target, path, kAnswer);
        current = target;
        return true;
      } catch (...) {
        note(target.address.to_string(), current_error());
        return false;
      }
    };
    std::string body;
    if (current && ask(*current, body)) return body;
    const auto others = known;
    for (const HttpTarget& target : others)
      if (ask(target, body)) return body;
    for (const HostPort& task : tasks) {
      HttpTarget target;
      try {
        target = find(task);
      } catch (...) {
        note(task.to_string(), current_error());
        continue;
      }
      if (ask(target, body)) return body;
    }
    if (refused) throw refused;
    if (!options.cluster && !current)
      said +=
          "\nHOST:PORT is the advertised address of a task, as printed by troupe-launch. Pass a browser address "
          "whole, as printed: http://HOST:PORT/#token=TOKEN";
    fail(Code::unavailable, "no task answers:{}", said);
  }

  // Asks the task itself, at its address in the cluster file.
  HttpTarget find(const HostPort& task) {
    const wire::Asking whom{.host = task.host,
                            .port = task.port,
                            .cluster = options.cluster ? options.cluster->name : "",
                            .token = options.cluster ? options.cluster->token : "",
                            .tls = wire.tls.get()};
    std::string url;
    try {
      url = wire::ask(whom, "introspector", Clock::now() + kFinding);
    } catch (const Error& error) {
      if (error.code() == Code::unauthenticated && !options.cluster)
        throw Error(error.code(), error.message() + "; pass the cluster file with --cluster");
      throw;
    }
    HttpTarget target = HttpTarget::parse(url);
    target.address.host = task.host;
    if (url.starts_with("https://")) target.tls = options.network.tls;
    return target;
  }

  void remember(const ClusterSnapshot& snapshot) {
    known.clear();
    for (const TaskReport& report : snapshot.tasks)
      if (!report.address.empty())
        known.push_back({.address = HostPort::parse(report.address), .token = current->token, .tls = current->tls});
  }

  const Options options;
  const WireOptions wire;
  std::vector<HostPort> tasks;
  mutable std::mutex mutex;
  std::optional<HttpTarget> current;
  std::vector<HttpTarget> known;  // introspectors of the other tasks
};

Observer::Observer(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Observer::~Observer() = default;

ClusterSnapshot Observer::snapshot() {
  const std::lock_guard lock(impl_->mutex);
  ClusterSnapshot out = parse_cluster_snapshot(impl_->get("/snapshot"));
  impl_->remember(out);
  return out;
}

std::string Observer::get(const std::string& path) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->get(path);
}

std::vector<KnownTask> Observer::tasks() {
  const ClusterSnapshot cluster = snapshot();
  const std::lock_guard lock(impl_->mutex);
  std::vector<KnownTask> out;
  for (const TaskReport& report : cluster.tasks) {
    KnownTask task{.task = report.task, .unknown = report.error};
    if (report.task == cluster.asked) task.target = *impl_->current;
    if (!report.address.empty())
      task.target = {
          .address = HostPort::parse(report.address), .token = impl_->current->token, .tls = impl_->current->tls};
    out.push_back(std::move(task));
  }
  return out;
}

std::string Observer::flight_record(const std::string& task) {
  return ask_task(find_task(tasks(), task), "/flight", kAnswer);
}

std::optional<HttpTarget> Observer::target() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->current;
}

}  // namespace troupe
