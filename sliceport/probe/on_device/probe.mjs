// Runs the models in this folder on onnxruntime-node or onnxruntime-web, and writes the same results.json as probe.py.
//   node probe.mjs onnxruntime-node cpu       writes results.json
//   in a page:  import * as ort from "…/ort.webgpu.mjs"; import { probe } from "./probe.mjs";
//               const results = await probe(ort, "onnxruntime-web", "webgpu");
const isNode = typeof process !== "undefined" && !!process.versions?.node;
const ELEMENTS = {
  "<f4": ["float32", Float32Array], "<f8": ["float64", Float64Array], "<f2": ["float16", Uint16Array],
  "<i8": ["int64", BigInt64Array], "<u8": ["uint64", BigUint64Array], "<i4": ["int32", Int32Array],
  "<u4": ["uint32", Uint32Array], "<i2": ["int16", Int16Array], "<u2": ["uint16", Uint16Array],
  "|i1": ["int8", Int8Array], "|u1": ["uint8", Uint8Array], "|b1": ["bool", Uint8Array],
};

// A model of one Identity node.
const IDENTITY = "CAcSADo3ChAKAXgSAXkiCElkZW50aXR5EgFnWg8KAXgSCgoICAESBAoCCAFiDwoBeRIKCggIARIECgIIAUIECgAQDQ==";

async function read(name) {
  const url = new URL(name, import.meta.url);
  if (isNode) return new Uint8Array(await (await import("node:fs/promises")).readFile(url));
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${name} is missing; copy the folder again`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function load(name) {
  const bytes = await read(name);
  const end = bytes[6] > 1 ? 12 + new DataView(bytes.buffer).getUint32(8, true) : 10 + bytes[8] + 256 * bytes[9];
  const header = new TextDecoder().decode(bytes.subarray(10, end));
  const [type, List] = ELEMENTS[header.match(/'descr': '([^']*)'/)[1]];
  const dims = header.match(/'shape': \(([^)]*)\)/)[1].split(",").filter((s) => s.trim()).map(Number);
  return { type, dims, data: new List(bytes.slice(end).buffer) };
}

function toNumber(value, type) {
  if (type !== "float16") return Number(value);
  const exponent = (value >> 10) & 31, fraction = value & 1023;
  const size = exponent === 31 ? (fraction ? NaN : Infinity)
    : exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction * 2 ** -24;
  return value >> 15 ? -size : size;
}

const bytesOf = (data) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

function measure(got, expected) {
  const { type, dims } = expected;
  if (got.type !== type) return { kind: "type", detail: `its type is ${got.type}, expected ${type}` };
  const shapes = [got.dims, dims].map((each) => `[${each.join(", ")}]`);
  if (shapes[0] !== shapes[1]) return { kind: "shape", detail: `its shape is ${shapes[0]}, expected ${shapes[1]}` };
  const right = expected.data, size = right.length, width = right.BYTES_PER_ELEMENT;
  const [a, b] = [bytesOf(got.data), bytesOf(right)];
  const data = new right.constructor(a.slice().buffer); // onnxruntime-web may return Float16Array
  const bytesAt = (bytes, i) => [...bytes.subarray(i * width, (i + 1) * width)];
  let [unequal, at, absolute, largest] = [0, 0, -1, 0];
  for (let i = 0; i < size; i++) {
    const x = toNumber(data[i], type), y = toNumber(right[i], type);
    if (Number.isFinite(y)) largest = Math.max(largest, Math.abs(y));
    if (bytesAt(a, i).every((byte, k) => byte === b[i * width + k])) continue;
    // JSON lacks NaN and infinity. An error of 1e308 stands for NaN in one of the two elements, and 1e307 for infinity.
    const error = Number.isNaN(x) !== Number.isNaN(y) ? 1e308 : Number.isNaN(x) ? 0 : Math.min(Math.abs(x - y), 1e307);
    unequal++;
    if (error > absolute) [at, absolute] = [i, error];
  }
  const measures = { element: type, shape: dims, unequal };
  return unequal ? { ...measures, absolute, largest, at, got: bytesAt(a, at), expected: bytesAt(b, at) } : measures;
}

async function runCut(ort, provider, { model, inputs, outputs, weights }) {
  try {
    const options = { executionProviders: [provider] };
    if (weights && !ort.isNode) options.externalData = [{ path: weights, data: await read(weights) }];
    const place = ort.isNode ? (await import("node:url")).fileURLToPath(new URL(model, import.meta.url)) : await read(model);
    const session = await ort.InferenceSession.create(place, options);
    const tensors = (await Promise.all(inputs.map(load))).map(({ type, data, dims }) => new ort.Tensor(type, data, dims));
    const got = await session.run(Object.fromEntries(session.inputNames.map((name, i) => [name, tensors[i]])));
    const expected = await Promise.all(outputs.map(load));
    return { outputs: session.outputNames.map((name, i) => measure(got[name], expected[i])) };
  } catch (error) {
    // More than the 300 characters that sliceport shows, so that it marks that more follow.
    return { kind: "error", detail: String(error).replace(/\s+/g, " ").slice(0, 400) };
  }
}

// As in zip files.
function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

// Throws if a file was changed, or if the provider does not start: neither is a failure of a model.
async function check(ort, provider, lines) {
  for (const [kind, checksum, name] of lines.map((line) => line.split(" ")))
    if (kind === "crc32" && crc32(await read(name)) !== parseInt(checksum, 16))
      throw new Error(`${name} was changed; copy the folder again`);
  await ort.InferenceSession.create(Uint8Array.from(atob(IDENTITY), (each) => each.charCodeAt(0)), { executionProviders: [provider] });
}

export async function probe(ort, runtime, provider, { runApart, save, only } = {}) {
  const lines = new TextDecoder().decode(await read("probe.txt")).split("\n");
  if (!only) await check(ort, provider, lines);
  const state = JSON.parse(lines.find((line) => line.startsWith("state ")).slice(6));
  const weights = lines.some((line) => line.endsWith(" weights.bin")) ? "weights.bin" : null;
  const place = isNode ? `${process.platform} ${process.arch}` : navigator.userAgent;
  const results = { state, device: { runtime, version: ort.env?.versions?.common ?? "", place: provider, platform: place }, cuts: {} };
  for (const line of lines.filter((each) => each.startsWith("cut "))) {
    const [model, inputs, outputs] = line.slice(4).split(/ in| out/).map((part, i) => (i ? part.trim().split(" ").filter(Boolean) : part));
    if (only && model !== only) continue;
    results.cuts[model] = runApart ? runApart(model) : await runCut(ort, provider, { model, inputs, outputs, weights });
    save?.(results);
  }
  return results;
}

if (isNode && process.argv[1]?.endsWith("probe.mjs")) {
  const [runtime = "onnxruntime-node", provider = runtime === "onnxruntime-web" ? "wasm" : "cpu", only] = process.argv.slice(2);
  const { spawnSync } = await import("node:child_process");
  const { writeFileSync } = await import("node:fs");
  const { createRequire } = await import("node:module");
  const runApart = (model) => {
    const done = spawnSync(process.execPath, [process.argv[1], runtime, provider, model], { encoding: "utf8", maxBuffer: 2 ** 28 });
    const text = done.stdout.split("sliceport-result ")[1]?.split("\n")[0]; // a runtime may print more lines
    try { return JSON.parse(text); }
    catch { return { kind: "crash", detail: `its process ended with ${done.status ?? done.signal}` }; }
  };
  const save = (results) => writeFileSync(new URL("results.json", import.meta.url), JSON.stringify(results, null, 1));
  try {
    const ort = { ...createRequire(`${process.cwd()}/`)(runtime), isNode: runtime === "onnxruntime-node" };
    const results = await probe(ort, runtime, provider, only ? { only } : { runApart, save });
    if (only) console.log(`\nsliceport-result ${JSON.stringify(results.cuts[only])}`);
  } catch (error) {
    console.error(`probe.mjs: ${String(error).split("\n")[0]}`);
    process.exitCode = 1;
  }
}
