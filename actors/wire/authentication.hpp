// Mutual authentication: both ends of a new connection prove that they know the cluster's token before anything else is
// read. The token is never sent, and the dialler sends nothing derived from it before the listener has proved itself: a
// process that takes over the port of a dead task learns nothing.
//
//   dialler  -> listener   Opening  184 bytes  "TROUPE" | u8 version | u8 purpose | u64 incarnation | nonce 32 |
//                                              from: job 64, i32 index | to: job 64, i32 index
//   listener -> dialler    Answer    80 bytes  "TROUPE" | u8 version | u8 purpose | u64 incarnation | nonce 32 |
//                                              proof 32
//   dialler  -> listener   Proof     32 bytes
//
// A proof is HMAC-SHA256 (RFC 2104) with the token's key over the role, the Opening, the Answer without its proof, the
// listener's address in the cluster file, and the TLS exporter value of the connection (RFC 8446, 7.5). So a proof is
// valid for one connection, in one role, to one port: relaying it over another port fails. Numbers are little endian;
// job names are zero-padded.
//
// A plain class: no sockets, no clocks. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <troupe/messages/frames.hpp>

namespace troupe::wire {

// A key derived one-way from a token. A strong token (is_strong_token) is hashed with SHA-256; one possibly chosen by a
// person goes through scrypt (RFC 7914; 16 MiB, about 40 ms, once per process).
class TokenKey {
 public:
  // `cluster`: the cluster's name, used as the salt of scrypt.
  TokenKey(const std::string& token, const std::string& cluster);
  std::span<const unsigned char, 32> bytes() const { return bytes_; }

 private:
  std::array<unsigned char, 32> bytes_;
};

// Compares in time independent of where the texts differ.
bool equal_secrets(const std::string& a, const std::string& b);

// True for at least 32 hexadecimal digits, with more than a few distinct ones, like the output of troupe-launch
// --make-token and openssl rand -hex: it may have 128 random bits. A person may have chosen any other token.
bool is_strong_token(const std::string& token);

class Authentication {
 public:
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::size_t kOpeningBytes = 184, kAnswerBytes = 80, kProofBytes = 32;
  static constexpr std::size_t kMaxJob = 64;  // bytes of a job name

  // The purpose of a connection; a proof for one is invalid for the other.
  enum class Purpose : std::uint8_t { link = 1, ask = 2 };

  struct Local {
    TaskName task;
    Incarnation incarnation;
    Purpose purpose = Purpose::link;  // set by a dialler
    std::string address;              // of the listener, from the cluster file
    std::string exported;             // TLS exporter value of this connection; "" without TLS
  };
  struct Peer {
    TaskName task;
    Incarnation incarnation;
    bool operator==(const Peer&) const = default;
  };

  // `to`: the dialled task. Throws invalid_argument for a job name of more than kMaxJob bytes.
  static Authentication dial(std::shared_ptr<const TokenKey> key, Local self, const TaskName& to);
  static Authentication listen(std::shared_ptr<const TokenKey> key, Local self);

  // Bytes to send now; report progress with sent().
  std::span<const char> to_send() const { return std::span(out_).subspan(sent_, out_bytes_ - sent_); }
  void sent(std::size_t bytes) { sent_ += bytes; }
  // Buffer for the next bytes, of exactly the size to read; report progress with received(). Throws failed_precondition
  // (not a Troupe task, or another version), unauthenticated (the peer does not know the token).
  std::span<char> to_receive() { return std::span(in_).subspan(received_, in_bytes_ - received_); }
  void received(std::size_t bytes);
  // True if received() threw because the other side uses TLS.
  bool heard_tls() const;
  // The error for a connection that ended before done().
  Error left() const;
  // True once nothing is left to send or receive: the peer has proved its identity.
  bool done() const { return proved_ && sent_ == out_bytes_; }
  // The authenticated peer. For a dialler, the listener has the dialled name.
  const Peer& peer() const { return peer_; }
  // The dialler's purpose.
  Purpose purpose() const { return self_.purpose; }

 private:
  Authentication(std::shared_ptr<const TokenKey> key, Local self, bool dialled);
  using Proof = std::array<unsigned char, kProofBytes>;
  Proof proof(bool of_dialler) const;
  void check_proof(std::span<const char> got, bool of_dialler) const;
  void on_opening();
  void on_answer();
  void expect(std::size_t bytes);

  std::shared_ptr<const TokenKey> key_;
  Local self_;
  bool dialled_;
  bool proved_ = false;
  Peer peer_;
  std::array<char, kOpeningBytes> opening_{};
  std::array<char, kAnswerBytes> answer_{};
  std::array<char, kOpeningBytes> out_{};
  std::size_t out_bytes_ = 0, sent_ = 0;
  std::array<char, kOpeningBytes> in_{};
  std::size_t in_bytes_ = 0, received_ = 0;
};

}  // namespace troupe::wire
