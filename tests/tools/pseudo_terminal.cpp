#include "tests/tools/pseudo_terminal.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "tests/patience.hpp"
#include "tools/top/text.hpp"

namespace troupe::testing {

PseudoTerminal::PseudoTerminal(std::vector<std::string> command, const Environment& environment, int columns, int rows)
    : columns_(columns), rows_(rows), bottom_(rows) {
  cells_.assign(static_cast<std::size_t>(rows), std::vector<std::string>(static_cast<std::size_t>(columns), " "));
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  pid_ = forkpty(&fd_, nullptr, nullptr, &size);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  EXPECT_GT(pid_, 0);
}

PseudoTerminal::~PseudoTerminal() {
  signal(SIGKILL);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  hang_up();
}

void PseudoTerminal::type(const std::string& keys) {
  EXPECT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

void PseudoTerminal::resize(int columns, int rows) {
  columns_ = columns;
  rows_ = bottom_ = rows;
  top_ = 0;
  x_ = std::min(x_, columns - 1);
  y_ = std::min(y_, rows - 1);
  cells_.resize(static_cast<std::size_t>(rows));
  for (auto& line : cells_) line.resize(static_cast<std::size_t>(columns), " ");
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  EXPECT_EQ(ioctl(fd_, TIOCSWINSZ, &size), 0);
}

void PseudoTerminal::signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

void PseudoTerminal::hang_up() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

termios PseudoTerminal::settings() const {
  termios out{};
  EXPECT_EQ(tcgetattr(fd_, &out), 0);
  return out;
}

bool PseudoTerminal::read_more() {
  std::array<char, 4096> chunk{};
  const ssize_t got = read(fd_, chunk.data(), chunk.size());
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;  // EIO: the program has ended
  bytes_.append(chunk.data(), static_cast<std::size_t>(got));
  take({chunk.data(), static_cast<std::size_t>(got)});
  return true;
}

void PseudoTerminal::until(bool there, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while ((screen().find(text) != std::string::npos) != there) {
    pollfd ready{fd_, POLLIN, 0};
    const bool late = std::chrono::steady_clock::now() > deadline;
    if (!late && poll(&ready, 1, 100) == 0) continue;
    if (!late && read_more()) continue;
    ADD_FAILURE() << (late ? "after a minute" : "at its end") << (there ? " there is no '" : " there still is '")
                  << text << "' on the screen:\n"
                  << screen();
    return;
  }
}

void PseudoTerminal::wait_for(const std::string& text) { until(true, text); }
void PseudoTerminal::wait_until_gone(const std::string& text) { until(false, text); }

int PseudoTerminal::wait() {
  while (fd_ >= 0 && read_more()) {
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string PseudoTerminal::screen() const {
  std::string out;
  for (const auto& line : cells_) {
    for (const std::string& cell : line) out += cell;
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

void PseudoTerminal::clear(int row, int from, int to) {
  for (int x = from; x < to; ++x) cells_[static_cast<std::size_t>(row)][static_cast<std::size_t>(x)].assign(1, ' ');
}

// Moves the lines from `top` to the end of the region up; down if `lines` is negative.
void PseudoTerminal::scroll(int top, int lines) {
  for (int i = 0; i < std::abs(lines) && top < bottom_; ++i) {
    const int gone = lines > 0 ? top : bottom_ - 1, fresh = lines > 0 ? bottom_ - 1 : top;
    cells_.erase(cells_.begin() + gone);
    cells_.emplace(cells_.begin() + fresh, static_cast<std::size_t>(columns_), " ");
  }
}

void PseudoTerminal::next_line() {
  if (y_ + 1 == bottom_)
    scroll(top_, 1);
  else
    y_ = std::min(y_ + 1, rows_ - 1);
}

void PseudoTerminal::put(const std::string& character) {
  const int wide = static_cast<int>(top::width(character));
  if (x_ + wide > columns_) {
    x_ = 0;
    next_line();
  }
  auto& line = cells_[static_cast<std::size_t>(y_)];
  line[static_cast<std::size_t>(x_)] = character;
  if (wide == 2) line[static_cast<std::size_t>(x_) + 1].clear();
  x_ += wide;
}

// A control sequence: ESC [ parameters final.
void PseudoTerminal::command(char final, const std::string& parameters) {
  if (!parameters.empty() && parameters.front() == '?') return;  // modes
  const auto number = [&](std::size_t index, int otherwise) {
    std::size_t at = 0;
    for (; index > 0 && at != std::string::npos; --index) {
      at = parameters.find(';', at);
      if (at != std::string::npos) ++at;
    }
    const int value = at == std::string::npos ? 0 : std::atoi(parameters.c_str() + at);
    return value == 0 ? otherwise : value;
  };
  const int n = number(0, 1);
  switch (final) {
    case 'H':
      y_ = n - 1, x_ = number(1, 1) - 1;
      break;
    case 'd':
      y_ = n - 1;
      break;
    case 'G':
      x_ = n - 1;
      break;
    case 'A':
      y_ -= n;
      break;
    case 'B':
      y_ += n;
      break;
    case 'C':
      x_ += n;
      break;
    case 'D':
      x_ -= n;
      break;
    case 'X':
      clear(y_, x_, std::min(columns_, x_ + n));
      break;
    case 'K':
      if (number(0, 0) == 1)
        clear(y_, 0, x_ + 1);
      else
        clear(y_, x_, columns_);
      break;
    case 'J':
      for (int y = number(0, 0) == 2 ? 0 : y_; y < rows_; ++y)
        clear(y, y == y_ && number(0, 0) == 0 ? x_ : 0, columns_);
      break;
    case 'b':
      for (int i = 0; i < n; ++i) put(cells_[static_cast<std::size_t>(y_)][static_cast<std::size_t>(x_ - 1)]);
      break;
    case 'P': {
      auto& line = cells_[static_cast<std::size_t>(y_)];
      line.erase(line.begin() + x_, line.begin() + std::min(columns_, x_ + n));
      line.resize(static_cast<std::size_t>(columns_), " ");
      break;
    }
    case '@': {
      auto& line = cells_[static_cast<std::size_t>(y_)];
      line.insert(line.begin() + x_, static_cast<std::size_t>(n), " ");
      line.resize(static_cast<std::size_t>(columns_));
      break;
    }
    case 'r':
      top_ = n - 1, bottom_ = number(1, rows_), x_ = y_ = 0;
      break;
    case 'S':
      scroll(top_, n);
      break;
    case 'T':
      scroll(top_, -n);
      break;
    case 'M':
      scroll(y_, n);
      break;
    case 'L':
      scroll(y_, -n);
      break;
    case 'm':
    case 'l':
    case 'h':
    case 't':
      break;
    default:
      ADD_FAILURE() << "a sequence that this terminal does not know: ESC [" << parameters << final;
  }
  x_ = std::clamp(x_, 0, columns_);
  y_ = std::clamp(y_, 0, rows_ - 1);
}

void PseudoTerminal::take(std::string_view text) {
  pending_ += text;
  std::size_t at = 0;
  const auto left = [&] { return pending_.size() - at; };
  while (at < pending_.size()) {
    const auto byte = static_cast<unsigned char>(pending_[at]);
    if (byte == 27) {
      if (left() < 2) break;
      const char kind = pending_[at + 1];
      if (kind == '[') {
        const std::size_t end = pending_.find_first_not_of("0123456789;?>", at + 2);
        if (end == std::string::npos) break;
        command(pending_[end], pending_.substr(at + 2, end - at - 2));
        at = end + 1;
      } else {
        const std::size_t length = kind == '(' || kind == ')' ? 3 : 2;
        if (left() < length) break;
        if (kind == 'M' && y_ == top_)
          scroll(top_, -1);
        else if (kind == 'M')
          --y_;
        at += length;
      }
    } else if (byte < 32) {
      if (byte == '\r') x_ = 0;
      if (byte == '\b') x_ = std::max(0, x_ - 1);
      if (byte == '\n') next_line();
      ++at;
    } else {
      const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
      if (left() < length) break;
      put(pending_.substr(at, length));
      at += length;
    }
  }
  pending_.erase(0, at);
}

}  // namespace troupe::testing
