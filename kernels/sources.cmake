# Sources of kernels by target: the CPU's library, the GPU's (kernels/cuda), and the emulated GPU's
# (tests/kernels/emulated_cuda).

# Shared: each library compiles its own copies.
set(kernels_common
  activation.cpp
  array.cpp
  attention_geometry.cpp
  conv_geometry.cpp
  elementwise.cpp
  fold.cpp
  layout.cpp
  gather_geometry.cpp
  index_geometry.cpp
  matmul_shape.cpp
  movement.cpp
  pool_geometry.cpp
  reuse.cpp
  row_groups.cpp
  slices.cpp)
list(TRANSFORM kernels_common PREPEND ${CMAKE_CURRENT_LIST_DIR}/common/)

# Plans of GPU kernels: free of CUDA, so tested on the CPU.
set(cuda_plans
  broadcast_plan.cpp
  copy_plan.cpp
  fused_compiler.cpp
  reduce_plan.cpp
  schedule_of.cpp
  softmax_grid.cpp)
# Host side of GPU kernels.
set(cuda_host
  array.cpp
  attention.cpp
  bias.cpp
  cast.cpp
  comparisons.cpp
  conv.cpp
  cublas_error.cpp
  cublas_lt.cpp
  cuda_kernels.cpp
  cumulative.cpp
  elementwise.cpp
  finite.cpp
  fused_elementwise.cpp
  gather.cpp
  indexed.cpp
  layout.cpp
  linear.cpp
  math_binary.cpp
  math_grad.cpp
  math_special.cpp
  math_unary.cpp
  movement.cpp
  norm.cpp
  pool.cpp
  random.cpp
  reduce.cpp
  select.cpp
  slices.cpp
  softmax.cpp
  state.cpp
  updates.cpp)
# Needs cuDNN, or is the plug-in.
set(cuda_vendor
  conv_cudnn.cpp
  conv_engines.cpp
  conv_graph.cpp
  cuda_plugin.cpp
  cudnn.cpp)
set(cuda_kernels
  array.cu
  attention.cu
  attention_grad.cu
  bias.cu
  cast.cu
  conv.cu
  conv_direct.cu
  cross_entropy.cu
  cumulative.cu
  epilogue.cu
  finite.cu
  gather.cu
  group_norm.cu
  integer_product.cu
  layer_norm.cu
  layout.cu
  movement.cu
  pool_avg.cu
  pool_max.cu
  reduce_arg_max.cu
  reduce_extreme.cu
  reduce_prod.cu
  reduce_sum.cu
  scatter.cu
  softmax.cu
  softmax_grad.cu
  state.cu)
# Compiled without fused multiply-adds, so that a fused program has the bits of its ops: elementwise kernels are
# memory-bound anyway.
set(cuda_rounded_kernels
  batch_norm.cu
  batch_norm_grad.cu
  comparisons.cu
  fused_elementwise.cu
  math_binary.cu
  math_grad.cu
  math_special.cu
  math_unary.cu
  parts_sum.cu
  random.cu
  schedule.cu
  select.cu
  update_rows.cu
  updates.cu
  updates_narrow.cu)
foreach(list IN ITEMS cuda_plans cuda_host cuda_vendor cuda_kernels cuda_rounded_kernels)
  list(TRANSFORM ${list} PREPEND ${CMAKE_CURRENT_LIST_DIR}/cuda/)
endforeach()

# Calls of CUDA and NCCL that devices/cuda leaves to libraries linking the toolkit. NCCL is loaded at run time if
# present; compiling the calls requires its header.
set(cuda_calls ${PROJECT_SOURCE_DIR}/devices/cuda/cuda_error.cpp)
if(TARGET NCCL::nccl)
  list(APPEND cuda_calls ${PROJECT_SOURCE_DIR}/devices/cuda/nccl_driver.cpp)
  set(nccl_header NCCL::nccl)
else()
  list(APPEND cuda_calls ${PROJECT_SOURCE_DIR}/devices/cuda/nccl_missing.cpp)
  set(nccl_header)
endif()
