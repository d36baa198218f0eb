// Ops, graphs, sessions, gradients.
#include <pthread.h>

#include "check.h"
#include "program.h"

void test_graphs(void) {
  troupe_status* status = troupe_status_new();
  CHECK(troupe_num_ops() > 200 && troupe_op_name(0) != NULL && troupe_op_name(100000) == NULL);
  check_text(troupe_op_signature("CumSum", status), "CumSum(x: T, axis: i64) -> (y: T), reverse: boolean = false");
  CHECK(troupe_op_signature("MatMull", status) == NULL);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "MatMul");

  troupe_graph* graph = troupe_graph_new(status);
  const int64_t open[] = {-1, 3}, weights[] = {3, 2};
  const float values[] = {1, 2, 3, 4, 5, 6};
  troupe_output x = troupe_graph_placeholder(graph, TROUPE_F32, open, 2, "x", status);
  troupe_tensor* w_value = floats(weights, 2, values);
  troupe_output w = troupe_graph_constant(graph, w_value, "w", status);
  troupe_tensor_delete(w_value);
  CHECK_OK(status);

  const troupe_output inputs[] = {x, w};
  troupe_node_options options = {.size = sizeof options, .name = "product", .controls = &w, .num_controls = 1};
  troupe_attributes* attributes = troupe_attributes_new(status);
  troupe_attributes_set_bool(attributes, "transpose_a", false, status);
  CHECK_OK(status);
  troupe_output y = troupe_graph_op(graph, "MatMul", inputs, 2, attributes, &options, status);
  CHECK_OK(status);
  int64_t dims[8];
  CHECK(troupe_output_shape(y, dims, 8, status) == 2 && dims[0] == -1 && dims[1] == 2);
  CHECK(troupe_output_shape(y, NULL, 0, status) == 2);
  CHECK(troupe_output_dtype(y, status) == TROUPE_F32 && troupe_output_count(y, status) == 1);
  check_text(troupe_output_name(y, status), "product");
  troupe_output any = troupe_graph_placeholder(graph, TROUPE_I64, NULL, -1, NULL, status);
  CHECK(troupe_output_shape(any, dims, 8, status) == -1);
  CHECK_OK(status);

  // Several outputs.
  troupe_attributes_delete(attributes);
  attributes = troupe_attributes_new(status);
  troupe_attributes_set_int(attributes, "axis", 1, status);
  troupe_attributes_set_int(attributes, "N", 2, status);
  troupe_output parts = troupe_graph_op(graph, "Unstack", &w, 1, attributes, NULL, status);
  CHECK_OK(status);
  CHECK(troupe_output_count(parts, status) == 2);
  parts.index = 1;
  char* name = troupe_output_name(parts, status);
  CHECK_OK(status);
  troupe_output found = troupe_graph_output(graph, name, status);
  CHECK(found.node == parts.node && found.index == 1);
  troupe_text_delete(name);
  parts.index = 2;
  CHECK(troupe_output_dtype(parts, status) == TROUPE_INVALID);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "which has 2");

  // Errors name op and node.
  const troupe_output twice[] = {w, w};
  found = troupe_graph_op(graph, "MatMul", twice, 2, NULL, NULL, status);
  CHECK(found.graph == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "inner dimensions differ: [3,2] x [3,2]");
  troupe_graph_op(graph, "NoSuchOp", NULL, 0, NULL, NULL, status);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "NoSuchOp");
  options.name = "x";
  troupe_graph_op(graph, "MatMul", inputs, 2, NULL, &options, status);
  CHECK_ERROR(status, TROUPE_ALREADY_EXISTS, "'x'");
  troupe_attributes_set_string(attributes, "axis", "one", 3, status);
  troupe_graph_op(graph, "Unstack", &w, 1, attributes, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "axis");
  troupe_graph_output(graph, "nothing", status);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "nothing");

  // As text and back.
  char* text = troupe_graph_to_text(graph, status);
  CHECK(text != NULL && strstr(text, "product = MatMul(x, w, ^w)"));
  troupe_graph* copy = troupe_graph_from_text(text, strlen(text), status);
  CHECK_OK(status);
  CHECK(troupe_graph_num_nodes(copy) == troupe_graph_num_nodes(graph));
  troupe_text_delete(text);
  troupe_graph_delete(copy);
  CHECK(troupe_graph_from_text("x = NoOp(", 9, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "line 1");
  CHECK(troupe_graph_from_onnx("/nowhere/model.onnx", status) == NULL);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "/nowhere/model.onnx");
  troupe_attributes_delete(attributes);
  troupe_graph_delete(graph);

  // Attributes of all types reach the op.
  graph = troupe_graph_new(status);
  attributes = troupe_attributes_new(status);
  const int64_t ints[] = {1, 2};
  const double reals[] = {0.5};
  const char* const strings[] = {"a", "b"};
  const troupe_dtype dtypes[] = {TROUPE_F32, TROUPE_I64};
  troupe_tensor* one = scalar(1);
  troupe_attributes_set_int(attributes, "_int", 3, status);
  troupe_attributes_set_real(attributes, "_real", 0.25, status);
  troupe_attributes_set_bool(attributes, "_bool", true, status);
  troupe_attributes_set_string(attributes, "_string", "text", 4, status);
  troupe_attributes_set_dtype(attributes, "_dtype", TROUPE_BF16, status);
  troupe_attributes_set_shape(attributes, "_shape", open, 2, status);
  troupe_attributes_set_function(attributes, "_function", "f", status);
  troupe_attributes_set_tensor(attributes, "_tensor", one, status);
  troupe_attributes_set_ints(attributes, "_ints", ints, 2, status);
  troupe_attributes_set_reals(attributes, "_reals", reals, 1, status);
  troupe_attributes_set_strings(attributes, "_strings", strings, 2, status);
  troupe_attributes_set_dtypes(attributes, "_dtypes", dtypes, 2, status);
  troupe_attributes_set_dtype(attributes, "T", TROUPE_F32, status);
  troupe_attributes_set_tensor(attributes, "value", one, status);
  CHECK_OK(status);
  troupe_graph_op(graph, "Const", NULL, 0, attributes, NULL, status);
  CHECK_OK(status);
  text = troupe_graph_to_text(graph, status);
  const char* const shown[] = {"_int=3",
                               "_real=0.25",
                               "_bool=true",
                               "_string=\"text\"",
                               "_dtype=bf16",
                               "_shape=shape:[?,3]",
                               "_function=@f",
                               "_tensor=f32[] = 1",
                               "_ints=integers:[1, 2]",
                               "_reals=reals:[0.5]",
                               "_strings=strings:[\"a\", \"b\"]",
                               "_dtypes=dtypes:[f32,i64]"};
  for (size_t i = 0; i < sizeof shown / sizeof *shown; ++i) {
    if (!strstr(text, shown[i])) fprintf(stderr, "no %s in %s", shown[i], text);
    CHECK(strstr(text, shown[i]));
  }
  troupe_text_delete(text);
  troupe_tensor_delete(one);
  troupe_attributes_delete(attributes);
  troupe_graph_delete(graph);
  troupe_status_delete(status);
}

void test_sessions(void) {
  troupe_status* status = troupe_status_new();
  troupe_graph* graph = troupe_graph_new(status);
  troupe_tensor* one = scalar(1);
  troupe_output initial = troupe_graph_constant(graph, one, NULL, status);
  troupe_output count = troupe_graph_variable(graph, "count", initial, NULL, status);
  CHECK(troupe_output_dtype(count, status) == TROUPE_RESOURCE);
  troupe_output more = troupe_variable_assign_add(count, initial, status);
  troupe_output value = troupe_variable_read(count, status);
  troupe_output ready = troupe_graph_initializer(graph, status);
  CHECK_OK(status);
  CHECK(troupe_graph_num_variables(graph, status) == 1);
  CHECK(troupe_graph_variable_at(graph, 0, status).node == count.node);
  troupe_graph_variable_at(graph, 1, status);
  CHECK_ERROR(status, TROUPE_OUT_OF_RANGE, "the graph has 1");
  troupe_variable_read(initial, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "which is no variable");

  troupe_session_options options = {.size = sizeof options, .seed = 3, .timeout_seconds = 60};
  troupe_session* session = troupe_session_new(graph, NULL, &options, status);
  CHECK_OK(status);
  troupe_tensor* result = one;
  CHECK(troupe_session_run(session, NULL, NULL, NULL, 0, &value, &result, 1, NULL, 0, status) != TROUPE_OK);
  CHECK_ERROR(status, TROUPE_FAILED_PRECONDITION, "count");
  CHECK(result == NULL);
  CHECK(troupe_session_run(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &ready, 1, status) == TROUPE_OK);
  for (int i = 0; i < 3; ++i) {
    troupe_session_run(session, NULL, NULL, NULL, 0, &more, &result, 1, NULL, 0, status);
    CHECK_OK(status);
    CHECK(float_at(result, 0) == (float)(i + 2));
    troupe_tensor_delete(result);
  }
  check_text(troupe_session_explain(session, NULL, 0, &value, 1, NULL, 0, status), "count");

  // Nodes that came later.
  troupe_output twice = troupe_graph_op(graph, "Neg", &value, 1, NULL, NULL, status);
  CHECK(troupe_session_run(session, NULL, NULL, NULL, 0, &twice, &result, 1, NULL, 0, status) != TROUPE_OK);
  CHECK(troupe_session_extend(session, status) == TROUPE_OK);
  troupe_session_run(session, NULL, NULL, NULL, 0, &twice, &result, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK(float_at(result, 0) == -4);
  troupe_tensor_delete(result);

  // A compiled call outlives the handles of graph and session.
  troupe_callable* call = troupe_callable_new(session, &value, 1, &twice, 1, NULL, 0, status);
  CHECK_OK(status);
  troupe_graph_delete(graph);
  troupe_session_delete(session);
  troupe_run_options run = {.size = sizeof run, .timeout_seconds = 60};
  CHECK(troupe_callable_run(call, &run, &one, 1, &result, 1, status) == TROUPE_OK);
  CHECK(float_at(result, 0) == -1);
  troupe_tensor_delete(result);
  troupe_callable_run(call, NULL, &one, 1, &result, 0, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "1 fetches");
  troupe_callable_run(call, NULL, NULL, 0, &result, 1, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "");
  troupe_callable_delete(call);

  // Errors of kernels, and of what is fed.
  graph = troupe_graph_new(status);
  const int64_t open[] = {-1}, two[] = {2};
  troupe_output x = troupe_graph_placeholder(graph, TROUPE_F32, open, 1, "x", status);
  troupe_output i = troupe_graph_placeholder(graph, TROUPE_I64, NULL, 0, "i", status);
  const troupe_output inputs[] = {x, i};
  troupe_output row = troupe_graph_op(graph, "Gather", inputs, 2, NULL, NULL, status);
  session = troupe_session_new(graph, NULL, NULL, status);
  CHECK_OK(status);
  const float pair[] = {5, 6};
  const int64_t far = 9;
  troupe_tensor* fed[] = {floats(two, 1, pair), troupe_tensor_from_copy(TROUPE_I64, NULL, 0, &far, 8, status)};
  CHECK(troupe_session_run(session, NULL, inputs, fed, 2, &row, &result, 1, NULL, 0, status) != TROUPE_OK);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "Gather: index 9 (element 0) is not in [0, 2)");
  CHECK(result == NULL);
  troupe_tensor_delete(fed[1]);
  fed[1] = scalar(1);
  troupe_session_run(session, NULL, inputs, fed, 2, &row, &result, 1, NULL, 0, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "i64");
  CHECK(troupe_session_close(session, status) == TROUPE_OK && troupe_session_close(session, status) == TROUPE_OK);
  troupe_session_run(session, NULL, inputs, fed, 2, &row, &result, 1, NULL, 0, status);
  CHECK_ERROR(status, TROUPE_FAILED_PRECONDITION, "the session is closed");
  troupe_tensor_delete(fed[0]);
  troupe_tensor_delete(fed[1]);
  troupe_tensor_delete(one);
  troupe_session_delete(session);
  troupe_graph_delete(graph);
  troupe_status_delete(status);
}

void test_gradients(void) {
  troupe_status* status = troupe_status_new();
  troupe_graph* graph = troupe_graph_new(status);
  const int64_t two[] = {2};
  const float start[] = {3, -2};
  troupe_tensor* value = floats(two, 1, start);
  troupe_output initial = troupe_graph_constant(graph, value, NULL, status);
  troupe_output variable = troupe_graph_variable(graph, "w", initial, NULL, status);
  troupe_output w = troupe_variable_read(variable, status);
  troupe_output square = troupe_graph_op(graph, "Square", &w, 1, NULL, NULL, status);
  const int64_t axes[] = {0};
  const int64_t one[] = {1};
  troupe_tensor* axis_value = troupe_tensor_from_copy(TROUPE_I64, one, 1, axes, 8, status);
  const troupe_output reduced[] = {square, troupe_graph_constant(graph, axis_value, NULL, status)};
  troupe_output loss = troupe_graph_op(graph, "Sum", reduced, 2, NULL, NULL, status);
  CHECK_OK(status);

  const troupe_output xs[] = {w, initial};
  troupe_output found[2];
  CHECK(troupe_graph_gradients(&loss, 1, xs, 2, NULL, found, status) == TROUPE_OK);
  CHECK(found[0].graph == graph && found[1].graph == NULL);
  found[1] = w;  // gradients in the place of what they are of
  CHECK(troupe_graph_gradients(&loss, 1, found + 1, 1, &loss, found + 1, status) == TROUPE_OK);
  troupe_output train = troupe_graph_minimize(loss, "sgd(learning_rate=0.25)", status);
  CHECK_OK(status);
  CHECK(troupe_graph_minimize(loss, "adamm", status).graph == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "adamm");
  troupe_output ready = troupe_graph_initializer(graph, status);

  troupe_session* session = troupe_session_new(graph, NULL, NULL, status);
  troupe_session_run(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &ready, 1, status);
  CHECK_OK(status);
  troupe_tensor* gradients[2];
  troupe_session_run(session, NULL, NULL, NULL, 0, found, gradients, 2, NULL, 0, status);
  CHECK_OK(status);
  CHECK(float_at(gradients[0], 0) == 6 && float_at(gradients[0], 1) == -4);
  CHECK(float_at(gradients[1], 0) == 6 * 13);
  for (int i = 0; i < 3; ++i) {
    troupe_tensor* now;
    troupe_session_run(session, NULL, NULL, NULL, 0, &loss, &now, 1, &train, 1, status);
    CHECK_OK(status);
    CHECK(float_at(now, 0) == (float)(13.0 / (1 << 2 * i)));  // each step halves w
    troupe_tensor_delete(now);
  }
  troupe_tensor_delete(gradients[0]);
  troupe_tensor_delete(gradients[1]);
  troupe_tensor_delete(value);
  troupe_tensor_delete(axis_value);
  troupe_session_delete(session);
  troupe_graph_delete(graph);
  troupe_status_delete(status);
}

struct work {
  troupe_session* session;
  troupe_output x, y;
  int first;
};

static void* run_steps(void* argument) {
  const struct work* work = argument;
  troupe_status* status = troupe_status_new();
  for (int i = work->first; i < work->first + 200; ++i) {
    troupe_tensor *in = scalar((float)i), *out;
    troupe_session_run(work->session, NULL, &work->x, &in, 1, &work->y, &out, 1, NULL, 0, status);
    CHECK_OK(status);
    CHECK(float_at(out, 0) == (float)i * (float)i);
    troupe_tensor_delete(in);
    troupe_tensor_delete(out);
  }
  troupe_status_delete(status);
  return NULL;
}

// Eight threads with one session.
void test_threads(void) {
  troupe_status* status = troupe_status_new();
  troupe_graph* graph = troupe_graph_new(status);
  troupe_output x = troupe_graph_placeholder(graph, TROUPE_F32, NULL, 0, NULL, status);
  troupe_output y = troupe_graph_op(graph, "Square", &x, 1, NULL, NULL, status);
  troupe_session* session = troupe_session_new(graph, NULL, NULL, status);
  CHECK_OK(status);
  pthread_t threads[8];
  struct work work[8];
  for (int i = 0; i < 8; ++i) {
    work[i] = (struct work){session, x, y, 1000 * i};
    CHECK(pthread_create(&threads[i], NULL, run_steps, &work[i]) == 0);
  }
  for (int i = 0; i < 8; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  troupe_session_delete(session);
  troupe_graph_delete(graph);
  troupe_status_delete(status);
}

// Null, other handles and wrong options are errors.
void test_misuse(void) {
  troupe_status* status = troupe_status_new();
  troupe_graph* graph = troupe_graph_new(status);
  const int64_t two[] = {2};
  troupe_tensor* tensor = scalar(1);
  troupe_graph_constant(NULL, tensor, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "troupe_graph_constant: argument 'graph' is null");
  troupe_graph_constant(graph, NULL, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'value' is null");
  troupe_graph_constant((troupe_graph*)tensor, tensor, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'graph' is no handle of its type");
  troupe_graph_op(graph, NULL, NULL, 0, NULL, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'op' is null");
  troupe_graph_op(graph, "Neg", NULL, 1, NULL, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'inputs' is null");
  troupe_output none = {NULL, -1, 0}, wrong = {graph, 5, 0};
  troupe_graph_op(graph, "Neg", &none, 1, NULL, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'inputs[0].graph' is null");
  troupe_graph_op(graph, "Neg", &wrong, 1, NULL, NULL, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'inputs[0]' is of node 5, but the graph has 0");
  CHECK(troupe_tensor_new(TROUPE_F32, NULL, 1, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'dims' is null");
  CHECK(troupe_tensor_from_copy(TROUPE_F32, two, 1, NULL, 8, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'data' is null");
  troupe_session_run(NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, status);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'session' is null");
  CHECK(troupe_graph_to_text(NULL, status) == NULL && troupe_graph_num_nodes(NULL) == 0);
  CHECK(troupe_tensor_rank(NULL) == -1 && troupe_tensor_dtype(NULL) == TROUPE_INVALID);

  // Options of no version, and of a later one.
  struct {
    troupe_session_options known;
    int64_t later;
  } options = {.known = {.size = 0}};
  CHECK(troupe_session_new(graph, NULL, &options.known, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "begin with .size = sizeof options");
  options.known.size = sizeof options;
  options.later = 1;
  CHECK(troupe_session_new(graph, NULL, &options.known, status) == NULL);
  CHECK_ERROR(status, TROUPE_UNIMPLEMENTED, "fields that this library, version 0.1.0, does not know");
  options.later = 0;  // a field that a later version has, with its default
  troupe_session* session = troupe_session_new(graph, NULL, &options.known, status);
  CHECK_OK(status);
  troupe_session_delete(session);
  options.known.size = sizeof(size_t);  // of an earlier version, without any field
  options.known.timeout_seconds = -1;
  session = troupe_session_new(graph, NULL, &options.known, status);
  CHECK_OK(status);
  troupe_session_delete(session);
  options.known.size = sizeof options.known;
  CHECK(troupe_session_new(graph, NULL, &options.known, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "options.timeout_seconds");

  troupe_tensor_delete(tensor);
  troupe_graph_delete(graph);
  troupe_graph_delete(NULL);
  troupe_session_delete(NULL);
  troupe_status_delete(status);
}

// That of apps/examples/op_library.
void test_op_library(const char* path) {
  troupe_status* status = troupe_status_new();
  CHECK(troupe_load_op_library("/no/such.so", status) == TROUPE_NOT_FOUND);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "op library /no/such.so: there is no such file");
  CHECK(troupe_load_op_library(path, status) == TROUPE_OK && troupe_load_op_library(path, status) == TROUPE_OK);
  check_text(troupe_op_signature("ReluSigmoid", status), "ReluSigmoid(x: T) -> (y: T)");
  troupe_graph* graph = troupe_graph_new(status);
  troupe_tensor* zero = scalar(0);
  troupe_output x = troupe_graph_constant(graph, zero, NULL, status);
  troupe_output y = troupe_graph_op(graph, "ReluSigmoid", &x, 1, NULL, NULL, status);
  troupe_session* session = troupe_session_new(graph, NULL, NULL, status);
  troupe_tensor* found = NULL;
  troupe_session_run(session, NULL, NULL, NULL, 0, &y, &found, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK(float_at(found, 0) == 0.5f);
  troupe_tensor_delete(found);
  troupe_session_delete(session);
  troupe_graph_delete(graph);
  troupe_tensor_delete(zero);
  troupe_status_delete(status);
}
