// Runs the models in this folder on onnxruntime's C++ API, as probe.py does.
//   c++ -std=c++17 probe.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o probe
//   ./probe CUDA        in this folder; the provider is CPU, CUDA, or a name that AppendExecutionProvider takes
#include <onnxruntime_cxx_api.h>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using Text = std::string;
struct Array { Text bytes; std::vector<int64_t> shape; };
struct Element { size_t size; const char* name; double (*read)(const char*); };
template <typename T> double number(const char* bytes) { T value; std::memcpy(&value, bytes, sizeof value); return double(value); }
double half(const char* bytes) { return Ort::Float16_t::FromBits(uint16_t(number<uint16_t>(bytes))).ToFloat(); }
const Element ELEMENTS[] = {  // by the number of the type in ONNX
    {0, "", half}, {4, "float32", number<float>}, {1, "uint8", number<uint8_t>}, {1, "int8", number<int8_t>}, {2, "uint16", number<uint16_t>},
    {2, "int16", number<int16_t>}, {4, "int32", number<int32_t>}, {8, "int64", number<int64_t>}, {0, "", half}, {1, "bool", number<bool>},
    {2, "float16", half}, {8, "float64", number<double>}, {4, "uint32", number<uint32_t>}, {8, "uint64", number<uint64_t>}};

Text read(const Text& name) { return (std::ostringstream() << std::ifstream(name, std::ios::binary).rdbuf()).str(); }
Array load(const Text& name) {  // the elements and sizes of a .npy file of version 1
    const Text bytes = read(name), head = bytes.substr(10, uint8_t(bytes.at(8)) + (uint8_t(bytes.at(9)) << 8));
    Array array{bytes.substr(10 + head.size()), {}};
    std::istringstream sizes(std::regex_replace(head, std::regex("[^]*'shape': \\(|\\)[^]*|,"), " "));
    for (int64_t size; sizes >> size;) array.shape.push_back(size);
    return array;
}
Text fail(const Text& kind, const Text& detail) {
    return "{\"kind\": \"" + kind + "\", \"detail\": \"" + std::regex_replace(detail.substr(0, 400), std::regex("[\"\\\\\\x01-\\x1f]"), " ") + "\"}";
}
Text list(const std::vector<int64_t>& numbers) {
    Text text = "[";
    for (auto each : numbers) text += (text == "[" ? "" : ", ") + std::to_string(each);
    return text + "]";
}
Text measure(const Ort::Value& value, const Array& expected) {
    const auto info = value.GetTensorTypeAndShapeInfo();
    const auto shape = info.GetShape();
    const auto [size, name, number] = ELEMENTS[info.GetElementType() < std::size(ELEMENTS) ? info.GetElementType() : 0];
    if (!size) return fail("error", "probe.cpp does not read outputs of this type");
    if (shape != expected.shape) return fail("shape", "its shape is " + list(shape) + " for " + list(expected.shape));
    if (expected.bytes.size() != info.GetElementCount() * size) return fail("type", Text("its type is ") + name);
    const char *data = static_cast<const char*>(value.GetTensorRawData()), *wanted = expected.bytes.data();
    size_t unequal = 0, at = 0;
    double absolute = -1, largest = 0;
    for (size_t i = 0; i < expected.bytes.size(); i += size) {
        const double x = number(data + i), y = number(wanted + i);
        if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
        if (!std::memcmp(data + i, wanted + i, size)) continue;
        // 1e308 stands for NaN in one of the two, and 1e307 for infinity: JSON has neither.
        const double error = std::isnan(x) != std::isnan(y) ? 1e308 : std::isnan(x) ? 0 : std::min(std::abs(x - y), 1e307);
        if (++unequal; error > absolute) absolute = error, at = i;
    }
    std::ostringstream out;
    out.precision(17);
    out << "{\"element\": \"" << name << "\", \"shape\": " << list(shape) << ", \"unequal\": " << unequal << ", \"absolute\": " << absolute
        << ", \"largest\": " << largest << ", \"at\": " << at / size;
    if (unequal) out << ", \"got\": \"" << number(data + at) << "\", \"expected\": \"" << number(wanted + at) << '"';
    return out.str() + "}";
}
Text run(const Text& provider, const Text& line) try {  // MODEL in INPUTS out EXPECTED
    std::istringstream words(line);
    Text model, word, results;
    words >> model >> word;
    Ort::Env env(ORT_LOGGING_LEVEL_ERROR);
    Ort::SessionOptions options;
    if (provider == "CUDA") options.AppendExecutionProvider_CUDA(OrtCUDAProviderOptions{});
    else if (provider != "CPU") options.AppendExecutionProvider(provider, {});
    Ort::Session session(env, std::filesystem::path(model).c_str(), options);
    Ort::IoBinding binding(session);
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeCPU);
    std::vector<Array> arrays(session.GetInputCount());
    for (size_t i = 0; words >> word && word != "out"; ++i) {
        auto& [bytes, shape] = arrays.at(i) = load(word);
        const auto type = session.GetInputTypeInfo(i).GetTensorTypeAndShapeInfo().GetElementType();
        binding.BindInput(session.GetInputNames()[i].c_str(), Ort::Value::CreateTensor(memory, bytes.data(), bytes.size(), shape.data(), shape.size(), type));
    }
    for (auto& name : session.GetOutputNames()) binding.BindOutput(name.c_str(), memory);
    session.Run({}, binding);
    for (auto& value : binding.GetOutputValues()) if (words >> word) results += (results.empty() ? "" : ", ") + measure(value, load(word));
    return "{\"outputs\": [" + results + "]}";
} catch (const std::exception& error) { return fail("error", error.what()); }

int main(int count, char** arguments) {  // with a model as a second argument, only that model; it is a process that may crash
    const Text provider = count > 1 ? arguments[1] : "CPU", only = count > 2 ? arguments[2] : "", file = "results.json";
    auto append = [&](const Text& text) { std::ofstream(file, std::ios::app) << text; };
    std::istringstream lines(read("probe.txt"));
    Text kind, line, comma;
    while (lines >> kind && std::getline(lines >> std::ws, line)) {
        const Text model = line.substr(0, line.find(' '));
        if (model == only) return append(run(provider, line)), 0;
        if (kind == "state" && only.empty()) std::ofstream(file) << "{\"state\": " << line << ", \"device\": {\"runtime\": \"onnxruntime C++\", \"version\": \""
            << Ort::GetVersionString() << "\", \"place\": \"" << provider << "\", \"platform\": \"\"},\n\"cuts\": {";
        if (kind != "cut" || !only.empty()) continue;
        append(comma + '"' + model + "\": ");
        const auto size = std::filesystem::file_size(file);
        const int status = std::system(('"' + Text(arguments[0]) + "\" " + provider + " " + model).c_str());
        if (std::filesystem::file_size(file) == size) append(fail("crash", "its process ended with " + std::to_string(status)));
        comma = ",\n";
    }
    append("}}\n");
}
