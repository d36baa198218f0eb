// Shared by kernels that use oneDNN: an engine, a stream per thread, primitives cached per thread.
#pragma once

#include <array>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <span>
#include <vector>

#include <troupe/kernels/cpu/openmp_guard.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe::onednn {

inline const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
inline dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

// f32, bf16
inline dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// We supply scratch memory: oneDNN would otherwise allocate it for each call.
inline dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// What tells layouts of memory apart.
std::vector<std::int64_t> numbers_of(const dnnl::memory::desc& layout);

// Returns whether this CPU multiplies bf16. If not, kernels compute in float and round.
bool has_bf16();

// A primitive with its operands.
class Primitive {
 public:
  // Arguments are DNNL_ARG_*; memory is passed with each call.
  void add(int argument, const dnnl::memory::desc& desc) {
    operands_.push_back({argument, dnnl::memory(desc, engine(), nullptr)});
  }
  void set(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad);
  // `data`: one pointer per operand, in the order of add(). Runs on the calling thread; throws dnnl::error.
  void run(std::span<void* const> data);

 private:
  struct Operand {
    int argument;
    dnnl::memory memory;
  };
  dnnl::primitive primitive_;
  std::vector<Operand> operands_;
  dnnl::memory scratchpad_;
  std::size_t scratchpad_bytes_ = 0;
};

// Creating a primitive generates code and takes up to a millisecond, so each thread caches recently created ones. (They
// hold pointers while they run, so threads do not share them.) One cache per thread and kind.
template <class Value, std::size_t N>
class Cache {
 public:
  using Key = std::array<std::int64_t, N>;

  // Returns the value for `key`, creating it with make() if missing. Valid until the next get().
  template <class Make>
  Value& get(const Key& key, Make make) {
    std::size_t at = hash(key);
    for (; entries_[at % kPlaces]; ++at)
      if (entries_[at % kPlaces]->key == key) return entries_[at % kPlaces]->value;
    const OpenMpGuard guard;  // oneDNN plans for the current number of threads
    auto made = std::make_unique<Entry>(Entry{key, make()});
    if (++size_ > kPlaces / 2) {
      for (auto& entry : entries_) entry.reset();
      size_ = 1;
      at = hash(key);
    }
    entries_[at % kPlaces] = std::move(made);
    return entries_[at % kPlaces]->value;
  }

 private:
  static constexpr std::size_t kPlaces = 512;  // at most half are used
  struct Entry {
    Key key;
    Value value;
  };
  static std::size_t hash(const Key& key) {
    std::uint64_t h = 0;
    for (std::int64_t v : key) h = (h ^ static_cast<std::uint64_t>(v)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return static_cast<std::size_t>(h);
  }
  std::array<std::unique_ptr<Entry>, kPlaces> entries_;
  std::size_t size_ = 0;
};

}  // namespace troupe::onednn
