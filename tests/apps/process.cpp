#include "tests/apps/process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

namespace troupe::testing {
namespace {

int count(const std::string& where, const std::string& text) {
  int found = 0;
  for (std::size_t at = where.find(text); at != std::string::npos; at = where.find(text, at + 1)) ++found;
  return found;
}

void take(int& fd, short events, std::string& into) {
  if (fd < 0 || events == 0) return;
  std::array<char, 4096> chunk{};
  const ssize_t got = read(fd, chunk.data(), chunk.size());
  if (got > 0) {
    into.append(chunk.data(), static_cast<std::size_t>(got));
  } else {
    close(fd);
    fd = -1;
  }
}

}  // namespace

Process::Process(std::vector<std::string> command) {
  std::array<int, 2> out{}, err{};
  EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
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
}

Process::~Process() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) close(out_fd_);
  if (err_fd_ >= 0) close(err_fd_);
}

bool Process::read_more() {
  std::array<pollfd, 2> wanted = {{{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}}};  // poll ignores -1
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  constexpr int kMilliseconds = 60'000;
  if (poll(wanted.data(), wanted.size(), kMilliseconds) == 0) {
    ADD_FAILURE() << "nothing printed for a minute; stderr:\n" << err;
    return false;
  }
  take(out_fd_, wanted[0].revents, out);
  take(err_fd_, wanted[1].revents, err);
  return true;
}

void Process::wait_for(const std::string& text, int times) {
  while (count(out, text) + count(err, text) < times) {
    if (read_more()) continue;
    ADD_FAILURE() << "\"" << text << "\" did not come; stdout:\n" << out << "\nstderr:\n" << err;
    return;
  }
}

void Process::signal(int number) { kill(pid_, number); }

int Process::wait() {
  while (read_more()) {
  }
  if (out_fd_ >= 0 || err_fd_ >= 0) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryDirectory::write(const std::string& name, const std::string& content) const {
  const std::string file = (path_ / name).string();
  std::ofstream(file, std::ios::binary) << content;
  chmod(file.c_str(), 0600);
  return file;
}

std::vector<int> free_ports(int count) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    sockets.push_back(fd);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int fd : sockets) close(fd);
  return ports;
}

}  // namespace troupe::testing
