// How sockets are tuned, by where their other end is.
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>

#include <memory>

#include <troupe/actors/wire/socket.hpp>

namespace troupe::wire {
namespace {

// An address of this host that others reach too; empty if it has none.
std::string real_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP))
      continue;
    char host[NI_MAXHOST];
    if (::getnameinfo(i->ifa_addr, sizeof(sockaddr_in), host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0)
      return host;
  }
  return "";
}

int option(const Fd& socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket.get(), SOL_SOCKET, name, &value, &size), 0);
  return value;
}

// Both ends of a connection to `host`, an address of this one.
void expect_small_buffers(const std::string& host) {
  const Fd listener = listen_on(resolve(host, 0));
  const Address address = resolve(host, port_of(listener));
  const Fd dialed = start_connect(address);
  tune(dialed, &address);
  pollfd waiting{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 20000), 1);
  std::string from;
  int error = 0;
  const Fd accepted = accept_from(listener, from, error);
  ASSERT_TRUE(accepted) << errno_text(error);
  tune(accepted);
  // The kernel doubles what is asked for.
  for (const Fd* end : {&dialed, &accepted}) EXPECT_EQ(option(*end, SO_SNDBUF), 2 * (128 << 10)) << host;
}

TEST(Socket, BuffersAreSmallBetweenTasksOfOneHost) { expect_small_buffers("127.0.0.1"); }

TEST(Socket, AndThroughTheAddressThatOthersReach) {
  const std::string host = real_address();
  if (host.empty()) GTEST_SKIP() << "this host has no address but its loopback";
  expect_small_buffers(host);
}

TEST(Socket, TowardsOtherHostsTcpFindsTheSizes) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int before = option(socket, SO_SNDBUF);
  const Address far = resolve("192.0.2.1", 7701);
  tune(socket, &far);
  EXPECT_EQ(option(socket, SO_SNDBUF), before);
}

}  // namespace
}  // namespace troupe::wire
