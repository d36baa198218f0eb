#include "tests/processes/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include <troupe/messages/error.hpp>

namespace troupe::testing {

Child::Child(std::vector<std::string> command) {
  std::array<int, 2> out{-1, -1}, err{-1, -1};
  if (pipe2(out.data(), O_CLOEXEC) != 0)
    fail(Code::resource_exhausted, "no pipe for a child: {}", std::strerror(errno));
  if (pipe2(err.data(), O_CLOEXEC) != 0) {
    for (const int fd : out) close(fd);
    fail(Code::resource_exhausted, "no pipe for a child: {}", std::strerror(errno));
  }
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it died before the line above
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
  if (pid_ < 0) {
    status_ = 127;
    const int error = errno;
    close(out_fd_);
    close(err_fd_);
    fail(Code::resource_exhausted, "no process for a child: {}", std::strerror(error));
  }
}

Child::~Child() {
  signal(SIGKILL);
  wait();
  for (const int fd : {out_fd_, err_fd_})
    if (fd >= 0) close(fd);
}

void Child::signal(int number) const {
  if (status_) return;
  if (number == SIGSTOP) return stop_process(pid_);
  kill(pid_, number);
}

void stop_process(pid_t pid) {
  if (kill(pid, SIGSTOP) != 0) return;
  // Of all threads: the state of each, behind the name in brackets.
  const auto running = [](const std::filesystem::path& stat) {
    std::ifstream file(stat);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto end = text.rfind(')');
    return end != std::string::npos && end + 2 < text.size() &&
           std::string_view("TtZX").find(text[end + 2]) == std::string_view::npos;
  };
  for (bool some = true; some;) {
    some = false;
    std::error_code gone;
    for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), gone))
      some = some || running(thread.path() / "stat");
    if (some) std::this_thread::yield();
  }
}

void Child::read(int& fd, std::string& into) {
  std::array<char, 4096> chunk{};
  const ssize_t got = ::read(fd, chunk.data(), chunk.size());
  if (got > 0) {
    into.append(chunk.data(), static_cast<std::size_t>(got));
  } else if (got == 0 || errno != EINTR) {
    close(fd);
    fd = -1;
  }
}

std::optional<int> Child::reap(int options) {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, options) == pid_)
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return status_;
}

std::optional<int> Child::ended() { return reap(WNOHANG); }

int Child::wait() {
  std::optional<int> status;
  while (!(status = reap(0)) && errno == EINTR) {
  }
  return status.value_or(127);
}

}  // namespace troupe::testing
