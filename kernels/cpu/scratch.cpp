#include "troupe/kernels/cpu/scratch.hpp"

#include <cstdlib>
#include <vector>

#include <troupe/messages/buffer.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::size_t kLargestKept = std::size_t{64} << 20;

struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// The first `depth` blocks are in use.
struct Blocks {
  std::vector<Block> blocks;
  std::size_t depth = 0;
  ~Blocks() {
    for (const Block& b : blocks) std::free(b.data);
  }
};
thread_local Blocks mine;

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  Blocks& own = mine;
  if (own.depth == own.blocks.size()) own.blocks.emplace_back();
  Block& block = own.blocks[own.depth];
  if (block.bytes < bytes || !block.data) {
    const std::size_t rounded = (bytes / kBufferAlignment + 1) * kBufferAlignment;
    std::free(block.data);
    block = {std::aligned_alloc(kBufferAlignment, rounded), rounded};
    if (!block.data) {
      block = {};
      fail(Code::resource_exhausted, "cannot allocate {} bytes of scratch memory for a kernel", bytes);
    }
  }
  ++own.depth;
  data_ = block.data;
}

Scratch::~Scratch() {
  Blocks& own = mine;
  Block& block = own.blocks[--own.depth];
  if (block.bytes <= kLargestKept) return;
  std::free(block.data);
  block = {};
}

}  // namespace troupe
