// Looks at what a peer sends to CAF before CAF does. CAF 0.17.6 takes some messages for granted: a handshake without
// payload, a length, a category or a nesting that makes no sense ends the process. Only what Troupe's own nodes send
// passes; anything else ends the link, and its sender is named.
//
// BASP's format, as CAF 0.17.6 writes it: numbers are big endian; a message is a header of 32 bytes
//   u8 operation | u8 0 | u8 0 | u8 flags | u32 payload bytes | u64 operation data | u64 source actor | u64 dest actor
// and its payload. A plain class. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

class ControlGuard {
 public:
  static constexpr std::size_t kHeaderBytes = 32;
  static constexpr std::size_t kNodeBytes = 32;  // of a node's id: its kind, process and host
  // The largest message is the registration of a graph, of 1 GiB.
  static constexpr std::size_t kMaxPayload = (1 << 30) + 4096;

  // `own`: this node's id, as CAF serialises it. `dialled`: this side has called the peer, which greets first.
  ControlGuard(std::string own, bool dialled) : own_(std::move(own)), dialled_(dialled) {}

  // How many bytes follow a header: none, or a payload. Throws invalid_argument.
  std::size_t check_header(std::string_view header);
  // The payload of the last header. Throws invalid_argument.
  void check_payload(std::string_view payload);

  // Takes note of whole messages that this side sends: only requests among them may be answered.
  void sends(std::string_view messages);

  // The last header begins a message that CAF is not to see: what it says, of its own accord, to actors of its own.
  bool ignored() const { return ignored_; }

  // The peer's node, as CAF serialises it; "" until it has introduced itself.
  const std::string& peer() const { return peer_; }

 private:
  struct Header {
    std::uint8_t operation = 0;
    std::uint8_t flags = 0;
    std::uint32_t payload_bytes = 0;
    std::uint64_t operation_data = 0, source = 0, destination = 0;
  };
  static Header read_header(std::string_view bytes);
  void check_node(std::string_view id);

  const std::string own_;
  const bool dialled_;
  std::string peer_;
  Header header_;
  // Of requests of this side without an answer: the actor that asks, and their number.
  std::set<std::pair<std::uint64_t, std::uint64_t>> asked_;
  bool ignored_ = false;
};

}  // namespace troupe
