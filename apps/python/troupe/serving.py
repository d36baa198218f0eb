"""A client of troupe-serve, and of other servers that speak the Open Inference Protocol (KServe, Triton): arrays in,
arrays out, without other packages.

    client = troupe.serving.Client("localhost:8501")
    scores = client.predict("digits", {"image": images})["scores"]
"""

from __future__ import annotations

import base64
import dataclasses
import http.client
import json
import math
import ssl
import threading
import typing
import urllib.parse

import numpy as np

from . import _troupe

__all__ = ["Client", "Signature", "TensorSpec"]

# Names of the protocol.
_DTYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
    "BF16": "bfloat16", "BYTES": "object",
}
_DATATYPES = {dtype: name for name, dtype in _DTYPES.items()}
# Names of TensorFlow.
_TF_DTYPES: typing.Dict[str, str] = {
    "DT_BOOL": "bool", "DT_UINT8": "uint8", "DT_UINT16": "uint16", "DT_UINT32": "uint32", "DT_UINT64": "uint64",
    "DT_INT8": "int8", "DT_INT16": "int16", "DT_INT32": "int32", "DT_INT64": "int64", "DT_HALF": "float16",
    "DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_BFLOAT16": "bfloat16", "DT_STRING": "object",
}
_CODES = {
    400: "invalid_argument", 401: "unauthenticated", 403: "permission_denied", 404: "not_found",
    408: "deadline_exceeded", 409: "aborted", 412: "failed_precondition", 413: "resource_exhausted",
    429: "resource_exhausted", 499: "cancelled", 501: "unimplemented", 503: "unavailable", 504: "deadline_exceeded",
}
_LENGTH = "Inference-Header-Content-Length"


@dataclasses.dataclass
class TensorSpec:
    """Of an input or output. dtype: a name of NumPy's, "object" for strings; shape: None for open dimensions."""

    dtype: str
    shape: typing.Optional[typing.List[typing.Optional[int]]]


@dataclasses.dataclass
class Signature:
    """A function that a served model offers."""

    inputs: typing.Dict[str, TensorSpec]
    outputs: typing.Dict[str, TensorSpec]


class Client:
    """Asks one server. Connections are kept; any number of threads may call it."""

    def __init__(self, address: str, token: str = "", timeout: float = 60,
                 context: typing.Optional[ssl.SSLContext] = None):
        """address: "host:port" of the server's REST port, or a URL, https:// for TLS. token: the server's or the
        model's. timeout: of a request, in seconds; the server does not compute what is later."""
        url = urllib.parse.urlsplit(address if "//" in address else "//" + address)
        if not url.hostname or url.scheme not in ("", "http", "https"):
            raise ValueError(f"{address!r} is no host:port and no address that begins with http:// or https://")
        self._host, self._port = url.hostname, url.port or 8501
        self._tls = (context or ssl.create_default_context()) if url.scheme == "https" else None
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self._timeout = timeout
        self._idle: typing.List[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def predict(self, model: str, inputs: typing.Any, version: typing.Optional[int] = None,
                label: typing.Optional[str] = None, signature: typing.Optional[str] = None,
                outputs: typing.Optional[typing.Sequence[str]] = None) -> typing.Dict[str, np.ndarray]:
        """{name: array} of the outputs, all or some, for {name: array} of the inputs; one array for a model with one
        input. version, label: of the model, its default if not given. signature: the default one if not given."""
        binary = signature is None and label is None
        name, signatures = "", typing.cast(typing.Mapping[str, typing.Any], {})
        if not binary or not isinstance(inputs, typing.Mapping):
            signatures = self.metadata(model, version, label)
            name = signature or next((n for n in ("serving_default", "predict") if n in signatures), "")
            if name not in signatures:
                _troupe.raise_error("not_found", f"model '{model}' has no signature '{name}': pass one of "
                                                 f"{list(signatures)}")
            if not isinstance(inputs, typing.Mapping):
                names = list(signatures[name].inputs)
                if len(names) != 1:
                    raise ValueError(f"model '{model}' has the inputs {names}: pass {{name: array}}")
                inputs = {names[0]: inputs}
        arrays = {key: np.asarray(value) for key, value in inputs.items()}
        if binary:
            return self._infer(model, arrays, version, outputs)
        found = self._predict_json(model, arrays, version, label, name, signatures[name])
        return found if outputs is None else {n: found[n] for n in outputs}

    def metadata(self, model: str, version: typing.Optional[int] = None,
                 label: typing.Optional[str] = None) -> typing.Dict[str, Signature]:
        """The model's signatures by name."""
        found = json.loads(self._ask("GET", _path("v1", model, version, label) + "/metadata"))
        signatures = found["metadata"]["signature_def"]["signature_def"]
        return {name: Signature(_specs(s.get("inputs", {})), _specs(s.get("outputs", {})))
                for name, s in signatures.items()}

    def status(self, model: str) -> typing.Dict[int, str]:
        """The state of each version: "AVAILABLE", "LOADING" ..."""
        found = json.loads(self._ask("GET", _path("v1", model)))
        return {int(v["version"]): v["state"] for v in found["model_version_status"]}

    def ready(self, model: typing.Optional[str] = None) -> bool:
        """Whether the server, or a model, answers requests now."""
        path = "/v2/health/ready" if model is None else _path("v2", model) + "/ready"
        return self._send("GET", path)[0] == 200

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: typing.Any) -> None:
        self.close()

    # ---- The Open Inference Protocol, with tensors as bytes behind the JSON
    def _infer(self, model: str, arrays: typing.Mapping[str, np.ndarray], version: typing.Optional[int],
               outputs: typing.Optional[typing.Sequence[str]]) -> typing.Dict[str, np.ndarray]:
        described, parts = [], []
        for name, array in arrays.items():
            datatype, data = _bytes_of(array, name)
            described.append({"name": name, "shape": list(array.shape), "datatype": datatype,
                              "parameters": {"binary_data_size": len(data)}})
            parts.append(data)
        request: typing.Dict[str, typing.Any] = {"inputs": described, "parameters": {"binary_data_output": True}}
        if outputs is not None:
            request["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
        head = json.dumps(request).encode()
        headers = {_LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}
        status, answered, body = self._send("POST", _path("v2", model, version) + "/infer", b"".join([head, *parts]),
                                            headers)
        if status != 200:
            self._fail(status, body)
        length = int(answered.get(_LENGTH.lower(), len(body)))
        place, out = length, {}
        for output in json.loads(body[:length])["outputs"]:
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                out[output["name"]] = np.array(output["data"], _dtype(_DTYPES[output["datatype"]])).reshape(
                    output["shape"])
                continue
            out[output["name"]] = _array_of(output["datatype"], output["shape"], memoryview(body)[place:place + size])
            place += size
        return out

    # ---- The API of TensorFlow Serving, which knows signatures and labels
    def _predict_json(self, model: str, arrays: typing.Mapping[str, np.ndarray], version: typing.Optional[int],
                      label: typing.Optional[str], name: str,
                      signature: Signature) -> typing.Dict[str, np.ndarray]:
        request = {"signature_name": name, "inputs": {n: _json_of(a) for n, a in arrays.items()}}
        found = json.loads(self._ask("POST", _path("v1", model, version, label) + ":predict",
                                     json.dumps(request).encode()))["outputs"]
        if len(signature.outputs) == 1:  # without its name
            found = {next(iter(signature.outputs)): found}
        return {n: _array_of_json(value, signature.outputs[n].dtype) for n, value in found.items()}

    # ---- HTTP
    def _ask(self, method: str, path: str, body: typing.Optional[bytes] = None) -> bytes:
        status, _, answer = self._send(method, path, body, {"Content-Type": "application/json"} if body else {})
        if status != 200:
            self._fail(status, answer)
        return answer

    def _fail(self, status: int, body: bytes) -> typing.NoReturn:
        text = body.decode(errors="replace")
        try:
            text = json.loads(text)["error"]
        except (ValueError, KeyError, TypeError):
            pass
        _troupe.raise_error(_CODES.get(status, "internal"), f"{self._host}:{self._port}: {text.strip()[:2000]}")
        raise AssertionError

    def _send(self, method: str, path: str, body: typing.Optional[bytes] = None,
              headers: typing.Optional[typing.Mapping[str, str]] = None
              ) -> typing.Tuple[int, typing.Dict[str, str], bytes]:
        sent = {**self._headers, "X-Request-Timeout": f"{self._timeout:g}", **(headers or {})}
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            connection = kept or self._connection()
            try:
                connection.request(method, path, body, sent)
                answer = connection.getresponse()
                found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                # The server has closed a connection that was idle: once more on another.
                if kept is not None and isinstance(error, (http.client.RemoteDisconnected, ConnectionError)):
                    continue
                code = "deadline_exceeded" if isinstance(error, TimeoutError) else "unavailable"
                _troupe.raise_error(code, f"{self._host}:{self._port}: {error or type(error).__name__}")
            if answer.will_close:
                connection.close()
            else:
                with self._lock:
                    self._idle.append(connection)
            return found

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)


def _path(api: str, model: str, version: typing.Optional[int] = None, label: typing.Optional[str] = None) -> str:
    if version is not None and label is not None:
        raise ValueError("pass a version or a label, not both")
    choice = f"/versions/{version}" if version is not None else ""
    if label is not None:
        choice = "/labels/" + urllib.parse.quote(label, safe="")
    return f"/{api}/models/{urllib.parse.quote(model, safe='')}{choice}"


def _specs(described: typing.Mapping[str, typing.Any]) -> typing.Dict[str, TensorSpec]:
    out = {}
    for name, about in described.items():
        shape = about.get("tensor_shape", {})
        dims = None if shape.get("unknown_rank") else [
            None if int(d["size"]) < 0 else int(d["size"]) for d in shape.get("dim", [])]
        out[name] = TensorSpec(_TF_DTYPES.get(str(about["dtype"]), str(about["dtype"])), dims)
    return out


def _dtype(name: str) -> np.dtype:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes  # only for models that have it

    return np.dtype(ml_dtypes.bfloat16)


def _texts(array: np.ndarray) -> typing.List[bytes]:
    return [t if isinstance(t, bytes) else str(t).encode() for t in array.reshape(-1).tolist()]


def _bytes_of(array: np.ndarray, name: str) -> typing.Tuple[str, bytes]:
    if array.dtype.kind in "OUS":
        return "BYTES", b"".join(len(t).to_bytes(4, "little") + t for t in _texts(array))
    datatype = _DATATYPES.get(array.dtype.name)
    if datatype is None:
        raise ValueError(f"the input '{name}' is of {array.dtype}, which servers do not take")
    return datatype, np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def _array_of(datatype: str, shape: typing.Sequence[int], data: memoryview) -> np.ndarray:
    if datatype != "BYTES":
        return np.frombuffer(data, _dtype(_DTYPES[datatype])).reshape(shape)
    out, place = np.empty(math.prod(shape), dtype=object), 0
    for i in range(len(out)):
        size = int.from_bytes(data[place:place + 4], "little")
        out[i] = bytes(data[place + 4:place + 4 + size])
        place += 4 + size
    return out.reshape(shape)


def _json_of(array: np.ndarray) -> typing.Any:
    if array.dtype.kind not in "OUS":
        return array.tolist()
    texts = [{"b64": base64.b64encode(t).decode()} for t in _texts(array)]
    return np.array(texts, dtype=object).reshape(array.shape).tolist()


def _array_of_json(value: typing.Any, dtype: str) -> np.ndarray:
    if dtype != "object":
        return np.array(value, _dtype(dtype))

    def texts(v: typing.Any) -> typing.Any:
        if isinstance(v, list):
            return [texts(item) for item in v]
        return base64.b64decode(v["b64"]) if isinstance(v, dict) else v.encode()

    return np.array(texts(value), dtype=object)
