// Eager mode: ops, variables, tapes, optimizers.
#include <pthread.h>

#include "check.h"
#include "program.h"

static troupe_eager* eager;
static troupe_status* status;

static troupe_value* constant(float value) {
  troupe_tensor* tensor = scalar(value);
  troupe_value* out = troupe_eager_constant(eager, tensor, status);
  CHECK_OK(status);
  troupe_tensor_delete(tensor);
  return out;
}

static troupe_value* op(const char* name, troupe_value* a, troupe_value* b) {
  troupe_value* inputs[] = {a, b};
  troupe_value* out = NULL;
  CHECK(troupe_eager_op(eager, name, inputs, b ? 2 : 1, NULL, NULL, &out, 1, status) == 1);
  CHECK_OK(status);
  return out;
}

static float number(const troupe_value* value) {
  troupe_tensor* tensor = troupe_value_tensor(value, status);
  CHECK_OK(status);
  const float out = float_at(tensor, 0);
  troupe_tensor_delete(tensor);
  return out;
}

static void count(void* data, void* argument) {
  CHECK(data != NULL);
  ++*(int*)argument;
}

static void* delete_tape(void* tape) {
  troupe_status* own = troupe_status_new();
  troupe_tape_stop(tape, own);
  CHECK_ERROR(own, TROUPE_FAILED_PRECONDITION, "records another thread");
  troupe_status_delete(own);
  troupe_tape_delete(tape);
  return NULL;
}

static void check_tapes(troupe_value* w) {
  // d(w^2 x)/dw = 2 w x, and the gradient of that for x.
  troupe_value* x = constant(3);
  troupe_tape* outer = troupe_tape_new(eager, true, status);
  troupe_tape_watch(outer, x, status);
  troupe_tape* inner = troupe_tape_new(eager, false, status);
  CHECK_OK(status);
  troupe_value* read = troupe_value_read(w, status);
  troupe_value* square = op("Mul", read, read);
  troupe_value* y = op("Mul", square, x);
  troupe_value *dw, *dx[2];
  CHECK(troupe_tape_gradients(inner, &y, 1, &w, 1, NULL, &dw, status) == TROUPE_OK);
  CHECK(number(dw) == 2 * 5 * 3);
  troupe_value* unused = NULL;
  CHECK(troupe_tape_gradients(inner, &y, 1, &w, 1, NULL, &unused, status) == TROUPE_FAILED_PRECONDITION);
  CHECK(unused == NULL);
  troupe_tape_delete(inner);
  troupe_value* xs[] = {x, dw};
  for (int i = 0; i < 2; ++i) {
    troupe_tape_gradients(outer, &dw, 1, xs, 2, NULL, dx, status);
    CHECK_OK(status);
    CHECK(number(dx[0]) == 10);
    troupe_value_delete(dx[0]);
    troupe_value_delete(dx[1]);
  }
  troupe_tape_gradients(outer, &dw, 1, &square, 1, &x, dx, status);  // with a gradient of dw
  CHECK_OK(status);
  troupe_value_delete(dx[0]);
  troupe_tape_delete(outer);

  // A gradient of some rows of a variable is dense.
  const int64_t table_dims[] = {3, 1}, row_dims[] = {2}, rows[] = {2, 2};
  const float zeros[] = {0, 0, 0};
  troupe_tensor* tensors[] = {floats(table_dims, 2, zeros),
                              troupe_tensor_from_copy(TROUPE_I64, row_dims, 1, rows, sizeof rows, status)};
  troupe_value* table = troupe_eager_variable(eager, "table", tensors[0], NULL, status);
  troupe_value* indices = troupe_eager_constant(eager, tensors[1], status);
  inner = troupe_tape_new(eager, false, status);
  troupe_value* all_rows = troupe_value_read(table, status);
  troupe_value* some_rows = op("Gather", all_rows, indices);
  CHECK(troupe_tape_gradients(inner, &some_rows, 1, &table, 1, NULL, dx, status) == TROUPE_OK);
  troupe_tape_delete(inner);
  troupe_tensor* sums = troupe_value_tensor(dx[0], status);
  CHECK(troupe_tensor_dim(sums, 0) == 3 && float_at(sums, 0) == 0 && float_at(sums, 2) == 2);
  troupe_tensor_delete(sums);
  troupe_value_delete(dx[0]);
  troupe_value_delete(some_rows);
  troupe_value_delete(all_rows);
  troupe_value_delete(indices);
  troupe_value_delete(table);
  troupe_tensor_delete(tensors[0]);
  troupe_tensor_delete(tensors[1]);

  // Deleted in the wrong order, and by another thread: freed later.
  outer = troupe_tape_new(eager, false, status);
  inner = troupe_tape_new(eager, false, status);
  troupe_tape_delete(outer);
  troupe_tape_watch(inner, x, status);
  CHECK_OK(status);
  troupe_value* more = op("Neg", x, NULL);
  CHECK(troupe_tape_gradients(inner, &more, 1, &x, 1, NULL, dx, status) == TROUPE_OK && number(dx[0]) == -1);
  troupe_value_delete(dx[0]);
  troupe_tape_delete(inner);
  outer = troupe_tape_new(eager, false, status);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, delete_tape, outer) == 0 && pthread_join(thread, NULL) == 0);
  troupe_tape_delete(troupe_tape_new(eager, false, status));
  troupe_value_delete(more);
  troupe_value_delete(dw);
  troupe_value_delete(y);
  troupe_value_delete(square);
  troupe_value_delete(read);
  troupe_value_delete(x);
}

void test_eager(void) {
  status = troupe_status_new();
  troupe_eager_options options = {.size = sizeof options, .seed = 1};
  eager = troupe_eager_new(NULL, &options, status);
  CHECK_OK(status);
  troupe_value *two = constant(2), *three = constant(3);
  troupe_value* six = op("Mul", two, three);
  CHECK(number(six) == 6);
  troupe_value* again = troupe_value_share(six, status);
  troupe_value_delete(six);
  CHECK(number(again) == 6);

  // Several outputs, of which some are wanted; attributes.
  const int64_t dims[] = {3};
  const float values[] = {1, 9, 4};
  const int64_t k = 2;
  troupe_tensor *tensor = floats(dims, 1, values), *most = troupe_tensor_from_copy(TROUPE_I64, NULL, 0, &k, 8, status);
  troupe_value* inputs[] = {troupe_eager_constant(eager, tensor, status), troupe_eager_constant(eager, most, status)};
  troupe_attributes* attributes = troupe_attributes_new(status);
  troupe_attributes_set_bool(attributes, "largest", false, status);
  troupe_value* least[3];
  CHECK(troupe_eager_op(eager, "TopK", inputs, 2, attributes, NULL, least, 1, status) == 2);
  CHECK(number(least[0]) == 1);
  troupe_value_delete(least[0]);
  CHECK(troupe_eager_op(eager, "TopK", inputs, 2, attributes, NULL, least, 3, status) == 2 && least[2] == NULL);
  troupe_value_delete(least[0]);
  troupe_value_delete(least[1]);

  // The result in the place of the input.
  troupe_value* place = constant(3);
  troupe_value* before = place;
  CHECK(troupe_eager_op(eager, "Square", &place, 1, NULL, NULL, &place, 1, status) == 1 && number(place) == 9);
  troupe_value_delete(before);
  troupe_value_delete(place);

  // Errors name the op and what it was given.
  CHECK(troupe_eager_op(eager, "MatMul", inputs, 2, NULL, NULL, least, 1, status) == -1 && least[0] == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "MatMul");
  CHECK(troupe_eager_op(eager, "NoSuchOp", NULL, 0, NULL, NULL, NULL, 0, status) == -1);
  CHECK_ERROR(status, TROUPE_NOT_FOUND, "NoSuchOp");
  troupe_eager* other = troupe_eager_new(NULL, NULL, status);
  CHECK(troupe_eager_op(other, "Neg", inputs, 1, NULL, NULL, least, 1, status) == -1);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'inputs[0]' is of another troupe_eager");
  troupe_tensor* seven = scalar(7);
  troupe_value* foreign = troupe_eager_variable(other, "v", seven, NULL, status);
  CHECK_OK(status);
  troupe_tensor_delete(seven);
  troupe_eager_delete(other);

  // Variables have memory of their own.
  float number_five = 5;
  int deleted = 0;
  troupe_tensor* five =
      troupe_tensor_from_memory(TROUPE_F32, NULL, 0, &number_five, sizeof number_five, count, &deleted, status);
  troupe_value* w = troupe_eager_variable(eager, "w", five, NULL, status);
  CHECK_OK(status);
  troupe_tensor_delete(five);
  CHECK(deleted == 1);
  troupe_value* old = troupe_value_read(w, status);
  CHECK(troupe_value_assign_add(w, two, status) == TROUPE_OK && troupe_value_assign_add(w, three, status) == TROUPE_OK);
  troupe_value* now = troupe_value_read(w, status);
  CHECK(number(now) == 10 && number(old) == 5 && number_five == 5);
  CHECK(troupe_value_assign(w, old, status) == TROUPE_OK);
  CHECK(troupe_value_tensor(w, status) == NULL);
  CHECK_ERROR(status, TROUPE_FAILED_PRECONDITION, "is a variable: read it");
  CHECK(troupe_value_read(two, status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'variable' is no variable");
  troupe_value_delete(old);
  troupe_value_delete(now);
  check_tapes(w);

  // Training: w^2 to its minimum.
  troupe_optimizer* optimizer = troupe_optimizer_new("momentum(learning_rate=0.1)", status);
  CHECK_OK(status);
  for (int i = 0; i < 200; ++i) {
    troupe_tape* tape = troupe_tape_new(eager, false, status);
    troupe_value* read = troupe_value_read(w, status);
    troupe_value *loss = op("Square", read, NULL), *gradient;
    CHECK(troupe_tape_gradients(tape, &loss, 1, &w, 1, NULL, &gradient, status) == TROUPE_OK);
    troupe_tape_delete(tape);
    CHECK(troupe_optimizer_apply(optimizer, &gradient, &w, 1, status) == TROUPE_OK);
    troupe_value_delete(gradient);
    troupe_value_delete(loss);
    troupe_value_delete(read);
  }
  now = troupe_value_read(w, status);
  CHECK(number(now) < 0.1F && number(now) > -0.1F);
  CHECK(troupe_optimizer_new("adamm", status) == NULL);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "adamm");
  CHECK(troupe_optimizer_apply(optimizer, &two, &foreign, 1, status) != TROUPE_OK);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'variables[0]' is of another troupe_eager");
  troupe_value_delete(foreign);
  CHECK(troupe_optimizer_apply(optimizer, &two, &three, 1, status) != TROUPE_OK);
  CHECK_ERROR(status, TROUPE_INVALID_ARGUMENT, "argument 'variables[0]' is no variable");

  // Random ops begin again.
  const int64_t one[] = {1};
  const uint64_t seeds[] = {7, 7};
  float drawn[2];
  troupe_tensor* shape = troupe_tensor_from_copy(TROUPE_I64, one, 1, dims, 8, status);
  troupe_value* wanted = troupe_eager_constant(eager, shape, status);
  for (int i = 0; i < 2; ++i) {
    CHECK(troupe_eager_set_seed(eager, seeds[i], status) == TROUPE_OK);
    troupe_value* random = op("RandomUniform", wanted, NULL);
    drawn[i] = number(random);
    troupe_value_delete(random);
  }
  CHECK(drawn[0] == drawn[1]);
  troupe_tensor_delete(shape);
  troupe_value_delete(wanted);

  // The handle of the mode ends first.
  troupe_eager_delete(eager);
  CHECK(number(now) < 0.1F);
  troupe_value_delete(now);
  troupe_optimizer_delete(optimizer);
  troupe_value_delete(w);
  troupe_value_delete(inputs[0]);
  troupe_value_delete(inputs[1]);
  troupe_value_delete(two);
  troupe_value_delete(three);
  troupe_value_delete(again);
  troupe_attributes_delete(attributes);
  troupe_tensor_delete(tensor);
  troupe_tensor_delete(most);
  troupe_status_delete(status);
}
