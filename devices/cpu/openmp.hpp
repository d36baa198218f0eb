// Declares the functions of GNU's OpenMP runtime that Troupe calls; oneDNN runs on it (GOMP::gomp). No source of ours
// is compiled with -fopenmp: clang would link a second runtime, which does not share oneDNN's threads.
#pragma once

extern "C" {
int omp_get_max_threads() noexcept;
void omp_set_num_threads(int threads) noexcept;
}
