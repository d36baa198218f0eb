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
