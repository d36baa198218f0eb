#include "troupe/kernels/cpu/fused_chain.hpp"

#include <cstring>
#include <map>
#if defined(__SSE__)
#include <immintrin.h>
#endif

#include <troupe/kernels/common/elementwise_ops.hpp>

namespace troupe {
namespace {

using V = FloatVector;
constexpr std::int64_t kLanes = kVectorBytes / static_cast<int>(sizeof(float));

V load(const float* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
void store(V v, float* to) { std::memcpy(to, &v, sizeof v); }
V splat(const float* from) {
  V v;
  float lanes[kLanes];
  for (float& lane : lanes) lane = *from;
  std::memcpy(&v, lanes, sizeof v);
  return v;
}

void load_cell(const ChainCell* cell, std::int64_t at, V, V, V, V, V, V, V, V) {
  const float* x = cell->operand + at;
  return cell[1].run(cell + 1, at, load(x), load(x + kLanes), load(x + 2 * kLanes), load(x + 3 * kLanes),
                     load(x + 4 * kLanes), load(x + 5 * kLanes), load(x + 6 * kLanes), load(x + 7 * kLanes));
}

// The next kLanes bytes as floats.
V load_bytes(const std::uint8_t* from) {
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;  // g++ 12 warns of the unmasked ones
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepu8_epi32(kAll, bytes));
#elif defined(__AVX2__)
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = static_cast<float>(from[i]);
  return v;
#endif
}

void load_bytes_cell(const ChainCell* cell, std::int64_t at, V, V, V, V, V, V, V, V) {
  const std::uint8_t* x = reinterpret_cast<const std::uint8_t*>(cell->operand) + at;
  return cell[1].run(cell + 1, at, load_bytes(x), load_bytes(x + kLanes), load_bytes(x + 2 * kLanes),
                     load_bytes(x + 3 * kLanes), load_bytes(x + 4 * kLanes), load_bytes(x + 5 * kLanes),
                     load_bytes(x + 6 * kLanes), load_bytes(x + 7 * kLanes));
}

void write(float* to, V a, V b, V c, V d, V e, V f, V g, V h) {
  store(a, to);
  store(b, to + kLanes);
  store(c, to + 2 * kLanes);
  store(d, to + 3 * kLanes);
  store(e, to + 4 * kLanes);
  store(f, to + 5 * kLanes);
  store(g, to + 6 * kLanes);
  store(h, to + 7 * kLanes);
}

void keep_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  write(cell->operand + at, a, b, c, d, e, f, g, h);
  return cell[1].run(cell + 1, at, a, b, c, d, e, f, g, h);
}

void store_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  write(cell->operand + at, a, b, c, d, e, f, g, h);
}

// Like store_cell, but bypasses the caches.
void stream(V v, float* to) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, v);
#elif defined(__AVX__)
  _mm256_stream_ps(to, v);
#elif defined(__SSE__)
  _mm_stream_ps(to, v);
#else
  store(v, to);
#endif
}

void stream_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  float* to = cell->operand + at;
  stream(a, to);
  stream(b, to + kLanes);
  stream(c, to + 2 * kLanes);
  stream(d, to + 3 * kLanes);
  stream(e, to + 4 * kLanes);
  stream(f, to + 5 * kLanes);
  stream(g, to + 6 * kLanes);
  stream(h, to + 7 * kLanes);
}

template <class Op>
void unary_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  const Op op;
  return cell[1].run(cell + 1, at, op(a), op(b), op(c), op(d), op(e), op(f), op(g), op(h));
}

template <class Op>
void itself_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  const Op op;
  return cell[1].run(cell + 1, at, op(a, a), op(b, b), op(c, c), op(d, d), op(e, e), op(f, f), op(g, g), op(h, h));
}

template <class Op>
void right_scalar_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  const Op op;
  const V y = splat(cell->operand);
  return cell[1].run(cell + 1, at, op(a, y), op(b, y), op(c, y), op(d, y), op(e, y), op(f, y), op(g, y), op(h, y));
}

template <class Op>
void left_scalar_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  const Op op;
  const V x = splat(cell->operand);
  return cell[1].run(cell + 1, at, op(x, a), op(x, b), op(x, c), op(x, d), op(x, e), op(x, f), op(x, g), op(x, h));
}

template <class Op>
void right_tensor_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  const Op op;
  const float* y = cell->operand + at;
  return cell[1].run(cell + 1, at, op(a, load(y)), op(b, load(y + kLanes)), op(c, load(y + 2 * kLanes)),
                     op(d, load(y + 3 * kLanes)), op(e, load(y + 4 * kLanes)), op(f, load(y + 5 * kLanes)),
                     op(g, load(y + 6 * kLanes)), op(h, load(y + 7 * kLanes)));
}

template <class Op>
void left_tensor_cell(const ChainCell* cell, std::int64_t at, V a, V b, V c, V d, V e, V f, V g, V h) {
  const Op op;
  const float* x = cell->operand + at;
  return cell[1].run(cell + 1, at, op(load(x), a), op(load(x + kLanes), b), op(load(x + 2 * kLanes), c),
                     op(load(x + 3 * kLanes), d), op(load(x + 4 * kLanes), e), op(load(x + 5 * kLanes), f),
                     op(load(x + 6 * kLanes), g), op(load(x + 7 * kLanes), h));
}

// In the order of ChainOperand.
template <class Op>
constexpr ChainCode kUnary{{unary_cell<Op>}};
template <class Op>
constexpr ChainCode kBinary{{nullptr, itself_cell<Op>, right_tensor_cell<Op>, right_scalar_cell<Op>,
                             left_tensor_cell<Op>, left_scalar_cell<Op>}};

}  // namespace

ChainCode find_chain(std::string_view op) {
  static const std::map<std::string_view, ChainCode> codes = {
      {"Neg", kUnary<NegOp>},
      {"Square", kUnary<SquareOp>},
      {"Relu", kUnary<ReluOp>},
      {"Add", kBinary<AddOp>},
      {"Sub", kBinary<SubOp>},
      {"Mul", kBinary<MulOp>},
      {"Div", kBinary<DivOp>},
      {"Maximum", kBinary<MaximumOp>},
      {"Minimum", kBinary<MinimumOp>},
      {"SquaredDifference", kBinary<SquaredDifferenceOp>},
      {"ReluGrad", kBinary<ReluGradOp>},
  };
  const auto found = codes.find(op);
  return found == codes.end() ? ChainCode{} : found->second;
}

ChainFunction chain_load() { return load_cell; }
ChainFunction chain_load_bytes() { return load_bytes_cell; }
ChainFunction chain_keep() { return keep_cell; }
ChainFunction chain_store(bool past_caches) { return past_caches ? stream_cell : store_cell; }

void finish_streams() {
#if defined(__SSE__)
  _mm_sfence();
#endif
}

void run_chain(const ChainCell* cells, std::int64_t count) {
  const V zero{};
  for (std::int64_t at = 0; at < count; at += kChainElements)
    cells[0].run(cells, at, zero, zero, zero, zero, zero, zero, zero, zero);
}

}  // namespace troupe
