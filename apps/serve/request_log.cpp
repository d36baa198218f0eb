#include "apps/serve/request_log.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <troupe/actors/model/recorded_requests.hpp>
#include <troupe/devices/storage/remote/url.hpp>
#include <troupe/kernels/readers/tfrecord.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe {
namespace {

constexpr std::string_view kRecordSuffix = ".tfrecord";
constexpr std::size_t kWaitingRequestBytes = 512;  // what one takes beside its tensors, about

// Why a request is left out: RequestLogSnapshot::left_out.
constexpr const char *kQueue = "queue", *kSize = "size", *kFormat = "format", *kError = "error";

// Of the memory that the tensor keeps, which may be that of a whole batch.
std::size_t kept_bytes(const Tensor& tensor) {
  std::size_t out = tensor.buffer() ? tensor.buffer()->size() : 0;
  if (tensor.dtype() == DType::string)
    for (const std::string& text : tensor.values<std::string>()) out += text.size();
  return out;
}

void check_log_options(const RequestLog::Options& options) {
  if (options.prefix.empty() || options.prefix.ends_with('/'))
    invalid_argument("request log '{}': give the beginning of its files' names, as in logs/requests", options.prefix);
  if (!(options.rate > 0 && options.rate <= 1))
    invalid_argument("request log: rate {}: give the share of requests to log, above 0 and at most 1", options.rate);
  if (options.most_file_requests == 0 || options.most_file_bytes == 0 || options.most_files == 0 ||
      options.most_waiting_bytes == 0)
    invalid_argument("request log: its limits must be at least 1");
}

// PREFIX-00000.tfrecord and so on. Used by one thread.
class NumberedFiles {
 public:
  explicit NumberedFiles(FileSystem& files, const RequestLog::Options& options)
      : files_(files), options_(options), directory_(parent_path(options.prefix)) {
    make_directories(files_, directory_);
    const std::string begin = options_.prefix.substr(options_.prefix.rfind('/') + 1) + '-';
    for (const DirectoryEntry& entry : files_.list(directory_))
      if (const auto number = number_of(entry, begin)) numbers_.push_back(*number);
    std::ranges::sort(numbers_);
    next_ = numbers_.empty() ? 0 : numbers_.back() + 1;
    // A run without requests leaves an empty file, which is used again: it shall not push out others.
    if (!numbers_.empty() && files_.open(path_of(numbers_.back()))->size() == 0) {
      numbers_.pop_back();
      --next_;
    }
    open_next();
  }

  void append(std::string_view record) {
    if (requests_ == options_.most_file_requests || bytes_ + record.size() > options_.most_file_bytes) {
      close();
      open_next();
    }
    file_->append(std::as_bytes(std::span(record)));
    bytes_ += record.size();
    ++requests_;
  }

  void close() {
    file_->sync();
    std::exchange(file_, nullptr)->close();
  }

 private:
  static std::optional<std::uint64_t> number_of(const DirectoryEntry& entry, std::string_view begin) {
    std::string_view digits = entry.name;
    if (entry.is_directory || !digits.starts_with(begin) || !digits.ends_with(kRecordSuffix)) return std::nullopt;
    digits.remove_prefix(begin.size());
    digits.remove_suffix(std::min(kRecordSuffix.size(), digits.size()));
    std::uint64_t out = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size() ? std::optional(out) : std::nullopt;
  }

  std::string path_of(std::uint64_t number) const {
    return fmt::format("{}-{:05}{}", options_.prefix, number, kRecordSuffix);
  }

  void open_next() {
    file_ = files_.create(path_of(next_));
    numbers_.push_back(next_++);
    bytes_ = requests_ = 0;
    while (numbers_.size() > options_.most_files) {
      remove(path_of(numbers_.front()));
      numbers_.pop_front();
    }
  }

  void remove(const std::string& path) {
    try {
      files_.remove(path);
    } catch (const Error& error) {
      if (error.code() != Code::not_found) throw;
    }
  }

  FileSystem& files_;
  const RequestLog::Options& options_;
  const std::string directory_;
  std::deque<std::uint64_t> numbers_;  // of the files that are there, ascending
  std::uint64_t next_ = 0;
  std::unique_ptr<WritableFile> file_;
  std::uint64_t bytes_ = 0, requests_ = 0;  // in it
};

}  // namespace

bool is_logged(std::uint64_t number, double rate) {
  constexpr double kAll = 0x1p53;
  return static_cast<double>(mix64(number) >> 11) < rate * kAll;
}

class RequestLog::Impl {
 public:
  Impl(FileSystem& files, Options given) : options_(checked(std::move(given))), files_(files, options_) {
    thread_ = std::thread([this] { run(); });
  }

  bool chooses_next() { return is_logged(asked_.fetch_add(1, std::memory_order_relaxed), options_.rate); }

  void add(const ServableId& id, RecordedRequest request) {
    Waiting waiting{.id = id, .request = std::move(request), .bytes = kWaitingRequestBytes};
    for (const auto* tensors : {&waiting.request.inputs, &waiting.request.outputs})
      for (const auto& [name, tensor] : *tensors) waiting.bytes += name.size() + kept_bytes(tensor);
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      if (!shown_.error.empty()) return leave_out(kError);
      if (waiting.bytes > options_.most_waiting_bytes) return leave_out(kSize);
      if (waiting.bytes > options_.most_waiting_bytes - waiting_bytes_) return leave_out(kQueue);
      ++added_;
      waiting_bytes_ += waiting.bytes;
      waiting_.push_back(std::move(waiting));
    }
    changed_.notify_all();
  }

  void flush() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, wanted = added_] { return done_ >= wanted; });
  }

  RequestLogSnapshot snapshot() {
    const std::lock_guard lock(mutex_);
    return shown_;
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  struct Waiting {
    ServableId id{};
    RecordedRequest request{};
    std::size_t bytes = 0;
  };

  static Options checked(Options options) {
    check_log_options(options);
    return options;
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) break;
      std::optional<Waiting> next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      const std::size_t bytes = next->bytes;
      Outcome outcome = write(*next);
      next.reset();  // what it keeps is freed before it is not counted any more
      lock.lock();
      ++done_;
      waiting_bytes_ -= bytes;
      if (outcome.left_out) {
        leave_out(outcome.left_out);
      } else {
        ++shown_.written;
        shown_.bytes += outcome.bytes;
      }
      if (outcome.error) give_up(outcome.error);
      changed_.notify_all();
    }
    if (!shown_.error.empty()) return;
    try {
      files_.close();
    } catch (...) {
      give_up(current_error());
    }
  }

  struct Outcome {
    const char* left_out = nullptr;  // why; null: it is written
    std::size_t bytes = 0;
    Error error{};  // of writing the file
  };
  Outcome write(const Waiting& next) {
    std::string record;
    try {
      record = record_of(to_record(
          next.request, {.model = next.id.model, .version = next.id.version, .sampling_rate = options_.rate}));
      if (record.size() > options_.most_file_bytes) return {.left_out = kSize};
    } catch (...) {
      return {.left_out = kFormat};
    }
    try {
      files_.append(record);
      return {.bytes = record.size()};
    } catch (...) {
      return {.left_out = kError, .error = current_error()};
    }
  }

  // Both under the lock.
  void leave_out(const char* reason, std::size_t requests = 1) { shown_.left_out.at(reason) += requests; }
  void give_up(const Error& error) {
    ++shown_.errors;
    shown_.error = error.within(fmt::format("request log '{}'", shown_path(options_.prefix))).message();
    leave_out(kError, waiting_.size());
    done_ += waiting_.size();
    waiting_.clear();
    waiting_bytes_ = 0;
  }

  const Options options_;
  NumberedFiles files_;  // of the thread
  std::atomic<std::uint64_t> asked_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_bytes_ = 0;  // with the one that is written
  bool ended_ = false;
  std::uint64_t added_ = 0, done_ = 0;  // to and from what waits
  RequestLogSnapshot shown_{.left_out = {{kQueue, 0}, {kSize, 0}, {kFormat, 0}, {kError, 0}}};

  std::thread thread_;
};

// A version of which one request is logged, or all of those who keep the handle.
class RequestLog::LoggedServable final : public Servable {
 public:
  LoggedServable(std::shared_ptr<Impl> log, ServableHandle servable)
      : log_(std::move(log)), servable_(std::move(servable)) {}
  const ServableId& id() const override { return servable_->id(); }
  const std::map<std::string, ModelSignature>& signatures() const override { return servable_->signatures(); }
  const std::string& signature_named(const std::string& given) const override {
    return servable_->signature_named(given);
  }
  ServingStatistics* statistics() const override { return servable_->statistics(); }
  std::shared_ptr<ServingCall> start(ServingRequest request, std::function<void(ServingResult)> done) const override {
    RecordedRequest asked{.signature = request.signature, .inputs = request.inputs};
    return servable_->start(std::move(request), [log = log_, servable = servable_, asked = std::move(asked),
                                                 done = std::move(done)](ServingResult result) mutable {
      if (!result.error) {
        asked.signature = servable->signature_named(asked.signature);
        asked.outputs = result.outputs;
        log->add(servable->id(), std::move(asked));
      }
      done(std::move(result));
    });
  }

 private:
  const std::shared_ptr<Impl> log_;
  const ServableHandle servable_;
};

RequestLog::RequestLog(FileSystem& files, Options options) : impl_(std::make_shared<Impl>(files, std::move(options))) {}
RequestLog::~RequestLog() { impl_->end(); }
void RequestLog::flush() const { impl_->flush(); }
RequestLogSnapshot RequestLog::snapshot() const { return impl_->snapshot(); }

ServedModels RequestLog::logged(ServedModels models) const {
  models.find = [log = impl_, find = std::move(models.find)](std::string_view model, const auto& wanted) {
    ServableHandle found = find(model, wanted);
    if (!log->chooses_next()) return found;
    return ServableHandle(std::make_shared<LoggedServable>(log, std::move(found)));
  };
  return models;
}

}  // namespace troupe
