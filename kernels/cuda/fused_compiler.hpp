// Compiles a program of elementwise ops to GPU steps.
#pragma once

#include <span>
#include <vector>

#include <troupe/graph/elementwise_program.hpp>
#include <troupe/kernels/cuda/fused_program.hpp>

namespace troupe {

struct FusedProgram {
  std::vector<FusedStep> steps;
  int places = 0;
  bool wide = false;
  DType dtype = DType::invalid;
};

// Throws unimplemented for an op without GPU code or a result that is not floating.
FusedProgram compile_fused(std::span<const ElementwiseStep> steps, std::span<const DType> inputs);

}  // namespace troupe
