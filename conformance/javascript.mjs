// Runs models on onnxruntime-node or onnxruntime-web. Each line of the input is a model's file and its inputs, in JSON;
// each line of the answer has the outputs, or an error.
import fs from 'node:fs';
import readline from 'node:readline';
import {createRequire} from 'node:module';

const [, , folder, name] = process.argv;
const ort = createRequire(import.meta.url)(folder);
const isWeb = name === 'onnxruntime-web';
if (isWeb) {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'fatal';
}
const arrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, uint64: BigUint64Array, int32: Int32Array,
  uint32: Uint32Array, int16: Int16Array, uint16: Uint16Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

function readTensor({dtype, shape, data}) {
  if (!(dtype in arrays)) throw new Error(`there is no tensor of type ${dtype}`);
  const bytes = Uint8Array.from(Buffer.from(data, 'hex'));
  return new ort.Tensor(dtype, new arrays[dtype](bytes.buffer), shape);
}

function writeTensor({type, dims, data}) {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return {dtype: type, shape: dims, data: bytes.toString('hex')};
}

async function run({model, inputs}) {
  const options = {executionProviders: [isWeb ? 'wasm' : 'cpu'], logSeverityLevel: 4};
  const session = await ort.InferenceSession.create(isWeb ? new Uint8Array(fs.readFileSync(model)) : model, options);
  const feeds = Object.fromEntries(Object.entries(inputs).map(([key, value]) => [key, readTensor(value)]));
  const results = await session.run(feeds);
  return {outputs: session.outputNames.map((key) => writeTensor(results[key]))};
}

for await (const line of readline.createInterface({input: process.stdin})) {
  let answer;
  try {
    answer = await run(JSON.parse(line));
  } catch (error) {
    answer = {error: String(error)};
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
