// Random programs of ops, run line by line, as graphs and traced: the same bits, and the same refusals.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/sanitized.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

// A line: an op of two values that there are already; most ops need one.
using Line = std::function<Output(const Output& a, const Output& b)>;
struct Instruction {
  std::string name;
  Line line;
  std::size_t a, b;
};
using Program = std::vector<Instruction>;

std::vector<std::pair<std::string, Line>> lines() {
  std::vector<std::pair<std::string, Line>> out;
  const auto unary = [&](const std::string& name, Output (*f)(Output, Name)) {
    out.emplace_back(name, [f](const Output& a, const Output&) { return f(a, {}); });
  };
  const auto binary = [&](const std::string& name, Output (*f)(Output, Output, Name)) {
    out.emplace_back(name, [f](const Output& a, const Output& b) { return f(a, b, {}); });
  };
  const auto other = [&](const std::string& name, Line line) { out.emplace_back(name, std::move(line)); };
  for (const auto& [name, f] : std::vector<std::pair<std::string, Output (*)(Output, Name)>>{
           {"neg", neg},     {"abs", abs},     {"square", square}, {"exp", exp},         {"log1p", log1p},
           {"sqrt", sqrt},   {"rsqrt", rsqrt}, {"tanh", tanh},     {"sigmoid", sigmoid}, {"softplus", softplus},
           {"floor", floor}, {"round", round}, {"erf", erf},       {"sin", sin},         {"cos", cos},
           {"relu", relu},   {"sign", sign},   {"ceil", ceil},     {"expm1", expm1},     {"reciprocal", reciprocal}})
    unary(name, f);
  for (const auto& [name, f] :
       std::vector<std::pair<std::string, Output (*)(Output, Output, Name)>>{{"add", add},
                                                                             {"sub", sub},
                                                                             {"mul", mul},
                                                                             {"div", div},
                                                                             {"maximum", maximum},
                                                                             {"minimum", minimum},
                                                                             {"squared_difference", squared_difference},
                                                                             {"floor_mod", floor_mod},
                                                                             {"atan2", atan2},
                                                                             {"pow", pow}})
    binary(name, f);
  other("matmul", [](const Output& a, const Output& b) { return matmul(a, b); });
  other("matmul_t", [](const Output& a, const Output& b) { return matmul(a, b, {.transpose_b = true}); });
  other("sum", [](const Output& a, const Output&) { return sum(a, {-1}); });
  other("mean", [](const Output& a, const Output&) { return mean(a, {0}); });
  other("max", [](const Output& a, const Output&) { return max(a, {0}); });
  other("transpose", [](const Output& a, const Output&) { return transpose(a, {1, 0}); });
  other("reshape", [](const Output& a, const Output&) { return reshape(a, Shape{-1, 2}); });
  other("concat", [](const Output& a, const Output& b) { return concat({a, b}, 0); });
  other("stack", [](const Output& a, const Output& b) { return stack({a, b}, 0); });
  other("expand", [](const Output& a, const Output&) { return expand_dims(a, 0); });
  // Where there are two rows: that there are not, only a step of a graph would tell.
  other("rows", [](const Output& a, const Output&) {
    if (a.shape().is_scalar() || a.shape()[0] < 2) return identity(a);
    return gather(a, constant(*a.graph, {std::int64_t{1}, std::int64_t{0}}));
  });
  other("select", [](const Output& a, const Output& b) { return select(greater(a, b), a, b * 0.5); });
  other("softmax", [](const Output& a, const Output&) { return softmax(a); });
  other("affine", [](const Output& a, const Output&) { return a * 0.25 + 1.5; });
  other("to_f64", [](const Output& a, const Output&) { return cast(a, DType::f64); });
  other("to_f32", [](const Output& a, const Output&) { return cast(a, DType::f32); });
  other("cumsum", [](const Output& a, const Output&) { return cumsum(a, -1); });
  return out;
}

Program draw_program(Random& random, std::size_t inputs) {
  static const auto all = lines();
  Program program;
  const std::size_t length = 3 + below(random, 10);
  for (std::size_t i = 0; i < length; ++i) {
    const auto& [name, line] = all[below(random, all.size())];
    // Late values more often: programs are deep rather than wide.
    const auto pick = [&] {
      const std::size_t count = inputs + i;
      return std::max(below(random, count), below(random, count));
    };
    const std::size_t a = pick(), b = pick();
    program.push_back({name, line, a, b});
  }
  return program;
}

// The values of a program's lines. A line that is refused has the value of its first operand, and a text.
struct Lines {
  Outputs values;
  std::vector<std::string> refusals;
};
Lines run_lines(const Program& program, Outputs values) {
  Lines out;
  for (const Instruction& i : program) {
    std::string refusal;
    const Output a = values[i.a], b = values[i.b];
    Output made = a;
    try {
      made = i.line(a, b);
    } catch (const Error& error) {
      refusal = std::string(name(error.code()));
    }
    values.push_back(made);
    out.refusals.push_back(refusal);
  }
  out.values = std::move(values);
  return out;
}

std::string text_of(const Program& program) {
  std::string text;
  for (const Instruction& i : program) text += fmt::format("{}({}, {}); ", i.name, i.a, i.b);
  return text;
}

std::vector<Tensor> draw_inputs(Random& random) {
  const Shape shapes[] = {{}, {2}, {4}, {3, 4}, {4, 4}, {2, 3, 4}, {1, 4}};
  std::vector<Tensor> out;
  for (int i = 0; i < 4; ++i) {
    Tensor t(DType::f32, shapes[below(random, std::size(shapes))]);
    for (float& v : t.mutable_values<float>()) v = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 500;
    out.push_back(t);
  }
  return out;
}

// Many programs make one graph: then passes see across them, too.
TEST(RandomPrograms, HaveTheBitsOfGraphs) {
  constexpr int kGraphs = testing::kSanitized ? 4 : 200, kPrograms = 50;
  Task task({.threads = 1});
  Eager eager(task);
  int lines_run = 0, refused = 0;
  for (int g = 0; g < kGraphs; ++g) {
    Random random(static_cast<unsigned>(g));
    Graph graph;
    Feeds feeds;
    Outputs fetches;
    std::vector<Tensor> expected;
    std::vector<std::string> texts;
    std::vector<std::pair<Program, std::vector<Output>>> programs;
    for (int p = 0; p < kPrograms; ++p) {
      const std::vector<Tensor> inputs = draw_inputs(random);
      const Program program = draw_program(random, inputs.size());
      Outputs in_graph, at_once;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        at_once.push_back(constant(eager.graph(), inputs[i]));
        if (i == 0) {
          in_graph.push_back(constant(graph, inputs[i]));  // some are folded
          continue;
        }
        in_graph.push_back(placeholder(graph, DType::f32, inputs[i].shape()));
        feeds.emplace_back(in_graph.back(), inputs[i]);
      }
      programs.emplace_back(program, at_once);
      const Lines built = run_lines(program, in_graph), ran = run_lines(program, at_once);
      ASSERT_EQ(ran.refusals, built.refusals) << "graph " << g << ": " << text_of(program);
      for (std::size_t i = inputs.size(); i < built.values.size(); ++i) {
        if (!built.refusals[i - inputs.size()].empty()) {
          ++refused;
          continue;
        }
        ++lines_run;
        fetches.push_back(built.values[i]);
        expected.push_back(ran.values[i].value());
        texts.push_back(fmt::format("value {} of {}", i, text_of(program)));
      }
    }
    Session session(task, graph);
    const std::vector<Tensor> values = session.run(feeds, fetches);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(bitwise_equal(expected[i], values[i]))
          << "graph " << g << ", " << texts[i] << ": " << expected[i].to_string() << ", in a graph "
          << values[i].to_string();
    // The first input of each is read from outside, the others are arguments.
    Outputs arguments;
    for (const auto& [program, inputs] : programs) arguments.insert(arguments.end(), inputs.begin() + 1, inputs.end());
    TracedFunction traced(eager, [&](const Outputs& given) {
      Outputs results;
      auto next = given.begin();
      for (const auto& [program, inputs] : programs) {
        Outputs in{inputs[0]};
        while (in.size() < inputs.size()) in.push_back(*next++);
        const Lines built = run_lines(program, in);
        for (std::size_t i = inputs.size(); i < built.values.size(); ++i)
          if (built.refusals[i - inputs.size()].empty()) results.push_back(built.values[i]);
      }
      return results;
    });
    const Outputs results = traced(arguments);
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i)
      ASSERT_TRUE(bitwise_equal(expected[i], results[i].value()))
          << "graph " << g << ", " << texts[i] << ": " << expected[i].to_string() << ", traced "
          << results[i].value().to_string();
  }
  EXPECT_GT(lines_run, 3 * refused) << "most lines should be meaningful";
}

}  // namespace
}  // namespace troupe
