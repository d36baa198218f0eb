#include "tests/chaos/chaos_cluster.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>

#include <troupe/messages/error.hpp>

namespace troupe::chaos {
namespace {

const std::string kLauncher = "launcher";
constexpr double kGlance = 0.02;  // seconds between looks at processes that say nothing

Arguments task_arguments(const std::string& task) {
  const std::size_t slash = task.find('/');
  return {"--job", task.substr(0, slash), "--task", task.substr(slash + 1)};
}

// That the launcher has started, and not told of yet; 0: there is none.
pid_t child_of(pid_t launcher, const std::string& task) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", launcher));
  const Arguments wanted = task_arguments(task);
  for (pid_t pid = 0; children >> pid;) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
    Arguments words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    if (std::ranges::search(words, wanted).begin() != words.end()) return pid;
  }
  return 0;
}

void append(Arguments& to, const Arguments& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string Told::about() const {
  static const std::regex form("/job:([a-z]+)/task:([0-9]+)");
  const std::string task = what.value("task", "");
  std::smatch match;
  return std::regex_match(task, match, form) ? match.str(1) + "/" + match.str(2) : "";
}

ChaosCluster::ChaosCluster(ClusterOptions options) : options_(std::move(options)) {
  for (int i = 0; i < options_.ps; ++i) names_.push_back(fmt::format("ps/{}", i));
  for (int i = 0; i < options_.inputs; ++i) names_.push_back(fmt::format("input/{}", i));
  for (int i = 0; i < options_.workers; ++i) names_.push_back(fmt::format("worker/{}", i));
  if (options_.restarts >= 0) {
    start_launcher();
    return;
  }
  if (!options_.apart.empty()) {
    networks_.emplace();
    if (!networks_->possible())
      fail(Code::unavailable, "network namespaces cannot be made here: that needs root and ip (iproute2)");
  }
  write_cluster_file();
  for (const std::string& name : names_)
    if (std::ranges::find(options_.later, name) == options_.later.end()) start(name);
}

void ChaosCluster::write_cluster_file() {
  std::vector<int> ports =
      networks_ ? std::vector<int>(names_.size()) : testing::free_ports(static_cast<int>(names_.size()));
  Json cluster = {{"name", "chaos"}, {"token", testing::kStrongToken}};
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string address =
        networks_ ? fmt::format("{}:{}", networks_->address(names_[i] == options_.apart ? 1 : 0), 7700 + i)
                  : fmt::format("127.0.0.1:{}", ports[i]);
    cluster[names_[i].substr(0, names_[i].find('/'))].push_back(address);
  }
  file_ = directory_.write("cluster.json", cluster.dump());
}

void ChaosCluster::start(const std::string& name) {
  Arguments command = options_.app;
  append(command, task_arguments(name));
  append(command, {"--cluster", file_});
  if (networks_) command.push_back("--insecure");
  if (const auto more = options_.more.find(name); more != options_.more.end()) append(command, more->second);
  if (networks_) command = networks_->in(name == options_.apart ? 1 : 0, command);
  logs_[name] += fmt::format("---- {:.6f} started: {}\n", unix_now(), fmt::join(command, " "));
  started_[name] = unix_now();
  processes_[name] = {.child = std::make_unique<testing::Child>(command), .out = {}, .err = {}};
  ends_.erase(name);
}

void ChaosCluster::start_launcher() {
  Arguments command = {options_.launcher,
                       "--ps",
                       std::to_string(options_.ps),
                       "--inputs",
                       std::to_string(options_.inputs),
                       "--workers",
                       std::to_string(options_.workers),
                       "--restart",
                       std::to_string(options_.restarts),
                       "--"};
  append(command, options_.app);
  for (const std::string& name : names_) started_[name] = unix_now();
  processes_[kLauncher].child = std::make_unique<testing::Child>(command);
}

void ChaosCluster::signal(const std::string& task, int number) {
  logs_[task] += fmt::format("---- {:.6f} signal {}\n", unix_now(), number);
  if (options_.restarts >= 0) {
    if (const auto found = pids_.find(task); found != pids_.end())
      kill(found->second, number);
    else if (const pid_t pid = child_of(processes_.at(kLauncher).child->pid(), task); pid > 0)
      kill(pid, number);
    return;
  }
  Process& process = processes_.at(task);
  if (number == SIGKILL) process.asked = true;
  process.child->signal(number);
}

void ChaosCluster::apply(const Fault& fault) {
  if (fault.task.empty()) {
    for (const std::string& name : names_) apply({fault.kind, name, fault.at});
    return;
  }
  switch (fault.kind) {
    case FaultKind::kill:
      return signal(fault.task, SIGKILL);
    case FaultKind::stop:
      return signal(fault.task, SIGSTOP);
    case FaultKind::go_on:
      return signal(fault.task, SIGCONT);
    case FaultKind::start:
      if (const auto old = processes_.find(fault.task); old != processes_.end()) {
        while (old->second.child->out_fd() >= 0 || old->second.child->err_fd() >= 0) read_some(kGlance);
        old->second.child->wait();
      }
      return start(fault.task);
    case FaultKind::cut:
      if (!networks_->cut()) fail(Code::unavailable, "the network could not be cut");
      return;
    case FaultKind::heal:
      if (!networks_->heal()) fail(Code::unavailable, "the network could not be connected again");
      return;
  }
}

bool ChaosCluster::running(const std::string& task) const {
  const auto found = processes_.find(options_.restarts >= 0 ? kLauncher : task);
  return found != processes_.end() && !ends_.contains(found->first);
}

bool ChaosCluster::all_ended() const {
  return std::ranges::all_of(processes_, [&](const auto& entry) { return ends_.contains(entry.first); });
}

bool ChaosCluster::run_until(const std::function<bool()>& enough, double seconds) {
  const double deadline = unix_now() + seconds;
  while (!enough()) {
    const double left = deadline - unix_now();
    if (left <= 0) return false;
    read_some(std::min(left, kGlance));
  }
  return true;
}

void ChaosCluster::read_some(double seconds) {
  std::vector<pollfd> wanted;
  for (const auto& [name, process] : processes_) {
    wanted.push_back({process.child->out_fd(), POLLIN, 0});
    wanted.push_back({process.child->err_fd(), POLLIN, 0});
  }
  poll(wanted.data(), wanted.size(), static_cast<int>(seconds * 1000) + 1);
  std::size_t i = 0;
  for (auto& [name, process] : processes_) {
    const bool out = wanted[i++].revents != 0, err = wanted[i++].revents != 0;
    if (out) process.child->read_out(process.out);
    if (err) process.child->read_err(process.err);
    if (out) take_lines(name, process.out, true);
    if (err) take_lines(name, process.err, false);
    if (ends_.contains(name) || process.child->out_fd() >= 0 || process.child->err_fd() >= 0) continue;
    if (const auto status = process.child->ended()) {
      ends_[name] = *status;
      logs_[name] += fmt::format("---- {:.6f} ended with {}\n", unix_now(), *status);
    }
  }
}

void ChaosCluster::take_lines(const std::string& process, std::string& pending, bool is_out) {
  for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1))
    take_line(process, pending.substr(0, end), is_out);
}

void ChaosCluster::take_line(const std::string& process, const std::string& line, bool is_out) {
  logs_[process] += fmt::format("{:.6f} {}\n", unix_now(), line);
  if (process != kLauncher) {
    if (is_out) take_json(process, line);
  } else if (is_out) {
    take_json("worker", line);
  } else if (line.starts_with("[") && line.find("] {") != std::string::npos) {
    const std::size_t end = line.find("] {");
    take_json(line.substr(1, end - 1), line.substr(end + 2));
  } else {
    take_news_of_launcher(line);
  }
}

void ChaosCluster::take_json(const std::string& from, const std::string& line) {
  Json what = Json::parse(line, nullptr, false);
  if (!what.is_object()) return;
  const double time = what.value("time", unix_now());
  std::string kind = what.value("event", "");
  told_.push_back({from, std::move(kind), time, std::move(what)});
}

void ChaosCluster::take_news_of_launcher(const std::string& line) {
  static const std::regex form("troupe-launch: (\\S+) (?:is|restarted as) process (\\d+) .*");
  std::smatch match;
  if (!std::regex_match(line, match, form)) return;
  pids_[match.str(1)] = std::stoi(match.str(2));
  started_[match.str(1)] = unix_now();
}

const Told* ChaosCluster::find(std::string_view kind, double time, std::string_view about) const {
  const auto found = std::ranges::find_if(
      told_, [&](const Told& t) { return t.kind == kind && t.time >= time && (about.empty() || t.about() == about); });
  return found == told_.end() ? nullptr : &*found;
}

std::string ChaosCluster::bad_ends() const {
  std::string text;
  for (const auto& [name, status] : ends_)
    if (status != 0 && !processes_.at(name).asked)
      text += fmt::format("{}{} ended with {}", text.empty() ? "" : ", ", name, status);
  return text;
}

bool ChaosCluster::said(const std::string& text) const {
  return std::ranges::any_of(logs_, [&](const auto& log) { return log.second.find(text) != std::string::npos; });
}

void ChaosCluster::keep_logs(const std::string& folder) const {
  std::filesystem::create_directories(folder);
  for (const auto& [name, text] : logs_) {
    std::string file = name;
    std::ranges::replace(file, '/', '-');
    std::ofstream(folder + "/" + file + ".log") << text;
  }
}

}  // namespace troupe::chaos
