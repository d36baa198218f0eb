#include "troupe/actors/network/cluster_spec.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include <troupe/actors/network/network_options.hpp>
#include <troupe/actors/wire/socket.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

std::string HostPort::to_string() const { return wire::address_text(host, port); }

HostPort HostPort::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto digits = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  std::string_view host = text.substr(0, std::min(colon, text.size()));
  // An IPv6 address requires brackets: otherwise its last group could be the port.
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool named =
      !host.empty() && host.find_first_of(bracketed ? "[] \t\r\n" : "[]: \t\r\n") == std::string_view::npos;
  unsigned port = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (!named || digits.empty() || code != std::errc{} || end != digits.data() + digits.size() || port == 0 ||
      port > 65535)
    invalid_argument("'{}' is not an address: expected HOST:PORT", text);
  HostPort out;
  out.host = std::string(host);
  out.port = static_cast<std::uint16_t>(port);
  return out;
}

namespace {

constexpr std::size_t kMaxFileBytes = 16 << 20;  // a task takes about 25
constexpr std::size_t kMaxJobName = 64;
constexpr std::uint64_t kMostWorkers = 1 << 20;
constexpr std::size_t kMaxText = 256;  // bytes; of the cluster's name and of its token

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

void add_job(ClusterSpec& spec, std::set<HostPort>& addresses, const std::string& job, const nlohmann::json& value,
             std::string_view source) {
  if (job.empty() || job.size() > kMaxJobName || job.find_first_of("/:* ") != std::string::npos ||
      has_control_characters(job))
    invalid_argument(
        "{}: \"{}\" is not a valid job name: expected 1 to {} bytes without '/', ':', '*', spaces and control "
        "characters",
        source, job.substr(0, kMaxJobName), kMaxJobName);
  if (!value.is_array()) invalid_argument("{}: \"{}\" must be a list of addresses", source, job);
  int index = 0;
  for (const auto& entry : value) {
    const TaskName task{job, index++};
    if (!entry.is_string()) invalid_argument("{}: the address of {} must be a string", source, task.to_string());
    HostPort address;
    try {
      address = HostPort::parse(entry.get<std::string>());
    } catch (const Error& error) {
      invalid_argument("{}: {}: {}", source, task.to_string(), error.message());
    }
    if (!addresses.insert(address).second) {
      const auto other = std::ranges::find(spec.tasks, address, &decltype(spec.tasks)::value_type::second);
      invalid_argument("{}: {} and {} have the same address {}", source, other->first.to_string(), task.to_string(),
                       address.to_string());
    }
    spec.tasks.emplace(task, address);
  }
}

// Checks that a cluster open to everybody is on one machine, and says so explicitly.
void check_token(const ClusterSpec& spec, bool given, std::string_view source) {
  if (!spec.token.empty()) return;
  const auto reached = std::ranges::find_if(spec.tasks, [](const auto& t) { return !is_loopback(t.second.host); });
  if (given && reached == spec.tasks.end()) return;
  std::string problem = fmt::format("{}: \"token\" is {}", source, given ? "empty" : "missing");
  if (reached != spec.tasks.end())
    problem += fmt::format(", and {} is reachable from other machines at {}", reached->first.to_string(),
                           reached->second.to_string());
  const std::string_view otherwise =
      reached == spec.tasks.end() ? ", or to \"\" to let everybody on this machine join" : "";
  invalid_argument("{}: set it to the output of 'troupe-launch --make-token'{}", problem, otherwise);
}

// Reports a job listed twice: nlohmann would keep the last of two equal keys.
nlohmann::json parse_without_duplicates(std::string_view text, std::string_view source) {
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      duplicate = parsed.get<std::string>();
    return true;
  };
  try {
    auto json = nlohmann::json::parse(text, watch);
    if (!duplicate.empty()) invalid_argument("{}: \"{}\" is given twice", source, duplicate);
    return json;
  } catch (const nlohmann::json::parse_error& error) {
    invalid_argument("{}: not JSON at byte {}: {}", source, error.byte, error.what());
  }
}

}  // namespace

ClusterSpec ClusterSpec::parse(std::string_view text, std::string_view source) {
  const nlohmann::json json = parse_without_duplicates(text, source);
  if (!json.is_object())
    invalid_argument(
        "{}: expected an object like {{\"name\":\"demo\",\"token\":\"...\",\"worker\":[\"127.0.0.1:7711\"]}}", source);
  ClusterSpec spec;
  std::set<HostPort> addresses;
  for (const auto& [key, value] : json.items()) {
    if (key == "name" || key == "token") {
      if (!value.is_string()) invalid_argument("{}: \"{}\" must be a string", source, key);
      const auto& text = value.get_ref<const std::string&>();
      if (text.size() > kMaxText || has_control_characters(text))
        invalid_argument("{}: \"{}\" has more than {} bytes or a control character", source, key, kMaxText);
      (key == "name" ? spec.name : spec.token) = text;
    } else if (key == "max_workers") {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMostWorkers)
        invalid_argument("{}: \"max_workers\" must be an integer of at most {}", source, kMostWorkers);
      spec.max_workers = value.get<int>();
    } else {
      add_job(spec, addresses, key, value, source);
    }
  }
  if (spec.name.empty()) invalid_argument("{}: \"name\" is missing", source);
  if (spec.tasks.empty()) invalid_argument("{}: no tasks", source);
  if (json.contains("max_workers") && spec.max_workers < spec.count("worker"))
    invalid_argument("{}: \"max_workers\" is {}, but {} workers have addresses", source, spec.max_workers,
                     spec.count("worker"));
  check_token(spec, json.contains("token"), source);
  return spec;
}

ClusterSpec ClusterSpec::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(Code::not_found, "cannot read the cluster file '{}': {}", path, std::strerror(errno));
  std::string text;
  std::array<char, 16 << 10> part;
  do {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes)  // a device file may never end
      invalid_argument("'{}' has more than {} bytes: not a cluster file", path, kMaxFileBytes);
  } while (file);
  ClusterSpec spec = parse(text, path);
  struct stat info {};
  if (!spec.token.empty() && ::stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0)
    fail(Code::permission_denied, "the cluster file '{}' holds a token and is readable by others: chmod 600 it", path);
  return spec;
}

std::string ClusterSpec::to_json() const {
  nlohmann::json json{{"name", name}, {"token", token}};
  if (max_workers > 0) json["max_workers"] = max_workers;
  for (const auto& [task, address] : tasks) json[task.job].push_back(address.to_string());
  return json.dump();
}

bool ClusterSpec::may_join(const TaskName& task) const {
  return contains(task) || (task.job == "worker" && task.index >= 0 && task.index < max_workers);
}

const HostPort& ClusterSpec::address(const TaskName& task) const {
  const auto it = tasks.find(task);
  if (it == tasks.end()) {
    std::string known;
    for (const auto& [name, address] : tasks) known += (known.empty() ? "" : ", ") + name.to_string();
    fail(Code::not_found, "cluster '{}' has no task {}; it has {}", name, task.to_string(), known);
  }
  return it->second;
}

std::vector<TaskName> ClusterSpec::tasks_of(std::string_view job) const {
  std::vector<TaskName> out;
  for (const auto& [task, address] : tasks)
    if (task.job == job) out.push_back(task);
  return out;
}

int ClusterSpec::count(std::string_view job) const {
  return static_cast<int>(std::ranges::count_if(tasks, [job](const auto& t) { return t.first.job == job; }));
}

int ClusterSpec::tasks_on_host_of(const TaskName& task) const {
  const std::string& host = address(task).host;
  return static_cast<int>(std::ranges::count_if(tasks, [&](const auto& t) { return t.second.host == host; }));
}

}  // namespace troupe
