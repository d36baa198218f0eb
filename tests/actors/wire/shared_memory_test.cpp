// The channel through shared memory: bytes, wakes, and what a peer that cannot be trusted may do to it. Two mappings of
// one process stand for two processes; those are met in tests/apps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>
#include <thread>

#include "tests/actors/wire/wire_testing.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/wire/shared_memory.hpp>

namespace troupe::wire {
namespace {

using testing::error_of;

constexpr std::size_t kMiB = 1 << 20;

struct SharedPair {
  SharedPair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    SharedMemory memory = SharedMemory::create();
    SharedMemory opened = SharedMemory::open(memory.place());
    a = shared_memory_channel(Fd(fds[0]), std::move(memory));
    b = shared_memory_channel(Fd(fds[1]), std::move(opened));
  }
  std::unique_ptr<Channel> a, b;
};

ssize_t write(Channel& channel, const std::string& bytes) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  return channel.write({&piece, 1});
}
std::string read(Channel& channel, std::size_t most) {
  std::string out(most, '\0');
  iovec place{out.data(), out.size()};
  const ssize_t n = channel.read({&place, 1});
  out.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return out;
}

TEST(SharedMemoryChannel, BytesPassBothWays) {
  SharedPair pair;
  EXPECT_EQ(write(*pair.a, "there"), 5);
  EXPECT_EQ(pair.a->sent(), 5u);
  EXPECT_EQ(write(*pair.b, "and back"), 8);
  EXPECT_TRUE(pair.b->buffered());
  EXPECT_EQ(read(*pair.b, 100), "there");
  EXPECT_EQ(read(*pair.a, 3), "and");
  EXPECT_EQ(read(*pair.a, 100), " back");
  EXPECT_FALSE(pair.a->buffered());
  EXPECT_EQ(read(*pair.a, 100), "");
  EXPECT_EQ(errno, EAGAIN);
}

TEST(SharedMemoryChannel, IsFullAndGoesOn) {
  SharedPair pair;
  EXPECT_EQ(write(*pair.a, std::string(3 * kMiB, 'x')), ssize_t{kMiB});
  EXPECT_EQ(write(*pair.a, "y"), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(pair.a->writable());
  EXPECT_EQ(read(*pair.b, kMiB / 2).size(), kMiB / 2);
  EXPECT_TRUE(pair.a->writable());
  EXPECT_EQ(write(*pair.a, std::string(kMiB, 'z')), ssize_t{kMiB / 2});
  EXPECT_EQ(read(*pair.b, 2 * kMiB), std::string(kMiB / 2, 'x') + std::string(kMiB / 2, 'z'));
}

// The socket is touched for those who sleep only.
TEST(SharedMemoryChannel, WakesWhoSleeps) {
  SharedPair pair;
  write(*pair.a, "1");
  EXPECT_FALSE(readable(pair.b->socket().get()));
  EXPECT_FALSE(pair.b->sleep(false)) << "something is there";
  EXPECT_EQ(read(*pair.b, 10), "1");
  EXPECT_TRUE(pair.b->sleep(false));
  write(*pair.a, "2");
  write(*pair.a, "3");
  EXPECT_TRUE(readable(pair.b->socket().get()));
  EXPECT_EQ(read(*pair.b, 10), "23");
  EXPECT_EQ(read(*pair.b, 10), "");  // takes what woke it
  EXPECT_FALSE(readable(pair.b->socket().get()));

  write(*pair.a, std::string(2 * kMiB, 'x'));
  EXPECT_TRUE(pair.a->sleep(true));
  read(*pair.b, kMiB / 8);
  EXPECT_FALSE(readable(pair.a->socket().get())) << "too little to go on with";
  read(*pair.b, kMiB / 2);
  EXPECT_TRUE(readable(pair.a->socket().get()));
  EXPECT_FALSE(pair.a->sleep(true));
}

TEST(SharedMemoryChannel, EndsWithItsSocketAfterTheLastByte) {
  SharedPair pair;
  write(*pair.a, "last");
  pair.a->close();
  EXPECT_EQ(read(*pair.b, 100), "last");
  iovec place{};
  char byte = 0;
  place = {&byte, 1};
  EXPECT_EQ(pair.b->read({&place, 1}), 0);
}

TEST(SharedMemoryChannel, StreamsOfRandomPiecesStayTheSame) {
  SharedPair pair;
  constexpr std::size_t kTotal = 16 * kMiB;
  std::string sent(kTotal, '\0');
  std::mt19937 random(1);
  for (std::size_t i = 0; i < kTotal; i += 4) *reinterpret_cast<std::uint32_t*>(sent.data() + i) = random();
  std::thread writer([&] {
    std::mt19937 sizes(2);
    for (std::size_t at = 0; at < kTotal;) {
      iovec pieces[2];
      const std::size_t first = std::min<std::size_t>(sizes() % 300000, kTotal - at);
      const std::size_t second = std::min<std::size_t>(sizes() % 100, kTotal - at - first);
      pieces[0] = {sent.data() + at, first};
      pieces[1] = {sent.data() + at + first, second};
      const ssize_t n = pair.a->write(pieces);
      if (n > 0) at += static_cast<std::size_t>(n);
      if (n <= 0) std::this_thread::yield();
    }
  });
  std::string got;
  std::mt19937 sizes(3);
  while (got.size() < kTotal) {
    got += read(*pair.b, 1 + sizes() % 200000);
    if (!pair.b->buffered()) std::this_thread::yield();
  }
  writer.join();
  EXPECT_TRUE(got == sent);
}

// Bytes come while a read goes from one place to the next: they belong into the first place that is not full.
TEST(SharedMemoryChannel, PlacesAreFilledInTheirOrderWhileBytesCome) {
  SharedPair pair;
  constexpr std::uint32_t kWords = 1 << 19;
  std::thread writer([&] {
    for (std::uint32_t word = 0; word < kWords;) {
      iovec piece{&word, sizeof word};
      if (pair.a->write({&piece, 1}) > 0)
        ++word;
      else
        std::this_thread::yield();
    }
  });
  constexpr std::size_t kPlaces = 16, kPlace = 64;  // words
  std::vector<std::uint32_t> got(kPlaces * kPlace);
  std::array<iovec, kPlaces> places;
  std::uint32_t next = 0, wrong = 0;
  while (next < kWords) {
    for (std::size_t i = 0; i < kPlaces; ++i) places[i] = {&got[i * kPlace], kPlace * sizeof(std::uint32_t)};
    const ssize_t n = pair.b->read(places);
    for (ssize_t i = 0; i < n / static_cast<ssize_t>(sizeof(std::uint32_t)); ++i)
      wrong += got[static_cast<std::size_t>(i)] != next++;
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

// A peer writes what it likes into the memory: both rings begin with their positions, which are in the first pages.
TEST(SharedMemoryChannel, PositionsThatCannotBeAreAnError) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  SharedMemory memory = SharedMemory::create();
  const std::string place = memory.place();
  const int file = ::open(
      ("/proc/self/fd/" + place.substr(place.find(' ') + 1, place.rfind(' ') - place.find(' ') - 1)).c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  auto channel = shared_memory_channel(Fd(fds[0]), std::move(memory));
  const Fd other(fds[1]);
  const std::size_t size = static_cast<std::size_t>(::lseek(file, 0, SEEK_END));
  auto* const words = static_cast<std::uint64_t*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(static_cast<void*>(words), MAP_FAILED);
  ::close(file);
  std::fill(words, words + size / sizeof(std::uint64_t), 1ull << 40);
  EXPECT_TRUE(channel->buffered());
  EXPECT_EQ(error_of([&] { read(*channel, 10); }).code(), Code::data_loss);
  EXPECT_EQ(write(*channel, "x"), -1);
  EXPECT_EQ(errno, EPROTO);
  ::munmap(words, size);
}

TEST(SharedMemory, IsFoundAtItsPlaceOnly) {
  const SharedMemory memory = SharedMemory::create();
  const std::string place = memory.place();
  EXPECT_TRUE(error_of([&] { SharedMemory::open(place); }).ok());
  const std::string process = place.substr(0, place.find(' '));
  EXPECT_EQ(error_of([&] { SharedMemory::open(place + "1"); }).code(), Code::data_loss) << "another key";
  EXPECT_EQ(error_of([&] { SharedMemory::open("nonsense"); }).code(), Code::data_loss);
  EXPECT_EQ(error_of([&] { SharedMemory::open("0 1 2"); }).code(), Code::unavailable);
  EXPECT_EQ(error_of([&] { SharedMemory::open(process + " 987654 2"); }).code(), Code::unavailable);

  // Files that are none, or could be made shorter under our feet.
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(error_of([&] { SharedMemory::open(fmt::format("{} {} 2", process, null.get())); }).code(), Code::data_loss);
  const Fd unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  const std::string number = place.substr(place.find(' ') + 1, place.rfind(' ') - place.find(' ') - 1);
  struct Size {
    static off_t of(const std::string& path) {
      const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      return ::lseek(file.get(), 0, SEEK_END);
    }
  };
  ASSERT_EQ(::ftruncate(unsealed.get(), Size::of("/proc/self/fd/" + number)), 0);
  const Error error = error_of([&] { SharedMemory::open(fmt::format("{} {} 0", process, unsealed.get())); });
  EXPECT_EQ(error.code(), Code::data_loss);
  EXPECT_NE(error.message().find("shrink"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace troupe::wire
