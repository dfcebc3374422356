// Runs the models in this folder on onnxruntime's C++ API, as probe.py does.
//   c++ -std=c++17 probe.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o probe
//   ./probe CUDA        in this folder; the provider is CPU, CUDA, or a name that AppendExecutionProvider takes
#include <onnxruntime_cxx_api.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

using Text = std::string;
struct Array { Text bytes; std::vector<int64_t> shape; };

Text read(const Text& name) {
    std::ifstream file(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
Array load(const Text& name) {  // of a .npy file the elements and sizes; the session has their type
    const Text bytes = read(name);
    auto at = [&](size_t i) { return size_t(uint8_t(bytes.at(i))); };
    const size_t end = at(6) > 1 ? 12 + at(8) + (at(9) << 8) : 10 + at(8) + (at(9) << 8), from = bytes.find("'shape': (") + 10;
    std::istringstream sizes(bytes.substr(from, bytes.find(')', from) - from));
    Array array{bytes.substr(end), {}};
    for (Text size; std::getline(sizes, size, ',');)
        if (size.find_first_of("0123456789") != Text::npos) array.shape.push_back(std::stoll(size));
    return array;
}
Text fail(const char* kind, Text detail) {
    std::replace_if(detail.begin(), detail.end(), [](char c) { return c == '"' || c == '\\' || uint8_t(c) < 32; }, ' ');
    return Text("{\"kind\": \"") + kind + "\", \"detail\": \"" + detail.substr(0, 400) + "\"}";
}
Text list(const std::vector<int64_t>& numbers) {
    Text text;
    for (auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
    return "[" + text + "]";
}
template <typename T> double number(T value) { return double(value); }
template <> double number(Ort::Float16_t value) { return value.ToFloat(); }

template <typename T> Text measure(const char* element, const Ort::Value& value, const Array& expected) {
    const auto shape = value.GetTensorTypeAndShapeInfo().GetShape();
    if (shape != expected.shape) return fail("shape", "its shape is " + list(shape) + " for " + list(expected.shape));
    const size_t size = value.GetTensorTypeAndShapeInfo().GetElementCount();
    if (expected.bytes.size() != size * sizeof(T)) return fail("type", Text("its type is ") + element);
    const T *got = value.GetTensorData<T>(), *right = reinterpret_cast<const T*>(expected.bytes.data());
    size_t unequal = 0, nan = 0, infinity = 0, at = 0;
    double absolute = 0, largest = 0, rank = -1;
    for (size_t i = 0; i < size; ++i) {
        const double x = number(got[i]), y = number(right[i]);
        if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
        if (!std::memcmp(got + i, right + i, sizeof(T))) continue;
        const bool is_nan = std::isnan(x) != std::isnan(y), is_finite = std::isfinite(x) && std::isfinite(y);
        const bool is_infinite = !is_finite && !is_nan && !std::isnan(x) && x != y;
        const double error = is_finite ? std::min(std::abs(x - y), 1e308) : 0, weight = is_nan ? 3 : is_infinite ? 2 : error / (1 + error);
        ++unequal, nan += is_nan, infinity += is_infinite, absolute = std::max(absolute, error);
        if (weight > rank) rank = weight, at = i;
    }
    std::ostringstream out;
    out.precision(17);
    out << "{\"element\": \"" << element << "\", \"shape\": " << list(shape) << ", \"unequal\": " << unequal;
    if (!unequal) return out.str() + "}";
    std::vector<int64_t> index(shape);
    size_t rest = at;
    for (size_t k = shape.size(); k-- > 0; rest /= shape[k]) index[k] = rest % shape[k];
    out << ", \"nan\": " << nan << ", \"infinity\": " << infinity << ", \"absolute\": " << absolute << ", \"largest\": " << largest
        << ", \"at\": " << list(index) << ", \"got\": \"" << number(got[at]) << "\", \"expected\": \"" << number(right[at]) << "\"}";
    return out.str();
}
Text measure(const Ort::Value& value, const Array& expected) {
    switch (value.GetTensorTypeAndShapeInfo().GetElementType()) {
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT: return measure<float>("float32", value, expected);
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE: return measure<double>("float64", value, expected);
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16: return measure<Ort::Float16_t>("float16", value, expected);
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64: return measure<int64_t>("int64", value, expected);
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32: return measure<int32_t>("int32", value, expected);
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8: return measure<int8_t>("int8", value, expected);
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8: return measure<uint8_t>("uint8", value, expected);
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL: return measure<bool>("bool", value, expected);
        default: return fail("error", "probe.cpp does not read outputs of this type");
    }
}
Text run(const Text& provider, const Text& line) try {
    std::istringstream words(line);
    Text model, word, results;
    words >> model >> word;
    Ort::Env env(ORT_LOGGING_LEVEL_ERROR);
    Ort::SessionOptions options;
    if (provider == "CUDA") options.AppendExecutionProvider_CUDA(OrtCUDAProviderOptions{});
    else if (provider != "CPU") options.AppendExecutionProvider(provider, {});
    Ort::Session session(env, std::filesystem::path(model).c_str(), options);
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeCPU);
    const auto inputs = session.GetInputNames(), outputs = session.GetOutputNames();
    std::vector<const char*> input_names, output_names;
    std::vector<Array> arrays(inputs.size());
    std::vector<Ort::Value> values;
    for (size_t i = 0; i < inputs.size() && words >> word; ++i) {
        auto& [bytes, shape] = arrays[i] = load(word);
        const auto type = session.GetInputTypeInfo(i).GetTensorTypeAndShapeInfo().GetElementType();
        values.push_back(Ort::Value::CreateTensor(memory, bytes.data(), bytes.size(), shape.data(), shape.size(), type));
        input_names.push_back(inputs[i].c_str());
    }
    for (auto& name : outputs) output_names.push_back(name.c_str());
    auto got = session.Run({}, input_names.data(), values.data(), values.size(), output_names.data(), output_names.size());
    words >> word;
    for (size_t i = 0; i < got.size() && words >> word; ++i) results += (i ? ", " : "") + measure(got[i], load(word));
    return "{\"outputs\": [" + results + "]}";
} catch (const std::exception& error) {
    return fail("error", error.what());
}
int main(int count, char** arguments) {  // the model that is a third word is run by a process of its own
    const Text provider = count > 1 ? arguments[1] : "CPU", only = count > 2 ? arguments[2] : "", part = "cut.json";
    std::istringstream lines(read("probe.txt"));
    Text state, cuts;
    for (Text line; std::getline(lines, line);) {
        if (line.rfind("state ", 0) == 0) state = line.substr(6);
        if (line.rfind("cut ", 0) != 0) continue;
        const Text model = line.substr(4, line.find(' ', 4) - 4);
        if (model == only) return std::ofstream(part) << run(provider, line.substr(4)), 0;
        if (!only.empty()) continue;
        std::filesystem::remove(part);
        const int status = std::system(('"' + Text(arguments[0]) + "\" " + provider + " " + model).c_str());
        const Text result = read(part);
        cuts += (cuts.empty() ? "\"" : ",\n\"") + model + "\": ";
        cuts += result.empty() ? fail("crash", "its process ended with " + std::to_string(status)) : result;
    }
    std::filesystem::remove(part);
    std::ofstream("results.json") << "{\"state\": " << state << ", \"device\": {\"runtime\": \"onnxruntime C++\", \"version\": \""
        << Ort::GetVersionString() << "\", \"place\": \"" << provider << "\", \"platform\": \"\"},\n\"cuts\": {" << cuts << "}}\n";
}
