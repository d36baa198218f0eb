#include "troupe/actors/network/control_guard.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

enum Operation : std::uint8_t {
  kServerHandshake = 0,
  kClientHandshake = 1,
  kDirectMessage = 2,
  kMonitor = 4,
  kDown = 5,
  kHeartbeat = 6
};
constexpr std::uint8_t kNamedReceiver = 1;     // flag of a message to a named actor, like CAF's "SpawnServ"
constexpr std::uint8_t kSelectConnection = 2;  // flag of a client handshake; set on repetition

// Bits of a message id: whether it belongs to a stream, and the request that it answers; 0 if none.
constexpr std::uint64_t kStreamCategories = 0x2000000000000000;
constexpr std::uint64_t kAnswer = 0x8000000000000000;
constexpr std::uint64_t kRequest = 0x0fffffffffffffff;
constexpr std::size_t kMaxAsked = 1 << 16;

constexpr std::size_t kMaxHandshake = 4096;
constexpr std::size_t kMaxSequence = 16;  // types in an actor's signature, and names of the application

// Messages between nodes, by the names of their types on the wire, with their values: s string, a one of the sender's
// actors, 1 and 8 numbers of 1 and 8 bytes, e error.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kMessages = {{
    {"@<>+troupe::HelloRequest+@strong_actor_ptr", "sa"},
    {"@<>+troupe::RegisterGraphRequest", "s"},
    {"@<>+troupe::CloseSessionRequest", "8"},
    {"@<>+troupe::ResetContainerRequest", "s"},
    {"@<>+troupe::Reply", "1ss"},
    {"@<>+@error", "e"},
}};

// Parses values from the front of a payload.
class Reader {
 public:
  explicit Reader(std::string_view left) : left_(left) {}

  std::string_view bytes(std::size_t n) {
    if (n > left_.size()) invalid_argument("a message to a node is truncated");
    const std::string_view out = left_.substr(0, n);
    left_.remove_prefix(n);
    return out;
  }
  std::uint64_t number(std::size_t n) {
    std::uint64_t out = 0;
    for (const char c : bytes(n)) out = out << 8 | static_cast<unsigned char>(c);
    return out;
  }
  // Reads seven bits per byte, lowest first.
  std::size_t size() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes(1)[0]);
      out |= static_cast<std::uint64_t>(byte & 127) << shift;
      if ((byte & 128) == 0) return out;
    }
    invalid_argument("a message to a node has a size of more than 32 bits");
  }
  std::string_view string() { return bytes(size()); }

  // Reads an error: code, category and context. CAF would accept any nested message as the context.
  void error() {
    number(1);
    number(8);
    const std::string_view context = object();
    if (context == "@<>+@str")
      string();
    else if (context != "@<>")
      invalid_argument("a message to a node has an error with a context of '{}'", printable(context));
  }
  // Reads the type names of the following values.
  std::string_view object() {
    if (number(2) != 0) invalid_argument("a message to a node has an unnamed type");
    return string();
  }
  void end() const {
    if (!left_.empty()) invalid_argument("a message to a node has {} bytes too many", left_.size());
  }
  static std::string printable(std::string_view text) {
    std::string out(text.substr(0, 80));
    std::ranges::replace_if(
        out, [](char c) { return c < ' ' || c > '~'; }, '?');
    return out;
  }

 private:
  std::string_view left_;
};

}  // namespace

ControlGuard::Header ControlGuard::read_header(std::string_view bytes) {
  Reader reader(bytes);
  Header header;
  header.operation = static_cast<std::uint8_t>(reader.number(1));
  reader.number(2);
  header.flags = static_cast<std::uint8_t>(reader.number(1));
  header.payload_bytes = static_cast<std::uint32_t>(reader.number(4));
  header.operation_data = reader.number(8);
  header.source = reader.number(8);
  header.destination = reader.number(8);
  return header;
}

void ControlGuard::sends(std::string_view messages) {
  while (!messages.empty()) {
    const Header header = read_header(messages);
    messages.remove_prefix(std::min(messages.size(), kHeaderBytes + header.payload_bytes));
    const std::uint64_t request = header.operation_data & kRequest;
    if (header.operation != kDirectMessage || request == 0 || (header.operation_data & kAnswer) != 0) continue;
    asked_.insert({header.source, request});
    if (asked_.size() > kMaxAsked) asked_.erase(asked_.begin());
  }
}

std::size_t ControlGuard::check_header(std::string_view bytes) {
  header_ = read_header(bytes);

  const auto require = [&](bool holds) {
    if (!holds)
      invalid_argument("invalid message to a node (operation {}, flags {}, id {:x}, {} bytes)", header_.operation,
                       header_.flags, header_.operation_data, header_.payload_bytes);
  };
  const bool greets = header_.operation == kServerHandshake || header_.operation == kClientHandshake;
  if (peer_.empty() && !greets) invalid_argument("a message to a node arrived before the handshake");
  const bool again = header_.operation == kClientHandshake && header_.flags == kSelectConnection;
  ignored_ =
      header_.operation == kDirectMessage && header_.flags == kNamedReceiver && header_.payload_bytes <= kMaxHandshake;
  if (ignored_) return header_.payload_bytes;
  require(header_.flags == 0 || again);
  switch (header_.operation) {
    case kServerHandshake:
      require(dialled_ && peer_.empty() && header_.payload_bytes > 0 && header_.payload_bytes <= kMaxHandshake);
      break;
    case kClientHandshake:
      require(!dialled_ && peer_.empty() != again && header_.payload_bytes == kNodeBytes);
      break;
    case kDirectMessage:
      require(header_.payload_bytes > 0 && header_.payload_bytes <= kMaxPayload);
      require((header_.operation_data & kStreamCategories) == 0);
      if ((header_.operation_data & kAnswer) != 0 &&
          asked_.erase({header_.destination, header_.operation_data & kRequest}) == 0)
        invalid_argument("a message to a node answers no request");
      break;
    case kMonitor:
      require(header_.payload_bytes == 2 * kNodeBytes);
      break;
    case kDown:
      require(header_.payload_bytes > 2 * kNodeBytes && header_.payload_bytes <= kMaxHandshake);
      break;
    case kHeartbeat:
      require(header_.payload_bytes == 0);
      break;
    default:
      require(false);
  }
  return header_.payload_bytes;
}

// A node's id begins with the name of its kind, which must match ours.
void ControlGuard::check_node(std::string_view id) {
  if (id.substr(0, 8) != std::string_view(own_).substr(0, 8) || id == own_)
    invalid_argument("a message to a node has no valid sender");
  if (peer_.empty())
    peer_ = id;
  else if (id != peer_)
    invalid_argument("a message to a node has another node's sender id");
}

void ControlGuard::check_payload(std::string_view payload) {
  Reader reader(payload);
  switch (header_.operation) {
    case kServerHandshake: {
      check_node(reader.bytes(kNodeBytes));
      for (int list = 0; list < 2; ++list) {  // names of the application; after the actor: types of its messages
        const std::size_t names = reader.size();
        if (names > kMaxSequence) invalid_argument("a node lists {} kinds of messages", names);
        for (std::size_t i = 0; i < names; ++i) reader.string();
        if (list == 0) reader.number(8);
      }
      break;
    }
    case kClientHandshake:
      check_node(reader.bytes(kNodeBytes));
      break;
    case kDirectMessage: {
      if (reader.size() != 0) invalid_argument("a message to a node was forwarded");
      const std::string_view types = reader.object();
      const auto known = std::ranges::find(kMessages, types, &std::pair<std::string_view, std::string_view>::first);
      if (known == kMessages.end())
        invalid_argument("a message to a node has unknown types '{}'", Reader::printable(types));
      for (const char kind : known->second)
        if (kind == 's') {
          reader.string();
        } else if (kind == 'e') {
          reader.error();
        } else if (kind == 'a') {
          reader.number(8);
          check_node(reader.bytes(kNodeBytes));
        } else {
          reader.number(static_cast<std::size_t>(kind - '0'));
        }
      break;
    }
    case kMonitor:
    case kDown:
      check_node(reader.bytes(kNodeBytes));
      if (reader.bytes(kNodeBytes) != own_) invalid_argument("a message to a node is addressed to another");
      if (header_.operation == kDown) reader.error();
      break;
    default:
      break;
  }
  reader.end();
}

}  // namespace troupe
