// Declares what Troupe calls of GNU's OpenMP runtime, which oneDNN runs on (GOMP::gomp). No source of ours is compiled
// with -fopenmp: clang's would bring a second runtime, whose threads are not oneDNN's.
#pragma once

extern "C" {
int omp_get_max_threads() noexcept;
void omp_set_num_threads(int threads) noexcept;
}
