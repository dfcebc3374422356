#include "static_values.hpp"

#include <unordered_set>

#include "openvino/op/constant.hpp"
#include "openvino/op/floor_mod.hpp"
#include "openvino/op/parameter.hpp"
#include "openvino/op/shape_of.hpp"
#include "openvino/op/strided_slice.hpp"
#include "openvino/op/subtract.hpp"

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

/// Reads the elements of a tensor of one of these types.
template <ov::element::Type_t... types>
Integers convert_tensor(const ov::Tensor& tensor) {
    Integers values;
    const auto read = [&](auto zero) {
        values = convert_elements<decltype(zero)>(tensor.data(), tensor.get_size());
    };
    ((tensor.get_element_type() == types ? read(ov::fundamental_type_for<types>{}) : void()), ...);
    return values;
}

/// Reads elements of 4 bits. The first of the two elements in a byte is in the lower bits.
Integers unpack_4_bits(const void* data, size_t count, bool is_signed) {
    Integers values;
    const auto bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < count; ++i) {
        const int64_t bits = bytes[i / 2] >> (i % 2 * 4) & 15;
        values.push_back(is_signed ? (bits ^ 8) - 8 : bits);
    }
    return values;
}

/// Returns whether OpenVINO evaluates right bounds for all nodes that a value is computed from, back to shapes.
bool has_right_bounds(const ov::Node* last) {
    using namespace ov::op;
    std::vector<const ov::Node*> pending{last};
    std::unordered_set<const ov::Node*> visited;
    while (!pending.empty()) {
        const auto node = pending.back();
        pending.pop_back();
        const auto element = node->get_output_element_type(0);
        // OpenVINO reads uninitialized memory for sums of 16-bit integers, so no node of 16 bits is trusted. For other
        // nodes it computes the values at the bounds of the inputs. Those are not the bounds of a FloorMod, which is
        // not monotonic, or of a difference of unsigned integers, which may wrap around.
        if (element == ov::element::i16 || element == ov::element::u16 || ov::is_type<v1::FloorMod>(node) ||
            (ov::is_type<v1::Subtract>(node) && !element.is_signed()))
            return false;
        if (!ov::is_type_any_of<v0::ShapeOf, v3::ShapeOf>(node) && visited.insert(node).second)
            for (const auto& input : node->input_values())
                pending.push_back(input.get_node());
    }
    return true;
}

/// Makes OpenVINO evaluate the bounds of a value and store them in its tensor. OpenVINO's headers declare no function
/// for this, but building a StridedSlice on the value does it. The node is dropped.
void store_bounds(const ov::Output<ov::Node>& source) {
    using namespace ov::op;
    const auto count = static_cast<size_t>(source.get_partial_shape()[0].get_length());
    const auto data = std::make_shared<v0::Parameter>(ov::element::f32, ov::Shape(count, 1));
    const auto ones = v0::Constant::create(source.get_element_type(), ov::Shape{count}, {1});
    const std::vector<int64_t> mask{0};
    std::make_shared<v1::StridedSlice>(data, source, source, ones, mask, mask);
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
    using namespace ov::element;
    const auto element = tensor.get_element_type();
    if (!is_integral(element))
        throw InvalidSlice("indices must be integers, got " + element.get_type_name());
    if (element == i4 || element == u4)
        return unpack_4_bits(tensor.data(), tensor.get_size(), element == i4);
    return convert_tensor<i8, i16, i32, i64, u8, u16, u32, u64>(tensor);
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
    // OpenVINO evaluates hardly any operator on elements of 4 bits.
    if (!length || *length == 0 || *length > max_elements || !is_integral(element) || element.bitwidth() < 8)
        return std::nullopt;
    store_bounds(source);
    const auto& tensor = source.get_tensor();
    const auto &lower = tensor.get_lower_value(), &upper = tensor.get_upper_value();
    const ov::Shape shape{static_cast<size_t>(*length)};
    if (!lower || !upper || lower.get_shape() != shape || upper.get_shape() != shape ||
        !has_right_bounds(source.get_node()))
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
