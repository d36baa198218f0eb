// Uses libtroupe.so, whose path is its first argument, without its header: declares what it takes itself, as other
// languages do. So it fails if a function, a number or the layout of a struct changes.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct output {
  void* graph;
  int32_t node, index;
};

static void* library;

static void* function(const char* name) {
  void* found = dlsym(library, name);
  if (!found) fprintf(stderr, "%s\n", dlerror());
  return found;
}

// ISO C has no cast of a pointer to a function.
#define LOAD(pointer, name)                      \
  do {                                           \
    void* found = function(name);                \
    if (!found) return 1;                        \
    memcpy(&(pointer), &found, sizeof(pointer)); \
  } while (0)

int main(int argc, char** argv) {
  library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) {
    fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "Usage: loader LIBRARY");
    return 2;
  }
  uint32_t (*abi_version)(void);
  void* (*status_new)(void);
  int (*status_code)(const void*);
  void (*status_delete)(void*);
  void* (*graph_new)(void*);
  struct output (*placeholder)(void*, int, const int64_t*, int32_t, const char*, void*);
  struct output (*op)(void*, const char*, const struct output*, size_t, const void*, const void*, void*);
  void (*graph_delete)(void*);
  void* (*session_new)(void*, void*, const void*, void*);
  int (*run)(void*, const void*, const struct output*, void* const*, size_t, const struct output*, void**, size_t,
             const struct output*, size_t, void*);
  void (*session_delete)(void*);
  void* (*tensor)(int, const int64_t*, int32_t, const void*, size_t, void*);
  const void* (*data)(const void*, void*);
  void (*tensor_delete)(void*);
  LOAD(abi_version, "troupe_abi_version");
  LOAD(status_new, "troupe_status_new");
  LOAD(status_code, "troupe_status_code");
  LOAD(status_delete, "troupe_status_delete");
  LOAD(graph_new, "troupe_graph_new");
  LOAD(placeholder, "troupe_graph_placeholder");
  LOAD(op, "troupe_graph_op");
  LOAD(graph_delete, "troupe_graph_delete");
  LOAD(session_new, "troupe_session_new");
  LOAD(run, "troupe_session_run");
  LOAD(session_delete, "troupe_session_delete");
  LOAD(tensor, "troupe_tensor_from_copy");
  LOAD(data, "troupe_tensor_data");
  LOAD(tensor_delete, "troupe_tensor_delete");

  if (abi_version() >> 16 != 0) return 3;
  void* status = status_new();
  void* graph = graph_new(status);
  const int64_t dims[] = {3};
  const float values[] = {1, 2, 3};
  struct output x = placeholder(graph, 1, dims, 1, "x", status);  // f32
  struct output y = op(graph, "Square", &x, 1, NULL, NULL, status);
  void* session = session_new(graph, NULL, NULL, status);
  void* in = tensor(1, dims, 1, values, sizeof values, status);
  void* out = NULL;
  if (run(session, NULL, &x, &in, 1, &y, &out, 1, NULL, 0, status) != 0 || status_code(status) != 0) return 4;
  const float* squares = data(out, status);
  if (squares[0] != 1 || squares[1] != 4 || squares[2] != 9) return 5;
  if (op(graph, "NoSuchOp", &x, 1, NULL, NULL, status).graph || status_code(status) != 5) return 6;  // not found
  tensor_delete(in);
  tensor_delete(out);
  session_delete(session);
  graph_delete(graph);
  status_delete(status);
  // It stays loaded: what its threads, and this one, keep of it is used until the end.
  if (dlclose(library) != 0 || !dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) return 7;
  puts("1 4 9");
  return 0;
}
