// Loads the extension, opens an IR with our operators, and runs it: infer LIBRARY MODEL prints the output's shape and
// elements for data that counts from 0.

#include <iostream>
#include <openvino/openvino.hpp>

int main(int count, char** words) {
    if (count != 3)
        return 2;
    ov::Core core;
    core.add_extension(words[1]);
    auto request = core.compile_model(words[2], "CPU").create_infer_request();
    auto input = request.get_input_tensor();
    for (size_t i = 0; i < input.get_size(); ++i)
        input.data<float>()[i] = static_cast<float>(i);
    request.infer();
    const auto output = request.get_output_tensor();
    std::cout << output.get_shape() << '\n';
    for (size_t i = 0; i < output.get_size(); ++i)
        std::cout << output.data<float>()[i] << ' ';
    std::cout << '\n';
}
