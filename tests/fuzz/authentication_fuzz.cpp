#include "tests/fuzz/authentication_fuzz.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <troupe/actors/wire/authentication.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::wire {
namespace {

const TaskName kSelf{"ps", 0};

std::shared_ptr<const TokenKey> key_of(const char* token) { return std::make_shared<const TokenKey>(token, "demo"); }
const std::shared_ptr<const TokenKey> kKey = key_of("4d0bfe6a1c9e83257fa0d46b92e8c173");

Authentication one_side(bool dialled) {
  Authentication::Local self{.task = kSelf, .incarnation = Incarnation{1}, .address = "127.0.0.1:7701"};
  return dialled ? Authentication::dial(kKey, std::move(self), {"worker", 0})
                 : Authentication::listen(kKey, std::move(self));
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

void say_as_stranger(std::string_view input) {
  if (input.empty()) return;
  const auto how = static_cast<unsigned char>(input[0]);
  input.remove_prefix(1);
  const std::size_t pieces = 1 + (how >> 1);
  Authentication side = one_side((how & 1) != 0);
  std::size_t total = 0;
  try {
    while (!side.to_receive().empty() && !input.empty()) {
      const auto out = side.to_send();
      side.sent(out.size());
      const auto place = side.to_receive();
      const std::size_t n = std::min({place.size(), input.size(), pieces});
      std::copy_n(input.begin(), n, place.begin());
      input.remove_prefix(n);
      total += n;
      side.received(n);
    }
  } catch (const Error&) {
  }
  require(!side.done(), "somebody without the token has proved that it knows it");
  require(total <= Authentication::kOpeningBytes + Authentication::kProofBytes, "more was read than is said");
}

std::vector<std::string> stranger_seeds() {
  // What somebody with another token says, in full.
  Authentication dialler = Authentication::dial(key_of("another-token-of-the-launcher"),
                                                {.task = {"worker", 0}, .address = "127.0.0.1:7701"}, kSelf);
  std::string opening(dialler.to_send().begin(), dialler.to_send().end());
  Authentication listener =
      Authentication::listen(key_of("another-token-of-the-launcher"), {.task = kSelf, .address = "127.0.0.1:7701"});
  std::copy(opening.begin(), opening.end(), listener.to_receive().begin());
  listener.received(opening.size());
  const std::string answer(listener.to_send().begin(), listener.to_send().end());
  return {"\xfe" + opening + std::string(Authentication::kProofBytes, 'p'), "\x02" + opening, "\xff" + answer,
          "\x03" + answer, "\xfeGET / HTTP/1.1\r\n"};
}

}  // namespace troupe::wire
