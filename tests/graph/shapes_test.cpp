#include <gtest/gtest.h>

#include "graph/graph.hpp"

namespace troupe {
namespace {

TEST(Ops, TheRegistryIsConsistent) {
  for (const std::string& name : standard_ops().names()) {
    const OpDef& op = standard_ops().get(name);
    if (op.kernel_type.empty()) continue;
    EXPECT_EQ(op.find_attr(op.kernel_type)->type, AttrType::dtype) << name;
  }
}

}  // namespace
}  // namespace troupe
