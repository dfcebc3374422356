// Runs the operators on small data of every kind, every slice of an axis among them, and large data of some, and compares
// each element with what plain loops say. Built with sanitizers it finds what is read or written out of bounds:
// exercise [SEED [CASES]] prints how many slices it ran.

#include <algorithm>
#include <cstring>
#include <iostream>
#include <random>

#include "openvino/openvino.hpp"
#include "openvino/opsets/opset8.hpp"
#include "slice.hpp"
#include "strided_slice.hpp"

namespace {

using Ints = std::vector<int64_t>;
using ov::opset8::Constant;
using ov::opset8::Parameter;

constexpr int64_t far = std::numeric_limits<int64_t>::max();
const std::vector<ov::element::Type> elements{ov::element::u8,  ov::element::f16,    ov::element::f32, ov::element::i64,
                                              ov::element::u1,  ov::element::u2,     ov::element::u4,  ov::element::i4,
                                              ov::element::nf4, ov::element::string, ov::element::bf16};
size_t ran = 0, refused = 0;

[[noreturn]] void fail(const std::string& what) {
    std::cerr << what << '\n';
    std::exit(1);
}

/// The indices of an axis that a slice selects, step by step.
Ints selected(int64_t start, int64_t stop, int64_t step, int64_t size) {
    const auto clamp = [&](int64_t index, int64_t low, int64_t high) {
        return std::clamp(index < 0 ? (index < -size ? low : index + size) : index, low, high);
    };
    Ints indices;
    if (size == 0)
        return indices;
    const auto end = clamp(stop, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
    for (auto i = clamp(start, 0, step > 0 ? size : size - 1); step > 0 ? i < end : i > end; i += step) {
        indices.push_back(i);
        if (step > size || step < -size)
            break;
    }
    return indices;
}

ov::Tensor numbers(const ov::element::Type& element, const ov::Shape& shape, std::mt19937& random) {
    ov::Tensor tensor(element, shape);
    if (element == ov::element::string) {
        for (size_t i = 0; i < tensor.get_size(); ++i)
            tensor.data<std::string>()[i] = "a string too long to be kept in place, number " + std::to_string(i);
    } else {
        auto bytes = static_cast<uint8_t*>(tensor.data());
        for (size_t i = 0, size = tensor.get_byte_size(); i < size; ++i)
            bytes[i] = static_cast<uint8_t>(random());
    }
    return tensor;
}

/// An element as text: its bits, or the string.
std::string at(const ov::Tensor& tensor, size_t i) {
    const auto element = tensor.get_element_type();
    if (element == ov::element::string)
        return tensor.data<std::string>()[i];
    const auto bytes = static_cast<const char*>(tensor.data());
    const auto bits = element.bitwidth();
    if (bits >= 8)
        return std::string(bytes + i * bits / 8, bits / 8);
    const auto place = element == ov::element::u1 ? 7 - i % 8 : i * bits % 8;
    return std::string(1, static_cast<char>(static_cast<uint8_t>(bytes[i * bits / 8]) >> place & ((1 << bits) - 1)));
}

void compare(const ov::Tensor& data, const std::vector<Ints>& kept, const ov::Tensor& output) {
    size_t count = 1, block = 1;
    std::vector<size_t> strides(kept.size());
    for (size_t axis = kept.size(); axis-- > 0;) {
        count *= kept[axis].size();
        strides[axis] = block;
        block *= data.get_shape()[axis];
    }
    if (output.get_size() != count)
        fail("the size differs");
    if (count == 0)
        return;
    const auto element = data.get_element_type();
    const auto width = element == ov::element::string ? 0 : element.bitwidth() / 8;  // 0 where `at` looks closer
    const auto given = width ? static_cast<const char*>(data.data()) : nullptr;
    const auto got = width ? static_cast<const char*>(output.data()) : nullptr;
    for (size_t to = 0; to < count;) {
        size_t row = 0, rest = to / kept.back().size();
        for (size_t axis = kept.size() - 1; axis-- > 0;) {
            row += static_cast<size_t>(kept[axis][rest % kept[axis].size()]) * strides[axis];
            rest /= kept[axis].size();
        }
        for (const auto index : kept.back()) {
            const auto from = row + static_cast<size_t>(index);
            const auto is_same = width ? std::equal(got + to * width, got + (to + 1) * width, given + from * width)
                                       : at(output, to) == at(data, from);
            if (!is_same)
                fail("element " + std::to_string(to) + " differs");
            ++to;
        }
    }
}

std::shared_ptr<ov::Node> list(const Ints& values) {
    return Constant::create(ov::element::i64, ov::Shape{values.size()}, values);
}

ov::Tensor tensor(const Ints& values) {
    ov::Tensor made(ov::element::i64, ov::Shape{values.size()});
    std::copy(values.begin(), values.end(), made.data<int64_t>());
    return made;
}

/// Infers shapes of, clones and evaluates an operator of constant indices for data of a known and of an open shape.
template <class MakeNode>
ov::Tensor run(const ov::Tensor& data, const std::vector<Ints>& indices, const MakeNode& make) {
    ov::OutputVector inputs{std::make_shared<Parameter>(data.get_element_type(), data.get_shape())};
    ov::OutputVector open{std::make_shared<Parameter>(data.get_element_type(),
                                                      ov::PartialShape::dynamic(data.get_shape().size()))};
    ov::TensorVector given{data};
    for (const auto& values : indices) {
        inputs.push_back(list(values));
        open.push_back(inputs.back());
        given.push_back(tensor(values));
    }
    const std::shared_ptr<ov::Node> node = make(inputs);
    const auto clone = make(open)->clone_with_new_inputs(open);
    clone->validate_and_infer_types();
    ov::TensorVector outputs{ov::Tensor(data.get_element_type(), ov::Shape{0})};
    if (!node->evaluate(outputs, given))
        fail("it was not evaluated");
    const auto& shape = outputs[0].get_shape();
    if (node->get_output_shape(0) != shape || !clone->get_output_partial_shape(0).compatible(shape))
        fail("the shape that is inferred differs");
    ++ran;
    return outputs[0];
}

void run_slice(const ov::Tensor& data, const Ints& start, const Ints& stop, const Ints& step) {
    std::vector<Ints> kept;
    for (size_t axis = 0; axis < data.get_shape().size(); ++axis)
        kept.push_back(selected(start[axis], stop[axis], step[axis], static_cast<int64_t>(data.get_shape()[axis])));
    compare(data, kept, run(data, {start, stop, step}, [](const ov::OutputVector& inputs) {
                return std::make_shared<sliceport::Slice>(inputs);
            }));
}

/// Every start, stop and step of a short axis, between others.
void run_every_axis(std::mt19937& random) {
    for (const auto& element : elements) {
        for (int64_t size = 0; size <= 4; ++size) {
            const auto data = numbers(element, ov::Shape{2, static_cast<size_t>(size), 3}, random);
            for (const int64_t start : {-far - 1, int64_t{-5}, int64_t{-4}, int64_t{-3}, int64_t{-1}, int64_t{0},
                                        int64_t{1}, int64_t{3}, int64_t{4}, far})
                for (const int64_t stop : {-far - 1, int64_t{-5}, int64_t{-2}, int64_t{-1}, int64_t{0}, int64_t{2},
                                           int64_t{4}, int64_t{5}, far})
                    for (const int64_t step : {-far - 1, int64_t{-3}, int64_t{-2}, int64_t{-1}, int64_t{1}, int64_t{2},
                                               int64_t{3}, far})
                        run_slice(data, {0, start, 0}, {2, stop, 3}, {1, step, 1});
        }
    }
}

void run_any_slice(std::mt19937& random) {
    const auto below = [&](int64_t count) {
        return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
    };
    ov::Shape shape;
    for (auto rank = 1 + below(random() % 8 ? 5 : 11); rank > 0; --rank)
        shape.push_back(static_cast<size_t>(shape.size() < 5 ? below(8) : 1 + below(2)));
    const auto data = numbers(elements[random() % elements.size()], shape, random);
    Ints start, stop, step;
    for (const auto size : shape) {
        const auto reach = static_cast<int64_t>(size) + 2;
        start.push_back(below(2 * reach) - reach);
        stop.push_back(random() % 3 ? below(2 * reach) - reach : random() % 2 ? far : -far - 1);
        step.push_back(below(9) - 4 ? 1 : -1 - below(3));
    }
    run_slice(data, start, stop, step);
}

/// Any masks and indices, allowed or not: an answer or a sentence.
void run_any_strided_slice(std::mt19937& random) {
    const auto below = [&](int64_t count) {
        return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
    };
    ov::Shape shape;
    for (auto rank = below(6); rank > 0; --rank)
        shape.push_back(static_cast<size_t>(below(5)));
    const auto data = numbers(elements[random() % elements.size()], shape, random);
    const auto count = static_cast<size_t>(below(12));
    std::vector<Ints> indices(random() % 4 ? 3 : 2, Ints(count));
    for (auto& values : indices)
        for (auto& value : values)
            value = random() % 9 ? below(9) - 4 : random() % 2 ? far : -far - 1;
    auto masks = std::make_shared<sliceport::Masks>();
    for (auto* mask : {&masks->begin, &masks->end, &masks->new_axis, &masks->shrink_axis, &masks->ellipsis})
        for (auto length = below(static_cast<int64_t>(count) + 2); length > 0; --length)
            mask->push_back(random() % 4 == 0);
    try {
        run(data, indices, [&](const ov::OutputVector& inputs) {
            return std::make_shared<sliceport::StridedSlice>(inputs, masks);
        });
    } catch (const ov::Exception& error) {
        if (std::strncmp(error.what(), "StridedSlice1 '", 15) != 0)
            fail(error.what());
        ++refused;
    }
}

/// Data large enough for several threads, and for what goes past the caches.
void run_large(std::mt19937& random) {
    for (const auto& element : {ov::element::u8, ov::element::f16, ov::element::f32}) {
        const auto data = numbers(element, ov::Shape{3, 1001, 301}, random);
        for (const int64_t step : {-5, -2, -1, 1, 2, 3, 4, 7}) {
            run_slice(data, {0, 1, step < 0 ? far : 0}, {3, far, step < 0 ? -far - 1 : far}, {1, 1, step});
            run_slice(data, {0, step < 0 ? far : 1, 1}, {3, step < 0 ? -far - 1 : far, far}, {1, step, 1});
        }
    }
    const auto data = numbers(ov::element::u8, ov::Shape{2, 9000, 4001}, random);
    run_slice(data, {0, 1, 1}, {2, far, far}, {1, 1, 1});
    run_slice(data, {0, 1, far}, {2, far, -far - 1}, {1, 1, -1});
}

}  // namespace

int main(int count, char** words) {
    std::mt19937 random(count > 1 ? static_cast<unsigned>(std::stoul(words[1])) : 0);
    const auto cases = count > 2 ? std::stoul(words[2]) : 2000;
    run_every_axis(random);
    for (size_t i = 0; i < cases; ++i) {
        run_any_slice(random);
        run_any_strided_slice(random);
    }
    run_large(random);
    std::cout << ran << " slices are right, " << refused << " were refused\n";
}
