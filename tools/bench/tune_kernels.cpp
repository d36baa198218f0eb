// troupe-tune: measurements for the tables in kernels/cpu/gemm_table.hpp and conv_onednn.cpp. Runs each way to compute
// a shape on one thread and prints GFLOP/s, the best of several runs. The output is for people only: those files fix
// which library and layout a kernel uses.
#include <algorithm>
#include <chrono>
#include <dnnl.hpp>
#include <functional>
#include <string>
#include <vector>

#define EIGEN_DONT_PARALLELIZE
#include <fmt/format.h>

#include <Eigen/Core>

#include <troupe/devices/cpu/openmp.hpp>
#include <troupe/messages/command_line.hpp>

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

struct Runtime {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive_attr attributes;
  Runtime() { attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user); }
};

// Seconds per call: the best of five rounds of about 10 ms.
double seconds(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto time = [&](int calls) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(Clock::now() - start).count() / calls;
  };
  time(1);
  const int calls = std::max(1, static_cast<int>(0.01 / time(1)));
  double best = time(calls);
  for (int round = 1; round < 5; ++round) best = std::min(best, time(calls));
  return best;
}

// Memory filled with small numbers.
memory filled(const memory::desc& desc, const Runtime& runtime) {
  memory m(desc, runtime.engine);
  auto* bytes = static_cast<std::uint16_t*>(m.get_data_handle());
  for (std::size_t i = 0; i < desc.get_size() / 2; ++i) bytes[i] = static_cast<std::uint16_t>(0x3c00 + i % 7);
  return m;
}

struct Product {
  std::int64_t m, k, n;
  bool ta = false, tb = false;
};

double eigen_seconds(const Product& p, const float* a, const float* b, float* c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> left(a, p.ta ? p.k : p.m, p.ta ? p.m : p.k),
      right(b, p.tb ? p.n : p.k, p.tb ? p.k : p.n);
  Eigen::Map<Matrix> out(c, p.m, p.n);
  if (p.ta) return seconds([&] { out.noalias() = left.transpose() * right; });
  if (p.tb) return seconds([&] { out.noalias() = left * right.transpose(); });
  return seconds([&] { out.noalias() = left * right; });
}

void tune_product(Runtime& runtime, const Product& p) {
  const std::int64_t lda = p.ta ? p.m : p.k, ldb = p.tb ? p.k : p.n;
  const double giga = 2e-9 * static_cast<double>(p.m) * static_cast<double>(p.k) * static_cast<double>(p.n);
  const auto primitive = [&](Type type) {
    const memory::desc a({p.m, p.k}, type, p.ta ? memory::dims{1, lda} : memory::dims{lda, 1});
    const memory::desc b({p.k, p.n}, type, p.tb ? memory::dims{1, ldb} : memory::dims{ldb, 1});
    const memory::desc c({p.m, p.n}, type, Tag::ab);
    const dnnl::matmul::primitive_desc described({a, b, c}, runtime.attributes, runtime.engine);
    const dnnl::matmul matmul(described);
    const std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, filled(a, runtime)},
        {DNNL_ARG_WEIGHTS, filled(b, runtime)},
        {DNNL_ARG_DST, filled(c, runtime)},
        {DNNL_ARG_SCRATCHPAD, memory(described.scratchpad_desc(), runtime.engine)}};
    return giga / seconds([&] { matmul.execute(runtime.stream, arguments); });
  };
  std::vector<float> a(static_cast<std::size_t>(p.m * p.k), 0.5f), b(static_cast<std::size_t>(p.k * p.n), 0.5f),
      c(static_cast<std::size_t>(p.m * p.n));
  const double sgemm = giga / seconds([&] {
                         dnnl_sgemm(p.ta ? 'T' : 'N', p.tb ? 'T' : 'N', p.m, p.n, p.k, 1, a.data(), lda, b.data(), ldb,
                                    0, c.data(), p.n);
                       });
  const double eigen = giga / eigen_seconds(p, a.data(), b.data(), c.data());
  fmt::print("{:>5} x {:>5} x {:>5} {}{}  sgemm {:>4.0f}  primitive {:>4.0f}  Eigen {:>4.0f}", p.m, p.k, p.n,
             p.ta ? "a^T" : "   ", p.tb ? "b^T" : "   ", sgemm, primitive(Type::f32), eigen);
  try {
    fmt::print("  bf16 primitive {:>4.0f}\n", primitive(Type::bf16));
  } catch (const dnnl::error&) {
    fmt::print("  no bf16\n");
  }
}

struct Convolution {
  std::int64_t batch, size, in, out, padding;
};

// NHWC in and out in every case; `blocked`: reordered to oneDNN's layouts and back; `plain`: the filter stays HWIO as
// well.
double convolution_seconds(Runtime& runtime, const Convolution& c, int direction, bool blocked, bool plain) {
  const std::int64_t after = c.size + 2 * c.padding - 2;
  const memory::dims x{c.batch, c.in, c.size, c.size}, w{c.out, c.in, 3, 3}, y{c.batch, c.out, after, after};
  const memory::desc users[] = {{x, Type::f32, Tag::nhwc}, {w, Type::f32, Tag::hwio}, {y, Type::f32, Tag::nhwc}};
  const auto any = [&](int i, const memory::dims& dims, bool free) {
    return free ? memory::desc(dims, Type::f32, Tag::any) : users[i];
  };
  const memory::desc xd = any(0, x, blocked), wd = any(1, w, !plain), yd = any(2, y, blocked);
  const memory::dims ones{1, 1}, pads{c.padding, c.padding};
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, xd, wd, yd, ones, pads, pads}, runtime.attributes, runtime.engine);
  dnnl::primitive primitive;
  std::vector<memory::desc> used;
  memory scratch;
  const auto adopt = [&](auto made, const auto& described, std::vector<memory::desc> descs) {
    primitive = std::move(made);
    used = std::move(descs);
    scratch = memory(described.scratchpad_desc(), runtime.engine);
  };
  if (direction == 0) {
    adopt(dnnl::convolution_forward(forward), forward,
          {forward.src_desc(), forward.weights_desc(), forward.dst_desc()});
  } else if (direction == 1) {
    const dnnl::convolution_backward_data::primitive_desc d({kDirect, xd, wd, yd, ones, pads, pads}, runtime.attributes,
                                                            runtime.engine, forward);
    adopt(dnnl::convolution_backward_data(d), d, {d.diff_src_desc(), d.weights_desc(), d.diff_dst_desc()});
  } else {
    const dnnl::convolution_backward_weights::primitive_desc d({kDirect, xd, wd, yd, ones, pads, pads},
                                                               runtime.attributes, runtime.engine, forward);
    adopt(dnnl::convolution_backward_weights(d), d, {d.src_desc(), d.diff_weights_desc(), d.diff_dst_desc()});
  }
  const int result = direction == 0 ? 2 : direction == 1 ? 0 : 1;
  std::vector<memory> own, inside;
  std::vector<dnnl::reorder> reorders(3);
  for (std::size_t i = 0; i < 3; ++i) {
    own.push_back(filled(users[i], runtime));
    inside.push_back(used[i] == users[i] ? own[i] : filled(used[i], runtime));
    if (used[i] == users[i]) continue;
    const bool back = static_cast<int>(i) == result;
    reorders[i] = back ? dnnl::reorder(inside[i], own[i]) : dnnl::reorder(own[i], inside[i]);
  }
  const std::unordered_map<int, memory> arguments{
      {direction == 1 ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, inside[0]},
      {direction == 2 ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, inside[1]},
      {direction == 0 ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, inside[2]},
      {DNNL_ARG_SCRATCHPAD, scratch}};
  return seconds([&] {
    for (int i = 0; i < 3; ++i)
      if (reorders[static_cast<std::size_t>(i)] && i != result)
        reorders[static_cast<std::size_t>(i)].execute(runtime.stream, own[static_cast<std::size_t>(i)],
                                                      inside[static_cast<std::size_t>(i)]);
    primitive.execute(runtime.stream, arguments);
    if (const auto r = static_cast<std::size_t>(result); reorders[r])
      reorders[r].execute(runtime.stream, inside[r], own[r]);
  });
}

void tune_convolution(Runtime& runtime, const Convolution& c) {
  const std::int64_t after = c.size + 2 * c.padding - 2;
  const double giga = 2e-9 * 9 * static_cast<double>(c.batch * after * after * c.in * c.out);
  const char* const names[] = {"forward", "by input", "by filter"};
  for (int direction = 0; direction < 3; ++direction)
    fmt::print("{}x{}x{}x{} -> {} {:>9}:  NHWC {:>4.0f}  blocked {:>4.0f}  plain filter {:>4.0f}\n", c.batch, c.size,
               c.size, c.in, c.out, names[direction], giga / convolution_seconds(runtime, c, direction, false, false),
               giga / convolution_seconds(runtime, c, direction, true, false),
               giga / convolution_seconds(runtime, c, direction, false, true));
}

}  // namespace

int main(int argc, char** argv) {
  troupe::CommandLine line("troupe-tune", "",
                           "Measures the alternatives for products and convolutions that kernels choose from, in "
                           "GFLOP/s on one thread.");
  if (const auto exit = line.parse({argv + 1, argv + argc})) return troupe::finish(*exit);
  omp_set_num_threads(1);
  Runtime runtime;
  for (const Product& p : std::vector<Product>{{64, 64, 64},
                                               {256, 256, 256},
                                               {1024, 1024, 1024},
                                               {2048, 2048, 2048},
                                               {32, 784, 128},
                                               {784, 32, 128, true},
                                               {32, 128, 10},
                                               {128, 32, 10, true},
                                               {32, 10, 128, false, true},
                                               {128, 784, 128},
                                               {128, 128, 10},
                                               {32, 1600, 128},
                                               {1600, 32, 128, true},
                                               {32, 128, 1600, false, true},
                                               {64, 64, 64, false, true},
                                               {1, 784, 128}})
    tune_product(runtime, p);
  for (const Convolution& c : std::vector<Convolution>{{32, 28, 1, 32, 0}, {32, 13, 32, 64, 0}, {16, 56, 64, 64, 1}})
    tune_convolution(runtime, c);
  return 0;
}
