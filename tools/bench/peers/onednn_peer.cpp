#include "tools/bench/peers/onednn_peer.hpp"

#include <dnnl.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

#include <troupe/devices/cpu/openmp.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

struct Runtime {
  Runtime() { omp_set_num_threads(1); }
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// The primitives of one call, in order.
struct Program {
  Runtime runtime;
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> arguments;
  };
  std::vector<Step> steps;

  void run() {
    for (const Step& step : steps) step.primitive.execute(runtime.stream, step.arguments);
    runtime.stream.wait();
  }
};

// User memory in its layout, and the same in the primitive's layout.
class Operand {
 public:
  Operand(Program& program, const memory::desc& user, const memory::desc& wanted, void* data)
      : program_(program),
        user_(user, program.runtime.engine, data),
        wanted_(user == wanted ? user_ : memory(wanted, program.runtime.engine)),
        same_(user == wanted) {}
  const memory& get() const { return wanted_; }
  void bring() const { reorder(user_, wanted_); }
  void take_back() const { reorder(wanted_, user_); }

 private:
  void reorder(const memory& from, const memory& to) const {
    if (!same_) program_.steps.push_back({dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
  }

  Program& program_;
  memory user_, wanted_;
  bool same_;
};

std::function<void()> runner(std::shared_ptr<Program> program) {
  return [program] { program->run(); };
}

struct ConvDescriptions {
  memory::desc image, filter, result;
};

template <class Primitive, class Description>
void add_conv(Program& program, const Description& d, const Operand& image, const Operand& filter,
              const Operand& result, ConvDirection direction) {
  const bool forward = direction == ConvDirection::forward;
  const bool to_image = direction == ConvDirection::backward_input;
  const bool to_filter = direction == ConvDirection::backward_filter;
  if (!to_image) image.bring();
  if (!to_filter) filter.bring();
  if (!forward) result.bring();
  program.steps.push_back({Primitive(d),
                           {{to_image ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, image.get()},
                            {to_filter ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, filter.get()},
                            {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, result.get()},
                            {DNNL_ARG_SCRATCHPAD, memory(d.scratchpad_desc(), program.runtime.engine)}}});
  (to_image ? image : to_filter ? filter : result).take_back();
}

}  // namespace

std::function<void()> onednn_matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool bf16, const void* a,
                                    const void* b, void* c) {
  auto program = std::make_shared<Program>();
  const dnnl::engine& engine = program->runtime.engine;
  const Type type = bf16 ? Type::bf16 : Type::f32;
  const memory::desc a_desc({m, k}, type, Tag::ab), b_desc({k, n}, type, Tag::ab), c_desc({m, n}, type, Tag::ab);
  const dnnl::matmul::primitive_desc described({a_desc, b_desc, c_desc}, own_scratchpad(), engine);
  program->steps.push_back({dnnl::matmul(described),
                            {{DNNL_ARG_SRC, memory(a_desc, engine, const_cast<void*>(a))},
                             {DNNL_ARG_WEIGHTS, memory(b_desc, engine, const_cast<void*>(b))},
                             {DNNL_ARG_DST, memory(c_desc, engine, c)},
                             {DNNL_ARG_SCRATCHPAD, memory(described.scratchpad_desc(), engine)}}});
  return runner(std::move(program));
}

std::function<void()> onednn_batch_matmul(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
                                          bool own_layout, const float* a, const float* b, float* c) {
  auto program = std::make_shared<Program>();
  const dnnl::engine& engine = program->runtime.engine;
  const memory::desc a_desc({batch, m, k}, Type::f32, Tag::abc), b_desc({batch, k, n}, Type::f32, Tag::abc),
      b_wanted({batch, k, n}, Type::f32, own_layout ? Tag::any : Tag::abc), c_desc({batch, m, n}, Type::f32, Tag::abc);
  try {
    const dnnl::matmul::primitive_desc described({a_desc, b_wanted, c_desc}, own_scratchpad(), engine);
    const Operand right(*program, b_desc, described.weights_desc(), const_cast<float*>(b));
    right.bring();
    program->steps.push_back({dnnl::matmul(described),
                              {{DNNL_ARG_SRC, memory(a_desc, engine, const_cast<float*>(a))},
                               {DNNL_ARG_WEIGHTS, right.get()},
                               {DNNL_ARG_DST, memory(c_desc, engine, c)},
                               {DNNL_ARG_SCRATCHPAD, memory(described.scratchpad_desc(), engine)}}});
  } catch (const dnnl::error& error) {
    fail(Code::unimplemented, "oneDNN: {}", error.what());
  }
  return runner(std::move(program));
}

std::function<void()> onednn_conv(ConvDirection direction, ConvLayout layout, const ConvShape& s, float* image,
                                  float* filter, float* result) {
  auto program = std::make_shared<Program>();
  const dnnl::engine& engine = program->runtime.engine;
  const memory::dims image_dims{s.batch, s.in, s.size, s.size},
      result_dims{s.batch, s.out, s.result_size(), s.result_size()}, strides{1, 1},
      dilations{s.dilation - 1, s.dilation - 1}, padding{s.padding, s.padding};
  memory::dims filter_dims{s.out / s.groups, s.in / s.groups, s.kernel, s.kernel};
  if (s.groups > 1) filter_dims.insert(filter_dims.begin(), s.groups);
  const auto descriptions = [&](bool plain_images, bool plain_filter) {
    return ConvDescriptions{{image_dims, Type::f32, plain_images ? Tag::nhwc : Tag::any},
                            {filter_dims, Type::f32, plain_filter ? (s.groups > 1 ? Tag::hwigo : Tag::hwio) : Tag::any},
                            {result_dims, Type::f32, plain_images ? Tag::nhwc : Tag::any}};
  };
  const ConvDescriptions plain = descriptions(true, true);
  const ConvDescriptions w = descriptions(layout != ConvLayout::own, layout == ConvLayout::plain);
  const dnnl::primitive_attr attributes = own_scratchpad();
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  // Backward primitives are described with a forward one, which may be missing for a layout; failures are reported.
  try {
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, w.image, w.filter, w.result, strides, dilations, padding, padding},
        attributes, engine);
    if (direction == ConvDirection::forward) {
      const Operand x(*program, plain.image, forward.src_desc(), image),
          f(*program, plain.filter, forward.weights_desc(), filter),
          y(*program, plain.result, forward.dst_desc(), result);
      add_conv<dnnl::convolution_forward>(*program, forward, x, f, y, direction);
    } else if (direction == ConvDirection::backward_input) {
      const dnnl::convolution_backward_data::primitive_desc d(
          {kDirect, w.image, w.filter, w.result, strides, dilations, padding, padding}, attributes, engine, forward);
      const Operand x(*program, plain.image, d.diff_src_desc(), image),
          f(*program, plain.filter, d.weights_desc(), filter), y(*program, plain.result, d.diff_dst_desc(), result);
      add_conv<dnnl::convolution_backward_data>(*program, d, x, f, y, direction);
    } else {
      const dnnl::convolution_backward_weights::primitive_desc d(
          {kDirect, w.image, w.filter, w.result, strides, dilations, padding, padding}, attributes, engine, forward);
      const Operand x(*program, plain.image, d.src_desc(), image),
          f(*program, plain.filter, d.diff_weights_desc(), filter),
          y(*program, plain.result, d.diff_dst_desc(), result);
      add_conv<dnnl::convolution_backward_weights>(*program, d, x, f, y, direction);
    }
  } catch (const dnnl::error& error) {
    fail(Code::unimplemented, "oneDNN: {}", error.what());
  }
  return runner(std::move(program));
}

}  // namespace troupe::bench
