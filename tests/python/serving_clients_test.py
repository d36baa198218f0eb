"""Conversations of others' clients with troupe-serve: tensorflow-serving-api over gRPC, tritonclient over gRPC and
HTTP, and urllib (tools/setup.sh --with-peers). The models are SavedModels that TensorFlow wrote."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")
grpc = pytest.importorskip("grpc")
apis = pytest.importorskip("tensorflow_serving.apis")
from tensorflow_serving.apis import (  # noqa: E402
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

DTYPES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
          "float16"]
PATIENCE = 60  # seconds


def write_models(folder):
    """times/N: "y" is x times N, and texts as they are; each: a tensor of each dtype as it is."""

    class Times(tf.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = tf.Variable(float(factor))

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def serve(self, x):
            return {"y": x * self.factor, "version": x[:, 0] * 0 + self.factor}

    class Each(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.as_dtype(name), name=name) for name in DTYPES]
                     + [tf.TensorSpec([None], tf.string, name="text")])
        def serve(self, *values):
            names = DTYPES + ["text"]
            return {"out_" + name: tf.identity(value) for name, value in zip(names, values)}

    for version in (1, 2):
        module = Times(version)
        tf.saved_model.save(module, f"{folder}/times/{version}", signatures={"serving_default": module.serve})
    module = Each()
    tf.saved_model.save(module, f"{folder}/each/1", signatures={"serving_default": module.serve})


class Server:
    """`replicas`: so many of them behind a router, or 0: one process."""

    def __init__(self, *arguments, replicas=0):
        programs = os.environ["TROUPE_PROGRAMS"]
        launcher = [f"{programs}/troupe-launch", "--serve", str(replicas), "--"] if replicas else []
        self.code = 143 if replicas else 0  # after SIGTERM
        self.process = subprocess.Popen(
            [*launcher, f"{programs}/troupe-serve", "--rest-port", "0", "--grpc-port", "0", "--poll", "0.05", "--json",
             *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ready = json.loads(self.process.stdout.readline())
        assert ready["event"] == "ready"
        self.rest, self.grpc = ready["rest_port"], ready["grpc_port"]
        self.channel = grpc.insecure_channel(f"localhost:{self.grpc}")
        self.predictions = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def predict(self, name, inputs, timeout=PATIENCE, **spec):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = name
        if "version" in spec:
            request.model_spec.version.value = spec["version"]
        if "label" in spec:
            request.model_spec.version_label = spec["label"]
        request.model_spec.signature_name = spec.get("signature", "")
        for key, value in inputs.items():
            request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
        request.output_filter.extend(spec.get("outputs", []))
        return self.predictions.Predict(request, timeout)

    def url(self, path):
        return f"http://localhost:{self.rest}{path}"

    def get(self, path):
        return json.load(urllib.request.urlopen(self.url(path), timeout=PATIENCE))

    def post(self, path, body):
        return json.load(urllib.request.urlopen(self.url(path), json.dumps(body).encode(), timeout=PATIENCE))

    def close(self):
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        assert code == self.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("models"))
    write_models(path)
    return path


@pytest.fixture()
def server(folder):
    config = f"{folder}/models.txt"
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"""model_config_list {{
          config {{ name: "times" base_path: "{folder}/times" model_platform: "tensorflow"
                    model_version_policy {{ all {{}} }} version_labels {{ key: "stable" value: 1 }} }}
          config {{ name: "each" base_path: "{folder}/each" }} }}""")
    made = Server("--config", config)
    yield made
    made.close()


def code_of(call):
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code()


def each_value():
    random = np.random.default_rng(5)
    values = {}
    for name in DTYPES:
        if name == "bool":
            values[name] = np.array([[True, False], [False, True]])
        elif name.startswith("float"):
            values[name] = random.standard_normal((2, 2)).astype(name)
        else:
            info = np.iinfo(name)
            values[name] = np.array([[info.min, info.max], [0, 1]], dtype=name)
    values["text"] = np.array(["grüße".encode(), b"\x00\xff"], dtype=object)
    return values


def test_tensorflow_serving_predicts(server):
    answer = server.predict("times", {"x": np.float32([[1, 2], [3, 4]])})
    np.testing.assert_array_equal(tf.make_ndarray(answer.outputs["y"]), [[2, 4], [6, 8]])
    assert answer.model_spec.version.value == 2 and answer.model_spec.signature_name == "serving_default"
    answer = server.predict("times", {"x": np.float32([[1, 2]])}, version=1, outputs=["y"])
    np.testing.assert_array_equal(tf.make_ndarray(answer.outputs["y"]), [[1, 2]])
    assert list(answer.outputs) == ["y"]
    answer = server.predict("times", {"x": np.float32([[1, 2]])}, label="stable")
    assert answer.model_spec.version.value == 1


def test_tensorflow_serving_sends_each_dtype(server):
    values = each_value()
    answer = server.predict("each", values)
    for name, value in values.items():
        found = tf.make_ndarray(answer.outputs["out_" + name])
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)


def test_tensorflow_serving_gets_metadata_and_status(server):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "times"
    request.metadata_field.append("signature_def")
    answer = server.predictions.GetModelMetadata(request, PATIENCE)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(signatures)
    x = signatures.signature_def["serving_default"].inputs["x"]
    assert x.dtype == tf.float32.as_datatype_enum and [d.size for d in x.tensor_shape.dim] == [-1, 2]

    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "times"
    states = {v.version: v.state for v in server.models.GetModelStatus(status, PATIENCE).model_version_status}
    assert states == {1: get_model_status_pb2.ModelVersionStatus.AVAILABLE,
                      2: get_model_status_pb2.ModelVersionStatus.AVAILABLE}


@pytest.fixture(params=[0, 2], ids=["alone", "routed"])
def reloaded(request, folder):
    made = Server("--model", f"times={folder}/times", replicas=request.param)
    yield made
    made.close()


def test_tensorflow_serving_reloads(reloaded, folder):
    request = model_management_pb2.ReloadConfigRequest()
    config = request.config.model_config_list.config.add()
    config.name, config.base_path = "again", f"{folder}/times"
    assert reloaded.models.HandleReloadConfigRequest(request, PATIENCE).status.error_code == 0
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            answer = reloaded.predict("again", {"x": np.float32([[1, 2]])})
            break
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE and time.monotonic() < deadline
            time.sleep(0.01)
    assert answer.model_spec.version.value == 2
    assert code_of(lambda: reloaded.predict("times", {"x": np.float32([[1, 2]])})) == grpc.StatusCode.NOT_FOUND
    config.base_path = ""
    assert "base_path" in reloaded.models.HandleReloadConfigRequest(request, PATIENCE).status.error_message


def test_tensorflow_serving_gets_codes(server, folder):
    x = np.float32([[1, 2]])
    codes = grpc.StatusCode
    assert code_of(lambda: server.predict("none", {"x": x})) == codes.NOT_FOUND
    assert code_of(lambda: server.predict("times", {"x": x}, version=9)) == codes.NOT_FOUND
    assert code_of(lambda: server.predict("times", {"x": x}, label="canary")) == codes.NOT_FOUND
    assert code_of(lambda: server.predict("times", {"x": x}, signature="none")) == codes.NOT_FOUND
    assert code_of(lambda: server.predict("times", {"x": x}, outputs=["none"])) == codes.NOT_FOUND
    assert code_of(lambda: server.predict("times", {"x": x.astype(np.float64)})) == codes.INVALID_ARGUMENT
    assert code_of(lambda: server.predict("times", {"x": np.float32([1])})) == codes.INVALID_ARGUMENT
    assert code_of(lambda: server.predict("times", {"z": x})) == codes.INVALID_ARGUMENT
    assert code_of(lambda: server.predict("times", {})) == codes.INVALID_ARGUMENT
    assert code_of(lambda: server.predict("times", {"x": np.complex64([[1, 2]])})) == codes.UNIMPLEMENTED
    assert code_of(lambda: server.predict("times", {"x": x}, timeout=-1)) == codes.DEADLINE_EXCEEDED
    classify = classification_pb2.ClassificationRequest()
    classify.model_spec.name = "times"
    assert code_of(lambda: server.predictions.Classify(classify, PATIENCE)) == codes.UNIMPLEMENTED

    guarded = Server("--model", f"times={folder}/times", "--token", "secret", "--model", f"gone={folder}/none")
    try:
        assert code_of(lambda: guarded.predict("times", {"x": x})) == codes.UNAUTHENTICATED
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "times"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(x))
        header = (("authorization", "Bearer secret"),)
        guarded.predictions.Predict(request, PATIENCE, metadata=header)
        request.model_spec.name = "gone"
        assert code_of(lambda: guarded.predictions.Predict(request, PATIENCE, metadata=header)) == codes.UNAVAILABLE
    finally:
        guarded.close()


def test_rest_clients_of_tensorflow_serving(server):
    assert server.post("/v1/models/times:predict", {"instances": [[1, 2], [3, 4]]}) == {
        "predictions": [{"y": [2.0, 4.0], "version": 2.0}, {"y": [6.0, 8.0], "version": 2.0}]}
    column = server.post("/v1/models/times/versions/1:predict", {"inputs": {"x": [[1, 2]]}})
    assert column == {"outputs": {"y": [[1.0, 2.0]], "version": [1.0]}}
    labelled = server.post("/v1/models/times/labels/stable:predict", {"instances": [{"x": [1, 2]}]})
    assert labelled["predictions"][0]["version"] == 1.0
    states = {v["version"]: v["state"] for v in server.get("/v1/models/times")["model_version_status"]}
    assert states == {"1": "AVAILABLE", "2": "AVAILABLE"}
    signature = server.get("/v1/models/times/metadata")["metadata"]["signature_def"]["signature_def"]
    assert signature["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"
    for path, body, status in (("/v1/models/none:predict", {"instances": [[1, 2]]}, 404),
                               ("/v1/models/times:predict", {"instances": [[1]]}, 400),
                               ("/v1/models/times:predict", {}, 400),
                               ("/v1/models/times/versions/9:predict", {"instances": [[1, 2]]}, 404)):
        with pytest.raises(urllib.error.HTTPError) as raised:
            server.post(path, body)
        assert raised.value.code == status
        assert json.load(raised.value)["error"]


def triton_inputs(module, values):
    names = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "bool": "BOOL", "text": "BYTES"}
    out = []
    for name, value in values.items():
        made = module.InferInput(name, value.shape, names.get(name, name.upper()))
        made.set_data_from_numpy(value)
        out.append(made)
    return out


def check_each(result, values):
    for name, value in values.items():
        np.testing.assert_array_equal(result.as_numpy("out_" + name), value)


def test_triton_client_over_grpc(server):
    triton = pytest.importorskip("tritonclient.grpc")
    client = triton.InferenceServerClient(f"localhost:{server.grpc}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("times")
    assert not client.is_model_ready("none")
    metadata = client.get_model_metadata("times", as_json=True)
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "2"]}]
    assert metadata["versions"] == ["1", "2"]
    values = each_value()
    result = client.infer("each", triton_inputs(triton, values), request_id="7")
    check_each(result, values)
    assert result.get_response().id == "7"
    x = [triton.InferInput("x", [1, 2], "FP32")]
    x[0].set_data_from_numpy(np.float32([[1, 2]]))
    result = client.infer("times", x, model_version="1", outputs=[triton.InferRequestedOutput("y")])
    np.testing.assert_array_equal(result.as_numpy("y"), [[1, 2]])
    with pytest.raises(triton.InferenceServerException) as raised:
        client.infer("none", x)
    assert "NOT_FOUND" in raised.value.status()
    client.close()


def test_triton_client_over_http(server):
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(f"localhost:{server.rest}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("times")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert client.get_model_metadata("times")["inputs"][0]["shape"] == [-1, 2]
    values = each_value()
    names = ["out_" + name for name in values]
    for binary in (True, False):
        kept = {name: value for name, value in values.items() if binary or name not in ("float16", "text")}
        sent = triton_inputs(triton, values)
        outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in names if name[4:] in kept]
        check_each(client.infer("each", sent, outputs=outputs), kept)
    with pytest.raises(triton.InferenceServerException):
        client.infer("times", triton_inputs(triton, {"float32": np.float32([[1, 2]])}))
    client.close()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
