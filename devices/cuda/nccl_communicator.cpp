#include "troupe/devices/cuda/nccl_communicator.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // interval of checks for errors
constexpr std::chrono::microseconds kPause{50};  // interval of polls for the end of a call
constexpr int kAwake = 200;                      // polls before the first pause
constexpr std::chrono::seconds kLeave{5};        // timeout for all ranks to leave

constexpr std::int64_t kLine = 64;  // bytes: alignment of each rank's tensor in a gather

std::int64_t whole_lines(std::int64_t elements, DType dtype) {
  const auto line = std::max<std::int64_t>(1, kLine / static_cast<std::int64_t>(size_of(dtype)));
  return (elements + line - 1) / line * line;
}
std::size_t bytes_of(std::int64_t elements, DType dtype) { return static_cast<std::size_t>(elements) * size_of(dtype); }

std::byte* at(Tensor& flat, std::int64_t element) { return flat.mutable_raw() + bytes_of(element, flat.dtype()); }

std::uint32_t divisor_of(const CollectiveSpec& spec, std::uint32_t ranks) {
  return spec.reduction == Reduction::mean ? ranks : 1;
}

// Makes a group of NCCL calls. A group left open would defer all later calls of the thread.
template <class Calls>
void grouped(NcclDriver& nccl, Calls calls) {
  nccl.start_group();
  try {
    calls();
  } catch (...) {
    const Error error = current_error();
    try {
      nccl.end_group();
    } catch (const Error&) {  // the first error is the cause
    }
    throw error;
  }
  nccl.end_group();
}

}  // namespace

NcclCommunicator::NcclCommunicator(CudaDevice& device, const CudaCollectives& with, const CommunicatorPlace& place,
                                   std::function<void(Error)> joined)
    : device_(device), with_(with), place_(place), joined_(std::move(joined)), thread_([this] { main(); }) {}

void NcclCommunicator::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    if (!leaving_ && !failure_) failure_ = Error(Code::cancelled, "the device is shutting down");
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void NcclCommunicator::run(const CollectiveSpec& spec, Tensor local, Done done) {
  Error error;
  {
    const std::lock_guard lock(mutex_);
    error = failure_;
    if (!error && leaving_)
      error = Error(Code::failed_precondition, fmt::format("{}: this rank has left the communicator", spec.describe()));
    if (!error)
      queue_.push_back(std::make_shared<Operation>(Operation{spec, std::move(local), std::move(done), {}, {}}));
  }
  if (error) return done({}, error);
  wake_.notify_all();
}

void NcclCommunicator::abort(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = why;
  }
  wake_.notify_all();
}

void NcclCommunicator::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_all();
}

Error NcclCommunicator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool NcclCommunicator::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

// ---- The communicator's thread
// -----------------------------------------------------------------------------------------

void NcclCommunicator::main() {
  pthread_setname_np(pthread_self(), fmt::format("gpu{}-nccl", device_.ordinal()).substr(0, 15).c_str());
  try {
    join();
  } catch (...) {
    abort(current_error().within(device_.attributes().name.to_string()));
  }
  std::exchange(joined_, nullptr)(failure());
  for (std::shared_ptr<Operation> next; take(next); next = nullptr) {
    if (next) {
      start(next);
      continue;
    }
    try {
      settle();
    } catch (...) {
      abort(current_error().within(device_.attributes().name.to_string()));
    }
  }
  end();
}

void NcclCommunicator::join() {
  device_.driver()->use(device_.ordinal());
  stream_.emplace(device_.driver(), device_.ordinal(), device_.events(),
                  fmt::format("gpu{}-nccl-done", device_.ordinal()),
                  [this](const Error& error) { device_.lost(error); });
  NcclId id{};
  if (place_.id.size() != id.size())
    invalid_argument("a communicator id of {} bytes is not an NCCL id", place_.id.size());
  std::ranges::copy(place_.id, id.begin());
  if (with_.load_sum) with_.load_sum();
  comm_ = with_.nccl->join(static_cast<int>(place_.ranks), static_cast<int>(place_.rank), id);
  settle();
}

// Waits for the next operation, or until the next check for errors is due.
bool NcclCommunicator::take(std::shared_ptr<Operation>& next) {
  std::unique_lock lock(mutex_);
  const auto something = [this] { return failure_ || !queue_.empty() || (leaving_ && in_flight_ == 0); };
  if (in_flight_ > 0)
    wake_.wait_for(lock, kLook, something);
  else
    wake_.wait(lock, something);
  if (failure_ || (queue_.empty() && leaving_ && in_flight_ == 0)) return false;
  if (!queue_.empty()) {
    next = std::move(queue_.front());
    queue_.pop_front();
    ++in_flight_;
  }
  return true;
}

void NcclCommunicator::start(const std::shared_ptr<Operation>& operation) {
  const auto failed = [&](const Error& error) {
    if (device_.driver()->fatal(error)) device_.lost(error);
    abort(error.within(operation->spec.describe()).within(device_.attributes().name.to_string()));
  };
  try {
    launch(*operation);
  } catch (const Error& error) {
    failed(error);
    return stranded_.push_back(operation);
  } catch (...) {
    failed(current_error());
    return stranded_.push_back(operation);
  }
  auto event = std::make_shared<CudaEvent>();
  event->on_reached([this, operation] { finish(operation); });
  try {
    stream_->record(event);
  } catch (const Error& error) {
    failed(error);
    event->reach();
  }
}

// Runs on the stream's thread.
void NcclCommunicator::finish(const std::shared_ptr<Operation>& operation) {
  Error error = failure();
  if (!error) error = device_.failure();
  operation->local = Tensor();
  operation->scratch.clear();
  std::vector<Tensor> results = std::move(operation->results);
  if (error) results.clear();
  std::exchange(operation->done, nullptr)(std::move(results), error);
  {
    const std::lock_guard lock(mutex_);
    --in_flight_;
  }
  wake_.notify_all();
}

// Waits until NCCL has enqueued its work on the stream; no other call may precede that. Throws NCCL's error, or the
// reason for an abort.
void NcclCommunicator::settle(std::chrono::nanoseconds within) {
  const auto begin = std::chrono::steady_clock::now();
  for (int asked = 0; !with_.nccl->settled(comm_); ++asked) {
    {
      std::unique_lock lock(mutex_);
      if (asked >= kAwake) wake_.wait_for(lock, kPause, [this] { return static_cast<bool>(failure_); });
      if (failure_) throw failure_;
    }
    if (asked < kAwake) std::this_thread::yield();
    if (std::chrono::steady_clock::now() - begin > within)
      fail(Code::deadline_exceeded, "timed out waiting for other ranks to leave");
  }
}

void NcclCommunicator::end() {
  bool failed = static_cast<bool>(failure());
  if (comm_ && !failed) try {
      with_.nccl->finalize(comm_);
      settle(kLeave);
      with_.nccl->destroy(std::exchange(comm_, nullptr));
    } catch (const Error&) {  // all work ended well: a failure to leave is not reported
      failed = true;
    }
  if (comm_ && failed)
    if (const Error more = with_.nccl->abort(comm_)) {
      const std::lock_guard lock(mutex_);
      if (failure_) failure_ = Error(failure_.code(), fmt::format("{}; {}", failure_.message(), more.message()));
    }
  comm_ = nullptr;
  if (stream_ && !stranded_.empty()) {  // its launched work has been told to end
    auto event = std::make_shared<CudaEvent>();
    event->on_reached([this, all = std::exchange(stranded_, {})] {
      for (const auto& operation : all) finish(operation);
    });
    try {
      stream_->record(event);
    } catch (const Error&) {
      event->reach();
    }
  }
  stream_.reset();  // calls finish() for operations in flight
  std::deque<std::shared_ptr<Operation>> rest;
  Error why;
  {
    const std::lock_guard lock(mutex_);
    rest.swap(queue_);
    if (!failure_) failure_ = Error(Code::failed_precondition, "this rank has left the communicator");
    why = failure_;
  }
  for (const auto& operation : rest) operation->done({}, why);
  const std::lock_guard lock(mutex_);
  over_ = true;
}

// ---- Operations ----------------------------------------------------------------------------------------------------

void NcclCommunicator::launch(Operation& op) {
  const CollectiveSpec& spec = op.spec;
  spec.check(place_.ranks);
  const bool gives = spec.kind != CollectiveKind::broadcast || spec.root == place_.rank;
  const bool here = op.local.num_bytes() == 0 || op.local.space() == device_.allocator().space();
  if (gives && (op.local.dtype() != spec.dtype || !(op.local.shape() == spec.shape) || !here))
    invalid_argument("got {}{}{}", name(op.local.dtype()), op.local.shape().to_string(),
                     here ? "" : ", which is not in the memory of this device");
  switch (spec.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce(op);
    case CollectiveKind::all_gather:
      return all_gather(op);
    case CollectiveKind::broadcast: {
      Tensor data = gives ? op.local : device_.arrival(spec.dtype, spec.shape);
      if (place_.ranks > 1 && data.num_bytes() > 0) {
        op.scratch.push_back(data);
        with_.nccl->broadcast(data.mutable_raw(), data.num_bytes(), static_cast<int>(spec.root), comm_,
                              stream_->native());
        settle();
      }
      op.results = {std::move(data)};
      return;
    }
    case CollectiveKind::barrier:
      invalid_argument("device communicators do not support barriers");
  }
}

void NcclCommunicator::all_reduce(Operation& op) {
  const CollectiveSpec& spec = op.spec;
  const std::int64_t n = spec.elements();
  if (place_.ranks == 1 || n == 0) {
    op.results = {op.local};
    return;
  }
  if (!device_.options().deterministic && is_floating(spec.dtype) && spec.reduction != Reduction::max) {
    op.results = {device_.arrival(spec.dtype, spec.shape)};
    with_.nccl->all_reduce(op.local.raw(), op.results[0].mutable_raw(), static_cast<std::size_t>(n), spec.dtype,
                           spec.reduction, comm_, stream_->native());
    return settle();
  }
  if (bytes_of(n, spec.dtype) > kDirectBytes) return reduce_parts(op);
  const std::int64_t stride = whole_lines(n, spec.dtype);
  const Tensor all = gathered(op, stride);
  op.results = {device_.arrival(spec.dtype, spec.shape)};
  with_.sum({.dtype = spec.dtype,
             .maximum = spec.reduction == Reduction::max,
             .divisor = divisor_of(spec, place_.ranks),
             .ranks = place_.ranks,
             .elements = n,
             .stride = stride,
             .per_part = CollectiveCut(n, size_of(spec.dtype), place_.ranks).part(0).size(),
             .first = nullptr,
             .others = all.raw(),
             .out = op.results[0].mutable_raw()},
            stream_->native());
}

void NcclCommunicator::reduce_parts(Operation& op) {
  const CollectiveSpec& spec = op.spec;
  const CollectiveCut cut(spec.elements(), size_of(spec.dtype), place_.ranks);
  const std::int64_t each = cut.part(0).size();
  const ElementRange own = cut.part(place_.rank);
  // Gathers parts as if all had the same size; the output has room for that.
  Tensor out = device_.arrival(spec.dtype, Shape{each * place_.ranks});
  Tensor others = device_.arrival(spec.dtype, Shape{own.size() * (place_.ranks - 1)});
  op.scratch = {out, others};
  const CudaStreamHandle stream = stream_->native();
  grouped(*with_.nccl, [&] {
    for (std::uint32_t k = 1; k < place_.ranks; ++k) {
      const std::uint32_t peer = (place_.rank + k) % place_.ranks;
      const ElementRange part = cut.part(peer);
      if (part.size() > 0)
        with_.nccl->send(at(op.local, part.begin), bytes_of(part.size(), spec.dtype), static_cast<int>(peer), comm_,
                         stream);
      if (own.size() > 0)
        with_.nccl->receive(at(others, (k - 1) * own.size()), bytes_of(own.size(), spec.dtype), static_cast<int>(peer),
                            comm_, stream);
    }
  });
  settle();
  if (own.size() > 0)
    with_.sum({.dtype = spec.dtype,
               .maximum = spec.reduction == Reduction::max,
               .divisor = divisor_of(spec, place_.ranks),
               .ranks = place_.ranks,
               .elements = own.size(),
               .stride = own.size(),
               .per_part = 0,
               .first = at(op.local, own.begin),
               .others = others.raw(),
               .out = at(out, each * place_.rank)},
              stream);
  with_.nccl->all_gather(out.mutable_raw(), static_cast<int>(place_.rank), bytes_of(each, spec.dtype), comm_, stream);
  settle();
  op.results = {Tensor(spec.dtype, spec.shape, out.buffer())};
}

void NcclCommunicator::all_gather(Operation& op) {
  const CollectiveSpec& spec = op.spec;
  const std::int64_t stride = whole_lines(spec.elements(), spec.dtype);
  const Tensor all = gathered(op, stride);
  for (std::uint32_t r = 0; r < place_.ranks; ++r)
    op.results.emplace_back(spec.dtype, spec.shape, all.buffer(), bytes_of(stride * r, spec.dtype));
}

// Gathers every rank's tensor, `stride` elements apart.
Tensor NcclCommunicator::gathered(Operation& op, std::int64_t stride) {
  Tensor all = device_.arrival(op.spec.dtype, Shape{stride * place_.ranks});
  op.scratch.push_back(all);
  if (stride == 0) return all;
  device_.driver()->copy(at(all, stride * place_.rank), op.local.raw(), op.local.num_bytes(), stream_->native());
  if (place_.ranks > 1) {
    with_.nccl->all_gather(all.mutable_raw(), static_cast<int>(place_.rank), bytes_of(stride, op.spec.dtype), comm_,
                           stream_->native());
    settle();
  }
  return all;
}

// ---- NcclMaker -----------------------------------------------------------------------------------------------------

std::string NcclMaker::description() {
  if (const std::string& why = device_.options().no_nccl; !why.empty()) fail(Code::unavailable, "{}", why);
  return fmt::format("NCCL {}{}", with_.nccl->version(), device_.options().deterministic ? "" : ", in any order");
}

CommunicatorId NcclMaker::make_id() {
  device_.driver()->use(device_.ordinal());
  const NcclId id = with_.nccl->make_id();
  return {id.begin(), id.end()};
}

std::shared_ptr<DeviceCommunicator> NcclMaker::join(const CommunicatorPlace& place, std::function<void(Error)> joined) {
  if (const Error lost = device_.failure()) throw lost;
  const std::lock_guard lock(mutex_);
  if (closed_) fail(Code::cancelled, "{} is shutting down", device_.attributes().name.to_string());
  std::erase_if(all_, [](const auto& communicator) { return communicator->over(); });
  all_.push_back(std::make_shared<NcclCommunicator>(device_, with_, place, std::move(joined)));
  return all_.back();
}

void NcclMaker::shutdown() {
  std::vector<std::shared_ptr<NcclCommunicator>> all;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    all.swap(all_);
  }
  for (const auto& communicator : all) communicator->shutdown();
}

}  // namespace troupe
