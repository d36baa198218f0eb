"""Prints what a request log has, a line for each request, as TensorFlow reads it. Without a file: checks that
TensorFlow and TensorFlow Serving's messages are there."""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: E402
from tensorflow_serving.apis import prediction_log_pb2  # noqa: E402


def values(tensors):
    return " ".join(f"{name}={tf.make_ndarray(tensors[name]).tolist()}" for name in sorted(tensors))


for path in sys.argv[1:]:
    for record in tf.data.TFRecordDataset(path):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        predict, metadata = log.predict_log, log.log_metadata
        spec = metadata.model_spec
        assert predict.request.model_spec == predict.response.model_spec == spec
        print(spec.name, spec.version.value, spec.signature_name, metadata.sampling_config.sampling_rate,
              values(predict.request.inputs), values(predict.response.outputs))
