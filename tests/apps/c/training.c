// Networks of layers, training, saved models.
#include "check.h"
#include "program.h"

enum { kExamples = 96 };

// Points [n,2], and on which side of a line they are.
static troupe_dataset* sides(troupe_status* status) {
  float points[2 * kExamples];
  int32_t classes[kExamples];
  for (int i = 0; i < kExamples; ++i) {
    points[2 * i] = (float)(i * 37 % 97) / 48 - 1;
    points[2 * i + 1] = (float)(i * 53 % 89) / 44 - 1;
    classes[i] = points[2 * i] + points[2 * i + 1] > 0;
  }
  const int64_t point_dims[] = {kExamples, 2}, class_dims[] = {kExamples};
  const char* const names[] = {"x", "side"};
  troupe_tensor* tensors[] = {floats(point_dims, 2, points),
                              troupe_tensor_from_copy(TROUPE_I32, class_dims, 1, classes, sizeof classes, status)};
  troupe_dataset* out = troupe_dataset_new(names, tensors, 2, status);
  CHECK_OK(status);
  troupe_tensor_delete(tensors[0]);
  troupe_tensor_delete(tensors[1]);
  return out;
}

static void* stop_in_epoch;  // a model
static int epochs_seen;
static double last_loss;

static void on_epoch(const troupe_epoch* epoch, void* argument) {
  CHECK(epoch->size >= sizeof *epoch && epoch->epoch == (uint32_t)epochs_seen && strcmp(argument, "mine") == 0);
  ++epochs_seen;
  CHECK(epoch->steps == 6u * (unsigned)epochs_seen && epoch->examples_per_second > 0);
  last_loss = troupe_figures_get(epoch->figures, "loss", NULL);
  if (epochs_seen == 2) troupe_model_stop(stop_in_epoch);
}

static troupe_model* classifier(troupe_status* status) {
  const char* const layers[] = {"dense(units=8, activation=tanh, kernel=he_normal(seed=3))", "dense(units=2)"};
  const int64_t example[] = {2};
  troupe_model* model = troupe_model_sequential(layers, 2, TROUPE_F32, example, 1, status);
  CHECK_OK(status);
  const char* const metrics[] = {"accuracy", "sparse_softmax_cross_entropy(label_smoothing=0.1, name=\"smooth\")"};
  troupe_compile_options options = {.size = sizeof options,
                                    .optimizer = "adam(learning_rate=0.05)",
                                    .loss = "sparse_softmax_cross_entropy",
                                    .metrics = metrics,
                                    .num_metrics = 2};
  CHECK(troupe_model_compile(model, &options, status) == TROUPE_OK);
  return model;
}

void test_training(const char* directory) {
  troupe_status* status = troupe_status_new();
  troupe_dataset* data = sides(status);
  troupe_model* model = classifier(status);
  check_text(troupe_model_summary(model, status), "dense_1");
  CHECK(troupe_model_params_sha256(model, status) == NULL);
  CHECK_ERROR(status, TROUPE_FAILED_PRECONDITION, "");

  const char* const callbacks[] = {"early_stopping(figure=\"val_loss\", patience=30)", "stop_on_nan"};
  troupe_fit_options options = {.size = sizeof options,
                                .mode = "local",
                                .epochs = 10,
                                .batch = 16,
                                .quiet = true,
                                .callbacks = callbacks,
                                .num_callbacks = 2,
                                .on_epoch = on_epoch,
                                .argument = "mine"};
  stop_in_epoch = model;
  CHECK(troupe_model_fit(model, data, data, &options, status) == NULL);
  CHECK_ERROR(status, TROUPE_CANCELLED, "");
  CHECK(epochs_seen == 2 && last_loss > 0);
  options.on_epoch = NULL;
  troupe_figures* figures = troupe_model_fit(model, data, data, &options, status);  // goes on
  CHECK_OK(status);
  CHECK(troupe_figures_count(figures) == 6 && strcmp(troupe_figures_name(figures, 0), "loss") == 0);
  CHECK(troupe_figures_name(figures, 6) == NULL);
  CHECK(troupe_figures_get(figures, "val_loss", status) < last_loss);
  CHECK(troupe_figures_get(figures, "val_accuracy", status) > 0.8);
  CHECK_OK(status);
  const double none = troupe_figures_get(figures, "auc", status);
  CHECK(none != none);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "smooth");
  troupe_figures_delete(figures);
  figures = troupe_model_evaluate(model, data, status);
  CHECK(troupe_figures_get(figures, "accuracy", status) > 0.8);
  troupe_figures_delete(figures);

  // Predictions, in both ways, and parameters.
  const int64_t two[] = {2, 2};
  const float points[] = {0.9F, 0.8F, -0.9F, -0.7F};
  troupe_tensor* x = floats(two, 2, points);
  troupe_tensor* y = troupe_model_predict(model, x, status);
  CHECK_OK(status);
  CHECK(float_at(y, 1) > float_at(y, 0) && float_at(y, 2) > float_at(y, 3));
  const char* const output[] = {"output"};
  troupe_tensor* all = NULL;
  troupe_model_predict_outputs(model, data, output, &all, 1, status);
  CHECK_OK(status);
  CHECK(troupe_tensor_dim(all, 0) == kExamples && troupe_tensor_dim(all, 1) == 2);
  troupe_tensor_delete(all);
  const char* const wrong[] = {"scores"};
  CHECK(troupe_model_predict_outputs(model, data, wrong, &all, 1, status) == TROUPE_NOT_FOUND && all == NULL);
  check_text(troupe_model_parameter_names(model, status), "dense/bias\ndense/kernel\ndense_1/bias\ndense_1/kernel");
  troupe_tensor* kernel = troupe_model_parameter(model, "dense/kernel", status);
  CHECK(troupe_tensor_dim(kernel, 0) == 2 && troupe_tensor_dim(kernel, 1) == 8);
  troupe_tensor_delete(kernel);

  // Saved, read as a model, and as something to call.
  CHECK(troupe_model_save(model, directory, status) == TROUPE_OK);
  char* hash = troupe_model_params_sha256(model, status);
  troupe_model_delete(model);
  model = troupe_model_load(directory, status);
  CHECK_OK(status);
  check_text(troupe_model_params_sha256(model, status), hash);
  troupe_text_delete(hash);
  troupe_model_delete(model);

  troupe_load_options load = {.size = sizeof load, .exact = true, .verify = true};
  troupe_task* task = troupe_task_new(NULL, status);
  troupe_loaded_model* loaded = troupe_loaded_model_new(directory, task, &load, status);
  CHECK_OK(status);
  CHECK(strcmp(troupe_loaded_model_format(loaded), "troupe") == 0);
  CHECK(strncmp(troupe_loaded_model_producer(loaded), "Troupe", 6) == 0);
  CHECK(troupe_loaded_model_num_signatures(loaded) == 1 && troupe_loaded_model_signature_name(loaded, 1) == NULL);
  CHECK(strcmp(troupe_loaded_model_signature_name(loaded, 0), "predict") == 0);
  CHECK(troupe_loaded_model_signature(loaded, "train", status) == NULL);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "'predict'");
  troupe_signature* predict = troupe_loaded_model_signature(loaded, NULL, status);
  CHECK_OK(status);
  troupe_loaded_model_delete(loaded);  // the signature keeps it, and its task
  troupe_task_delete(task);
  troupe_tensor_spec spec = {.size = sizeof spec};
  CHECK(troupe_signature_num_inputs(predict) == 1 && troupe_signature_num_outputs(predict) == 1);
  CHECK(troupe_signature_input(predict, 0, &spec, status) == TROUPE_OK);
  CHECK(spec.dtype == TROUPE_F32 && spec.rank == 2 && spec.dims[0] == -1 && spec.dims[1] == 2);
  CHECK(troupe_signature_output(predict, 0, &spec, status) == TROUPE_OK && strcmp(spec.name, "output") == 0);
  CHECK(troupe_signature_output(predict, 1, &spec, status) == TROUPE_OUT_OF_RANGE);
  troupe_tensor* again = NULL;
  CHECK(troupe_signature_run(predict, NULL, &x, 1, &again, 1, status) == TROUPE_OK);
  CHECK(memcmp(troupe_tensor_data(again, NULL), troupe_tensor_data(y, NULL), 16) == 0);
  troupe_tensor_delete(again);
  troupe_tensor* one = scalar(1);
  CHECK(troupe_signature_run(predict, NULL, &one, 1, &again, 1, status) == TROUPE_INVALID_ARGUMENT && again == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "f32[?,2]");
  CHECK(troupe_loaded_model_new("/nowhere", NULL, NULL, status) == NULL);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "/nowhere");
  troupe_tensor_delete(one);
  troupe_signature_delete(predict);
  troupe_tensor_delete(x);
  troupe_tensor_delete(y);
  troupe_dataset_delete(data);
  troupe_status_delete(status);
}

// Two inputs and two outputs.
void test_networks(void) {
  troupe_status* status = troupe_status_new();
  check_text(troupe_layer_signature("dense", status), "units=1");
  check_text(troupe_layer_signature(NULL, status), "\nlstm\n");
  troupe_network* network = troupe_network_new(status);
  const int64_t words_dims[] = {4}, price_dims[] = {1};
  const int32_t words = troupe_network_input(network, "words", TROUPE_I64, words_dims, 1, status);
  const int32_t price = troupe_network_input(network, "price", TROUPE_F32, price_dims, 1, status);
  const int32_t rows = troupe_network_layer(network, "embedding(vocabulary=10, units=4)", &words, 1, status);
  CHECK_OK(status);
  const int32_t pair[] = {troupe_network_layer(network, "global_average_pool", &rows, 1, status), price};
  const int32_t joined = troupe_network_layer(network, "concatenate", pair, 2, status);
  CHECK_OK(status);
  const int32_t results[] = {troupe_network_layer(network, "dense(units=3, name=\"kind\")", &joined, 1, status),
                             troupe_network_layer(network, "dense(units=1, name=\"sold\")", &joined, 1, status)};
  CHECK_OK(status);
  const char* const wrong_layers[][2] = {{"dense(units=\"three\")", "'units' must be an integer"},
                                         {"dense(unit=3)", "unit"},
                                         {"dense(units=0)", "units must be at least 1"},
                                         {"dense(units=3, kernel=he)", "no initializer 'he'"},
                                         {"dens(units=3)", "no layer of kind 'dens'"},
                                         {"dense(units=3", "column"}};
  for (size_t i = 0; i < sizeof wrong_layers / sizeof *wrong_layers; ++i) {
    CHECK(troupe_network_layer(network, wrong_layers[i][0], &joined, 1, status) == -1);
    CHECK(troupe_status_code(status) == TROUPE_INVALID_ARGUMENT || troupe_status_code(status) == TROUPE_NOT_FOUND);
    if (!strstr(troupe_status_message(status), wrong_layers[i][1]))
      fprintf(stderr, "%s", troupe_status_message(status));
    CHECK(strstr(troupe_status_message(status), wrong_layers[i][1]));
  }
  const int32_t far = 99;
  CHECK(troupe_network_layer(network, "dense(units=1)", &far, 1, status) == -1);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'inputs' has 99");

  troupe_model* model = troupe_model_new(network, results, NULL, 2, status);
  CHECK_OK(status);
  troupe_network_delete(network);
  const char* const metrics[] = {"accuracy"};
  const double class_weights[] = {1, 1, 4};
  troupe_output_training kind = {.size = sizeof kind,
                                 .output = "kind",
                                 .loss = "sparse_softmax_cross_entropy",
                                 .class_weights = class_weights,
                                 .num_class_weights = 3,
                                 .metrics = metrics,
                                 .num_metrics = 1};
  troupe_output_training sold = {
      .size = sizeof sold, .output = "sold", .loss = "sigmoid_cross_entropy", .weight = 0.5, .target = "was_sold"};
  const troupe_output_training* const outputs[] = {&kind, &sold};
  troupe_compile_options options = {.size = sizeof options, .outputs = outputs, .num_outputs = 2};
  CHECK(troupe_model_compile(model, &options, status) == TROUPE_OK);

  int64_t ids[16 * 4];
  int32_t kinds[16];
  float ones[16];
  for (int i = 0; i < 64; ++i) ids[i] = i * 7 % 10;
  for (int i = 0; i < 16; ++i) kinds[i] = i % 3, ones[i] = 1;
  const int64_t ids_dims[] = {16, 4}, column[] = {16, 1}, rows_dims[] = {16};
  const char* const names[] = {"words", "price", "kind", "was_sold"};
  troupe_tensor* tensors[] = {
      troupe_tensor_from_copy(TROUPE_I64, ids_dims, 2, ids, sizeof ids, status), floats(column, 2, ones),
      troupe_tensor_from_copy(TROUPE_I32, rows_dims, 1, kinds, sizeof kinds, status), floats(column, 2, ones)};
  troupe_dataset* data = troupe_dataset_new(names, tensors, 4, status);
  CHECK_OK(status);
  troupe_fit_options fit = {.size = sizeof fit, .epochs = 2, .batch = 4, .quiet = true};
  troupe_figures* figures = troupe_model_fit(model, data, NULL, &fit, status);
  CHECK_OK(status);
  CHECK(troupe_figures_get(figures, "kind_accuracy", status) >= 0 &&
        troupe_figures_get(figures, "sold_loss", status) > 0);
  CHECK_OK(status);
  troupe_figures_delete(figures);

  // Text that is none.
  const char* const wrong_modes[][2] = {
      {"synchronous", "use local, sync"}, {"sync(slot=2)", "slot"}, {"sync(on_loss=\"die\")", "on_loss must be"}};
  for (size_t i = 0; i < sizeof wrong_modes / sizeof *wrong_modes; ++i) {
    fit.mode = wrong_modes[i][0];
    CHECK(troupe_model_fit(model, data, NULL, &fit, status) == NULL);
    CHECK(strstr(troupe_status_message(status), wrong_modes[i][1]));
  }
  fit.mode = NULL;
  const char* const callback[] = {"csv_log"};
  fit.callbacks = callback;
  fit.num_callbacks = 1;
  CHECK(troupe_model_fit(model, data, NULL, &fit, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "the path is missing");
  troupe_compile_options wrong = {.size = sizeof wrong, .loss = "hubert"};
  CHECK(troupe_model_compile(model, &wrong, status) == TROUPE_NOT_FOUND);
  wrong.loss = "huber(gamma=\"a\")";
  CHECK(troupe_model_compile(model, &wrong, status) == TROUPE_INVALID_ARGUMENT);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "gamma");
  const char* const missing[] = {"words"};
  troupe_dataset* few = troupe_dataset_new(missing, tensors, 1, status);
  fit.num_callbacks = 0;
  CHECK(troupe_model_fit(model, few, NULL, &fit, status) == NULL);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "price");
  troupe_dataset_delete(few);
  for (int i = 0; i < 4; ++i) troupe_tensor_delete(tensors[i]);
  troupe_dataset_delete(data);
  troupe_model_delete(model);
  troupe_status_delete(status);
}

// A model of ONNX as a graph, with its own names, and as something to call.
void test_onnx(const char* path) {
  troupe_status* status = troupe_status_new();
  troupe_graph* graph = troupe_graph_from_onnx(path, status);
  CHECK_OK(status);
  troupe_output x = troupe_graph_output(graph, "0", status), y = troupe_graph_output(graph, "3", status);
  CHECK_OK(status);
  int64_t dims[2];
  CHECK(troupe_output_shape(y, dims, 2, status) == 2 && dims[0] == 4 && dims[1] == 8);
  float values[40];
  for (int i = 0; i < 40; ++i) values[i] = (float)(i * 7 % 11) / 4 - 1;
  const int64_t x_dims[] = {4, 10};
  troupe_tensor *in = floats(x_dims, 2, values), *one, *other;
  troupe_session* session = troupe_session_new(graph, NULL, NULL, status);
  troupe_session_run(session, NULL, &x, &in, 1, &y, &one, 1, NULL, 0, status);
  CHECK_OK(status);

  troupe_load_options options = {.size = sizeof options, .exact = true};
  troupe_loaded_model* model = troupe_loaded_model_new(path, NULL, &options, status);
  CHECK_OK(status);
  CHECK(strcmp(troupe_loaded_model_format(model), "onnx") == 0 &&
        strstr(troupe_loaded_model_producer(model), "pytorch"));
  troupe_signature* predict = troupe_loaded_model_signature(model, NULL, status);
  troupe_tensor_spec spec = {.size = sizeof spec};
  CHECK(troupe_signature_input(predict, 0, &spec, status) == TROUPE_OK && strcmp(spec.name, "0") == 0);
  CHECK(troupe_signature_run(predict, NULL, &in, 1, &other, 1, status) == TROUPE_OK);
  CHECK(memcmp(troupe_tensor_data(one, NULL), troupe_tensor_data(other, NULL), 4 * 8 * sizeof(float)) == 0);
  troupe_tensor_delete(in);
  troupe_tensor_delete(one);
  troupe_tensor_delete(other);
  troupe_signature_delete(predict);
  troupe_loaded_model_delete(model);
  troupe_session_delete(session);
  troupe_graph_delete(graph);
  troupe_status_delete(status);
}
