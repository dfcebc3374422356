#include "slicing_op.hpp"

#include "copy.hpp"
#include "openvino/op/constant.hpp"
#include "openvino/pass/constant_folding.hpp"

namespace sliceport {
namespace {

/// An `InvalidSlice` with operator and node, as an exception of OpenVINO.
class InvalidNode : public ov::Exception {
public:
    explicit InvalidNode(const std::string& sentence) : ov::Exception(sentence) {}
};

/// Returns the indices, or nothing if one is not known exactly.
template <class Indices, class IndicesBounds>
std::optional<Indices> exact_indices(const IndicesBounds& bounds) {
    Indices indices;
    indices.count = bounds.count;
    for (size_t i = 0; i < bounds.count; ++i) {
        if (!bounds.of[i])
            return std::nullopt;
        for (const auto& value : *bounds.of[i]) {
            if (!value.is_exact())
                return std::nullopt;
            indices.of[i].push_back(value.low);
        }
    }
    return indices;
}

/// Quotes a text as Python's `repr` does, so that messages of both kinds of operators are equal.
std::string quoted(const std::string& text) {
    const bool has_single = text.find('\'') != std::string::npos;
    const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
    std::string written(1, quote);
    for (const char c : text) {
        static const char digits[] = "0123456789abcdef";
        const auto code = static_cast<unsigned char>(c);
        if (c == quote || c == '\\')
            written += {'\\', c};
        else if (const auto at = std::string("\n\r\t").find(c); at != std::string::npos)
            written += {'\\', "nrt"[at]};
        else if (code < 32 || code == 127)
            written += {'\\', 'x', digits[code >> 4], digits[code & 15]};
        else
            written += c;
    }
    return written + quote;
}

bool is_constant(const ov::Node* node) {
    return ov::is_type<ov::op::v0::Constant>(node);
}

ov::Tensor to_packed(const ov::Tensor& tensor) {
    if (tensor.is_continuous())
        return tensor;
    ov::Tensor copied(tensor.get_element_type(), tensor.get_shape());
    tensor.copy_to(copied);
    return copied;
}

void check_element(const ov::element::Type& element) {
    if (element == ov::element::u3 || element == ov::element::u6)
        throw InvalidSlice("elements of type " + element.get_type_name() + " cannot be sliced");
}

void set_shape(ov::Tensor& tensor, const Sizes& sizes) {
    const auto& shape = tensor.get_shape();
    if (shape.size() != sizes.size() || !std::equal(shape.begin(), shape.end(), sizes.begin(), [](size_t a, int64_t b) {
            return a == static_cast<size_t>(b);
        }))
        tensor.set_shape(ov::Shape(sizes.begin(), sizes.end()));
}

void copy(const Region& region, const ov::Tensor& data, ov::Tensor& output) {
    const auto element = data.get_element_type();
    if (element == ov::element::string)
        copy_strings(region, data.data<std::string>(), output.data<std::string>());
    else if (const auto bits = element.bitwidth(); bits < 8)
        copy_packed(region, bits, element != ov::element::u1, data.data(), output.data());
    else
        copy_bytes(region, bits / 8, data.data(), output.data());
}

}  // namespace

/// Returns the number of index lists, inputs and fixed ones.
size_t SlicingOp::index_count() const {
    return m_fixed ? m_fixed->count : get_input_size() - 1;
}

/// Returns a fixed list of indices, or null if the list is an input.
const Integers* SlicingOp::fixed(size_t index) const {
    return m_fixed && !m_fixed->of[index].empty() ? &m_fixed->of[index] : nullptr;
}

/// Returns the number of the input that holds a list of indices.
size_t SlicingOp::input_of(size_t index) const {
    size_t input = index + 1;
    for (size_t i = 0; i < index; ++i)
        input -= fixed(i) ? 1 : 0;
    return input;
}

SlicingOp::Indices SlicingOp::read_indices(const ov::TensorVector& inputs) const {
    Indices indices;
    indices.count = m_fixed ? m_fixed->count : inputs.size() - 1;
    for (size_t i = 0; i < indices.count; ++i)
        indices.of[i] = fixed(i) ? *fixed(i) : to_index_list(inputs[input_of(i)]);
    return indices;
}

SlicingOp::SlicingOp(const ov::OutputVector& arguments, std::shared_ptr<const Indices> fixed)
    : Op(arguments),
      m_fixed(std::move(fixed)) {}

void SlicingOp::throw_invalid(const std::string& sentence) const {
    throw InvalidNode(std::string(get_type_name()) + " " + quoted(get_friendly_name()) + ": " + sentence + ".");
}

void SlicingOp::validate_and_infer_types() {
    try {
        infer();
    } catch (const InvalidSlice& error) {
        throw_invalid(error.what());
    }
}

void SlicingOp::infer() {
    check_count(index_count() + 1);
    if (input_of(index_count()) != get_input_size())
        throw InvalidSlice("indices that are attributes leave " + std::to_string(input_of(index_count())) +
                           " inputs, got " + std::to_string(get_input_size()));
    remove_narrowing_marks();
    for (size_t i = 1; i < get_input_size() && !m_had_wide_indices; ++i)
        m_had_wide_indices = get_input_element_type(i) != ov::element::i32;
    const auto& element = get_input_element_type(0);
    if (const auto sizes = find_exact_sizes()) {
        set_output_type(0, element, ov::PartialShape(std::vector<ov::Dimension>(sizes->begin(), sizes->end())));
        return;
    }
    check_inputs();
    const auto& shape = get_input_partial_shape(0);
    if (shape.rank().is_dynamic()) {
        set_output_type(0, element, ov::PartialShape::dynamic());
        return;
    }
    InlineVector<Bounds> sizes;
    for (const auto& size : shape)
        sizes.push_back(bounds_of(size));
    const auto indices = index_bounds();
    const auto output = output_dimensions(sizes, indices);
    if (!output) {
        set_output_type(0, element, ov::PartialShape::dynamic());
        return;
    }
    std::vector<ov::Dimension> dimensions;
    dimensions.reserve(output->size());
    for (const auto& size : *output)
        dimensions.push_back(size.axis < 0 ? dimension(size.bounds) : shape[static_cast<size_t>(size.axis)]);
    set_output_type(0, element, ov::PartialShape(std::move(dimensions)));
    if (sizes.size() == 1)
        pass_values(indices);
}

/// Returns the sizes of the output if all indices are fixed and the shape is known, as at each inference of a dynamic
/// model. Returns nothing if there is more to infer than sizes: symbols, known values or an error.
std::optional<Sizes> SlicingOp::find_exact_sizes() const {
    const auto& partial_shape = get_input_partial_shape(0);
    if (!m_fixed || get_input_size() > 1 || partial_shape.is_dynamic())
        return std::nullopt;
    ov::Shape shape;
    shape.reserve(static_cast<size_t>(partial_shape.end() - partial_shape.begin()));
    for (const auto& size : partial_shape) {
        if (size.has_symbol())
            return std::nullopt;
        shape.push_back(static_cast<size_t>(size.get_min_length()));
    }
    if (shape.size() == 1 && !is_constant(get_input_node_ptr(0)))
        return std::nullopt;
    try {
        return region(shape, *m_fixed).output_shape;
    } catch (const InvalidSlice&) {
        return std::nullopt;  // The checks that follow report the error.
    }
}

void SlicingOp::pass_values(const IndicesBounds& bounds) {
    const auto indices = exact_indices<Indices>(bounds);
    if (!indices)
        return;
    const auto element_values = element_bounds(input_value(0));
    if (!element_values)
        return;
    const auto selected = region(element_values->first.get_shape(), *indices);
    if (selected.is_empty())
        return;
    const ov::Shape shape(selected.output_shape.begin(), selected.output_shape.end());
    ov::Tensor lower(get_output_element_type(0), shape), upper(get_output_element_type(0), shape);
    copy(selected, element_values->first, lower);
    copy(selected, element_values->second, upper);
    auto& output = get_output_tensor(0);
    output.set_lower_value(lower);
    output.set_upper_value(upper);
    ov::TensorSymbolVector symbols(1);
    if (evaluate_symbol(symbols))
        output.set_value_symbol(symbols[0]);
}

bool SlicingOp::has_evaluate() const {
    return true;
}

bool SlicingOp::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
    if (inputs.size() != get_input_size() || outputs.size() != 1)
        throw_invalid("it has " + std::to_string(get_input_size()) + " inputs and 1 output, got " +
                      std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()) + " tensors");
    const auto& declared = get_input_element_type(0);
    const auto &element = inputs[0].get_element_type(), &target = outputs[0].get_element_type();
    // A tensor of a wider type than the output's would be copied beyond the output's end.
    if (element != target || (declared.is_static() && element != declared))
        throw_invalid("data and output must hold " + declared.get_type_name() + ", got " + element.get_type_name() +
                      " and " + target.get_type_name());
    const auto& data = inputs[0];
    Region selected;
    try {
        selected = region(data.get_shape(), m_fixed && inputs.size() == 1 ? *m_fixed : read_indices(inputs));
        check_element(data.get_element_type());
    } catch (const InvalidSlice& error) {
        throw_invalid(error.what());
    }
    set_shape(outputs[0], selected.output_shape);
    if (!selected.is_empty())
        copy(selected, data, outputs[0]);
    return true;
}

bool SlicingOp::evaluate(ov::TensorVector& outputs,
                         const ov::TensorVector& inputs,
                         const ov::EvaluationContext&) const {
    ov::TensorVector packed;
    for (const auto& input : inputs)
        packed.push_back(to_packed(input));
    if (outputs.size() != 1 || outputs[0].is_continuous())
        return evaluate(outputs, packed);
    ov::TensorVector results{{outputs[0].get_element_type(), outputs[0].get_shape()}};
    evaluate(results, packed);
    if (results[0].get_shape() != outputs[0].get_shape())
        outputs[0].set_shape(results[0].get_shape());
    results[0].copy_to(outputs[0]);
    return true;
}

bool SlicingOp::evaluate_lower(ov::TensorVector& outputs) const {
    return evaluate_bound(outputs, true);
}

bool SlicingOp::evaluate_upper(ov::TensorVector& outputs) const {
    return evaluate_bound(outputs, false);
}

bool SlicingOp::evaluate_bound(ov::TensorVector& outputs, bool lower) const {
    ov::TensorVector inputs;
    for (size_t i = 0; i < get_input_size(); ++i) {
        const auto& tensor = get_input_tensor(i);
        if (i > 0 && !tensor.has_and_set_bound())
            return false;
        inputs.push_back(lower ? tensor.get_lower_value() : tensor.get_upper_value());
        if (!inputs.back())
            return false;
    }
    return evaluate(outputs, inputs);
}

bool SlicingOp::evaluate_symbol(ov::TensorSymbolVector& output_symbols) const {
    const auto& shape = get_input_partial_shape(0);
    const auto symbols = get_input_tensor(0).get_value_symbol();
    if (shape.is_dynamic() || shape.size() != 1 || symbols.size() != shape.get_shape()[0])
        return false;
    try {
        const auto indices = exact_indices<Indices>(index_bounds());
        if (!indices)
            return false;
        const auto selected = region(shape.get_shape(), *indices).ranges[0];
        output_symbols[0].clear();
        for (int64_t i = 0; i < selected.size; ++i)
            output_symbols[0].push_back(symbols[static_cast<size_t>(selected.start + i * selected.step)]);
        return true;
    } catch (const InvalidSlice&) {
        return false;
    }
}

bool SlicingOp::can_constant_fold(const ov::OutputVector& inputs) const {
    return Op::can_constant_fold(inputs) || can_fix(inputs);
}

bool SlicingOp::constant_fold(ov::OutputVector& outputs, const ov::OutputVector& inputs) {
    if (Op::can_constant_fold(inputs))
        return Op::constant_fold(outputs, inputs);
    auto indices = std::make_shared<Indices>();
    ov::OutputVector remaining_inputs{inputs[0]};
    indices->count = index_count();
    for (size_t i = 0; i < indices->count; ++i) {
        if (const auto list = fixed(i)) {
            indices->of[i] = *list;
            continue;
        }
        const auto& input = inputs[input_of(i)];
        if (const auto constant = ov::as_type<const ov::op::v0::Constant>(input.get_node()))
            indices->of[i] = to_index_list(constant->get_tensor_view());
        if (indices->of[i].empty())
            remaining_inputs.push_back(input);
    }
    if (remaining_inputs.size() == inputs.size())
        return false;
    outputs[0] = make_with(remaining_inputs, std::move(indices))->output(0);
    return true;
}

/// Returns whether indices can become attributes, that is, whether a plugin has narrowed them to 32 bits. A user's model
/// may be folded too, but is not narrowed, so that its nodes keep the inputs that every reader of IR expects.
bool SlicingOp::can_fix(const ov::OutputVector& inputs) const {
    if (!(m_fixed || m_had_wide_indices) || ov::pass::constant_folding_is_disabled(this))
        return false;
    // OpenVINO folds these types in another type, and expects a constant as the result.
    if (const auto data = inputs[0].get_element_type(); data == ov::element::f16 || data == ov::element::bf16)
        return false;
    return std::all_of(inputs.begin() + 1, inputs.end(), [](const ov::Output<ov::Node>& index) {
               return index.get_element_type() == ov::element::i32;
           }) &&
           std::any_of(inputs.begin() + 1, inputs.end(), [](const ov::Output<ov::Node>& index) {
               return is_constant(index.get_node());
           });
}

/// Removes the mark of the CPU plugin from narrowed inputs that are not constants. Before OpenVINO folds a node, it
/// widens marked inputs again, and fails if one of them is not a constant.
void SlicingOp::remove_narrowing_marks() {
    for (size_t i = 0; i < get_input_size(); ++i)
        if (!is_constant(get_input_node_ptr(i)))
            input(i).get_rt_info().erase("original_precision");
}

SlicingOp::IndicesBounds SlicingOp::index_bounds() const {
    IndicesBounds bounds;
    bounds.count = index_count();
    for (size_t i = 0; i < bounds.count; ++i) {
        if (const auto list = fixed(i)) {
            bounds.of[i].emplace();
            for (const auto& index : *list)
                bounds.of[i]->push_back({index, index});
        } else {
            bounds.of[i] = list_bounds(input_value(input_of(i)));
        }
    }
    return bounds;
}

void SlicingOp::visit_fixed(ov::AttributeVisitor& visitor, const char* const* names, size_t count) {
    const bool is_being_read = get_output_size() == 0;
    if (!m_fixed && !is_being_read)
        return;
    Indices indices;
    size_t lists = 0;
    for (size_t i = 0; i < count; ++i) {
        std::vector<int64_t> values;
        for (const auto& index : m_fixed ? m_fixed->of[i] : Integers())
            values.push_back(index.value);
        visitor.on_attribute(names[i], values);
        for (const auto value : values)
            indices.of[i].push_back(value);
        lists += values.empty() ? 0 : 1;
    }
    if (lists == 0 || !is_being_read)
        return;
    indices.count = get_input_size() - 1 + lists;
    m_fixed = std::make_shared<const Indices>(std::move(indices));
}

std::optional<int64_t> SlicingOp::entry_count() const {
    for (size_t i = 0; i < index_count(); ++i) {
        if (const auto list = fixed(i))
            return static_cast<int64_t>(list->size());
        if (const auto length = list_length(get_input_partial_shape(input_of(i))))
            return length;
    }
    return std::nullopt;
}

void SlicingOp::check_lists(const char* rule, const char* const* names, int64_t max_length) const {
    std::optional<int64_t> first;
    bool differ = false;
    std::string lengths;
    for (size_t i = 0; i < index_count(); ++i) {
        const auto list = fixed(i);
        const auto length = list ? static_cast<int64_t>(list->size()) : check_list(input_of(i), names[i]);
        if (!length)
            continue;
        if (max_length > 0 && *length > max_length)
            throw InvalidSlice(std::string(names[i]) + " has " + std::to_string(*length) +
                               " entries, more than the rank " + std::to_string(max_length) + " of data");
        first = first ? first : length;
        differ = differ || *first != *length;
        lengths += (lengths.empty() ? "'" : ", '") + std::string(names[i]) + "': " + std::to_string(*length);
    }
    if (differ)
        throw InvalidSlice(std::string(rule) + " must have the same length, got {" + lengths + "}");
}

/// Checks that an input is a list of integers, and returns its length if it is known.
std::optional<int64_t> SlicingOp::check_list(size_t input, const char* name) const {
    const auto& element = get_input_element_type(input);
    const auto& shape = get_input_partial_shape(input);
    if (element.is_static() && !is_integral(element))
        throw InvalidSlice(std::string(name) + " must hold integers, got " + element.get_type_name());
    if (shape.rank().is_static() && shape.size() != 1)
        throw InvalidSlice(std::string(name) + " must be a list, got rank " + std::to_string(shape.size()));
    return list_length(shape);
}

}  // namespace sliceport
