// Tasks by themselves and in a cluster: this program is each task of one that troupe-launch starts.
#include <signal.h>

#include "check.h"
#include "program.h"

void test_tasks(void) {
  troupe_status* status = troupe_status_new();
  troupe_task_options options = {.size = sizeof options, .cpu_devices = 2, .threads = 1};
  troupe_task* task = troupe_task_new(&options, status);
  CHECK_OK(status);
  check_text(troupe_task_name(task, status), "/job:local/task:0");
  CHECK(troupe_task_num_devices(task) == 2 && troupe_task_num_tasks(task, NULL) == 0);
  check_text(troupe_task_device_name(task, 1, status), "/job:local/task:0/device:CPU:1");
  CHECK(troupe_task_device_name(task, 2, status) == NULL);
  CHECK_ERROR(status, TROUPE_OUT_OF_RANGE, "there are 2");

  // The task ends with the last of its sessions.
  troupe_graph* graph = troupe_graph_new(status);
  troupe_tensor *two = scalar(2), *result;
  troupe_output x = troupe_graph_constant(graph, two, "x", status);
  troupe_node_options there = {.size = sizeof there, .name = "y", .device = "CPU:1"};
  troupe_output y = troupe_graph_op(graph, "Square", &x, 1, NULL, &there, status);
  troupe_session* sessions[] = {troupe_session_new(graph, task, NULL, status),
                                troupe_session_new(graph, task, NULL, status)};
  CHECK_OK(status);
  troupe_task_delete(task);
  for (int i = 0; i < 2; ++i) {
    troupe_session_run(sessions[i], NULL, NULL, NULL, 0, &y, &result, 1, NULL, 0, status);
    CHECK_OK(status);
    CHECK(float_at(result, 0) == 4);
    troupe_tensor_delete(result);
    if (i == 0) check_text(troupe_session_explain(sessions[0], NULL, 0, &y, 1, NULL, 0, status), "device:CPU:1");
    troupe_session_delete(sessions[i]);
  }

  // Likewise with eager mode.
  task = troupe_task_new(&options, status);
  troupe_eager_options on = {.size = sizeof on, .device = "CPU:1"};
  troupe_eager* eager = troupe_eager_new(task, &on, status);
  CHECK_OK(status);
  troupe_task_delete(task);
  troupe_value *value = troupe_eager_constant(eager, two, status), *square;
  CHECK(troupe_eager_op(eager, "Square", &value, 1, NULL, NULL, &square, 1, status) == 1);
  troupe_value_delete(value);
  troupe_eager_delete(eager);
  result = troupe_value_tensor(square, status);
  CHECK(float_at(result, 0) == 4);
  troupe_tensor_delete(result);
  troupe_value_delete(square);

  // Serving ends by a timeout, or by another thread or a signal handler.
  task = troupe_task_new(NULL, status);
  CHECK(troupe_task_serve(task, 0.01, status) == TROUPE_DEADLINE_EXCEEDED);
  troupe_task_interrupt(task);
  CHECK(troupe_task_serve(task, 60, status) == TROUPE_OK);
  troupe_task_delete(task);

  options.cluster = "/nowhere/cluster.json";
  CHECK(troupe_task_new(&options, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'options.job' is null");
  options.job = "worker";
  CHECK(troupe_task_new(&options, status) == NULL);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "/nowhere/cluster.json");
  options.cluster = NULL;
  options.cpu_devices = -1;
  CHECK(troupe_task_new(&options, status) == NULL);
  CHECK(troupe_status_code(status) == TROUPE_INVALID_ARGUMENT);
  troupe_tensor_delete(two);
  troupe_graph_delete(graph);
  troupe_status_delete(status);
}

// A step on the parameter server, and training with a parameter server; with one process, the same training.
void test_cluster(int argc, char** argv) {
  troupe_status* status = troupe_status_new();
  troupe_task* task = troupe_task_from_command_line(&argc, argv, NULL, status);
  CHECK_OK(status);
  CHECK(argc == 2 && argv[argc] == NULL);
  const bool alone = troupe_task_num_tasks(task, NULL) == 0;
  char* name = troupe_task_name(task, status);
  if (!alone && strcmp(name, "/job:worker/task:0") == 0) {
    CHECK(troupe_task_num_tasks(task, "worker") == 2 && troupe_task_num_tasks(task, "ps") == 1);
    CHECK(troupe_task_await(task, "worker", 60, status) == TROUPE_OK);
    troupe_graph* graph = troupe_graph_new(status);
    troupe_tensor *three = scalar(3), *result;
    troupe_output x = troupe_graph_constant(graph, three, "x", status);
    troupe_node_options there = {.size = sizeof there, .device = "/job:ps/task:0"};
    troupe_output y = troupe_graph_op(graph, "Square", &x, 1, NULL, &there, status);
    troupe_session* session = troupe_session_new(graph, task, NULL, status);
    CHECK_OK(status);
    troupe_session_run(session, NULL, NULL, NULL, 0, &y, &result, 1, NULL, 0, status);
    CHECK_OK(status);
    CHECK(float_at(result, 0) == 9);
    troupe_tensor_delete(three);
    troupe_tensor_delete(result);
    troupe_session_delete(session);
    troupe_graph_delete(graph);
  }

  float x[64 * 2], y[64];
  for (int i = 0; i < 64; ++i) {
    x[2 * i] = (float)(i % 8) / 8, x[2 * i + 1] = (float)(i / 8) / 8;
    y[i] = x[2 * i] - 2 * x[2 * i + 1];
  }
  const int64_t x_dims[] = {64, 2}, y_dims[] = {64, 1}, example[] = {2};
  const char* const names[] = {"x", "y"};
  troupe_tensor* tensors[] = {floats(x_dims, 2, x), floats(y_dims, 2, y)};
  troupe_dataset* data = troupe_dataset_new(names, tensors, 2, status);
  const char* const layers[] = {"dense(units=1)"};
  troupe_model* model = troupe_model_sequential(layers, 1, TROUPE_F32, example, 1, status);
  troupe_compile_options compile = {
      .size = sizeof compile, .optimizer = "sgd(learning_rate=0.1)", .loss = "mean_squared_error", .task = task};
  CHECK(troupe_model_compile(model, &compile, status) == TROUPE_OK);
  troupe_fit_options fit = {
      .size = sizeof fit, .mode = alone ? "local(slots=2)" : "sync(slots=2)", .epochs = 3, .batch = 8, .quiet = true};
  troupe_figures* figures = troupe_model_fit(model, data, NULL, &fit, status);
  CHECK_OK(status);
  if (troupe_figures_count(figures) > 0) {
    char* hash = troupe_model_params_sha256(model, status);
    CHECK_OK(status);
    printf("parameters %s\n", hash);
    troupe_text_delete(hash);
  }
  troupe_figures_delete(figures);
  troupe_model_delete(model);
  troupe_dataset_delete(data);
  troupe_tensor_delete(tensors[0]);
  troupe_tensor_delete(tensors[1]);
  troupe_text_delete(name);
  troupe_task_delete(task);
  troupe_status_delete(status);
}

static troupe_task* serving;

static void interrupt(int signal_number) {
  (void)signal_number;
  troupe_task_interrupt(serving);
}

// Lets clients run steps here until SIGTERM.
void test_node(int argc, char** argv) {
  troupe_status* status = troupe_status_new();
  serving = troupe_task_from_command_line(&argc, argv, NULL, status);
  CHECK_OK(status);
  signal(SIGTERM, interrupt);
  CHECK(troupe_task_serve(serving, 0, status) == TROUPE_OK);
  troupe_task_delete(serving);
  troupe_status_delete(status);
}

// Counts in a variable of a node, which the next client finds: `first` is what it is afterwards.
void test_client(const char* cluster, float first) {
  troupe_status* status = troupe_status_new();
  troupe_task_options options = {.size = sizeof options, .cluster = cluster, .job = "client", .join_seconds = 60};
  troupe_task* task = troupe_task_new(&options, status);
  CHECK_OK(status);
  CHECK(troupe_task_num_devices(task) == 2 && troupe_task_num_tasks(task, NULL) == 1);
  troupe_graph* graph = troupe_graph_new(status);
  troupe_tensor *one = scalar(1), *result;
  troupe_output start = troupe_graph_constant(graph, one, NULL, status);
  troupe_variable_options there = {.size = sizeof there, .device = "/job:worker/task:0"};
  troupe_output count = troupe_graph_variable(graph, "count", start, &there, status);
  troupe_output more = troupe_variable_assign_add(count, start, status);
  troupe_output ready = troupe_graph_initialize_once(graph, status);
  CHECK_OK(status);
  troupe_session_options shared = {.size = sizeof shared, .container = "counters", .timeout_seconds = 60};
  troupe_session* session = troupe_session_new(graph, task, &shared, status);
  troupe_session_run(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &ready, 1, status);
  CHECK_OK(status);
  troupe_session_run(session, NULL, NULL, NULL, 0, &more, &result, 1, NULL, 0, status);
  CHECK_OK(status);
  CHECK(float_at(result, 0) == first);
  troupe_tensor_delete(one);
  troupe_tensor_delete(result);
  troupe_session_delete(session);
  troupe_graph_delete(graph);
  troupe_task_delete(task);
  troupe_status_delete(status);
}
