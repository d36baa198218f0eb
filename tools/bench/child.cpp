#include "tools/bench/child.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <thread>

#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

constexpr std::chrono::milliseconds kGrace{2000};  // to end after its input has ended

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(Code::resource_exhausted, "cannot make a pipe: {}", std::strerror(errno));
  return ends;
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::string& errors) {
  if (access(command.at(0).c_str(), X_OK) != 0) fail(Code::not_found, "cannot execute '{}'", command[0]);
  signal(SIGPIPE, SIG_IGN);  // a dead child is noticed when its answer is read
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const auto in = make_pipe(), out = make_pipe();
  const int log = errors.empty() ? -1 : open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (!errors.empty() && log < 0) fail(Code::unavailable, "cannot write {}: {}", errors, std::strerror(errno));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    if (log >= 0) dup2(log, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  if (log >= 0) close(log);
  to_ = in[1];
  from_ = out[0];
  if (pid_ < 0) fail(Code::resource_exhausted, "cannot start '{}': {}", command[0], std::strerror(errno));
}

Child::~Child() {
  close(to_);
  close(from_);
  if (pid_ < 0) return;
  const auto until = std::chrono::steady_clock::now() + kGrace;
  while (std::chrono::steady_clock::now() < until) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Child::write_line(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(to_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Code::unavailable, "the child process has ended");
    done += static_cast<std::size_t>(n);
  }
}

std::string Child::read_line(std::chrono::seconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    if (const auto end = buffered_.find('\n'); end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      fail(Code::deadline_exceeded, "the child process did not answer within {} s", deadline.count());
    pollfd waiting{from_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 4096> bytes;
    const ssize_t n = read(from_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(Code::unavailable, "the child process has ended");
    buffered_.append(bytes.data(), static_cast<std::size_t>(n));
  }
}

std::string in_one_line(const ClusterSpec& cluster) {
  std::string json = cluster.to_json();
  std::erase(json, '\n');
  return json;
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }
std::string build_directory() { return std::filesystem::path(own_path()).parent_path().parent_path().string(); }

}  // namespace troupe::bench
