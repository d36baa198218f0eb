// Kernels inside the runtime, compared with the libraries called directly. One thread everywhere.
#include <cstring>

#include "tools/bench/cases.hpp"
#include "tools/bench/kernel_step.hpp"
#include "tools/bench/peers/eigen_peer.hpp"
#include "tools/bench/peers/onednn_peer.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

// Calls `call` once per node of a step, repeatedly. `memory`: the tensors it works on.
Measure per_call(const Settings& settings, int nodes, std::vector<Tensor> memory, std::function<void()> call) {
  return [nodes, memory = std::move(memory), call = std::move(call), slice = settings.slice_seconds()] {
    const double calls = seconds_per_call(slice, [&] {
      for (int i = 0; i < nodes; ++i) call();
    });
    return calls / nodes * kMicro;
  };
}

Measure per_node(const Settings& settings, std::shared_ptr<KernelStep> step) {
  return [=, slice = settings.slice_seconds()] { return step->seconds_per_node(slice) * kMicro; };
}

int nodes_of(const Settings& settings, int usual) {
  return settings.nodes > 0 ? settings.nodes : settings.quick ? 2 : usual;
}

// --- Matrix products ---

struct Product {
  std::int64_t m, k, n;
  int nodes;
  int rounds = 3;
};

Contest f32_product(const Product& p, const Settings& settings) {
  const int nodes = nodes_of(settings, p.nodes);
  const Tensor a = random_tensor({p.m, p.k}, 1), b = random_tensor({p.k, p.n}, 2);
  auto step =
      std::make_shared<KernelStep>(std::vector{a, b}, nodes, [](const auto& in) { return matmul(in[0], in[1]); });
  Tensor c(DType::f32, {p.m, p.n});
  const auto onednn = onednn_matmul(p.m, p.n, p.k, false, a.data<float>(), b.data<float>(), c.mutable_data<float>());
  onednn();
  check_close(step->result(), c.data<float>(), 1e-4);
  const auto eigen = [p, x = a.data<float>(), y = b.data<float>(), z = c.mutable_data<float>()] {
    eigen_matmul(p.m, p.n, p.k, x, y, z);
  };
  return {.troupe = per_node(settings, step),
          .peers = {{"oneDNN matmul", per_call(settings, nodes, {a, b, c}, onednn)},
                    {"Eigen", per_call(settings, nodes, {a, b, c}, eigen)}},
          .rounds = p.rounds};
}

Tensor to_bf16(const Tensor& x) {
  Graph graph;
  const Output rounded = cast(constant(graph, x), DType::bf16);
  return Session(graph).run(rounded);
}

Contest bf16_product(const Product& p, const Settings& settings) {
  const int nodes = nodes_of(settings, p.nodes);
  const Tensor a = to_bf16(random_tensor({p.m, p.k}, 1)), b = to_bf16(random_tensor({p.k, p.n}, 2));
  auto step =
      std::make_shared<KernelStep>(std::vector{a, b}, nodes, [](const auto& in) { return matmul(in[0], in[1]); });
  Tensor c(DType::bf16, {p.m, p.n});
  const auto onednn = onednn_matmul(p.m, p.n, p.k, true, a.raw(), b.raw(), c.mutable_raw());
  return {.troupe = per_node(settings, step),
          .peers = {{"oneDNN matmul", per_call(settings, nodes, {a, b, c}, onednn)}},
          .rounds = p.rounds};
}

Contest batch_product(std::int64_t batch, const Product& p, const Settings& settings) {
  const int nodes = nodes_of(settings, p.nodes);
  const Tensor a = random_tensor({batch, p.m, p.k}, 1), b = random_tensor({batch, p.k, p.n}, 2);
  auto step =
      std::make_shared<KernelStep>(std::vector{a, b}, nodes, [](const auto& in) { return matmul(in[0], in[1]); });
  Tensor c(DType::f32, {batch, p.m, p.n});
  Contest contest{.troupe = per_node(settings, step), .peers = {}, .rounds = p.rounds};
  for (const bool own_layout : {false, true}) {
    const auto onednn = onednn_batch_matmul(batch, p.m, p.n, p.k, own_layout, a.data<float>(), b.data<float>(),
                                            c.mutable_data<float>());
    onednn();
    check_close(step->result(), c.data<float>(), 1e-4);
    contest.peers.push_back({own_layout ? "oneDNN matmul, b reordered" : "oneDNN matmul, plain",
                             per_call(settings, nodes, {a, b, c}, onednn)});
  }
  return contest;
}

void add_product(std::vector<Case>& cases, const std::string& name, const Product& p) {
  cases.push_back(
      {.bench = "matmul",
       .name = name,
       .unit = "us/node",
       .measures = fmt::format("{}x{}x{} products of fed tensors, {} nodes in one step (--nodes), per node; plain "
                               "row-major, 1 thread",
                               p.m, p.k, p.n, p.nodes),
       .peer = "best of oneDNN's primitive, made once, and Eigen; also plain row-major and 1 thread",
       .ratio_target = 0.95,
       .prepare = [p](const Settings& s) {
         return f32_product(s.quick ? Product{16, 16, 16, 2} : p, s);
       }});
}

// --- Convolutions ---

Contest convolution(ConvDirection direction, const ConvShape& s, int usual_nodes, const Settings& settings) {
  const int nodes = nodes_of(settings, usual_nodes);
  const std::int64_t out = s.result_size();
  Tensor x = random_tensor({s.batch, s.size, s.size, s.in}, 1),
         f = random_tensor({s.kernel, s.kernel, s.in / s.groups, s.out}, 2),
         y = random_tensor({s.batch, out, out, s.out}, 3);
  const Padding padding = s.padding > 0 ? Padding::same : Padding::valid;
  const ConvOptions options{.dilations = {s.dilation, s.dilation}, .groups = s.groups, .padding = padding};
  const Attributes attributes{{"dilations", options.dilations},
                              {"groups", s.groups},
                              {"padding", std::string(s.padding > 0 ? "SAME" : "VALID")}};
  auto step = std::make_shared<KernelStep>(std::vector{x.clone(), f.clone(), y.clone()}, nodes, [&](const auto& in) {
    if (direction == ConvDirection::forward) return conv2d(in[0], in[1], options);
    return add_op(direction == ConvDirection::backward_input ? "ConvBackpropInput" : "ConvBackpropFilter", in,
                  attributes);
  });
  Contest contest{.troupe = per_node(settings, step), .peers = {}};
  const Tensor result = step->result();
  const Tensor& written = direction == ConvDirection::forward ? y : direction == ConvDirection::backward_input ? x : f;
  for (const auto& [layout, name] : {std::pair{ConvLayout::plain, "oneDNN, plain layouts"},
                                     {ConvLayout::own_filter, "oneDNN, filter reordered"},
                                     {ConvLayout::own, "oneDNN, all reordered"}}) {
    try {
      const auto call =
          onednn_conv(direction, layout, s, x.mutable_data<float>(), f.mutable_data<float>(), y.mutable_data<float>());
      call();
      check_close(result, written.data<float>(), 1e-4);
      contest.peers.push_back({name, per_call(settings, nodes, {x, f, y}, call)});
    } catch (const Error& error) {
      if (error.code() != Code::unimplemented) throw;
    }
  }
  return contest;
}

void add_convolutions(std::vector<Case>& cases) {
  struct Named {
    const char* name;
    ConvShape shape;
    int nodes;
  };
  for (const Named& c :
       {Named{"depthwise", {.batch = 16, .size = 56, .in = 128, .out = 128, .padding = 1, .groups = 128}, 4},
        Named{"grouped", {.batch = 16, .size = 56, .in = 128, .out = 128, .padding = 1, .groups = 4}, 4},
        Named{"dilated", {.batch = 16, .size = 56, .in = 64, .out = 64, .padding = 2, .dilation = 2}, 4},
        Named{"32x28x28x1-32", {.batch = 32, .size = 28, .in = 1, .out = 32}, 200},
        Named{"32x13x13x32-64", {.batch = 32, .size = 13, .in = 32, .out = 64}, 50},
        Named{"16x56x56x64-64", {.batch = 16, .size = 56, .in = 64, .out = 64, .padding = 1}, 4}})
    for (const auto& [direction, text] : {std::pair{ConvDirection::forward, "forward"},
                                          {ConvDirection::backward_input, "backward-input"},
                                          {ConvDirection::backward_filter, "backward-filter"}})
      cases.push_back(
          {.bench = "conv2d",
           .name = fmt::format("{}-{}", text, c.name),
           .unit = "us/node",
           .measures = fmt::format("images {}x{}x{}x{}, {} filters 3x3 in {} groups, dilation {}, padding {}; {} nodes "
                                   "in one step, per node; NHWC and HWIO, 1 thread",
                                   c.shape.batch, c.shape.size, c.shape.size, c.shape.in, c.shape.out, c.shape.groups,
                                   c.shape.dilation, c.shape.padding > 0 ? "same" : "valid", c.nodes),
           .peer = "oneDNN's direct convolution, made once, in its best layout, with reorders "
                   "from and to NHWC and HWIO",
           .ratio_target = 0.9,
           .prepare = [c, direction](const Settings& s) {
             ConvShape shape = c.shape;
             if (s.quick) shape.batch = 1, shape.size = 6;
             return convolution(direction, shape, c.nodes, s);
           }});
}

// --- Elementwise ---

Contest elementwise(const Settings& settings) {
  const std::int64_t elements = settings.quick ? 1000 : (16 << 20) / 4;
  const Tensor x = random_tensor({elements}, 1);
  struct State {
    Task task{{.threads = 1, .gpus = {.count = 0}}};
    Graph graph;
    std::unique_ptr<Session> session;
    Callable call;
    Tensor x, copy;
  };
  auto state = std::make_shared<State>();
  Graph& g = state->graph;
  const Output in = placeholder(g, DType::f32, {elements}, "x");
  const Output out = minimum(square(relu(in * 1.5 + 0.25)) - 0.125, constant(g, 2.0f));
  state->session = std::make_unique<Session>(state->task, g);
  state->call = state->session->callable({in}, {out});
  state->x = x;
  state->copy = x.clone();

  std::vector<float> expected;
  for (float v : x.values<float>()) {
    const float r = std::max(v * 1.5f + 0.25f, 0.0f);
    expected.push_back(std::min(r * r - 0.125f, 2.0f));
  }
  check_close(state->call({x})[0], expected.data(), 1e-6);
  const double slice = settings.slice_seconds();
  return {.troupe = [=] { return kMicro * seconds_per_call(slice, [&] { state->call({state->x}); }); },
          .peers = {{"memcpy", [=] {
                       return kMicro * seconds_per_call(slice, [&] {
                                std::memcpy(state->copy.mutable_raw(), state->x.raw(), state->x.num_bytes());
                              });
                     }}}};
}

}  // namespace

void add_kernel_cases(std::vector<Case>& cases) {
  add_product(cases, "f32-64", {64, 64, 64, 1000});
  add_product(cases, "f32-256", {256, 256, 256, 1000});
  add_product(cases, "f32-1024", {1024, 1024, 1024, 50, 1});
  add_product(cases, "f32-2048", {2048, 2048, 2048, 8, 1});
  add_product(cases, "f32-32x784x128", {32, 784, 128, 1000});
  cases.push_back({.bench = "matmul",
                   .name = "bf16-1024",
                   .unit = "us/node",
                   .measures =
                       "1024x1024x1024 products of fed bf16 tensors, 50 nodes in one step (--nodes), per node; plain "
                       "row-major, 1 thread",
                   .peer = "oneDNN's primitive, made once; also plain row-major and 1 thread",
                   .ratio_target = 0.9,
                   .prepare = [](const Settings& s) {
                     return bf16_product(s.quick ? Product{16, 16, 16, 2} : Product{1024, 1024, 1024, 50, 1}, s);
                   }});
  cases.push_back(
      {.bench = "batch-matmul",
       .name = "f32-64x128x64x128",
       .unit = "us/node",
       .measures = "64 products 128x64x128 in one node, of fed tensors, 100 nodes in one step (--nodes), per "
                   "node; plain row-major, 1 thread",
       .peer = "best of oneDNN's primitive of the batch, made once: plain, and with b reordered in each call",
       .ratio_target = 0.95,
       .prepare = [](const Settings& s) {
         return s.quick ? batch_product(2, {16, 16, 16, 2}, s) : batch_product(64, {128, 64, 128, 100}, s);
       }});
  add_convolutions(cases);
  cases.push_back(
      {.bench = "elementwise",
       .name = "chain-16MiB",
       .unit = "us",
       .measures = "min(square(relu(x * 1.5 + 0.25)) - 0.125, 2) of 16 MiB of f32, fed and fetched; 1 thread",
       .peer = "memory copy of the same bytes",
       .ratio_target = 0.65,
       .prepare = elementwise});
}

}  // namespace troupe::bench
