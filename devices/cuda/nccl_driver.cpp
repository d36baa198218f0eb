#include "troupe/devices/cuda/nccl_driver.hpp"

#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <mutex>

namespace troupe {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

// The library is opened at run time: without it, GPUs still work.
struct Nccl {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllReduce) all_reduce;
};

constexpr const char* kLibrary = "libnccl.so.2";
constexpr int kOldest = NCCL_VERSION(2, 14, 3);  // the first with non-blocking communicators

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) fail(Code::unavailable, "{} has no function {}: NCCL 2.14.3 or later is needed", kLibrary, name);
}

Nccl open() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(Code::unavailable, "no NCCL: {}", dlerror());
  Nccl out{};
  find(library, "ncclGetVersion", out.get_version);
  find(library, "ncclGetUniqueId", out.get_unique_id);
  find(library, "ncclCommInitRankConfig", out.init);
  find(library, "ncclCommGetAsyncError", out.async_error);
  find(library, "ncclCommFinalize", out.finalize);
  find(library, "ncclCommDestroy", out.destroy);
  find(library, "ncclCommAbort", out.abort);
  find(library, "ncclGetErrorString", out.error_string);
  find(library, "ncclGetLastError", out.last_error);
  find(library, "ncclGroupStart", out.group_start);
  find(library, "ncclGroupEnd", out.group_end);
  find(library, "ncclSend", out.send);
  find(library, "ncclRecv", out.receive);
  find(library, "ncclAllGather", out.all_gather);
  find(library, "ncclBroadcast", out.broadcast);
  find(library, "ncclAllReduce", out.all_reduce);
  return out;
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    default:
      invalid_argument("NCCL sums of {} are not supported", name(dtype));
  }
}

class RealNccl final : public NcclDriver {
 public:
  std::string version() override {
    {
      const std::lock_guard lock(mutex_);
      if (!opened_) {
        nccl_ = open();
        opened_ = true;
      }
    }
    int code = 0;
    check(nccl_.get_version(&code), "ncclGetVersion", nullptr);
    const std::string text = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
    if (code < kOldest) fail(Code::unavailable, "{} is NCCL {}: 2.14.3 or later is needed", kLibrary, text);
    return text;
  }

  NcclId make_id() override {
    ncclUniqueId id{};
    check(nccl_.get_unique_id(&id), "ncclGetUniqueId", nullptr);
    NcclId out;
    std::memcpy(out.data(), &id, sizeof id);
    return out;
  }

  NcclHandle join(int ranks, int rank, const NcclId& id) override {
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    check(nccl_.init(&comm, ranks, unique, rank, &config), "ncclCommInitRankConfig", comm);
    return comm;
  }

  bool settled(NcclHandle comm) override {
    ncclResult_t state = ncclSuccess;
    check(nccl_.async_error(comm, &state), "ncclCommGetAsyncError", comm);
    if (state == ncclInProgress) return false;
    check(state, "NCCL (asynchronous error)", comm);
    return true;
  }

  void start_group() override { check(nccl_.group_start(), "ncclGroupStart", nullptr); }
  void end_group() override { check(nccl_.group_end(), "ncclGroupEnd", nullptr); }
  void send(const void* from, std::size_t bytes, int to_rank, NcclHandle comm, CudaStreamHandle stream) override {
    check(nccl_.send(from, bytes, ncclUint8, to_rank, comm, stream), "ncclSend", comm);
  }
  void receive(void* to, std::size_t bytes, int from_rank, NcclHandle comm, CudaStreamHandle stream) override {
    check(nccl_.receive(to, bytes, ncclUint8, from_rank, comm, stream), "ncclRecv", comm);
  }
  void all_gather(void* all, int rank, std::size_t bytes, NcclHandle comm, CudaStreamHandle stream) override {
    const auto* own = static_cast<const std::byte*>(all) + static_cast<std::size_t>(rank) * bytes;
    check(nccl_.all_gather(own, all, bytes, ncclUint8, comm, stream), "ncclAllGather", comm);
  }
  void broadcast(void* data, std::size_t bytes, int root, NcclHandle comm, CudaStreamHandle stream) override {
    check(nccl_.broadcast(data, data, bytes, ncclUint8, root, comm, stream), "ncclBroadcast", comm);
  }
  void all_reduce(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction, NcclHandle comm,
                  CudaStreamHandle stream) override {
    if (reduction == Reduction::max) invalid_argument("NCCL maxima are not supported: they may drop NaN");
    check(nccl_.all_reduce(from, to, count, nccl_type(dtype), reduction == Reduction::mean ? ncclAvg : ncclSum, comm,
                           stream),
          "ncclAllReduce", comm);
  }

  void finalize(NcclHandle comm) override { check(nccl_.finalize(comm), "ncclCommFinalize", comm); }
  void destroy(NcclHandle comm) override { check(nccl_.destroy(comm), "ncclCommDestroy", nullptr); }
  Error abort(NcclHandle comm) noexcept override {
    try {
      check(nccl_.abort(comm), "ncclCommAbort", nullptr);
    } catch (...) {
      return current_error();
    }
    return {};
  }

 private:
  // Non-blocking calls may return "in progress": settled() reports how they end.
  void check(ncclResult_t result, const char* call, ncclComm_t comm) const {
    if (result == ncclSuccess || result == ncclInProgress) [[likely]]
      return;
    const char* const more = nccl_.last_error(comm);
    fail(Code::unavailable, "{}: {}{}{}", call, nccl_.error_string(result), more && *more ? ": " : "",
         more ? more : "");
  }

  std::mutex mutex_;
  bool opened_ = false;
  Nccl nccl_{};
};

}  // namespace

std::shared_ptr<NcclDriver> make_nccl_driver() { return std::make_shared<RealNccl>(); }

}  // namespace troupe
