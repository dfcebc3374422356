// The members of SlicingOp for fixed indices, which are attributes instead of inputs. See `m_fixed` for the reason.

#include "openvino/op/constant.hpp"
#include "openvino/op/util/op_types.hpp"
#include "openvino/pass/constant_folding.hpp"
#include "slicing_op.hpp"

namespace sliceport {

/// Returns the number of index lists, both inputs and fixed ones.
size_t SlicingOp::index_count() const {
    return m_fixed ? m_fixed->count : get_input_size() - 1;
}

/// Returns a fixed list of indices, or null if the list is an input.
const Integers* SlicingOp::fixed(size_t index) const {
    return m_fixed && !m_fixed->of[index].empty() ? &m_fixed->of[index] : nullptr;
}

/// Returns the number of the input that holds a list of indices: fixed lists before it have no input.
size_t SlicingOp::input_of(size_t index) const {
    size_t input = index + 1;
    for (size_t i = 0; i < index; ++i)
        input -= fixed(i) ? 1 : 0;
    return input;
}

void SlicingOp::visit_fixed(ov::AttributeVisitor& visitor) {
    const bool is_being_read = get_output_size() == 0;  // Reading a model sets the attributes before the outputs.
    if (!m_fixed && !is_being_read)
        return;
    Indices indices;
    size_t fixed_count = 0;
    const auto names = index_names();
    for (size_t i = 0; i < names.size(); ++i) {
        std::vector<int64_t> values;
        for (const auto& index : m_fixed ? m_fixed->of[i] : Integers())
            values.push_back(index.value);
        visitor.on_attribute(names[i], values);
        for (const auto value : values)
            indices.of[i].push_back(value);
        fixed_count += values.empty() ? 0 : 1;
    }
    if (fixed_count == 0 || !is_being_read)
        return;
    indices.count = get_input_size() - 1 + fixed_count;
    m_fixed = std::make_shared<const Indices>(std::move(indices));
}

/// Returns whether constant folding replaces the node: by a constant, or by a node with more fixed indices.
bool SlicingOp::can_constant_fold(const ov::OutputVector& inputs) const {
    return Op::can_constant_fold(inputs) || can_fix(inputs);
}

/// Puts the replacement of the node into `outputs`. Returns false if there is none.
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
        if (indices->of[i].empty())  // `m_fixed` cannot hold an empty list, so an empty constant stays an input.
            remaining_inputs.push_back(input);
    }
    if (remaining_inputs.size() == inputs.size())  // Nothing became fixed.
        return false;
    outputs[0] = make_with(remaining_inputs, std::move(indices))->output(0);
    return true;
}

/// Returns whether constant indices may become attributes. This is so only after a plugin has narrowed all indices to
/// 32 bits. In a model that was not compiled, indices stay inputs, because every reader of IR expects inputs.
bool SlicingOp::can_fix(const ov::OutputVector& inputs) const {
    if (!(m_fixed || m_had_wide_indices) || ov::pass::constant_folding_is_disabled(this))
        return false;
    // OpenVINO converts data of these types to another type for folding, and expects a constant as the result.
    if (const auto data = inputs[0].get_element_type(); data == ov::element::f16 || data == ov::element::bf16)
        return false;
    return std::all_of(inputs.begin() + 1, inputs.end(), [](const ov::Output<ov::Node>& index) {
               return index.get_element_type() == ov::element::i32;
           }) &&
           std::any_of(inputs.begin() + 1, inputs.end(), [](const ov::Output<ov::Node>& index) {
               return ov::op::util::is_constant(index.get_node());
           });
}

/// Removes the mark with which the CPU plugin remembers the type of a narrowed input, unless the input is a constant.
/// Before OpenVINO folds a node, it widens marked inputs again, and fails if one of them is not a constant.
void SlicingOp::remove_narrowing_marks() {
    for (size_t i = 0; i < get_input_size(); ++i)
        if (!ov::op::util::is_constant(get_input_node_ptr(i)))
            input(i).get_rt_info().erase("original_precision");
}

}  // namespace sliceport
