// What is recognised as attention, and each reason why something is not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/fuse_attention.hpp>

namespace troupe {
namespace {

using Axes = std::vector<std::int64_t>;

Tensor halves(const Shape& shape) {
  Tensor out(DType::f32, shape);
  std::ranges::fill(out.mutable_values<float>(), 0.5f);
  return out;
}

// softmax(number (number q) k' + mask) v: 3 heads of 5 queries and 7 keys.
struct HeadsShape {
  DType dtype = DType::f32;
  Shape q{kUnknown, 3, 5, 8}, k{kUnknown, 3, 7, 8}, v{kUnknown, 3, 7, 6}, mask{5, 7}, number{}, number_q{};
  Axes perm{0, 1, 3, 2};
  Attributes product{}, softmax{}, last{};
};

struct Heads : GraphBuilder {
  explicit Heads(const HeadsShape& shape = {}) : s(shape) {
    scaled_q = add("Mul", "scaled_q", {q, half_q});
    kt = add("Transpose", "kt", {k}, {{"perm", s.perm}});
    product = add("MatMul", "product", {scaled_q, kt}, s.product);
    scores = add("Mul", "scores", {product, half});
    masked = add("Add", "masked", {scores, mask});
    weights = add("Softmax", "weights", {masked}, s.softmax);
    y = add("MatMul", "y", {weights, v}, s.last);
  }

  Output given(const std::string& name, const Shape& shape) {
    return add("Placeholder", name, {}, {{"T", s.dtype}, {"shape", shape}});
  }
  Output number(const std::string& name, double value, const Shape& shape = {}) {
    Tensor out(s.dtype, shape);
    if (s.dtype == DType::f64)
      *out.mutable_data<double>() = value;
    else
      *out.mutable_data<float>() = static_cast<float>(value);
    return constant(name, out);
  }
  // The attentions after the pass: inputs and scale. A Transpose is "order(k)".
  std::string found(const FuseOptions& options = {}) const {
    const auto fused = fuse_attention(*graph, options);
    const auto text_of = [&](Endpoint e) {
      const Node& node = fused->node(e.node);
      if (node.op->name == "Const") return std::string("none");
      if (node.op->name != "Transpose" || node.name == "kt") return node.name;
      return fmt::format("{}({})", fmt::join(node.attributes.get<Axes>("perm"), ""),
                         fused->node(node.inputs[0].node).name);
    };
    std::string out;
    for (int id = 0; id < fused->size(); ++id) {
      const Node& node = fused->node(id);
      if (node.op->name != "Attention") continue;
      if (!out.empty()) out += "; ";
      for (const Endpoint& e : node.inputs) out += text_of(e) + " ";
      out += fmt::format("{}", node.attributes.real("scale"));
    }
    return out;
  }
  void read_from(const Output& node, int input, const Output& source) {
    g.set_input(node.source(), input, {source.node, source.index});
  }
  // Of two nodes in a row, the second reads what the first one did.
  void leave_out(const Output& first, const Output& second) {
    read_from(second, 0, output(first.source().inputs[0]));
    read_from(first, 0, given(g.unique_name("unused"), Shape::unknown_rank()));
  }
  Output output(Endpoint e) { return {&g, e.node, e.index}; }

  HeadsShape s;
  Output q = given("q", s.q), k = given("k", s.k), v = given("v", s.v), mask = given("mask", s.mask);
  Output half = number("half", 0.5, s.number), half_q = number("half_q", 0.5, s.number_q);
  Output scaled_q{}, kt{}, product{}, scores{}, masked{}, weights{}, y{};
};

constexpr const char* kWhole = "q k v mask 0.25";

TEST(FuseAttention, ShapesAndAttributesThatFit) {
  const std::map<std::string, std::pair<HeadsShape, std::string>> cases = {
      {"as built", {{}, kWhole}},
      {"the softmax counts its axis from the front", {{.softmax = {{"axis", std::int64_t{3}}}}, kWhole}},
      {"the mask has a row for all queries", {{.mask = {1, 7}}, kWhole}},
      {"the mask is one number", {{.mask = {}}, kWhole}},
      {"the mask is of an unknown number of keys, as the scores",
       {{.k = {kUnknown, 3, kUnknown, 8}, .v = {kUnknown, 3, kUnknown, 6}, .mask = {5, kUnknown}}, kWhole}},
      {"there are no keys", {{.k = {2, 3, 0, 8}, .v = {2, 3, 0, 6}, .mask = {0}}, "q k v mask 0.25"}},
      {"numbers have as many dimensions as the tensors", {{.number = {1, 1, 1, 1}, .number_q = {1, 1, 1, 1}}, kWhole}},
      {"heads are batches", {{.q = {3, 5, 8}, .k = {3, 7, 8}, .v = {3, 7, 6}, .perm = {0, 2, 1}}, kWhole}},
      {"the product transposes", {{.perm = {0, 1, 2, 3}, .product = {{"transpose_b", true}}}, "q kt v mask 0.25"}},
      {"keys are transposed with their heads",
       {{.k = {kUnknown, 7, 3, 8}, .perm = {0, 2, 3, 1}}, "q 0213(k) v mask 0.25"}},
  };
  for (const auto& [name, given] : cases) {
    HeadsShape shape = given.first;
    if (name == "there are no keys") shape.q = {2, 3, 5, 8};
    EXPECT_EQ(Heads(shape).found(), given.second) << name;
  }
}

TEST(FuseAttention, ShapesAndAttributesThatDoNotFit) {
  const Shape any = Shape::unknown_rank();
  const std::map<std::string, HeadsShape> cases = {
      {"the last product transposes v", {.v = {kUnknown, 3, 6, 7}, .last = {{"transpose_b", true}}}},
      {"the last product transposes the weights",
       {.q = {kUnknown, 3, 7, 8}, .mask = {7, 7}, .last = {{"transpose_a", true}}}},
      {"the first product transposes q", {.q = {kUnknown, 3, 8, 5}, .product = {{"transpose_a", true}}}},
      {"the softmax is over queries", {.softmax = {{"axis", std::int64_t{-2}}}}},
      {"the softmax is over queries, from the front", {.softmax = {{"axis", std::int64_t{2}}}}},
      {"all dimensions of the keys are reversed", {.k = {7, 8, 3, 2}, .perm = {}}},
      {"there are no heads",
       {.q = {5, 8}, .k = {7, 8}, .v = {7, 6}, .perm = {0, 1}, .product = {{"transpose_b", true}}}},
      {"q has no known rank", {.q = any}},
      {"k has no known rank", {.k = any}},
      {"v has no known rank", {.v = any}},
      {"q has fewer dimensions", {.q = {3, 5, 8}}},
      {"k has fewer dimensions",
       {.q = {3, 3, 5, 8}, .k = {3, 3, 8}, .v = {3, 3, 3, 6}, .mask = {5, 3}, .perm = {0, 2, 1}}},
      {"v has fewer dimensions", {.q = {3, 3, 5, 8}, .k = {3, 3, 3, 8}, .v = {3, 3, 6}, .mask = {5, 3}}},
      {"k has one head for all", {.k = {kUnknown, 1, 7, 8}}},
      {"k has one head for all, which is transposed", {.k = {kUnknown, 7, 1, 8}, .perm = {0, 2, 3, 1}}},
      {"v has one head for all", {.v = {kUnknown, 1, 7, 6}}},
      {"k is of one batch for all", {.q = {2, 3, 5, 8}, .k = {1, 3, 7, 8}, .v = {2, 3, 7, 6}}},
      {"the batch of k alone is known", {.k = {2, 3, 7, 8}}},
      {"heads are not known", {.q = {2, kUnknown, 5, 8}, .k = {2, kUnknown, 7, 8}, .v = {2, kUnknown, 7, 6}}},
      {"the mask has no known rank", {.mask = any}},
      {"the number adds a dimension", {.number = {1, 1, 1, 1, 1}}},
      {"the number adds a dimension to q", {.number_q = {1, 1, 1, 1, 1}}},
      {"the mask has more dimensions", {.mask = {1, 1, 1, 5, 7}}},
      {"the mask has more queries", {.q = {kUnknown, 3, 1, 8}}},
      {"the mask has heads that are not known", {.mask = {kUnknown, 5, 7}}},
      {"the number of keys is not known, that of the mask is",
       {.k = {kUnknown, 3, kUnknown, 8}, .v = {kUnknown, 3, kUnknown, 6}}},
  };
  for (const auto& [name, shape] : cases) EXPECT_EQ(Heads(shape).found(), "") << name;
}

TEST(FuseAttention, NodesThatOthersNeedStay) {
  const std::map<std::string, std::function<void(Heads&, const Output& node)>> cases = {
      {"read", [](Heads& h, const Output& n) { h.add("Neg", "n", {n}); }},
      {"fetched",
       [](Heads& h, const Output& n) {
         h.add("Fetch", "f", {n}, {{"index", std::int64_t{0}}});
       }},
      {"a target", [](Heads& h, const Output& n) { h.g.set_attribute(n.source(), "_target", true); }},
      {"waited for", [](Heads& h, const Output& n) { h.g.add({.op = "NoOp", .name = "n", .controls = {n}}); }},
      {"elsewhere", [](Heads& h, const Output& n) { h.g.set_device(n.source(), "/device:CPU:1"); }},
      {"colocated", [](Heads& h, const Output& n) { h.g.set_colocation(n.source(), "q"); }},
      {"after another",
       [](Heads& h, const Output& n) { h.g.add_control_edge(h.add("NoOp", "before").source(), n.source()); }}};
  for (const auto& [name, change] : cases)
    for (Output Heads::*node : {&Heads::product, &Heads::scores, &Heads::masked, &Heads::weights}) {
      Heads h;
      change(h, h.*node);
      EXPECT_EQ(h.found(), "") << (h.*node).name() << " is " << name;
    }
  // Without a mask, scores are found in another way.
  for (const auto& [name, change] : cases)
    for (Output Heads::*node : {&Heads::product, &Heads::scores}) {
      Heads h;
      h.leave_out(h.masked, h.weights);
      change(h, h.*node);
      EXPECT_EQ(h.found(), "") << (h.*node).name() << " is " << name << ", no mask";
    }
}

TEST(FuseAttention, WhatRunsAfterAnotherStaysOrIsReadAsItIs) {
  const std::map<std::string, std::string> cases = {
      {"y", ""}, {"kt", ""}, {"scaled_q", "scaled_q k v mask 0.5"}, {"half_q", "scaled_q k v mask 0.5"}, {"half", ""}};
  for (const auto& [name, expected] : cases) {
    Heads h;
    h.g.add_control_edge(h.add("NoOp", "before").source(), h.g.get(name));
    EXPECT_EQ(h.found(), expected) << name;
  }
}

TEST(FuseAttention, FormsOfItsParts) {
  const auto first_is = [](Heads& h, const Output& node, const Output& first) {
    h.read_from(node, 1, h.output(node.source().inputs[0]));
    h.read_from(node, 0, first);
  };
  const std::map<std::string, std::pair<std::function<void(Heads&)>, std::string>> cases = {
      {"no mask", {[](Heads& h) { h.leave_out(h.masked, h.weights); }, "q k v none 0.25"}},
      {"no scale", {[](Heads& h) { h.leave_out(h.scores, h.masked); }, "q k v mask 0.5"}},
      {"only products and a softmax",
       {[](Heads& h) {
          h.leave_out(h.scores, h.masked);
          h.leave_out(h.masked, h.weights);
          h.leave_out(h.scaled_q, h.product);
        },
        "q k v none 1"}},
      {"the mask is first", {[&](Heads& h) { first_is(h, h.masked, h.mask); }, kWhole}},
      {"a scaled mask is first",
       {[&](Heads& h) {
          first_is(h, h.masked, h.add("Mul", "scaled_mask", {h.mask, h.number("other", 2)}));
        },
        "q k v scaled_mask 0.25"}},
      {"a mask that is a product for others too is first",
       {[&](Heads& h) {
          const Output made = h.add("MatMul", "made", {h.given("a", {5, 2}), h.given("b", {2, 7})});
          h.add("Neg", "n", {made});
          first_is(h, h.masked, made);
        },
        "q k v made 0.25"}},
      {"a mask that is a scaled product for others too is first",
       {[&](Heads& h) {
          const Output made = h.add("MatMul", "made", {h.given("a", {5, 2}), h.given("b", {2, 7})});
          const Output scaled = h.add("Mul", "scaled", {made, h.number("other", 2)});
          h.add("Neg", "n", {scaled});
          first_is(h, h.masked, scaled);
        },
        "q k v scaled 0.25"}},
      {"the number is first", {[&](Heads& h) { first_is(h, h.scores, h.half); }, kWhole}},
      {"scores are divided",
       {[](Heads& h) {
          const Output divided = h.add("Div", "divided", {h.product, h.half});
          h.leave_out(h.scores, h.masked);
          h.read_from(h.masked, 0, divided);
        },
        "q k v mask 1"}},
      {"scores divide",
       {[](Heads& h) {
          const Output divided = h.add("Div", "divided", {h.half, h.product});
          h.leave_out(h.scores, h.masked);
          h.read_from(h.masked, 0, divided);
        },
        ""}},
      {"q is divided by 0",
       {[](Heads& h) {
          h.read_from(h.product, 0, h.add("Div", "divided", {h.q, h.number("zero", 0)}));
        },
        "divided k v mask 0.5"}},
      {"a number that is fed", {[](Heads& h) { h.read_from(h.scores, 1, h.given("fed", {})); }, ""}},
      {"a number for each key", {[](Heads& h) { h.read_from(h.scores, 1, h.constant("row", halves({7}))); }, ""}},
      {"a number for each element of a query",
       {[](Heads& h) { h.read_from(h.scaled_q, 1, h.constant("row", halves({8}))); }, "scaled_q k v mask 0.5"}},
      {"k is scaled before it is transposed",
       {[](Heads& h) {
          h.read_from(h.kt, 0, h.add("Mul", "scaled_k", {h.k, h.half}));
        },
        "q k v mask 0.125"}},
      {"k is scaled when it is transposed",
       {[](Heads& h) {
          h.read_from(h.product, 1, h.add("Mul", "scaled_k", {h.kt, h.half}));
        },
        "q k v mask 0.125"}},
      {"the scale is behind the mask",
       {[](Heads& h) {
          h.leave_out(h.scores, h.masked);
          h.read_from(h.weights, 0, h.add("Mul", "late", {h.masked, h.half}));
        },
        ""}},
      {"the weights are not those of a softmax",
       {[](Heads& h) { h.read_from(h.y, 0, h.add("LogSoftmax", "other", {h.masked})); }, ""}},
      {"the scores are no product",
       {[](Heads& h) {
          h.read_from(h.scores, 0, h.given("product_given", {kUnknown, 3, 5, 7}));
        },
        ""}},
      {"keys that are made transposed",
       {[](Heads& h) {
          h.read_from(h.product, 1, h.given("made", {kUnknown, 3, 8, 7}));
        },
        ""}},
      {"one of the other's result",
       {[](Heads& h) {
          const Output q2 = h.add("MatMul", "q2", {h.y, h.given("w", {6, 8})});
          const Output scores2 = h.add("MatMul", "scores2", {q2, h.kt});
          h.add("MatMul", "y2", {h.add("Softmax", "weights2", {scores2}), h.v});
        },
        "q k v mask 0.25; q2 k v none 1"}},
  };
  for (const auto& [name, given] : cases) {
    Heads h;
    given.first(h);
    EXPECT_EQ(h.found(), given.second) << name;
  }
}

TEST(FuseAttention, IsOfF32) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Heads h({.dtype = dtype});
    h.leave_out(h.scaled_q, h.product);
    h.leave_out(h.scores, h.masked);
    h.leave_out(h.masked, h.weights);
    EXPECT_EQ(h.found(), dtype == DType::f32 ? "q k v none 1" : "");
  }
}

TEST(FuseAttention, ANumberThatIsDividedIsNoQuery) {
  Heads h({.q = {1, 1, 1, 1}, .k = {1, 1, 7, 1}, .v = {1, 1, 7, 6}, .mask = {1, 7}});
  h.read_from(h.product, 0, h.add("Div", "divided", {h.constant("number", halves(h.s.q)), h.q}));
  EXPECT_EQ(h.found(), "divided k v mask 0.5");
}

// Memory of a GPU, which nobody here reads.
struct Elsewhere final : Buffer {
  Elsewhere() : Buffer(nullptr, sizeof(float), {MemorySpace::Kind::cuda, 0}) {}
};

TEST(FuseAttention, ANumberOutsideHostMemoryIsNotRead) {
  Heads h;
  h.read_from(h.scaled_q, 1, h.constant("far", Tensor(DType::f32, {}, BufferRef(new Elsewhere))));
  EXPECT_EQ(h.found(), "scaled_q k v mask 0.5");
}

// Weights that are their own values have two readers, though one node.
TEST(FuseAttention, WeightsAreNoValuesOfThemselves) {
  Heads h({.q = {kUnknown, 3, 7, 8}, .v = {kUnknown, 3, 7, 7}, .mask = {7, 7}});
  h.read_from(h.y, 1, h.weights);
  EXPECT_EQ(h.found(), "");
}

TEST(FuseAttention, TakesThePlaceOfItsLastProduct) {
  Heads h({.k = {kUnknown, 7, 3, 8}, .perm = {0, 2, 3, 1}});
  for (const Output& node : {h.product, h.scores, h.masked, h.weights, h.y}) {
    h.g.set_device(node.source(), "/device:CPU:1");
    h.g.set_colocation(node.source(), "q");
  }
  h.g.set_attribute(h.y.source(), "_target", true);
  h.g.add({.op = "NoOp", .name = "after", .controls = {h.y}, .colocate_with = "y"});
  h.add("Neg", "reader", {h.y});
  PassNotes notes;
  const auto fused = fuse_attention(h.g, {.notes = &notes});
  EXPECT_EQ(notes, PassNotes{"recognised attention that ends in 'y'"});
  const Node& attention = fused->node(fused->get("reader").inputs[0].node);
  ASSERT_EQ(attention.op->name, "Attention");
  EXPECT_EQ(fused->shape({attention.id, 0}), (Shape{kUnknown, 3, 5, 6}));
  EXPECT_TRUE(attention.attributes.has("_target"));
  EXPECT_EQ(fused->get("after").controls, std::vector<int>{attention.id});
  EXPECT_EQ(fused->get("after").colocate_with, attention.name);
  for (const Node* node : {&attention, &fused->node(attention.inputs[1].node)}) {
    EXPECT_EQ(node->device, "/device:CPU:1") << node->op->name;
    EXPECT_EQ(node->colocate_with, "q") << node->op->name;
  }
}

TEST(FuseAttention, NeedsItsKernel) {
  const Heads h;
  std::vector<std::string> asked;
  const auto has_kernel = [&](std::string_view op, DType dtype) {
    asked.push_back(fmt::format("{} {}", op, name(dtype)));
    return false;
  };
  EXPECT_EQ(fuse_attention(h.g, {.has_kernel = has_kernel})->dump(), h.g.dump());
  EXPECT_EQ(asked, (std::vector<std::string>{"Attention f32", "Attention f32"}));  // of each product
}

}  // namespace
}  // namespace troupe
