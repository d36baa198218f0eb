// Checks the bytes from a peer before CAF reads them. CAF 0.17.6 trusts its input: a handshake without payload, or an
// invalid length, category or nesting ends the process. Only messages sent by Troupe's own nodes pass; anything else
// ends the link with an error that names the sender.
//
// BASP's format, as written by CAF 0.17.6: numbers are big endian; a message is a header of 32 bytes
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
  static constexpr std::size_t kNodeBytes = 32;  // of a node id: kind, process and host
  // The largest message is the registration of a graph, up to 1 GiB.
  static constexpr std::size_t kMaxPayload = (1 << 30) + 4096;

  // `own`: this node's id, as serialised by CAF. `dialled`: this side called the peer, which greets first.
  ControlGuard(std::string own, bool dialled) : own_(std::move(own)), dialled_(dialled) {}

  // Returns the number of payload bytes after a header. Throws invalid_argument.
  std::size_t check_header(std::string_view header);
  // Checks the payload of the last header. Throws invalid_argument.
  void check_payload(std::string_view payload);

  // Records complete messages sent by this side: only its requests may be answered.
  void sends(std::string_view messages);

  // True if the last header begins a message hidden from CAF: one that CAF sends to its own actors.
  bool ignored() const { return ignored_; }

  // The peer's node, as serialised by CAF; "" until it has introduced itself.
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
  // Unanswered requests of this side: requesting actor and request number.
  std::set<std::pair<std::uint64_t, std::uint64_t>> asked_;
  bool ignored_ = false;
};

}  // namespace troupe
