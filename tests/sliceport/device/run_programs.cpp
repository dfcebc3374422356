// Run lowered programs on DirectML as their program.hpp describes them, and print each output as a line of hex digits.
//
// programs.hpp includes the headers, each in a namespace, and defines EACH_PROGRAM(run) as a call of `run` for each.
#define main host_main
#include "host.cpp"
#undef main

#include <array>
#include <numeric>

#include "programs.hpp"

// The first bytes of a value that no operator writes; test_cpp.py computes the same.
static Bytes pattern(const std::string &name, size_t size) {
    Bytes bytes(size);
    const UINT32 seed = std::accumulate(name.begin(), name.end(), UINT32(0), [](UINT32 sum, unsigned char c) { return sum * 31 + c; });
    for (size_t i = 0; i < size; i++) bytes[i] = static_cast<unsigned char>((UINT32(i) * 2654435761u + seed) >> 13);
    return bytes;
}

static size_t total_size(const DML_TENSOR_DESC &tensor) {
    return static_cast<const DML_BUFFER_TENSOR_DESC *>(tensor.Desc)->TotalTensorSizeInBytes;
}

// The tensors of an operator. InputTensor is the first member of every struct.
static const DML_TENSOR_DESC &input_of(const DML_OPERATOR_DESC &desc) { return **static_cast<const DML_TENSOR_DESC *const *>(desc.Desc); }

static const DML_TENSOR_DESC *outputs_of(const DML_OPERATOR_DESC &desc) {
    if (desc.Type == DML_OPERATOR_SPLIT) return static_cast<const DML_SPLIT_OPERATOR_DESC *>(desc.Desc)->OutputTensors;
    return static_cast<const DML_TENSOR_DESC *const *>(desc.Desc)[1];
}

template <class Operators, class Calls, size_t n>
static void run_program(Device &device, const Operators &descs, const Calls &calls, HRESULT (*create)(IDMLDevice *, std::array<IDMLOperator *, n> &)) {
    std::array<IDMLOperator *, n> operators;
    check(create(device.dml.Get(), operators), "create_operators");
    std::map<std::string, Bytes> values;
    for (const auto &call : calls) {
        const DML_OPERATOR_DESC &desc = descs[call.operator_index];
        const size_t size = call.input.byte_offset + (total_size(input_of(desc)) + 3) / 4 * 4;
        Bytes bytes = values.count(call.input.value) ? values[call.input.value] : pattern(call.input.value, size);
        bytes.resize(size);
        std::vector<UINT64> sizes;
        for (UINT i = 0; i < call.output_count; i++) sizes.push_back(total_size(outputs_of(desc)[i]));
        bytes.resize(size + std::accumulate(sizes.begin(), sizes.end(), size_t(0)), 0xA5);
        const Compiled compiled = device.compile(operators[call.operator_index]);
        const Bytes results = device.run(compiled, bytes.data(), size, call.input.byte_offset, sizes);
        auto at = results.begin();
        for (UINT i = 0; i < call.output_count; at += sizes[i++]) {
            values[call.outputs[i].value] = Bytes(at, at + sizes[i]);
            for (auto byte = at; byte < at + sizes[i]; byte++) printf("%02x", *byte);
            puts("");
        }
    }
    for (IDMLOperator *each : operators) each->Release();
}

int main() {
    Device device;
#define RUN(program) run_program(device, program::operators, program::calls, program::create_operators);
    EACH_PROGRAM(RUN)
    return 0;
}
