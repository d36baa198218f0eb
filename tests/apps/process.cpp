#include "tests/apps/process.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <array>

namespace troupe::testing {
namespace {

int count(const std::string& where, const std::string& text) {
  int found = 0;
  for (std::size_t at = where.find(text); at != std::string::npos; at = where.find(text, at + 1)) ++found;
  return found;
}

}  // namespace

bool Process::read_within(int milliseconds) {
  std::array<pollfd, 2> wanted = {{{child_.out_fd(), POLLIN, 0}, {child_.err_fd(), POLLIN, 0}}};  // poll ignores -1
  if (poll(wanted.data(), wanted.size(), milliseconds) == 0) return false;
  if (wanted[0].revents != 0) child_.read_out(out);
  if (wanted[1].revents != 0) child_.read_err(err);
  return true;
}

bool Process::read_more() {
  if (child_.out_fd() < 0 && child_.err_fd() < 0) return false;
  if (read_within(60'000)) return true;
  ADD_FAILURE() << "nothing printed for a minute; stderr:\n" << err;
  return false;
}

void Process::read_what_came() {
  if (child_.out_fd() >= 0 || child_.err_fd() >= 0) read_within(0);
}

void Process::wait_for(const std::string& text, int times) {
  while (count(out, text) + count(err, text) < times) {
    if (read_more()) continue;
    ADD_FAILURE() << "\"" << text << "\" did not come; stdout:\n" << out << "\nstderr:\n" << err;
    return;
  }
}

int Process::wait() {
  while (read_more()) {
  }
  if (child_.out_fd() >= 0 || child_.err_fd() >= 0) child_.signal(SIGKILL);
  return child_.wait();
}

}  // namespace troupe::testing
