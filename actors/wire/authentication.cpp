#include "troupe/actors/wire/authentication.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <map>
#include <mutex>

#include <troupe/messages/body_codec.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::wire {
namespace {

constexpr std::string_view kMagic = "TROUPE";
constexpr std::size_t kVersionAt = 6, kPurposeAt = 7, kIncarnationAt = 8, kNonceAt = 16, kNonceBytes = 32;
constexpr std::size_t kFromAt = 48, kNameBytes = Authentication::kMaxJob + 4, kToAt = kFromAt + kNameBytes;
constexpr std::size_t kProofAt = 48;
static_assert(kToAt + kNameBytes == Authentication::kOpeningBytes);
static_assert(kProofAt + Authentication::kProofBytes == Authentication::kAnswerBytes);

// scrypt's cost: 128 * N * r bytes.
constexpr std::uint64_t kScryptN = 1 << 14, kScryptR = 8, kScryptP = 1, kScryptMemory = 64 << 20;

constexpr std::size_t kStrongDigits = 32;   // of 4 bits: 128 bits
constexpr std::size_t kDistinctDigits = 8;  // fewer in 32 random digits: less than once in 10^7

bool is_hexadecimal(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

void put_name(char* at, const TaskName& task) {
  if (task.job.size() > Authentication::kMaxJob)
    invalid_argument("the job name '{}' has more than {} bytes", task.job, Authentication::kMaxJob);
  std::memcpy(at, task.job.data(), task.job.size());
  write_little_endian(at + Authentication::kMaxJob, static_cast<std::uint32_t>(task.index));
}
TaskName name(const char* at) {
  const char* const end = std::find(at, at + Authentication::kMaxJob, '\0');
  if (at == end || std::any_of(at, end, [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
    fail(Code::failed_precondition, "the peer is not a Troupe task: invalid task name");
  return {std::string(at, end), static_cast<int>(read_little_endian<std::uint32_t>(at + Authentication::kMaxJob))};
}

void random_bytes(void* at, std::size_t bytes) {
  if (RAND_bytes(static_cast<unsigned char*>(at), static_cast<int>(bytes)) != 1)
    fail(Code::internal, "cannot get random bytes");
}

void put_head(char* at, Authentication::Purpose purpose, Incarnation incarnation) {
  std::memcpy(at, kMagic.data(), kMagic.size());
  at[kVersionAt] = static_cast<char>(Authentication::kVersion);
  at[kPurposeAt] = static_cast<char>(purpose);
  write_little_endian(at + kIncarnationAt, incarnation.value);
  random_bytes(at + kNonceAt, kNonceBytes);
}

// The type of a record (RFC 8446, 5.1) and the highest byte of its version.
bool is_tls(std::span<const char> came) { return came[0] >= 20 && came[0] <= 23 && (came.size() < 2 || came[1] == 3); }

// Checks as soon as enough bytes have arrived: a peer with another protocol may never send more.
void check_head(std::span<const char> came) {
  const std::size_t known = std::min(came.size(), kMagic.size());
  if (std::memcmp(came.data(), kMagic.data(), known) != 0) {
    if (is_tls(came))
      fail(Code::unauthenticated,
           "the peer uses TLS, this task does not: pass --tls-cert, --tls-key and --tls-ca to this task too");
    fail(Code::failed_precondition, "the peer is not a Troupe task of this version");
  }
  if (came.size() > kVersionAt && static_cast<std::uint8_t>(came[kVersionAt]) != Authentication::kVersion)
    fail(Code::failed_precondition,
         "the peer uses authentication version {}, this task {}: run the same release everywhere",
         static_cast<std::uint8_t>(came[kVersionAt]), Authentication::kVersion);
  if (came.size() > kPurposeAt && came[kPurposeAt] != static_cast<char>(Authentication::Purpose::link) &&
      came[kPurposeAt] != static_cast<char>(Authentication::Purpose::ask))
    fail(Code::failed_precondition, "unknown purpose {} of a connection", static_cast<std::uint8_t>(came[kPurposeAt]));
}

Error wrong_token(const std::string& address) {
  return Error(
      Code::unauthenticated,
      fmt::format("wrong token or cluster{}: all tasks need the same cluster file",
                  address.empty() ? "" : fmt::format(", or not the task listed at {} in the cluster file", address)));
}

std::array<unsigned char, 32> derive(const std::string& token, const std::string& cluster) {
  std::array<unsigned char, 32> key{};
  if (token.empty() || is_strong_token(token)) {
    SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), key.data());
    return key;
  }
  const std::string salt = "troupe " + cluster;
  if (EVP_PBE_scrypt(token.data(), token.size(), reinterpret_cast<const unsigned char*>(salt.data()), salt.size(),
                     kScryptN, kScryptR, kScryptP, kScryptMemory, key.data(), key.size()) != 1)
    fail(Code::internal, "scrypt failed");
  return key;
}

}  // namespace

bool equal_secrets(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool is_strong_token(const std::string& token) {
  std::bitset<256> seen;
  for (const char c : token) seen.set(static_cast<unsigned char>(c));
  return token.size() >= kStrongDigits && std::ranges::all_of(token, is_hexadecimal) && seen.count() >= kDistinctDigits;
}

// Cached: tests run many tasks in one process, and keys of weak tokens are slow to compute.
TokenKey::TokenKey(const std::string& token, const std::string& cluster) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::array<unsigned char, 32>> known;
  constexpr std::size_t kKept = 16;
  const std::lock_guard lock(mutex);
  const auto it = known.find({token, cluster});
  if (it != known.end()) {
    bytes_ = it->second;
    return;
  }
  bytes_ = derive(token, cluster);
  if (known.size() >= kKept) known.clear();
  known.insert({{token, cluster}, bytes_});
}

Authentication::Authentication(std::shared_ptr<const TokenKey> key, Local self, bool dialled)
    : key_(std::move(key)), self_(std::move(self)), dialled_(dialled) {}

Authentication Authentication::dial(std::shared_ptr<const TokenKey> key, Local self, const TaskName& to) {
  Authentication out(std::move(key), std::move(self), true);
  char* const at = out.opening_.data();
  put_head(at, out.self_.purpose, out.self_.incarnation);
  put_name(at + kFromAt, out.self_.task);
  put_name(at + kToAt, to);
  out.peer_.task = to;
  out.out_ = out.opening_;
  out.out_bytes_ = kOpeningBytes;
  out.expect(kAnswerBytes);
  return out;
}

Authentication Authentication::listen(std::shared_ptr<const TokenKey> key, Local self) {
  Authentication out(std::move(key), std::move(self), false);
  out.expect(kOpeningBytes);
  return out;
}

void Authentication::expect(std::size_t bytes) {
  in_bytes_ = bytes;
  received_ = 0;
}

void Authentication::received(std::size_t bytes) {
  if (bytes == 0) return;
  received_ += bytes;
  const bool proof_is_next = !dialled_ && out_bytes_ > 0;
  if (!proof_is_next) check_head(std::span(in_).first(received_));
  if (received_ < in_bytes_) return;
  if (dialled_) return on_answer();
  if (!proof_is_next) return on_opening();
  check_proof(std::span(in_).first(kProofBytes), true);
  proved_ = true;
  expect(0);
}

bool Authentication::heard_tls() const { return received_ > 0 && !proved_ && is_tls(std::span(in_).first(received_)); }

Error Authentication::left() const {
  if (!dialled_ && out_bytes_ > 0)
    return wrong_token(self_.address)
        .within(fmt::format("{} closed the connection without authenticating", peer_.task.to_string()));
  return Error(Code::unavailable, "the connection ended before authentication");
}

void Authentication::on_opening() {
  opening_ = in_;
  peer_ = {name(opening_.data() + kFromAt),
           Incarnation{read_little_endian<std::uint64_t>(opening_.data() + kIncarnationAt)}};
  self_.purpose = static_cast<Purpose>(opening_[kPurposeAt]);
  put_head(answer_.data(), self_.purpose, self_.incarnation);
  const Proof own = proof(false);
  std::memcpy(answer_.data() + kProofAt, own.data(), own.size());
  std::memcpy(out_.data(), answer_.data(), answer_.size());
  out_bytes_ = kAnswerBytes;
  sent_ = 0;
  expect(kProofBytes);
}

void Authentication::on_answer() {
  std::memcpy(answer_.data(), in_.data(), kAnswerBytes);
  check_proof(std::span(answer_).subspan(kProofAt), false);
  peer_.incarnation = Incarnation{read_little_endian<std::uint64_t>(answer_.data() + kIncarnationAt)};
  proved_ = true;
  const Proof own = proof(true);
  std::memcpy(out_.data(), own.data(), own.size());
  out_bytes_ = kProofBytes;
  sent_ = 0;
  expect(0);
}

Authentication::Proof Authentication::proof(bool of_dialler) const {
  std::string text = of_dialler ? "troupe dialler" : "troupe listener";
  text += '\0';
  text.append(opening_.data(), opening_.size());
  text.append(answer_.data(), kProofAt);
  for (const std::string* part : {&self_.address, &self_.exported}) {
    append_little_endian(text, static_cast<std::uint32_t>(part->size()));
    text += *part;
  }
  Proof out{};
  unsigned size = 0;
  const auto key = key_->bytes();
  if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
            text.size(), out.data(), &size))
    fail(Code::internal, "HMAC failed");
  return out;
}

void Authentication::check_proof(std::span<const char> got, bool of_dialler) const {
  const Proof expected = proof(of_dialler);
  if (CRYPTO_memcmp(got.data(), expected.data(), expected.size()) == 0) return;
  throw wrong_token(self_.address);
}

}  // namespace troupe::wire
