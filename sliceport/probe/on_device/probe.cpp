// Runs the models in this folder on onnxruntime's C++ API, and writes the same results.json as probe.py.
//   c++ -std=c++17 probe.cpp -I ONNXRUNTIME/include -L ONNXRUNTIME/lib -lonnxruntime -o probe
//   ./probe CUDA        in this folder; the provider is CPU, CUDA, or a name that AppendExecutionProvider takes
#include <onnxruntime_cxx_api.h>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>

using Text = std::string;
struct Array { Text type, bytes; std::vector<int64_t> shape; };
struct Element { Text type, name; double (*number)(const char*); };  // its type as in .npy files
template <typename T> double number(const char* bytes) { T value; std::memcpy(&value, bytes, sizeof value); return double(value); }
double half(const char* bytes) { return Ort::Float16_t::FromBits(uint16_t(number<uint16_t>(bytes))).ToFloat(); }
const Element ELEMENTS[] = {  // by the number of the type in ONNX
    {"", "unknown", half}, {"<f4", "float32", number<float>}, {"|u1", "uint8", number<uint8_t>}, {"|i1", "int8", number<int8_t>},
    {"<u2", "uint16", number<uint16_t>}, {"<i2", "int16", number<int16_t>}, {"<i4", "int32", number<int32_t>}, {"<i8", "int64", number<int64_t>},
    {"", "string", half}, {"|b1", "bool", number<bool>}, {"<f2", "float16", half}, {"<f8", "float64", number<double>},
    {"<u4", "uint32", number<uint32_t>}, {"<u8", "uint64", number<uint64_t>}};

Text read(const Text& name) { return (std::ostringstream() << std::ifstream(name, std::ios::binary).rdbuf()).str(); }
Text crc32(const Text& data) {  // as in zip files
    uint32_t crc = ~0u;
    for (const char byte : data) {
        crc ^= uint8_t(byte);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return (std::ostringstream() << std::hex << std::setw(8) << std::setfill('0') << ~crc).str();
}
Array load(const Text& name) {  // a .npy file of version 1
    const Text file = read(name);
    Array array{file.substr(file.find("'descr': '") + 10, 3), file.substr(10 + uint8_t(file.at(8)) + 256 * uint8_t(file.at(9))), {}};
    std::istringstream sizes(file.substr(file.find('(') + 1));
    for (auto [size, comma] = std::pair<int64_t, char>(); sizes >> size; sizes >> comma) array.shape.push_back(size);
    return array;
}
Text fail(const Text& kind, Text detail) {
    for (char& each : detail) if (each < ' ' || each > '~' || each == '"' || each == '\\') each = ' ';
    // More than the 300 characters that sliceport shows, so that it marks that more follow.
    return "{\"kind\": \"" + kind + "\", \"detail\": \"" + detail.substr(0, 400) + "\"}";
}
Text list(const std::vector<int64_t>& numbers) {
    Text text;
    for (auto each : numbers) text += (text.empty() ? "" : ", ") + std::to_string(each);
    return "[" + text + "]";
}
Text measure(const Ort::Value& value, const Array& expected) {
    const auto info = value.GetTensorTypeAndShapeInfo();
    const auto [type, name, number] = ELEMENTS[info.GetElementType() < std::size(ELEMENTS) ? info.GetElementType() : 0];
    for (auto& each : ELEMENTS) if (each.type == expected.type && type != each.type) return fail("type", "its type is " + name + ", expected " + each.name);
    if (info.GetShape() != expected.shape) return fail("shape", "its shape is " + list(info.GetShape()) + ", expected " + list(expected.shape));
    const char *data = static_cast<const char*>(value.GetTensorRawData()), *right = expected.bytes.data();
    size_t size = type[2] - '0', unequal = 0, at = 0;
    double absolute = -1, largest = 0;
    for (size_t i = 0; i < expected.bytes.size(); i += size) {
        const double x = number(data + i), y = number(right + i);
        if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
        if (!std::memcmp(data + i, right + i, size)) continue;
        // JSON lacks NaN and infinity. An error of 1e308 stands for NaN in one of the two elements, and 1e307 for infinity.
        const double error = std::isnan(x) != std::isnan(y) ? 1e308 : std::isnan(x) ? 0 : std::min(std::abs(x - y), 1e307);
        if (++unequal; error > absolute) absolute = error, at = i;
    }
    auto bytes = [=](const char* all) { return list({reinterpret_cast<const uint8_t*>(all) + at, reinterpret_cast<const uint8_t*>(all) + at + size}); };
    std::ostringstream out;
    out.precision(17), out << "{\"element\": \"" << name << "\", \"shape\": " << list(expected.shape) << ", \"unequal\": " << unequal;
    if (unequal) out << ", \"absolute\": " << absolute << ", \"largest\": " << largest << ", \"at\": " << at / size
        << ", \"got\": " << bytes(data) << ", \"expected\": " << bytes(right);
    return out.str() + "}";
}
Ort::SessionOptions start(const Text& provider) {
    Ort::SessionOptions options;
    if (provider == "CUDA") options.AppendExecutionProvider_CUDA(OrtCUDAProviderOptions{});
    else if (provider != "CPU") options.AppendExecutionProvider(provider, {});
    return options;
}
Text run(const Text& provider, char** words) try {  // MODEL in INPUTS out EXPECTED
    Ort::Env env(ORT_LOGGING_LEVEL_ERROR);
    Ort::Session session(env, std::filesystem::path(*words++).c_str(), start(provider));
    Ort::IoBinding binding(session);
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeCPU);
    std::vector<Array> arrays(session.GetInputCount());
    for (size_t i = 0; i < arrays.size(); ++i) {
        auto& [_, bytes, shape] = arrays[i] = load(*++words);
        const auto type = session.GetInputTypeInfo(i).GetTensorTypeAndShapeInfo().GetElementType();
        binding.BindInput(session.GetInputNames()[i].c_str(), Ort::Value::CreateTensor(memory, bytes.data(), bytes.size(), shape.data(), shape.size(), type));
    }
    for (auto& name : session.GetOutputNames()) binding.BindOutput(name.c_str(), memory);
    session.Run({}, binding);
    Text results;
    ++words;  // at "out"
    for (auto& value : binding.GetOutputValues()) results += (results.empty() ? "" : ", ") + measure(value, load(*++words));
    return "{\"outputs\": [" + results + "]}";
} catch (const std::exception& error) { return fail("error", error.what()); }

int main(int count, char** arguments) try {  // calls itself for each cut, with the words of the cut, because a run may crash
    const Text provider = count > 1 ? arguments[1] : "CPU", file = "results.json";
    auto append = [&](const Text& text) { std::ofstream(file, std::ios::app) << text; };
    if (count > 2) return append(run(provider, arguments + 2)), 0;
    start(provider);  // A provider that does not start is an error of the probe, not a failure of a model.
    std::istringstream probe(read("probe.txt"));
    std::vector<std::pair<Text, Text>> lines;
    for (Text kind, rest; probe >> kind && std::getline(probe >> std::ws, rest);) lines.push_back({kind, rest});
    for (const auto& [kind, line] : lines) if (kind == "crc32" && line.substr(0, 8) != crc32(read(line.substr(9))))
        throw std::runtime_error(line.substr(9) + " is missing or was changed; copy the folder again");
    Text comma;
    for (const auto& [kind, line] : lines) {
        if (kind == "state") std::ofstream(file) << "{\"state\": " << line << ",\n\"device\": {\"runtime\": \"onnxruntime C++\", \"version\": \""
            << Ort::GetVersionString() << "\", \"place\": \"" << provider << "\", \"platform\": \"\"},\n\"cuts\": {";
        if (kind != "cut") continue;
        append(comma + '"' + line.substr(0, line.find(' ')) + "\": ");
        const auto size = std::filesystem::file_size(file);
        const int status = std::system(('"' + Text(arguments[0]) + "\" " + provider + " " + line).c_str());
        if (std::filesystem::file_size(file) == size) append(fail("crash", "its process ended with " + std::to_string(status)));
        comma = ",\n";
    }
    append("}}\n");
} catch (const std::exception& error) { return std::cerr << "probe: " << error.what() << '\n', 1; }
