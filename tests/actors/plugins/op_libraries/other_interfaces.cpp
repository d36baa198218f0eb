// Libraries that were not made with TROUPE_OP_LIBRARY() of this Troupe, by what is defined.
#include <cstdint>

namespace {

// Another interface: only the number can be read.
#if defined(OLD_INTERFACE)
constexpr std::uint32_t kEntry = 999;
#elif defined(OLD_TROUPE)
struct Entry {
  std::uint32_t abi;
  const char* build;
};
constexpr Entry kEntry = {1, "Troupe 0.0.9, libstdc++ 12, sizes 8"};
#else
#define troupe_op_library troupe_op_library_of_another_name
constexpr int kEntry = 0;
#endif

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* troupe_op_library() { return &kEntry; }
