#include "troupe/kernels/cpu/packed_product.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <troupe/kernels/cpu/onednn.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// Multiply-adds and rows of a part, at least: each part reads all of b. Two parts may be small, such as halves of a
// batch of requests.
constexpr double kPartProducts = 1 << 23;
constexpr std::int64_t kPartRows = 64;
constexpr std::int64_t kMostParts = 4;
constexpr std::int64_t kTileRows = 16;

std::int64_t rows_per_part(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double cost = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t most = std::max(m / kPartRows, std::min<std::int64_t>(m / kTileRows, 2));
  const std::int64_t parts = std::min({kMostParts, most, static_cast<std::int64_t>(cost / kPartProducts)});
  return parts <= 1 ? m : ((m + parts - 1) / parts + kTileRows - 1) / kTileRows * kTileRows;
}

class Product {
 public:
  Product(std::int64_t m, std::int64_t n, std::int64_t k, bool b_transposed, bool has_bias, ProductEnding ending)
      : has_bias_(has_bias) {
    constexpr auto kType = memory::data_type::f32;
    const memory::desc a({m, k}, kType, Tag::ab), bias({1, n}, kType, Tag::ab), out({m, n}, kType, Tag::ab);
    const memory::desc own({k, n}, kType, b_transposed ? Tag::ba : Tag::ab), any({k, n}, kType, Tag::any);
    dnnl::post_ops after;
    if (ending == ProductEnding::relu) after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    if (ending == ProductEnding::gelu) after.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
    dnnl::primitive_attr attributes = onednn::own_scratchpad();
    attributes.set_post_ops(after);
    const dnnl::matmul::desc what = has_bias ? dnnl::matmul::desc(a, any, bias, out) : dnnl::matmul::desc(a, any, out);
    const dnnl::matmul::primitive_desc d(what, attributes, onednn::engine());
    product_.add(DNNL_ARG_SRC, a);
    product_.add(DNNL_ARG_WEIGHTS, d.weights_desc());
    product_.add(DNNL_ARG_DST, out);
    if (has_bias) product_.add(DNNL_ARG_BIAS, bias);
    product_.set(dnnl::matmul(d), d.scratchpad_desc());
    if (d.weights_desc() == own) return;
    packed_bytes_ = d.weights_desc().get_size();
    const dnnl::reorder::primitive_desc reorder(onednn::engine(), own, onednn::engine(), d.weights_desc(),
                                                onednn::own_scratchpad());
    reorder_.add(DNNL_ARG_FROM, own);
    reorder_.add(DNNL_ARG_TO, d.weights_desc());
    reorder_.set(dnnl::reorder(reorder), reorder.scratchpad_desc());
    layout_ = onednn::numbers_of(own);
    const std::vector<std::int64_t> to = onednn::numbers_of(d.weights_desc());
    layout_.insert(layout_.end(), to.begin(), to.end());
  }

  void run(const float* a, const float* b, const float* bias, float* out, KeptLayout& kept) {
    const auto pack = [&](void* to) { reorder_.run(std::array<void*, 2>{const_cast<float*>(b), to}); };
    const void* packed = packed_bytes_ == 0 ? b : kept.get(layout_, packed_bytes_, pack);
    const Scratch own(packed ? 0 : packed_bytes_);
    if (!packed) {
      pack(own.data());
      packed = own.data();
    }
    std::array<void*, 4> data{const_cast<float*>(a), const_cast<void*>(packed), out, const_cast<float*>(bias)};
    product_.run(std::span(data).first(has_bias_ ? 4 : 3));
  }

 private:
  bool has_bias_;
  onednn::Primitive product_, reorder_;
  std::size_t packed_bytes_ = 0;  // 0: b is read as it is
  std::vector<std::int64_t> layout_;
};

}  // namespace

bool should_pack(std::int64_t m, std::int64_t n, std::int64_t k) { return m >= kTileRows && n > 1 && k > 1; }

void packed_product(Parallelism& parallelism, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                    MatrixView<float> b, const float* bias, ProductEnding ending, float* out, KeptLayout& kept) {
  parallelism.parallel_for(m, rows_per_part(m, n, k), [&](std::int64_t begin, std::int64_t end) {
    thread_local onednn::Cache<Product, 6> products;
    Product& product =
        products.get({end - begin, n, k, b.transposed ? 1 : 0, bias ? 1 : 0, static_cast<std::int64_t>(ending)},
                     [&] { return Product(end - begin, n, k, b.transposed, bias != nullptr, ending); });
    product.run(a + begin * k, b.data, bias, out + begin * n, kept);
  });
}

}  // namespace troupe
