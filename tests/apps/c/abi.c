// What programs that are compiled already know of troupe.h: numbers, and the layout of structs. These lines never
// change; later versions add some.
#include "check.h"

#define IS(name, number) _Static_assert((name) == (number), #name " is not " #number)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved")

IS(TROUPE_OK, 0);
IS(TROUPE_CANCELLED, 1);
IS(TROUPE_UNKNOWN, 2);
IS(TROUPE_INVALID_ARGUMENT, 3);
IS(TROUPE_DEADLINE_EXCEEDED, 4);
IS(TROUPE_NOT_FOUND, 5);
IS(TROUPE_ALREADY_EXISTS, 6);
IS(TROUPE_PERMISSION_DENIED, 7);
IS(TROUPE_RESOURCE_EXHAUSTED, 8);
IS(TROUPE_FAILED_PRECONDITION, 9);
IS(TROUPE_ABORTED, 10);
IS(TROUPE_OUT_OF_RANGE, 11);
IS(TROUPE_UNIMPLEMENTED, 12);
IS(TROUPE_INTERNAL, 13);
IS(TROUPE_UNAVAILABLE, 14);
IS(TROUPE_DATA_LOSS, 15);
IS(TROUPE_UNAUTHENTICATED, 16);

IS(TROUPE_INVALID, 0);
IS(TROUPE_F32, 1);
IS(TROUPE_F64, 2);
IS(TROUPE_F16, 3);
IS(TROUPE_BF16, 4);
IS(TROUPE_I8, 5);
IS(TROUPE_U8, 6);
IS(TROUPE_I16, 7);
IS(TROUPE_I32, 8);
IS(TROUPE_I64, 9);
IS(TROUPE_BOOL, 10);
IS(TROUPE_STRING, 11);
IS(TROUPE_RESOURCE, 12);
IS(TROUPE_U16, 13);
IS(TROUPE_U32, 14);
IS(TROUPE_U64, 15);
IS(TROUPE_LIST, 16);
IS(sizeof(troupe_code), 4);
IS(sizeof(troupe_dtype), 4);

AT(troupe_output, graph, 0);
AT(troupe_output, node, 8);
AT(troupe_output, index, 12);
IS(sizeof(troupe_output), 16);

AT(troupe_node_options, size, 0);
AT(troupe_node_options, name, 8);
AT(troupe_node_options, device, 16);
AT(troupe_node_options, controls, 24);
AT(troupe_node_options, num_controls, 32);

AT(troupe_session_options, size, 0);
AT(troupe_session_options, seed, 8);
AT(troupe_session_options, timeout_seconds, 16);
AT(troupe_session_options, precision, 24);
AT(troupe_session_options, check_numerics, 28);
AT(troupe_session_options, inference, 29);
AT(troupe_session_options, container, 32);

AT(troupe_run_options, size, 0);
AT(troupe_run_options, timeout_seconds, 8);

AT(troupe_eager_options, size, 0);
AT(troupe_eager_options, seed, 8);
AT(troupe_eager_options, device, 16);

AT(troupe_load_options, size, 0);
AT(troupe_load_options, exact, 8);
AT(troupe_load_options, verify, 9);

AT(troupe_tensor_spec, size, 0);
AT(troupe_tensor_spec, name, 8);
AT(troupe_tensor_spec, description, 16);
AT(troupe_tensor_spec, dtype, 24);
AT(troupe_tensor_spec, rank, 28);
AT(troupe_tensor_spec, dims, 32);
IS(sizeof(troupe_tensor_spec), 96);

AT(troupe_task_options, size, 0);
AT(troupe_task_options, cpu_devices, 8);
AT(troupe_task_options, threads, 12);
AT(troupe_task_options, num_gpus, 16);
AT(troupe_task_options, memory_limit, 24);
AT(troupe_task_options, cluster, 32);
AT(troupe_task_options, job, 40);
AT(troupe_task_options, index, 48);
AT(troupe_task_options, insecure, 52);
AT(troupe_task_options, join_seconds, 56);
AT(troupe_task_options, tls_certificate, 64);
AT(troupe_task_options, tls_key, 72);
AT(troupe_task_options, tls_ca, 80);

AT(troupe_variable_options, size, 0);
AT(troupe_variable_options, device, 8);
AT(troupe_variable_options, not_trainable, 16);

AT(troupe_output_training, size, 0);
AT(troupe_output_training, output, 8);
AT(troupe_output_training, loss, 16);
AT(troupe_output_training, weight, 24);
AT(troupe_output_training, target, 32);
AT(troupe_output_training, sample_weights, 40);
AT(troupe_output_training, class_weights, 48);
AT(troupe_output_training, num_class_weights, 56);
AT(troupe_output_training, metrics, 64);
AT(troupe_output_training, num_metrics, 72);

AT(troupe_compile_options, size, 0);
AT(troupe_compile_options, optimizer, 8);
AT(troupe_compile_options, loss, 16);
AT(troupe_compile_options, metrics, 24);
AT(troupe_compile_options, num_metrics, 32);
AT(troupe_compile_options, outputs, 40);
AT(troupe_compile_options, num_outputs, 48);
AT(troupe_compile_options, precision, 56);
AT(troupe_compile_options, clip_global_norm, 64);
AT(troupe_compile_options, task, 72);

AT(troupe_epoch, size, 0);
AT(troupe_epoch, epoch, 8);
AT(troupe_epoch, steps, 16);
AT(troupe_epoch, seconds, 24);
AT(troupe_epoch, examples_per_second, 32);
AT(troupe_epoch, figures, 40);

AT(troupe_fit_options, size, 0);
AT(troupe_fit_options, mode, 8);
AT(troupe_fit_options, epochs, 16);
AT(troupe_fit_options, batch, 20);
AT(troupe_fit_options, micro_batches, 24);
AT(troupe_fit_options, quiet, 28);
AT(troupe_fit_options, seed, 32);
AT(troupe_fit_options, checkpoint, 40);
AT(troupe_fit_options, checkpoint_every, 48);
AT(troupe_fit_options, publish, 56);
AT(troupe_fit_options, tensorboard, 64);
AT(troupe_fit_options, callbacks, 72);
AT(troupe_fit_options, num_callbacks, 80);
AT(troupe_fit_options, on_epoch, 88);
AT(troupe_fit_options, argument, 96);
