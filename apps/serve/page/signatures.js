// A line of curl for each signature of the models that are ready.

const kMostNumbers = 4096;  // of an example that is written out
const signaturesOf = new Map();  // by "model/version": {name: {inputs, outputs}}, or undefined while it is asked for

const isText = (info) => info.dtype === "DT_STRING";
const dimsOf = (info) => (info.tensor_shape?.dim ?? []).map((dim) => Number(dim.size));
const typeOf = (info) =>
  info.dtype.replace("DT_", "").toLowerCase() + "[" + dimsOf(info).map((dim) => (dim < 0 ? "?" : dim)).join(",") + "]";

// Zeros of a shape, nested; open dimensions are 1.
function zeros(dims, zero) {
  if (!dims.length) return zero;
  return Array.from({length: dims[0] < 0 ? 1 : dims[0]}, () => zeros(dims.slice(1), zero));
}

function exampleOf(inputs) {
  const all = Object.entries(inputs);
  const size = sum(all.map(([, info]) => dimsOf(info).reduce((product, dim) => product * (dim < 0 ? 1 : dim), 1)));
  if (size > kMostNumbers) return undefined;
  const zero = (info) => (isText(info) ? "text" : info.dtype === "DT_BOOL" ? false : 0);
  // Rows, if each input has some.
  if (all.length && all.every(([, info]) => dimsOf(info)[0] === -1)) {
    const row = all.map(([name, info]) => [name, zeros(dimsOf(info).slice(1), zero(info))]);
    return {instances: [all.length === 1 ? row[0][1] : Object.fromEntries(row)]};
  }
  return {inputs: Object.fromEntries(all.map(([name, info]) => [name, zeros(dimsOf(info), zero(info))]))};
}

const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

function curlLine(model, name, signature) {
  const example = exampleOf(signature.inputs ?? {});
  const url = location.origin + "/v1/models/" + encodeURIComponent(model) + ":predict";
  if (!example) return "curl -d @request.json " + quoted(url);
  const body = JSON.stringify({signature_name: name, ...example});
  const withToken = token ? "-H 'Authorization: Bearer TOKEN' " : "";
  return "curl " + withToken + "-d " + quoted(body) + " " + quoted(url);
}

// Asks for what it does not know yet, one at a time.
async function learnSignatures(ready) {
  for (const servable of ready) {
    const key = servableKey(servable);
    if (signaturesOf.has(key)) continue;
    signaturesOf.set(key, undefined);
    try {
      const path = "v1/models/" + encodeURIComponent(servable.model) + "/versions/" + servable.version + "/metadata";
      signaturesOf.set(key, JSON.parse(await ask(path)).metadata.signature_def.signature_def);
    } catch (error) {
      signaturesOf.delete(key);  // it may have been unloaded, or has a token of its own
    }
  }
}

function showSignatures(ready) {
  const newest = new Map(ready.map((servable) => [servable.model, servable]));  // ascending versions
  const items = [...newest.values()].flatMap((servable) =>
    Object.entries(signaturesOf.get(servableKey(servable)) ?? {}).map(([name, signature]) => (
      {model: servable.model, key: servableKey(servable) + " " + name, name, signature})));
  setChildren(byId("signatures"), items, (item) => item.key, makeSignature);
}

function makeSignature({model, name, signature}) {
  const listed = (infos) => Object.entries(infos ?? {}).map(([each, info]) => each + " " + typeOf(info)).join(", ");
  const line = curlLine(model, name, signature);
  const copy = element("button", {type: "button", onclick: async () => {
    await navigator.clipboard?.writeText(line);
    setText(copy, "Copied");
  }}, "Copy");
  return element("div", {class: "signature", "data-signature": model + ":" + name},
    element("h3", {}, model + ", " + name),
    element("p", {}, listed(signature.inputs) + " → " + listed(signature.outputs)),
    element("div", {class: "line"}, element("pre", {tabindex: "0"}, line), copy));
}
