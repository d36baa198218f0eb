// Memory stays as it is over 100,000 tensors, ops and steps.
#include <unistd.h>

#include "check.h"
#include "program.h"

// MiB of this process that are in memory.
static double resident(void) {
  long pages = 0, unused = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &unused, &pages) == 2);
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

void test_leaks(void) {
  troupe_status* status = troupe_status_new();
  troupe_graph* graph = troupe_graph_new(status);
  const int64_t dims[] = {64};
  float values[64] = {0};
  troupe_output x = troupe_graph_placeholder(graph, TROUPE_F32, dims, 1, NULL, status);
  troupe_output y = troupe_graph_op(graph, "Neg", &x, 1, NULL, NULL, status);
  troupe_session* session = troupe_session_new(graph, NULL, NULL, status);
  troupe_callable* call = troupe_callable_new(session, &x, 1, &y, 1, NULL, 0, status);
  CHECK_OK(status);
  double before = 0;
  for (int i = 0; i < 100000; ++i) {
    if (i == 20000) before = resident();
    troupe_tensor *in = floats(dims, 1, values), *out;
    troupe_callable_run(call, NULL, &in, 1, &out, 1, status);
    troupe_tensor_delete(in);
    troupe_tensor_delete(out);
    in = troupe_tensor_from_memory(TROUPE_F32, dims, 1, values, sizeof values, NULL, NULL, status);
    troupe_tensor_delete(in);
    CHECK_OK(status);
    CHECK(troupe_dtype_named("wrong", status) == TROUPE_INVALID);
    if (i % 100 == 0) {
      troupe_graph* small = troupe_graph_new(status);
      troupe_output a = troupe_graph_placeholder(small, TROUPE_F32, dims, 1, NULL, status);
      for (int n = 0; n < 100; ++n) a = troupe_graph_op(small, "Neg", &a, 1, NULL, NULL, status);
      CHECK_OK(status);
      troupe_graph_delete(small);
    }
  }
  const double grown = resident() - before;
  if (grown > 4) fprintf(stderr, "grew by %.1f MiB\n", grown);
  CHECK(grown <= 4);
  troupe_callable_delete(call);
  troupe_session_delete(session);
  troupe_graph_delete(graph);
  troupe_status_delete(status);
}
