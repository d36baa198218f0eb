#include "tools/launch/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) {
    fail(Code::resource_exhausted, "cannot create a pipe for a task: {} (see ulimit -n)", std::strerror(errno));
  }
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

void set_nonblocking(const FileDescriptor& fd) { fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

// Runs in the child. Returns errno if the program could not be executed.
int become(const ChildOptions& options, pid_t launcher, int out, int err, int report, int cluster) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // the launcher died before the line above
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (!options.inherit_stdout) dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  fcntl(report, F_SETFD, 0);
  fcntl(cluster, F_SETFD, 0);
  setenv("TROUPE_LAUNCH", fmt::format("{},{},{}", report, cluster, options.tasks).c_str(), 1);
  if (!options.cluster_file.empty()) setenv("TROUPE_LAUNCH_CLUSTER", options.cluster_file.c_str(), 1);
  if (options.gpus) setenv("CUDA_VISIBLE_DEVICES", options.gpus->c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return errno;
}

Code code_of_exec(int error) {
  if (error == EACCES) return Code::permission_denied;
  return error == ENOENT ? Code::not_found : Code::unavailable;
}

// The child processes of this one, from /proc/<pid>/stat: "pid (name) state parent ...".
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{}) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat, '\0');
    const std::size_t after_name = stat.rfind(") ");
    if (after_name == std::string::npos) continue;
    pid_t parent = 0;
    const char* begin = stat.data() + std::min(after_name + 4, stat.size());
    std::from_chars(begin, stat.data() + stat.size(), parent);
    if (parent == getpid()) found.push_back(pid);
  }
  return found;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

Child start_child(const ChildOptions& options) {
  Pipe out = make_pipe(), err = make_pipe(), report = make_pipe(), cluster = make_pipe(), failure = make_pipe();
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) fail(Code::resource_exhausted, "cannot fork a process for a task: {}", std::strerror(errno));
  if (pid == 0) {
    const int error =
        become(options, launcher, out.write.get(), err.write.get(), report.write.get(), cluster.read.get());
    [[maybe_unused]] const ssize_t ignored = write(failure.write.get(), &error, sizeof error);
    _exit(127);
  }
  setpgid(pid, pid);  // in parent and child: either may run first
  failure.write = FileDescriptor();
  int error = 0;
  if (read(failure.read.get(), &error, sizeof error) == sizeof error) {  // the pipe closes on a successful exec
    waitpid(pid, nullptr, 0);
    fail(code_of_exec(error), "cannot start '{}': {}", options.command.front(), std::strerror(error));
  }
  Child child{pid, std::move(report.read), std::move(cluster.write), std::move(out.read), std::move(err.read)};
  if (options.inherit_stdout) child.out = FileDescriptor();
  for (const FileDescriptor* fd : {&child.report, &child.cluster, &child.out, &child.err}) {
    if (fd->open()) set_nonblocking(*fd);
  }
  return child;
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void kill_descendants() {
  // When a process dies, we adopt its children: the next round lists them.
  for (;;) {
    for (const pid_t pid : children()) kill(pid, SIGKILL);
    if (waitpid(-1, nullptr, 0) < 0 && errno != EINTR) return;
  }
}

}  // namespace troupe
