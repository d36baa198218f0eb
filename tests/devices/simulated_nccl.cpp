#include "tests/devices/simulated_nccl.hpp"

#include <cstring>
#include <optional>

#include <troupe/devices/collective/reduce.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::testing {
namespace {

// Memory of a simulated GPU as the host's.
class Borrowed final : public Buffer {
 public:
  Borrowed(void* data, std::size_t size) : Buffer(data, size, MemorySpace{}) {}
};

Tensor view(const void* data, DType dtype, std::int64_t elements) {
  return Tensor(dtype, Shape{elements},
                BufferRef(new Borrowed(const_cast<void*>(data), static_cast<std::size_t>(elements) * size_of(dtype))));
}

}  // namespace

// Those who joined with one id. Operations of a rank are numbered; the n-th of all ranks is one.
struct SimulatedNccl::Clique {
  int ranks = 0;
  std::map<int, Comm*> joined;
  std::map<std::uint64_t, std::map<int, Bring>> brought;
  std::map<std::uint64_t, int> copied;  // ranks that need nothing of the others any more
};

struct SimulatedNccl::Comm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  std::uint64_t next = 0;
  bool aborted = false;
  bool over = false;
  std::optional<Bring> group;
  CudaStreamHandle group_stream = nullptr;
};

namespace {
thread_local bool grouping = false;
thread_local NcclHandle grouped = nullptr;
}  // namespace

SimulatedNccl::SimulatedNccl(std::shared_ptr<SimulatedCuda> cuda) : cuda_(std::move(cuda)) {}
SimulatedNccl::~SimulatedNccl() = default;

void SimulatedNccl::break_network(const std::string& error) {
  const std::lock_guard lock(mutex_);
  broken_ = error;
}
void SimulatedNccl::hold(bool held) {
  {
    const std::lock_guard lock(mutex_);
    held_ = held;
  }
  wake_.notify_all();
}
SimulatedNccl::Counts SimulatedNccl::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

// Everything asked of a communicator whose last call has not ended, or after its end, is an error, as it is with NCCL.
void SimulatedNccl::call(const char* name, NcclHandle comm) const {
  const Comm& c = of(comm);
  if (c.over || c.aborted) fail(Code::internal, "{}: the communicator is gone", name);
  if (static_cast<int>(c.clique->joined.size()) != c.clique->ranks)
    fail(Code::internal, "{}: the call before has not ended", name);
}

std::string SimulatedNccl::version() {
  if (removed_) fail(Code::unavailable, "no NCCL: it was removed");
  return "1.2.3";
}

NcclId SimulatedNccl::make_id() {
  const std::lock_guard lock(mutex_);
  NcclId id{};
  const std::size_t number = ++counts_.ids;
  std::memcpy(id.data(), &number, sizeof number);
  return id;
}

NcclHandle SimulatedNccl::join(int ranks, int rank, const NcclId& id) {
  const std::lock_guard lock(mutex_);
  ++counts_.joins;
  auto& clique = cliques_[id];
  if (!clique) clique = std::make_shared<Clique>();
  clique->ranks = ranks;
  comms_.push_back(std::make_unique<Comm>());
  Comm& comm = *comms_.back();
  comm.clique = clique;
  comm.rank = rank;
  if (!clique->joined.emplace(rank, &comm).second)
    fail(Code::unavailable, "ncclCommInitRankConfig: rank {} is there twice", rank);
  wake_.notify_all();
  return reinterpret_cast<NcclHandle>(&comm);
}

bool SimulatedNccl::settled(NcclHandle comm) {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) fail(Code::unavailable, "NCCL (asynchronous error): {}", broken_);
  return static_cast<int>(of(comm).clique->joined.size()) == of(comm).clique->ranks;
}

void SimulatedNccl::start_group() {
  if (grouping) fail(Code::internal, "ncclGroupStart: in a group");
  grouping = true;
}
void SimulatedNccl::end_group() {
  grouping = false;
  NcclHandle const comm = std::exchange(grouped, nullptr);
  if (!comm) return;
  Bring bring;
  CudaStreamHandle stream;
  {
    const std::lock_guard lock(mutex_);
    bring = std::move(*of(comm).group);
    of(comm).group.reset();
    stream = of(comm).group_stream;
  }
  meet(comm, stream, std::move(bring));
}

void SimulatedNccl::send(const void* from, std::size_t bytes, int to_rank, NcclHandle comm, CudaStreamHandle stream) {
  const std::lock_guard lock(mutex_);
  call("ncclSend", comm);
  ++counts_.sends;
  if (!grouping) fail(Code::internal, "ncclSend: not in a group, this may wait for ever");
  grouped = comm;
  of(comm).group_stream = stream;
  if (!of(comm).group) of(comm).group = Bring{.what = "sends"};
  of(comm).group->gives.push_back({to_rank, const_cast<std::byte*>(static_cast<const std::byte*>(from)), bytes});
}
void SimulatedNccl::receive(void* to, std::size_t bytes, int from_rank, NcclHandle comm, CudaStreamHandle stream) {
  const std::lock_guard lock(mutex_);
  call("ncclRecv", comm);
  grouped = comm;
  of(comm).group_stream = stream;
  if (!of(comm).group) of(comm).group = Bring{.what = "sends"};
  of(comm).group->wants.push_back({from_rank, static_cast<std::byte*>(to), bytes});
}

void SimulatedNccl::all_gather(void* all, int rank, std::size_t bytes, NcclHandle comm, CudaStreamHandle stream) {
  Bring bring{.what = fmt::format("all-gather of {} bytes", bytes)};
  {
    const std::lock_guard lock(mutex_);
    call("ncclAllGather", comm);
    ++counts_.gathers;
    auto* const data = static_cast<std::byte*>(all);
    for (int peer = 0; peer < of(comm).clique->ranks; ++peer) {
      if (peer == rank) continue;
      bring.gives.push_back({peer, data + static_cast<std::size_t>(rank) * bytes, bytes});
      bring.wants.push_back({peer, data + static_cast<std::size_t>(peer) * bytes, bytes});
    }
  }
  meet(comm, stream, std::move(bring));
}

void SimulatedNccl::broadcast(void* data, std::size_t bytes, int root, NcclHandle comm, CudaStreamHandle stream) {
  Bring bring{.what = fmt::format("broadcast of {} bytes from {}", bytes, root)};
  {
    const std::lock_guard lock(mutex_);
    call("ncclBroadcast", comm);
    ++counts_.broadcasts;
    if (of(comm).rank != root)
      bring.wants.push_back({root, static_cast<std::byte*>(data), bytes});
    else
      for (int peer = 0; peer < of(comm).clique->ranks; ++peer)
        if (peer != root) bring.gives.push_back({peer, static_cast<std::byte*>(data), bytes});
  }
  meet(comm, stream, std::move(bring));
}

// From the last rank to the first, which no part of a ring does.
void SimulatedNccl::all_reduce(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction,
                               NcclHandle comm, CudaStreamHandle stream) {
  Bring bring{.what = fmt::format("all-reduce {} of {} {}", name(reduction), count, name(dtype))};
  {
    const std::lock_guard lock(mutex_);
    call("ncclAllReduce", comm);
    ++counts_.all_reduces;
  }
  bring.gives.push_back({-1, const_cast<std::byte*>(static_cast<const std::byte*>(from)), count * size_of(dtype)});
  bring.then = [to, count, dtype, reduction](const std::map<int, Bring>& all) {
    const auto n = static_cast<std::int64_t>(count);
    Tensor sum = view(all.rbegin()->second.gives[0].data, dtype, n).clone();
    const auto ranks = static_cast<std::uint32_t>(all.size());
    std::uint32_t added = 1;
    for (auto it = std::next(all.rbegin()); it != all.rend(); ++it)
      combine(reduction, sum, view(it->second.gives[0].data, dtype, n), ++added == ranks ? ranks : 1, sum);
    std::memcpy(to, sum.raw(), sum.num_bytes());
  };
  meet(comm, stream, std::move(bring));
}

// Puts on the stream: wait for all ranks, copy what is wanted, wait until all have.
void SimulatedNccl::meet(NcclHandle handle, CudaStreamHandle stream, Bring bring) {
  Comm& comm = of(handle);
  std::uint64_t number;
  {
    const std::lock_guard lock(mutex_);
    number = comm.next++;
  }
  cuda_->launch(stream, [this, &comm, number, bring = std::move(bring)] {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Clique> clique = comm.clique;
    auto& brought = clique->brought[number];
    brought[comm.rank] = bring;
    wake_.notify_all();
    wake_.wait(lock, [&] { return comm.aborted || (!held_ && static_cast<int>(brought.size()) == clique->ranks); });
    if (comm.aborted) return;
    bool same = true;
    for (const auto& [rank, other] : brought) same = same && other.what == bring.what;
    if (!same) {  // real ones would wait for ever, or worse
      broken_ = "ranks run different operations at once";
    } else if (bring.then) {
      bring.then(brought);
    } else {
      for (const auto& want : bring.wants)
        for (const auto& give : brought.at(want.peer).gives) {
          if (give.peer != comm.rank) continue;
          if (give.bytes == want.bytes)
            std::memcpy(want.data, give.data, want.bytes);
          else
            broken_ = "a rank receives another number of bytes than is sent";
        }
    }
    ++clique->copied[number];
    wake_.notify_all();
    wake_.wait(lock, [&] { return comm.aborted || clique->copied[number] == clique->ranks; });
  });
}

void SimulatedNccl::finalize(NcclHandle comm) {
  const std::lock_guard lock(mutex_);
  call("ncclCommFinalize", comm);
}
void SimulatedNccl::destroy(NcclHandle comm) {
  const std::lock_guard lock(mutex_);
  call("ncclCommDestroy", comm);
  ++counts_.destroys;
  of(comm).over = true;
}
Error SimulatedNccl::abort(NcclHandle comm) noexcept {
  {
    const std::lock_guard lock(mutex_);
    ++counts_.aborts;
    of(comm).aborted = true;
  }
  wake_.notify_all();
  return {};
}

SumParts simulated_sum(std::shared_ptr<SimulatedCuda> cuda) {
  return [cuda = std::move(cuda)](const PartsSum& plan, CudaStreamHandle stream) {
    cuda->launch(stream, [plan] {
      const auto size = static_cast<std::int64_t>(size_of(plan.dtype));
      const auto at = [size](const void* base, std::int64_t element) {
        return static_cast<const std::byte*>(base) + element * size;
      };
      for (std::int64_t i = 0; i < plan.elements; ++i) {
        const auto from = [&](std::uint32_t k) {
          const std::int64_t place = plan.place(k, i);
          return view(place < 0 ? at(plan.first, i) : at(plan.others, place), plan.dtype, 1);
        };
        const Reduction reduction = plan.maximum ? Reduction::max : plan.divisor > 1 ? Reduction::mean : Reduction::sum;
        Tensor sum = view(at(plan.out, i), plan.dtype, 1);
        std::memcpy(sum.mutable_raw(), from(0).raw(), static_cast<std::size_t>(size));
        for (std::uint32_t k = 1; k < plan.ranks; ++k)
          combine(reduction, sum, from(k), k + 1 == plan.ranks ? plan.divisor : 1, sum);
      }
    });
  };
}

}  // namespace troupe::testing
