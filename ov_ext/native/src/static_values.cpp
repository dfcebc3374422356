#include "static_values.hpp"

#include "openvino/op/constant.hpp"
#include "openvino/op/convert.hpp"
#include "openvino/op/parameter.hpp"
#include "openvino/op/strided_slice.hpp"

namespace sliceport {
namespace {

/// Limit of the elements of a value whose bounds are evaluated; shape arithmetic has fewer.
constexpr int64_t max_elements = 1024;

template <class T>
Integers convert_elements(const void* data, size_t count) {
    Integers values;
    const auto elements = static_cast<const T*>(data);
    for (size_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<T, uint64_t>) {
            values.push_back(Integer::of_unsigned(elements[i]));
        } else if constexpr (std::is_same_v<T, int32_t>) {
            values.push_back(Integer::of_32_bits(elements[i]));
        } else {
            values.push_back(static_cast<int64_t>(elements[i]));
        }
    }
    return values;
}

/// Reads elements of 4 bits. The first of the two elements in a byte is in the lowest bits.
Integers unpack_4_bits(const void* data, size_t count, bool is_signed) {
    Integers values;
    const auto bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < count; ++i) {
        const int64_t bits = bytes[i / 2] >> (i % 2 * 4) & 15;
        values.push_back(is_signed ? (bits ^ 8) - 8 : bits);
    }
    return values;
}

/// Makes OpenVINO evaluate the bounds of a value and store them in its tensor. OpenVINO's headers declare no function
/// for this, but building a StridedSlice on the value does it. The node is dropped.
void make_openvino_evaluate_bounds(const ov::Output<ov::Node>& source) {
    using namespace ov::op;
    const auto count = static_cast<size_t>(source.get_partial_shape()[0].get_length());
    const auto element = source.get_element_type();
    const auto index = element == ov::element::i32 || element == ov::element::i64
                           ? source
                           : std::make_shared<v0::Convert>(source, ov::element::i64)->output(0);
    const auto data = std::make_shared<v0::Parameter>(ov::element::f32, ov::Shape(count, 1));
    const auto ones = v0::Constant::create(index.get_element_type(), ov::Shape{count}, {1});
    const std::vector<int64_t> mask{0};
    std::make_shared<v1::StridedSlice>(data, index, index, ones, mask, mask);
}

}  // namespace

bool is_integral(const ov::element::Type& element) {
    using namespace ov::element;
    static const Type types[] = {i4, i8, i16, i32, i64, u4, u8, u16, u32, u64};
    return std::find(std::begin(types), std::end(types), element) != std::end(types);
}

Integers to_index_list(const ov::Tensor& tensor) {
    if (!tensor)
        return {};  // A constant without elements has a tensor without memory.
    const auto data = tensor.data();
    const auto count = tensor.get_size();
    switch (tensor.get_element_type()) {
    case ov::element::i4:
        return unpack_4_bits(data, count, true);
    case ov::element::u4:
        return unpack_4_bits(data, count, false);
    case ov::element::i8:
        return convert_elements<int8_t>(data, count);
    case ov::element::i16:
        return convert_elements<int16_t>(data, count);
    case ov::element::i32:
        return convert_elements<int32_t>(data, count);
    case ov::element::i64:
        return convert_elements<int64_t>(data, count);
    case ov::element::u8:
        return convert_elements<uint8_t>(data, count);
    case ov::element::u16:
        return convert_elements<uint16_t>(data, count);
    case ov::element::u32:
        return convert_elements<uint32_t>(data, count);
    case ov::element::u64:
        return convert_elements<uint64_t>(data, count);
    default:
        throw InvalidSlice("indices must be integers, got " + tensor.get_element_type().get_type_name());
    }
}

std::optional<int64_t> list_length(const ov::PartialShape& shape) {
    if (shape.rank().is_dynamic() || shape.size() != 1 || shape[0].is_dynamic())
        return std::nullopt;
    return shape[0].get_length();
}

std::optional<IndexBounds> list_bounds(const ov::Output<ov::Node>& source) {
    const auto node = source.get_node();
    const auto element = source.get_element_type();
    if (const auto constant = ov::as_type<const ov::op::v0::Constant>(node)) {
        if (!is_integral(element))
            return std::nullopt;
        IndexBounds bounds;
        for (const auto& value : to_index_list(constant->get_tensor_view()))
            bounds.push_back({value, value});
        return bounds;
    }
    if (ov::is_type<ov::op::v0::Parameter>(node))
        return std::nullopt;
    const auto tensors = element_bounds(source);
    if (!tensors)
        return std::nullopt;
    IndexBounds bounds;
    const auto low = to_index_list(tensors->first), high = to_index_list(tensors->second);
    for (size_t i = 0; i < low.size(); ++i)
        bounds.push_back({low[i], high[i]});
    return bounds;
}

std::optional<std::pair<ov::Tensor, ov::Tensor>> element_bounds(const ov::Output<ov::Node>& source) {
    const auto length = list_length(source.get_partial_shape());
    const auto element = source.get_element_type();
    if (!length || *length == 0 || *length > max_elements || !is_integral(element) || element.bitwidth() < 8)
        return std::nullopt;
    make_openvino_evaluate_bounds(source);
    const auto& tensor = source.get_tensor();
    const auto &lower = tensor.get_lower_value(), &upper = tensor.get_upper_value();
    const ov::Shape shape{static_cast<size_t>(*length)};
    if (!lower || !upper || lower.get_shape() != shape || upper.get_shape() != shape)
        return std::nullopt;
    return std::make_pair(lower, upper);
}

Bounds bounds_of(const ov::Dimension& dimension) {
    const auto high = dimension.get_max_length();
    return {dimension.get_min_length(), high < 0 ? int64_max : high};
}

ov::Dimension dimension(const Bounds& bounds) {
    return {bounds.low.value, bounds.high.value == int64_max ? -1 : bounds.high.value};
}

}  // namespace sliceport
