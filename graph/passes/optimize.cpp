#include "troupe/graph/passes/optimize.hpp"

#include <algorithm>

#include <troupe/graph/op_table.hpp>
#include <troupe/graph/passes/bias_inside.hpp>
#include <troupe/graph/passes/common_subexpressions.hpp>
#include <troupe/graph/passes/fold_batch_norm.hpp>
#include <troupe/graph/passes/fold_shapes.hpp>
#include <troupe/graph/passes/fuse_attention.hpp>
#include <troupe/graph/passes/fuse_bias.hpp>
#include <troupe/graph/passes/fuse_elementwise.hpp>
#include <troupe/graph/passes/fuse_layer_norm.hpp>
#include <troupe/graph/passes/fuse_updates.hpp>
#include <troupe/graph/passes/gelu_inside.hpp>
#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/passes/quantized_products.hpp>
#include <troupe/graph/passes/residual_inside.hpp>
#include <troupe/graph/passes/simplify.hpp>

namespace troupe {

namespace {

using Plain = std::unique_ptr<Graph> (*)(const Graph&);
using Fusing = std::unique_ptr<Graph> (*)(const Graph&, const FuseOptions&);

Pass plain(std::string name, Plain run) {
  return {std::move(name), [run](const Graph& graph, PassNotes&) { return run(graph); }};
}

Pass fusing(std::string name, Fusing run, const OptimizeOptions& options) {
  return {std::move(name), [run, has_kernel = options.has_kernel](const Graph& graph, PassNotes& notes) {
            return run(graph, {.has_kernel = has_kernel, .notes = &notes});
          }};
}

Pass inference(std::string name, std::function<std::unique_ptr<Graph>(const Graph&, PassNotes&)> run) {
  return {.name = std::move(name), .run = std::move(run), .inference = true};
}

Pass folding(std::string name, const OptimizeOptions& options) {
  return {std::move(name),
          [evaluate = options.evaluator, bytes = options.folded_bytes](const Graph& graph, PassNotes&) {
            return evaluate ? fold_constants(graph, evaluate, bytes) : graph.clone();
          }};
}

// Ops without which a pass finds nothing.
enum class Sought : std::uint8_t { none, normalisation, softmax, mean, erf, convolution, bytes };
constexpr auto kSought = op_table<Sought>({
    {"BatchNormInference", Sought::normalisation},
    {"Softmax", Sought::softmax},
    {"Mean", Sought::mean},
    {"Erf", Sought::erf},
    {"FusedConv", Sought::convolution},
    {"DequantizeLinear", Sought::bytes},
});

Pass if_any(const std::function<bool(const Node&)>& sought, Pass pass) {
  pass.has_work = [sought](const Graph& graph) {
    for (int id = 0; id < graph.size(); ++id)
      if (sought(graph.node(id))) return true;
    return false;
  };
  return pass;
}

Pass if_any(Sought sought, Pass pass) {
  return if_any([sought](const Node& node) { return kSought.of(node) == sought; }, std::move(pass));
}

// Where plans for given shapes part from the general one.
constexpr std::string_view kShapeClasses = "shape_classes";

Pass shape_classes(const OptimizeOptions& options) {
  Pass pass =
      inference(std::string(kShapeClasses), [shapes = options.feed_shapes](const Graph& graph, PassNotes& notes) {
        return with_feed_shapes(graph, shapes, notes);
      });
  pass.has_work = [given = !options.feed_shapes.empty()](const Graph&) { return given; };
  return pass;
}

Pass shape_arithmetic(const OptimizeOptions& options) {
  const std::size_t bytes = std::min(options.folded_bytes, kFoldedShapeBytes);
  return inference("shape_arithmetic", [evaluate = options.evaluator, bytes](const Graph& graph, PassNotes& notes) {
    return fold_shapes(graph, evaluate, bytes, notes);
  });
}

}  // namespace

std::vector<Pass> optimizations(const OptimizeOptions& options) {
  std::vector<Pass> passes = {
      plain("prune", prune_callable),
      // First: folding would make f32 of weights in 8 bits.
      if_any(Sought::bytes, inference("quantized_products", fusing("", quantized_products, options).run)),
      fusing("simplify", simplify, options), folding("fold_constants", options),
      if_any(Sought::normalisation, inference("fold_batch_norm",
                                              [bytes = options.folded_bytes](const Graph& graph, PassNotes& notes) {
                                                return fold_batch_norm(graph, bytes, notes);
                                              })),
      inference("fold_constants_again", folding("", options).run),  // filters of folded normalisations
      plain("common_subexpressions", eliminate_common_subexpressions),
      fusing("simplify_again", simplify, options),  // constants made by folding
      if_any(Sought::softmax, inference("fuse_attention", fusing("", fuse_attention, options).run)),
      if_any(Sought::mean, inference("fuse_layer_norm", fusing("", fuse_layer_norm, options).run)),
      fusing("fuse_bias", fuse_bias, options),
      if_any(Sought::erf, inference("gelu_inside", fusing("", gelu_inside, options).run)),
      inference("bias_inside", bias_inside),
      if_any(Sought::convolution, inference("residual_inside", fusing("", residual_inside, options).run)),
      // All that changes bits is before these, so that plans for given shapes have the bits of the general one.
      shape_classes(options), shape_arithmetic(options),
      inference("simplify_shaped", fusing("", simplify, options).run),
      fusing("fuse_elementwise", fuse_elementwise, options),
      if_any([](const Node& node) { return !node.op->many.empty(); }, fusing("fuse_updates", fuse_updates, options)),
      plain("prune_again", prune_callable),  // nodes superseded by folding and sharing
  };
  if (!options.inference) std::erase_if(passes, [](const Pass& pass) { return pass.inference; });
  for (const std::string& name : options.switched_off)
    if (std::erase_if(passes, [&](const Pass& pass) { return pass.name == name; }) == 0)
      fail(Code::not_found, "there is no optimization '{}' to switch off", name);
  return passes;
}

std::unique_ptr<Graph> optimize(std::unique_ptr<Graph> graph, const OptimizeOptions& options) {
  const std::vector<Pass> passes = optimizations(options);
  auto first = passes.begin();
  if (!options.feed_shapes.empty()) {
    first = std::ranges::find(passes, kShapeClasses, &Pass::name);
    if (first == passes.end()) fail(Code::internal, "shapes of feeds are given, but '{}' is off", kShapeClasses);
  }
  for (const Pass& pass : std::span(first, passes.end())) {
    if (options.before_shapes && pass.name == kShapeClasses) options.before_shapes(*graph);
    PassReport report{.pass = pass.name, .nodes_before = graph->size()};
    const auto start = std::chrono::steady_clock::now();
    try {
      if (!pass.has_work || pass.has_work(*graph)) graph = pass.run(*graph, report.notes);
    } catch (const Error& error) {
      throw error.within(fmt::format("optimization '{}'", pass.name));
    }
    report.nodes_after = graph->size();
    report.time = std::chrono::steady_clock::now() - start;
    if (options.report) options.report(report);
  }
  return graph;
}

}  // namespace troupe
