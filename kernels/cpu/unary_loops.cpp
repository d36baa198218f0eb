#include "troupe/kernels/cpu/unary_loops.hpp"

#include <troupe/kernels/cpu/elementwise_families.hpp>

namespace troupe {

const std::map<std::string_view, UnaryLoops>& unary_loops() {
  static const auto loops = [] {
    std::map<std::string_view, UnaryLoops> all;
    const auto add = [&]<class Op>(const char* name, Op) { all.emplace(name, kUnaryLoops<Op>); };
    for_each_real_unary(add);
    for_each_float_unary(add);
    add_rare_loops(all);
    return all;
  }();
  return loops;
}

}  // namespace troupe
