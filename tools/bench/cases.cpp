#include "tools/bench/cases.hpp"

namespace troupe::bench {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_dispatch_cases(cases);
  add_step_cases(cases);
  add_loop_cases(cases);
  add_eager_cases(cases);
  add_python_cases(cases);
  add_remote_cases(cases);
  add_transfer_cases(cases);
  add_all_reduce_cases(cases);
  add_stress_cases(cases);
  add_kernel_cases(cases);
  add_sequence_cases(cases);
  add_index_cases(cases);
  add_sparse_cases(cases);
  add_model_cases(cases);
  add_infer_cases(cases);
  add_load_cases(cases);
  add_training_cases(cases);
  add_parameter_cases(cases);
  add_cluster_training_cases(cases);
  add_embedding_cases(cases);
  add_data_cases(cases);
  add_data_transform_cases(cases);
  add_data_service_cases(cases);
  add_overhead_cases(cases);
  add_serve_cases(cases);
  add_startup_cases(cases);
  return cases;
}

}  // namespace troupe::bench
