// Replaces nccl_driver.cpp in builds without nccl.h.
#include <troupe/devices/cuda/nccl_driver.hpp>

namespace troupe {
namespace {

class NoNccl final : public NcclDriver {
 public:
  std::string version() override { none(); }
  NcclId make_id() override { none(); }
  NcclHandle join(int, int, const NcclId&) override { none(); }
  bool settled(NcclHandle) override { none(); }
  void start_group() override { none(); }
  void end_group() override { none(); }
  void send(const void*, std::size_t, int, NcclHandle, CudaStreamHandle) override { none(); }
  void receive(void*, std::size_t, int, NcclHandle, CudaStreamHandle) override { none(); }
  void all_gather(void*, int, std::size_t, NcclHandle, CudaStreamHandle) override { none(); }
  void broadcast(void*, std::size_t, int, NcclHandle, CudaStreamHandle) override { none(); }
  void all_reduce(const void*, void*, std::size_t, DType, Reduction, NcclHandle, CudaStreamHandle) override { none(); }
  void finalize(NcclHandle) override { none(); }
  void destroy(NcclHandle) override { none(); }
  Error abort(NcclHandle) noexcept override { return {}; }

 private:
  [[noreturn]] static void none() { fail(Code::unavailable, "Troupe was built without NCCL's header, nccl.h"); }
};

}  // namespace

std::shared_ptr<NcclDriver> make_nccl_driver() { return std::make_shared<NoNccl>(); }

}  // namespace troupe
