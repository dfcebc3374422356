#include "slicing_op.hpp"

#include "copy.hpp"

namespace sliceport {
namespace {

/// An `InvalidSlice` as an exception of OpenVINO, whose message is `sentence` after `label`, the operator and node.
class InvalidNode : public ov::Exception {
public:
    InvalidNode(const std::string& label, const std::string& sentence)
        : ov::Exception(label + ": " + sentence + "."),
          sentence(sentence) {}

    const std::string sentence;
};

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

/// Returns a tensor, or a copy of its elements without gaps if it has gaps.
ov::Tensor to_packed(const ov::Tensor& tensor) {
    if (tensor.is_continuous())
        return tensor;
    ov::Tensor copied(tensor.get_element_type(), tensor.get_shape());
    tensor.copy_to(copied);
    return copied;
}

/// Sets the shape of a tensor unless it has this shape, because setting it again takes time.
void set_shape(ov::Tensor& tensor, const Sizes& sizes) {
    const auto& shape = tensor.get_shape();
    if (shape.size() != sizes.size() || !std::equal(shape.begin(), shape.end(), sizes.begin(), [](size_t a, int64_t b) {
            return a == static_cast<size_t>(b);
        }))
        tensor.set_shape(ov::Shape(sizes.begin(), sizes.end()));
}

/// Copies a region that is not empty. The tensors are packed and have elements of one type, which can be sliced.
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

/// Returns all indices: the fixed ones, and those in the tensors of the inputs.
SlicingOp::Indices SlicingOp::read_indices(const ov::TensorVector& inputs) const {
    Indices indices;
    indices.count = m_fixed ? m_fixed->count : inputs.size() - 1;
    for (size_t i = 0; i < indices.count; ++i)
        indices.of[i] = fixed(i) ? *fixed(i) : to_index_list(inputs[input_of(i)]);
    return indices;
}

void SlicingOp::throw_invalid(const std::string& sentence) const {
    throw InvalidNode(std::string(get_type_name()) + " " + quoted(get_friendly_name()), sentence);
}

std::shared_ptr<ov::Node> SlicingOp::clone_with_new_inputs(const ov::OutputVector& inputs) const {
    try {
        return make_with(inputs, m_fixed);
    } catch (const InvalidNode& error) {
        throw_invalid(error.sentence);  // The clone has no friendly name yet.
    }
}

void SlicingOp::validate_and_infer_types() {
    try {
        infer();
    } catch (const InvalidSlice& error) {
        throw_invalid(error.what());
    }
}

/// Sets the type and the shape of the output.
void SlicingOp::infer() {
    const auto least = index_names().size();  // the data and all lists but the optional one
    if (const auto count = index_count() + 1; count != least && count != least + 1)
        throw InvalidSlice("it needs " + std::to_string(least) + " or " + std::to_string(least + 1) + " inputs, got " +
                           std::to_string(count));
    // Inputs are the data and the lists that are not fixed.
    if (input_of(index_count()) != get_input_size())
        throw InvalidSlice("besides the indices that are attributes, it needs " +
                           std::to_string(input_of(index_count())) + " inputs, got " +
                           std::to_string(get_input_size()));
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
    const auto output = output_dimensions(sizes, index_bounds());
    if (!output) {
        set_output_type(0, element, ov::PartialShape::dynamic());
        return;
    }
    std::vector<ov::Dimension> dimensions;
    dimensions.reserve(output->size());
    for (const auto& size : *output)
        dimensions.push_back(size.axis < 0 ? dimension(size.bounds) : shape[static_cast<size_t>(size.axis)]);
    set_output_type(0, element, ov::PartialShape(std::move(dimensions)));
}

/// Returns the sizes of the output if all indices are fixed and the shape is known. This is a fast path for compiled
/// dynamic models, which infer shapes at each inference. Returns nothing if a size has a symbol or the node is invalid.
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
    try {
        return region(shape, *m_fixed).output_shape;
    } catch (const InvalidSlice&) {
        return std::nullopt;  // The checks that follow report the error.
    }
}

bool SlicingOp::evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const {
    if (inputs.size() != get_input_size() || outputs.size() != 1)
        throw_invalid("it needs " + std::to_string(get_input_size()) + " inputs and 1 output, got " +
                      std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()) + " tensors");
    const auto &element = inputs[0].get_element_type(), &target = outputs[0].get_element_type();
    const auto& declared = get_input_element_type(0);
    const auto& expected = declared.is_static() ? declared : element;
    // Data of a wider type than the output's would be copied beyond the end of the output.
    if (element != expected || target != expected)
        throw_invalid("data and output must hold " + expected.get_type_name() + ", got " + element.get_type_name() +
                      " and " + target.get_type_name());
    const auto& data = inputs[0];
    Region selected;
    try {
        // If all indices are fixed, they are not copied.
        const bool is_fixed = m_fixed && inputs.size() == 1;
        selected = is_fixed ? region(data.get_shape(), *m_fixed) : region(data.get_shape(), read_indices(inputs));
        if (element == ov::element::u3 || element == ov::element::u6)
            throw InvalidSlice("elements of type " + element.get_type_name() + " cannot be sliced");
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

/// Computes the output from the lower or the upper bounds of the data. Returns false if a bound or index is not known.
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
        const auto indices = exact_indices();
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

/// Returns the bounds of all indices, both fixed ones and inputs.
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

/// Returns the indices, or nothing if an index is not known exactly.
std::optional<SlicingOp::Indices> SlicingOp::exact_indices() const {
    const auto bounds = index_bounds();
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

std::optional<int64_t> SlicingOp::entry_count() const {
    for (size_t i = 0; i < index_count(); ++i) {
        if (const auto list = fixed(i))
            return static_cast<int64_t>(list->size());
        if (const auto length = list_length(get_input_partial_shape(input_of(i))))
            return length;
    }
    return std::nullopt;
}

void SlicingOp::check_lists(int64_t max_length) const {
    const auto names = index_names();
    std::optional<int64_t> first_length;
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
        first_length = first_length ? first_length : length;
        differ = differ || *first_length != *length;
        lengths += (lengths.empty() ? "'" : ", '") + std::string(names[i]) + "': " + std::to_string(*length);
    }
    if (!differ)
        return;
    std::string joined_names = names[0];
    for (size_t i = 1; i < names.size(); ++i)
        joined_names += std::string(i + 1 < names.size() ? ", " : " and ") + names[i];
    throw InvalidSlice(joined_names + " must have the same length, got {" + lengths + "}");
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
