#include "troupe/devices/cuda/cuda_copies.hpp"

#include <cstring>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kSmallUpload = std::size_t{64} << 10;  // bytes

class CopyJob final : public LocalWork {
 public:
  explicit CopyJob(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

}  // namespace

CudaCopies::CudaCopies(Parts parts)
    : parts_(std::move(parts)),
      to_host_(parts_.driver, parts_.ordinal, parts_.events, parts_.stream_name("-out"),
               [this](const Error& e) { parts_.device.lost(e); }),
      from_host_(parts_.driver, parts_.ordinal, parts_.events, parts_.stream_name("-in"),
                 [this](const Error& e) { parts_.device.lost(e); }),
      from_peers_(parts_.driver, parts_.ordinal, parts_.events, parts_.stream_name("-peer"),
                  [this](const Error& e) { parts_.device.lost(e); }),
      copier_([this] { parts_.begin_thread("-copy"); }) {}

void CudaCopies::copy_to_host(Tensor source, const Done& done) {
  if (source.space().on_host()) return done(std::move(source), Error());
  guarded(done, [&] {
    Tensor copy = parts_.pinned.tensor(source.dtype(), source.shape());
    CudaFaults::Look look = parts_.device.look_for_faults();
    to_host_.follow(parts_.compute);
    copy_on(to_host_, copy, source);
    when_copied(to_host_, std::move(source), std::move(copy), std::move(look), done);
  });
}

void CudaCopies::copy_in(Tensor source, Done done) {
  // The host first copies pageable memory to pinned memory: not on the caller's thread.
  copier_.enqueue(std::make_shared<CopyJob>([this, source = std::move(source), done = std::move(done)]() mutable {
    guarded(done, [&] {
      Tensor staged = pinned(source);
      Tensor copy = parts_.device.arrival(source.dtype(), source.shape());
      CudaStream& stream = staged.space().on_host() ? from_host_ : from_peers_;
      copy_on(stream, copy, staged);
      when_copied(stream, std::move(staged), std::move(copy), nullptr, done);
    });
  }));
}

void CudaCopies::hand_over(const Tensor& source, const Done& done) {
  guarded(done, [&] {
    auto event = std::make_shared<CudaEvent>();
    event->on_reached([this, source, look = parts_.device.look_for_faults(), done]() mutable {
      hand(std::move(source), look, done);
    });
    parts_.compute.record(event);
  });
}

Tensor CudaCopies::upload(const Tensor& source) {
  throw_if_lost();
  Tensor staged = pinned(source);
  Tensor copy = parts_.device.arrival(source.dtype(), source.shape());
  if (staged.num_bytes() <= kSmallUpload) {  // on the compute stream, so as not to queue behind large copies
    copy_on(parts_.compute, copy, staged);
    if (staged.num_bytes() > 0) parts_.retired->add(staged.buffer());
    return copy;
  }
  copy_on(from_host_, copy, staged);
  auto event = std::make_shared<CudaEvent>();
  event->keeps.push_back(staged.buffer());
  from_host_.record(event);
  parts_.compute.follow(from_host_);
  return copy;
}

Tensor CudaCopies::read(const Tensor& source) {
  throw_if_lost();
  Tensor copy = parts_.pinned.tensor(source.dtype(), source.shape());
  copy_on(parts_.compute, copy, source);
  const CudaFaults::Look look = parts_.faults.look(parts_.compute.native());
  auto event = std::make_shared<CudaEvent>();
  parts_.compute.record(event);
  event->await();
  throw_if_lost();
  if (const Error error = parts_.faults.error(look)) throw error;  // the value may result from the fault
  return copy;
}

void CudaCopies::stop_streams() {
  for (CudaStream* stream : {&to_host_, &from_host_, &from_peers_}) stream->stop();
}

// Calls `copy`; on an exception or a lost device calls `done` with the error.
template <class Copy>
void CudaCopies::guarded(const Done& done, Copy copy) {
  Error error = parts_.device.failure();
  if (!error) {
    try {
      copy();
      return;
    } catch (const Error& thrown) {
      error = thrown.within(parts_.device_name);
      if (parts_.driver->fatal(thrown)) {
        parts_.device.lost(thrown);
        error = parts_.device.failure();
      }
    }
  }
  done(Tensor(), error);
}

void CudaCopies::copy_on(CudaStream& stream, Tensor& to, const Tensor& from) {
  if (from.num_bytes() == 0) return;
  CudaDriver& driver = *parts_.driver;
  driver.use(parts_.ordinal);
  const MemorySpace source = from.space();
  if (source.kind == MemorySpace::Kind::cuda && source.ordinal != parts_.ordinal)
    driver.copy_peer(to.mutable_raw(), parts_.ordinal, from.raw(), source.ordinal, from.num_bytes(), stream.native());
  else
    driver.copy(to.mutable_raw(), from.raw(), from.num_bytes(), stream.native());
}

void CudaCopies::when_copied(CudaStream& stream, Tensor source, Tensor copy, CudaFaults::Look look, const Done& done) {
  auto event = std::make_shared<CudaEvent>();
  event->on_reached([this, source = std::move(source), copy = std::move(copy), look = std::move(look), done]() mutable {
    source = Tensor();
    hand(std::move(copy), look, done);
  });
  stream.record(event);
}

void CudaCopies::hand(Tensor tensor, const CudaFaults::Look& look, const Done& done) const {
  Error error = parts_.device.failure();
  if (!error) error = parts_.faults.error(look);
  done(error ? Tensor() : std::move(tensor), std::move(error));
}

// Returns the tensor itself if the GPU can copy directly from its memory, else a copy in pinned memory.
Tensor CudaCopies::pinned(const Tensor& source) {
  if (source.dtype() == DType::string) invalid_argument("string tensors cannot be copied to {}", parts_.device_name);
  if (source.space().kind != MemorySpace::Kind::host || source.num_bytes() == 0) return source;
  Tensor copy = parts_.pinned.tensor(source.dtype(), source.shape());
  std::memcpy(copy.mutable_raw(), source.raw(), source.num_bytes());
  return copy;
}

void CudaCopies::throw_if_lost() const {
  if (const Error error = parts_.device.failure()) throw error;
}

}  // namespace troupe
