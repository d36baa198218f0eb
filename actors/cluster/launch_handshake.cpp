#include "troupe/actors/cluster/launch_handshake.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr const char* kLaunchVariable = "TROUPE_LAUNCH";
constexpr const char* kLaunchClusterVariable = "TROUPE_LAUNCH_CLUSTER";

// Parses three numbers separated by commas; none for anything else.
std::optional<std::array<int, 3>> parse_three(std::string_view text) {
  std::array<int, 3> numbers{};
  const char* at = text.data();
  const char* end = text.data() + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ',')) return std::nullopt;
    const auto [stop, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc{}) return std::nullopt;
    at = stop;
  }
  return at == end ? std::optional(numbers) : std::nullopt;
}

// Checks that the descriptor is open, and keeps it from leaking into the task's children.
bool claim(int fd) { return fd > 2 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0; }

void wait_readable(int fd, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd wanted{fd, POLLIN, 0};
    const int ready = poll(&wanted, 1, static_cast<int>(std::clamp<long long>(left, 0, 1000 * 1000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail(Code::internal, "troupe-launch: poll: {}", std::strerror(errno));
    if (left <= 0) {
      fail(Code::deadline_exceeded,
           "troupe-launch did not send the cluster file in time: it waits until all tasks have reported "
           "their addresses");
    }
  }
}

}  // namespace

std::optional<LaunchHandshake> LaunchHandshake::from_environment() {
  const char* value = std::getenv(kLaunchVariable);
  if (value == nullptr) return std::nullopt;
  const std::string text = value;
  unsetenv(kLaunchVariable);
  const char* cluster_file = std::getenv(kLaunchClusterVariable);
  const std::string known = cluster_file == nullptr ? "" : cluster_file;
  unsetenv(kLaunchClusterVariable);
  const auto numbers = parse_three(text);
  if (numbers) {
    const auto [report, cluster, tasks] = *numbers;
    if (report != cluster && tasks > 0 && claim(report) && claim(cluster))
      return LaunchHandshake(report, cluster, tasks, known);
  }
  invalid_argument(
      "the environment variable {} is \"{}\", expected two inherited descriptors and the number of tasks "
      "like "
      "\"4,5,3\"; only troupe-launch should set it",
      kLaunchVariable, text);
}

LaunchHandshake::LaunchHandshake(LaunchHandshake&& other) noexcept
    : report_fd_(std::exchange(other.report_fd_, -1)),
      cluster_fd_(std::exchange(other.cluster_fd_, -1)),
      tasks_(other.tasks_),
      known_(std::move(other.known_)) {}

LaunchHandshake::~LaunchHandshake() {
  if (report_fd_ >= 0) close(report_fd_);
  if (cluster_fd_ >= 0) close(cluster_fd_);
}

void LaunchHandshake::report(std::string_view host, std::uint16_t port) {
  const std::string line = fmt::format("{}:{}\n", host, port);
  ssize_t written = 0;
  do {
    written = write(report_fd_, line.data(), line.size());  // shorter than PIPE_BUF: atomic
  } while (written < 0 && errno == EINTR);
  if (written < 0) fail(Code::unavailable, "cannot report the address to troupe-launch: {}", std::strerror(errno));
}

std::string LaunchHandshake::wait_for_cluster_file(std::chrono::steady_clock::time_point deadline) {
  std::string line;
  std::array<char, 512> chunk{};
  for (;;) {
    wait_readable(cluster_fd_, deadline);
    const ssize_t got = read(cluster_fd_, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(Code::unavailable, "troupe-launch ended before it sent the cluster file");
    line.append(chunk.data(), static_cast<std::size_t>(got));
    if (const auto end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
  }
}

}  // namespace troupe
