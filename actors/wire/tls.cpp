#include "troupe/actors/wire/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace troupe::wire {

struct TlsContext::State {
  State(TlsFiles f, std::shared_ptr<SSL_CTX> c) : files(std::move(f)), context(std::move(c)) {}
  TlsFiles files;  // for error messages
  std::shared_ptr<SSL_CTX> context;
};

namespace {

constexpr std::size_t kRecord = 16 << 10;                 // largest TLS record
constexpr std::size_t kAhead = 16 * kRecord;              // encrypted ahead of sending
constexpr std::size_t kOutBuffer = kAhead + 4 * kRecord;  // plus TLS overhead
constexpr std::size_t kReadBuffer = 8 * kRecord + 4096;   // per read from the socket

// The valid first bytes (types) of a record, and an alert for a peer without TLS.
constexpr unsigned char kLowestType = 20, kHighestType = 23;
constexpr std::array<unsigned char, 7> kHandshakeFailure = {21, 3, 3, 0, 2, 2, 40};

constexpr const char* kNoTls =
    "the peer does not use TLS: pass it --tls-cert, --tls-key and --tls-ca too, or remove them from this task";

// The reason text of OpenSSL's last error on this thread.
struct Said {
  unsigned long code = ERR_peek_last_error();
  int reason() const { return ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0; }
  std::string text() const {
    const char* words = ERR_reason_error_string(code);
    return words ? words : "unknown reason";
  }
};

// ---- Files ---------------------------------------------------------------------------------------------------------

void check_readable(std::string_view what, const std::string& path) {
  if (path.empty()) invalid_argument("TLS needs a certificate, a key and a CA: no {} file given", what);
  if (::access(path.c_str(), R_OK) == 0) return;
  fail(errno == EACCES ? Code::permission_denied : Code::not_found, "cannot read the {} file '{}': {}", what, path,
       errno_text(errno));
}

void check_private(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & 007) != 0)
    fail(Code::permission_denied, "the key file '{}' is readable by everybody: chmod 600 it", path);
}

// Supplies no passphrase: a process without a terminal would block on the prompt.
int no_passphrase(char*, int, int, void*) { return 0; }

std::string day_of(const ASN1_TIME* time) {
  tm parts{};
  if (!time || ASN1_TIME_to_tm(time, &parts) != 1) return "?";
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

// Checks that peers with the same CA file would accept our certificate: one error now instead of one per peer.
void check_own_certificate(SSL_CTX* context, const TlsFiles& files) {
  X509* const own = SSL_CTX_get0_certificate(context);
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, &chain);
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> check(X509_STORE_CTX_new(),
                                                                              &X509_STORE_CTX_free);
  if (!check || X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), own, chain) != 1)
    fail(Code::internal, "TLS: {}", Said().text());
  if (X509_verify_cert(check.get()) == 1) return;
  const int why = X509_STORE_CTX_get_error(check.get());
  if (why == X509_V_ERR_CERT_HAS_EXPIRED && X509_STORE_CTX_get_error_depth(check.get()) == 0)
    fail(Code::failed_precondition, "the certificate '{}' expired on {}", files.certificate,
         day_of(X509_get0_notAfter(own)));
  fail(Code::failed_precondition, "the certificate '{}' is not signed by a CA in '{}': {}", files.certificate, files.ca,
       X509_verify_cert_error_string(why));
}

std::shared_ptr<SSL_CTX> load(const TlsFiles& files) {
  check_readable("certificate", files.certificate);
  check_readable("key", files.key);
  check_readable("CA", files.ca);
  check_private(files.key);
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (!context) fail(Code::internal, "TLS: {}", Said().text());
  SSL_CTX* const c = context.get();
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0);
  // The wire detects a cut connection by the missing Goodbye.
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_default_read_buffer_len(c, kReadBuffer);
  SSL_CTX_set_default_passwd_cb(c, &no_passphrase);
  if (SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) != 1)
    invalid_argument("the certificate file '{}' has no usable PEM certificate: {}", files.certificate, Said().text());
  if (SSL_CTX_use_PrivateKey_file(c, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const Said why;
    if (ERR_GET_LIB(why.code) == ERR_LIB_X509 && ERR_GET_REASON(why.code) == X509_R_KEY_VALUES_MISMATCH)
      fail(Code::failed_precondition, "the key '{}' does not match the certificate '{}'", files.key, files.certificate);
    invalid_argument("the key file '{}' has no PEM key without a passphrase: {}", files.key, why.text());
  }
  if (SSL_CTX_check_private_key(c) != 1)
    fail(Code::failed_precondition, "the key '{}' does not match the certificate '{}'", files.key, files.certificate);
  if (SSL_CTX_load_verify_file(c, files.ca.c_str()) != 1)
    invalid_argument("the CA file '{}' has no PEM certificate: {}", files.ca, Said().text());
  check_own_certificate(c, files);
  return context;
}

// ---- Connections ---------------------------------------------------------------------------------------------------

// Throws the reason why the handshake, or the verification after it, failed.
[[noreturn]] void explain(const SSL* ssl, const TlsFiles& files) {
  const Said said;
  const auto refuse = [](std::string why) { throw Error(Code::unauthenticated, std::move(why)); };
  const int reason = said.reason();
  if (reason > SSL_AD_REASON_OFFSET)
    refuse(fmt::format("the peer rejected this task's certificate '{}': {}", files.certificate,
                       SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET)));
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    refuse(fmt::format("the peer's certificate was rejected: {} (CA file '{}')",
                       X509_verify_cert_error_string(SSL_get_verify_result(ssl)), files.ca));
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) refuse("the peer sent no certificate");
  if (reason == SSL_R_UNSUPPORTED_PROTOCOL) refuse("the peer does not support TLS 1.3");
  fail(Code::unauthenticated, "TLS failed: {}", said.text());
}

// Appends OpenSSL's output to a string.
int append(BIO* bio, const char* data, int size) {
  static_cast<std::string*>(BIO_get_data(bio))->append(data, static_cast<std::size_t>(size));
  return size;
}

BIO* new_bio(std::string& out) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "string");
    BIO_meth_set_write(m, &append);
    BIO_meth_set_ctrl(m, [](BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1L : 0L; });
    return m;
  }();
  BIO* const bio = BIO_new(method);
  BIO_set_data(bio, &out);
  BIO_set_init(bio, 1);
  return bio;
}

// OpenSSL reads from the socket and writes to memory, which goes out in one send(), without SIGPIPE; so SSL_write()
// never stops partway. An SSL object is not thread-safe, hence the mutex; it is held for about one record.
class TlsChannel final : public Channel {
 public:
  TlsChannel(Fd fd, std::shared_ptr<const TlsContext::State> state, bool dialed)
      : Channel(std::move(fd)), state_(std::move(state)), ssl_(SSL_new(state_->context.get()), &SSL_free) {
    out_.reserve(kOutBuffer);
    BIO* const nothing_yet = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(nothing_yet, -1);
    SSL_set_bio(ssl_.get(), nothing_yet, new_bio(out_));
    if (dialed)
      SSL_set_connect_state(ssl_.get());
    else
      SSL_set_accept_state(ssl_.get());
  }

  SetUp set_up() override {
    const std::lock_guard lock(mutex_);
    check_first_byte();
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result);
    const bool sent = send_out();  // an alert too
    if (error == SSL_ERROR_SSL) explain(ssl_.get(), state_->files);
    if (error == SSL_ERROR_SYSCALL || error == SSL_ERROR_ZERO_RETURN)
      fail(Code::unavailable, "the connection ended during the TLS handshake");
    if (!sent) return SetUp::wants_write;
    return error == SSL_ERROR_NONE ? SetUp::done : SetUp::wants_read;
  }

  std::string exported() const override {
    constexpr std::string_view kLabel = "EXPORTER-troupe-authentication";
    std::string out(32, '\0');
    if (SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(), kLabel.data(),
                                   kLabel.size(), nullptr, 0, 0) != 1)
      fail(Code::internal, "TLS: {}", Said().text());
    return out;
  }

  ssize_t write(std::span<iovec> pieces) override {
    if (!flushed()) return -1;
    std::size_t taken = 0;
    while (taken < kAhead && !pieces.empty()) {
      if (pieces.front().iov_len == 0) {
        pieces = pieces.subspan(1);
        continue;
      }
      const std::size_t n = seal(pieces);
      if (n == 0) {
        errno = EPIPE;
        return -1;
      }
      taken += n;
    }
    const std::lock_guard lock(mutex_);
    if (!send_out() && errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    return static_cast<ssize_t>(taken);
  }

  bool flushed() override {
    const std::lock_guard lock(mutex_);
    return send_out();
  }

  ssize_t read(std::span<iovec> places) override {
    std::size_t total = 0;
    buffered_ = true;
    for (const iovec& place : places)
      for (std::size_t offset = 0; offset < place.iov_len;) {
        const std::lock_guard lock(mutex_);
        std::size_t n = 0;
        ERR_clear_error();
        errno = 0;
        if (SSL_read_ex(ssl_.get(), static_cast<char*>(place.iov_base) + offset, place.iov_len - offset, &n) != 1) {
          const int error = SSL_get_error(ssl_.get(), 0);
          buffered_ = error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE && total > 0;
          return total > 0 ? static_cast<ssize_t>(total) : nothing_read(error);
        }
        offset += n;
        total += n;
      }
    return static_cast<ssize_t>(total);
  }

  bool buffered() const override { return buffered_; }

 private:
  // OpenSSL's errors for a peer without TLS vary, so it gets the socket only once the first byte is known.
  void check_first_byte() {
    if (heard_) return;
    unsigned char type = 0;
    const ssize_t n = ::recv(socket().get(), &type, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    heard_ = true;
    SSL_set0_rbio(ssl_.get(), BIO_new_socket(socket().get(), BIO_NOCLOSE));
    if (n <= 0 || (type >= kLowestType && type <= kHighestType)) return;
    (void)::send(socket().get(), kHandshakeFailure.data(), kHandshakeFailure.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    fail(Code::unauthenticated, "{}", kNoTls);
  }

  ssize_t nothing_read(int error) const {
    switch (error) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_SYSCALL:
        if (errno == 0) errno = ECONNRESET;
        return -1;
      default:
        explain(ssl_.get(), state_->files);
    }
  }

  // Encrypts one record from the front of `pieces`; small ones share a record. Returns the number of bytes, 0 if TLS
  // has failed.
  std::size_t seal(std::span<iovec>& pieces) {
    const void* data = pieces.front().iov_base;
    std::size_t size = std::min(pieces.front().iov_len, kRecord);
    if (size < kRecord && pieces.size() > 1) {
      size = 0;
      for (const iovec& piece : pieces) {
        const std::size_t n = std::min(piece.iov_len, kRecord - size);
        std::memcpy(record_.data() + size, piece.iov_base, n);
        size += n;
        if (size == kRecord) break;
      }
      data = record_.data();
    }
    {
      const std::lock_guard lock(mutex_);
      std::size_t written = 0;
      ERR_clear_error();
      if (SSL_write_ex(ssl_.get(), data, size, &written) != 1) return 0;
    }
    for (std::size_t left = size; left > 0;) {
      iovec& piece = pieces.front();
      const std::size_t n = std::min(left, piece.iov_len);
      piece = {static_cast<char*>(piece.iov_base) + n, piece.iov_len - n};
      left -= n;
      if (piece.iov_len == 0) pieces = pieces.subspan(1);
    }
    return size;
  }

  // Returns true if nothing is left; otherwise errno has the reason. Needs mutex_.
  bool send_out() {
    while (sent_ < out_.size()) {
      const ssize_t n = ::send(socket().get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      count_sent(n);
      sent_ += static_cast<std::size_t>(n);
    }
    sent_ = 0;
    out_.clear();
    return true;
  }

  const std::shared_ptr<const TlsContext::State> state_;
  std::mutex mutex_;
  std::string out_;       // encrypted and not yet sent...
  std::size_t sent_ = 0;  // ...except for the first `sent_` bytes
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool heard_ = false;
  bool buffered_ = false;  // owned by the wire thread
  std::array<char, kRecord> record_;
};

}  // namespace

TlsContext::TlsContext(const TlsFiles& files) : state_(std::make_shared<const State>(files, load(files))) {}

std::unique_ptr<Channel> TlsContext::channel(Fd socket, bool dialed) const {
  return std::make_unique<TlsChannel>(std::move(socket), state_, dialed);
}

}  // namespace troupe::wire
