"""Each function of the builder (graph/builder) has one of Python, or a reason that it has none."""

import pathlib
import re

import troupe

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = [troupe, troupe.nn, troupe.random, troupe.signal, troupe.strings, troupe.image, troupe.quantization,
           troupe.debugging, troupe.fft, troupe.linalg, troupe.lookup, troupe.queue, troupe.sparse]

# Those of another name in Python: most have NumPy's.
NAMES = {
    "acos": "arccos", "acosh": "arccosh", "add_op": "op", "add_outputs": "op", "arg_max": "argmax",
    "arg_min": "argmin", "arg_sort": "argsort", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "batch_norm_inference": "nn.batch_norm", "bitwise_not": "invert",
    "concat": "concatenate", "conv": "nn.conv2d", "cumulative_max": "cummax", "cumulative_min": "cummin",
    "diag_part": "diagonal", "div": "divide", "fill": "full", "floor_div": "floor_divide", "floor_mod": "remainder",
    "flatten": "Tensor.flatten", "gather_elements": "take_along_axis", "if_else": "cond",
    "initializer": "Graph.initializer", "is_finite": "isfinite", "is_inf": "isinf", "is_nan": "isnan",
    "log_add_exp": "logaddexp", "log_sum_exp": "logsumexp", "matrix_inverse": "linalg.inv",
    "matrix_solve": "linalg.solve", "mul": "multiply", "multinomial": "random.categorical", "neg": "negative",
    "non_max_suppression": "image.batched_non_max_suppression",
    "non_max_suppression_of_one": "image.non_max_suppression", "non_zero": "nonzero",
    "placeholder": "Graph.placeholder", "pow": "power", "ragged_from_row_lengths": "RaggedTensor.from_row_lengths",
    "ragged_from_tensor": "RaggedTensor.from_tensor", "ragged_max": "RaggedTensor.max",
    "ragged_mean": "RaggedTensor.mean", "ragged_min": "RaggedTensor.min",
    "ragged_row_lengths": "RaggedTensor.row_lengths", "ragged_sum": "RaggedTensor.sum",
    "ragged_to_tensor": "RaggedTensor.to_tensor", "row_ids": "RaggedTensor.row_ids",
    "random_exponential": "random.exponential", "random_gamma": "random.gamma", "random_integers": "random.integers",
    "random_normal": "random.normal", "random_permutation": "random.permutation", "random_poisson": "random.poisson",
    "random_uniform": "random.uniform", "range": "arange", "reduce_all": "all", "reduce_any": "any",
    "reduce_l1": "l1_norm", "reduce_l2": "l2_norm", "reverse": "flip", "search_sorted": "searchsorted",
    "select": "where", "slice": "Tensor.__getitem__", "sparse_placeholder": "sparse.placeholder",
    "dense_to_sparse": "sparse.from_dense", "sampled_matmul": "sparse.sampled_matmul", "sparse_add": "sparse.add",
    "sparse_coalesce": "sparse.coalesce", "sparse_concat": "sparse.concat", "sparse_dense_add": "sparse.add",
    "sparse_dense_divide": "sparse.divide", "sparse_dense_multiply": "sparse.multiply",
    "sparse_expand_dims": "sparse.expand_dims", "sparse_fill_empty_rows": "sparse.fill_empty_rows",
    "sparse_maximum": "sparse.maximum", "sparse_minimum": "sparse.minimum", "sparse_multiply": "sparse.multiply",
    "sparse_reduce_max": "sparse.reduce_max", "sparse_reduce_max_sparse": "sparse.reduce_max",
    "sparse_reduce_sum": "sparse.reduce_sum", "sparse_reduce_sum_sparse": "sparse.reduce_sum",
    "sparse_reorder": "sparse.reorder", "sparse_reset_shape": "sparse.reset_shape",
    "sparse_reshape": "sparse.reshape", "sparse_retain": "sparse.retain",
    "sparse_segment_mean": "sparse.segment_mean", "sparse_segment_sqrt_n": "sparse.segment_sqrt_n",
    "sparse_segment_sum": "sparse.segment_sum", "sparse_slice": "sparse.slice",
    "sparse_softmax": "sparse.softmax", "sparse_split": "sparse.split", "sparse_tensor": "SparseTensor",
    "sparse_to_dense": "sparse.to_dense", "sparse_to_indicator": "sparse.to_indicator",
    "sparse_to_ragged": "sparse.to_ragged", "sparse_transpose": "sparse.transpose",
    "split_sizes": "split", "standard_deviation": "std",
    "strided_slice": "Tensor.__getitem__", "string_join": "strings.join", "string_length": "strings.length",
    "string_lower": "strings.lower", "string_ngrams": "strings.ngrams", "string_normalizer": "strings.normalize",
    "string_reduce_join": "strings.reduce_join", "string_split": "strings.split", "string_strip": "strings.strip",
    "string_to_hash_bucket": "strings.to_hash_bucket", "string_to_number": "strings.to_number",
    "string_upper": "strings.upper", "sub": "subtract", "truncate_mod": "fmod", "unsorted_segment_max": "segment_max",
    "unsorted_segment_mean": "segment_mean", "unsorted_segment_min": "segment_min",
    "unsorted_segment_prod": "segment_prod", "unsorted_segment_sum": "segment_sum", "variable": "Variable",
    "variance": "var",
}
WITHOUT = {
    "parts of the builder, for its own functions and for those that write passes and layers": [
        "add_target", "copy_functions", "graph_being_built", "graph_for", "inline_function", "is_softmax",
        "outputs_of", "parse_data_format", "parse_padding", "pick_classes", "scalar_like", "scalar_of",
        "scatter_add_rows", "summaries_of", "sum_to_like", "to_string",
    ],
    "sparse tensors of graphs, which sessions feed and fetch as they are": [
        "check_sparse", "feed", "parts_of", "sparse_constant", "sparse_value",
    ],
    "of queues, accumulators and tables, which are classes": [
        "add_resource", "add_resource_call", "add_resource_target",
    ],
    "variables and tables of graphs, which models that are imported have": [
        "find_variable", "hash_tables", "initialize_once", "is_on_demand", "variables",
    ],
    "as ONNX's operators: for its importer": [
        "gemm", "list_concat", "list_erase", "list_get", "list_insert", "list_of", "list_size", "list_stack",
        "list_unstack", "reshape_copying_zeros", "tf_idf_vectorizer", "tree_ensemble",
    ],
    "loops of other forms than while_loop and scan": ["call", "for_loop", "loop"],
    "other functions with shape_of() do the same": [
        "as_scalar", "broadcast_like", "element_count", "pad_list", "reshape_like", "resize_by",
    ],
    "products of bytes, which passes make": ["dynamic_quantized_matmul", "quantized_conv2d", "quantized_matmul"],
    "statistics, which gradients use": ["layer_norm_outputs"],
    "nodes of graphs without values": ["group"],
    "functions that steps call: troupe.data takes those of Python": ["host_call"],
    "summaries of training in C++": ["histogram", "image", "scalar", "text"],
}
REASONS = {name: reason for reason, names in WITHOUT.items() for name in names}


def builder_functions():
    """{name: header}."""
    found = {}
    for path in sorted((ROOT / "graph/builder").glob("*.hpp")):
        text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        for name in re.findall(r"^(?:[A-Z]\w*[*&]?|bool|void|std::[\w:]+(?:<.*>)?) (\w+)\(", text, re.MULTILINE):
            found[name] = path.name
    return found


def reached(name):
    if name in NAMES:
        value = troupe
        for part in NAMES[name].split("."):
            value = getattr(value, part, None)
        return value is not None
    return any(callable(getattr(module, name, None)) for module in MODULES)


def test_python_reaches_the_functions_of_the_builder():
    functions = builder_functions()
    assert len(functions) > 250
    missing = {name: header for name, header in functions.items() if not reached(name) and name not in REASONS}
    assert missing == {}, "a function of Python reaches each, or WITHOUT gives the reason"


def test_the_lists_are_of_functions_that_exist():
    functions = builder_functions()
    assert [name for name in [*NAMES, *REASONS] if name not in functions] == []
    assert [name for name in REASONS if reached(name)] == []
