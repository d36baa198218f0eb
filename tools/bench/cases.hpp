// The cases of troupe-bench, by family. `all_cases` lists them in the order they run.
#pragma once

#include <vector>

#include "tools/bench/harness.hpp"

namespace troupe::bench {

inline constexpr double kMicro = 1e6;  // microseconds per second
inline constexpr double kMilli = 1e3, kNano = 1e9;

void add_dispatch_cases(std::vector<Case>& cases);  // null nodes and parallel nodes
void add_step_cases(std::vector<Case>& cases);      // one-node graphs
void add_loop_cases(std::vector<Case>& cases);      // iterations
void add_eager_cases(std::vector<Case>& cases);     // ops that run when they are called
void add_python_cases(std::vector<Case>& cases);    // from Python

void add_remote_cases(std::vector<Case>& cases);            // one-node graphs on another task
void add_transfer_cases(std::vector<Case>& cases);          // tensors between tasks
void add_all_reduce_cases(std::vector<Case>& cases);        // collectives between two tasks
void add_stress_cases(std::vector<Case>& cases);            // a full wire, a stopped peer
void add_kernel_cases(std::vector<Case>& cases);            // compared with libraries called directly
void add_sequence_cases(std::vector<Case>& cases);          // an LSTM, attention
void add_index_cases(std::vector<Case>& cases);             // sorts, running sums, gathers
void add_sparse_cases(std::vector<Case>& cases);            // products of sparse matrices
void add_model_cases(std::vector<Case>& cases);             // training
void add_infer_cases(std::vector<Case>& cases);             // models that predict
void add_load_cases(std::vector<Case>& cases);              // models from files to results
void add_training_cases(std::vector<Case>& cases);          // training of models of layers
void add_parameter_cases(std::vector<Case>& cases);         // pushes to shards, pulls from shards
void add_cluster_training_cases(std::vector<Case>& cases);  // training by three processes
void add_embedding_cases(std::vector<Case>& cases);         // a table on parameter servers
void add_data_cases(std::vector<Case>& cases);              // data sets read and batched
void add_data_transform_cases(std::vector<Case>& cases);    // images and texts of data sets
void add_data_service_cases(std::vector<Case>& cases);      // batches from other tasks, training from files
void add_overhead_cases(std::vector<Case>& cases);          // with and without counters
void add_serve_cases(std::vector<Case>& cases);             // troupe-serve under load
void add_version_cases(std::vector<Case>& cases);           // of add_serve_cases: models that come and go
void add_startup_cases(std::vector<Case>& cases);           // processes and plans

std::vector<Case> all_cases();
// Used instead with --device gpu.
std::vector<Case> gpu_cases();

}  // namespace troupe::bench
