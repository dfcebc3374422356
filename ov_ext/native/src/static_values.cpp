#include "static_values.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "openvino/op/constant.hpp"
#include "openvino/op/parameter.hpp"
#include "openvino/op/shape_of.hpp"
#include "openvino/op/strided_slice.hpp"

namespace sliceport {
namespace {

using Sources = std::unordered_set<const ov::Node*>;

/// Limit of the elements of a value whose bounds are evaluated; shape arithmetic has fewer.
constexpr int64_t max_elements = 1024;

/// Returns the elements of a tensor, whose type must be one of `types`.
template <ov::element::Type_t... types>
Integers convert_tensor(const ov::Tensor& tensor) {
    Integers values;
    const auto read = [&](auto zero) {  // `zero` only has the type of the elements.
        using T = decltype(zero);
        const auto elements = static_cast<const T*>(tensor.data());
        for (size_t i = 0; i < tensor.get_size(); ++i) {
            if constexpr (std::is_same_v<T, uint64_t>) {
                values.push_back(Integer::of_unsigned(elements[i]));
            } else if constexpr (std::is_same_v<T, int32_t>) {
                values.push_back(Integer::of_32_bits(elements[i]));
            } else {
                values.push_back(static_cast<int64_t>(elements[i]));
            }
        }
    };
    ((tensor.get_element_type() == types ? read(ov::fundamental_type_for<types>{}) : void()), ...);
    return values;
}

/// Returns elements of 4 bits. The first of the two elements in a byte is in the lower bits.
Integers unpack_4_bits(const void* data, size_t count, bool is_signed) {
    Integers values;
    const auto bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < count; ++i) {
        const int64_t bits = bytes[i / 2] >> (i % 2 * 4) & 15;
        values.push_back(is_signed ? (bits ^ 8) - 8 : bits);  // 8 to 15 stand for -8 to -1.
    }
    return values;
}

/// Returns `last` and the nodes that it is computed from. The inputs of a ShapeOf are left out. Returns nothing if one of
/// these nodes is not known before the model runs, such as a Parameter: OpenVINO then has no bounds. Listing the nodes of
/// a whole network for each index that depends on its data would take quadratic time.
std::optional<Sources> list_sources(const ov::Node* last) {
    std::vector<const ov::Node*> pending{last};
    Sources nodes;
    while (!pending.empty()) {
        const auto node = pending.back();
        pending.pop_back();
        if (!nodes.insert(node).second || ov::is_type_any_of<ov::op::v0::ShapeOf, ov::op::v3::ShapeOf>(node))
            continue;
        if (node->get_input_size() == 0 && !ov::is_type<ov::op::v0::Constant>(node))
            return std::nullopt;
        for (size_t i = node->get_input_size(); i-- > 0;)  // The first input is followed first.
            pending.push_back(node->get_input_node_ptr(i));
    }
    return nodes;
}

/// Returns whether a node is one of these operators.
bool is_kind(const ov::Node* node, std::initializer_list<std::string_view> kinds) {
    return std::find(kinds.begin(), kinds.end(), node->get_type_info().name) != kinds.end();
}

/// Returns whether a value may be negative: a node that it is computed from subtracts, negates, or is a constant with a
/// negative number. Constants that are not read count as negative. Parameters have no bounds, so they do not matter.
bool may_be_negative(const Sources& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [](const ov::Node* node) {
        const auto constant = ov::as_type<const ov::op::v0::Constant>(node);
        if (!constant)
            return is_kind(node, {"Subtract", "Negative"});
        const auto& element = constant->get_element_type();
        if (element.bitwidth() < 8 || element == ov::element::string)
            return true;
        if (ov::shape_size(constant->get_shape()) > max_elements)
            return true;  // Reading so many elements would take longer than the bounds are worth.
        const auto values = constant->cast_vector<double>();
        return std::any_of(values.begin(), values.end(), [](double value) { return value < 0; });
    });
}

/// Returns whether OpenVINO may evaluate wrong bounds for one of the nodes that a value is computed from. OpenVINO
/// applies an operator to the bounds of its inputs, and takes the results for the bounds of its output. This is wrong
/// if the operator is not monotonic or numbers wrap around.
bool has_wrong_bounds(const Sources& nodes) {
    const bool has_negative = may_be_negative(nodes);
    return std::any_of(nodes.begin(), nodes.end(), [&](const ov::Node* node) {
        const auto element = node->get_output_element_type(0).get_type_name();
        // OpenVINO reads uninitialized memory for sums of 16-bit integers, so no node of 16 bits is trusted.
        if (element == "i16" || element == "u16" || is_kind(node, {"FloorMod", "SquaredDifference"}) ||
            (has_negative && is_kind(node, {"Abs", "Mod", "Power", "ReduceProd"})))
            return true;
        // OpenVINO confuses the two bounds of a quotient if a number is negative, unless the divisor is a constant.
        if (has_negative && is_kind(node, {"Divide"}) && !ov::is_type<ov::op::v0::Constant>(node->get_input_node_ptr(1)))
            return true;
        // Negative numbers wrap around in unsigned types.
        if (element[0] == 'u' && (is_kind(node, {"Subtract"}) || (has_negative && is_kind(node, {"Convert"}))))
            return true;
        // These types hold only some of the sizes of axes.
        return is_kind(node, {"Convert"}) && (element == "boolean" || element == "i8" || element == "u8") &&
               node->get_input_element_type(0) != ov::element::boolean;
    });
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
    // OpenVINO writes 0 and the greatest value for an element without bounds, even if it may be negative.
    const bool has_negative = may_be_negative(list_sources(node).value_or(Sources()));
    for (size_t i = 0; i < low.size(); ++i) {
        const bool is_open = has_negative && low[i].value == 0 && high[i].value == int64_max;
        bounds.push_back({is_open ? Integer(int64_min) : low[i], high[i]});
    }
    return bounds;
}

std::optional<std::pair<ov::Tensor, ov::Tensor>> element_bounds(const ov::Output<ov::Node>& source) {
    const auto length = list_length(source.get_partial_shape());
    const auto element = source.get_element_type();
    // OpenVINO evaluates hardly any operator on elements of 4 bits.
    if (!length || *length == 0 || *length > max_elements || !is_integral(element) || element.bitwidth() < 8)
        return std::nullopt;
    const auto sources = list_sources(source.get_node());
    // OpenVINO replaces a value by its bounds if they are equal, so wrong bounds must not be stored.
    if (!sources || has_wrong_bounds(*sources))
        return std::nullopt;
    store_bounds(source);
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
