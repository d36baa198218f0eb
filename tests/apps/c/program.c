// Runs the test of the C API that its first argument names.
#include "program.h"

#include "check.h"

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } tests[] = {
      {"status", test_status},   {"tensors", test_tensors},   {"memory", test_memory},
      {"graphs", test_graphs},   {"sessions", test_sessions}, {"gradients", test_gradients},
      {"threads", test_threads}, {"misuse", test_misuse},     {"leaks", test_leaks},
  };
  for (size_t i = 0; argc == 2 && i < sizeof tests / sizeof *tests; ++i) {
    if (strcmp(tests[i].name, argv[1]) != 0) continue;
    tests[i].run();
    return 0;
  }
  fprintf(stderr, "Usage: %s TEST\n", argv[0]);
  return 2;
}
