// Runs the test of the C API that its first argument names.
#include "program.h"

#include "check.h"

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } tests[] = {
      {"status", test_status},     {"tensors", test_tensors},     {"memory", test_memory},     {"graphs", test_graphs},
      {"sessions", test_sessions}, {"gradients", test_gradients}, {"threads", test_threads},   {"misuse", test_misuse},
      {"leaks", test_leaks},       {"eager", test_eager},         {"networks", test_networks}, {"tasks", test_tasks},
  };
  const char* const name = argc > 1 ? argv[1] : "";
  for (size_t i = 0; i < sizeof tests / sizeof *tests; ++i) {
    if (strcmp(tests[i].name, name) != 0) continue;
    tests[i].run();
    return 0;
  }
  if (strcmp(name, "training") == 0 && argc == 3) {
    test_training(argv[2]);
    return 0;
  }
  if (strcmp(name, "onnx") == 0 && argc == 3) {
    test_onnx(argv[2]);
    return 0;
  }
  if (strcmp(name, "op_library") == 0 && argc == 3) {
    test_op_library(argv[2]);
    return 0;
  }
  if (strcmp(name, "cluster") == 0) {
    test_cluster(argc, argv);
    return 0;
  }
  if (strcmp(name, "node") == 0) {
    test_node(argc, argv);
    return 0;
  }
  if (strcmp(name, "client") == 0 && argc == 4) {
    test_client(argv[2], strtof(argv[3], NULL));
    return 0;
  }
  fprintf(stderr, "Usage: %s TEST\n", argv[0]);
  return 2;
}
