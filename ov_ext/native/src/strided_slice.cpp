#include "strided_slice.hpp"

#include "openvino/core/attribute_visitor.hpp"

namespace sliceport {
namespace {

enum StridedSliceInput { begin, end, strides };

}  // namespace

StridedSlice::StridedSlice(const ov::OutputVector& arguments,
                           std::shared_ptr<const Masks> masks,
                           std::shared_ptr<const Indices> fixed)
    : SlicingOp(arguments, std::move(fixed)),
      m_masks(std::move(masks)) {
    constructor_validate_and_infer_types();
}

bool StridedSlice::visit_attributes(ov::AttributeVisitor& visitor) {
    auto masks = *m_masks;
    size_t i = 0;
    bool is_changed = false;
    try {
        for (auto* const mask : {&masks.begin, &masks.end, &masks.new_axis, &masks.shrink_axis, &masks.ellipsis}) {
            // The operator in Python cannot write an empty list. A single 0 means the same.
            if (mask->empty())
                mask->push_back(0);
            const auto before = *mask;
            visitor.on_attribute(Masks::names[i++], *mask);
            is_changed = is_changed || *mask != before;
        }
    } catch (const std::exception&) {
        throw_invalid("the masks must be lists of integers");
    }
    // If the visitor changes nothing, m_masks is not assigned, because several threads may save or compile one model.
    if (is_changed)
        m_masks = std::make_shared<const Masks>(std::move(masks));
    visit_fixed(visitor);
    return true;
}

std::shared_ptr<ov::Node> StridedSlice::make_with(const ov::OutputVector& inputs,
                                                  std::shared_ptr<const Indices> fixed) const {
    return std::make_shared<StridedSlice>(inputs, m_masks, std::move(fixed));
}

void StridedSlice::check_inputs() const {
    check_lists();
    m_masks->check();
}

std::optional<SlicingOp::OutputSizes> StridedSlice::output_dimensions(const InlineVector<Bounds>& sizes,
                                                                      const IndicesBounds& indices) const {
    const auto count = entry_count();
    if (!count)
        return std::nullopt;
    OutputSizes output;
    for (const auto& entry : m_masks->entries(static_cast<size_t>(*count), static_cast<int64_t>(sizes.size()))) {
        if (entry.kind == EntryKind::new_axis) {
            output.push_back({{1, 1}, -1});
            continue;
        }
        const auto& size = sizes[static_cast<size_t>(entry.axis)];
        const auto i = static_cast<size_t>(entry.position);
        if (entry.kind == EntryKind::keep) {
            output.push_back({size, entry.axis});
        } else if (entry.kind == EntryKind::shrink) {
            check_shrunk_index(entry.position, entry.axis, size, bounds_at(indices, begin, i));
        } else {
            const auto stride = indices.count > strides ? exact_at(indices, strides, i) : 1;
            if (stride == 0)
                throw InvalidSlice("the stride of axis " + std::to_string(entry.axis) + " (entry " +
                                   std::to_string(i) + ") is 0, but it must not be");
            const auto bound = [&](StridedSliceInput input, const Mask& mask) {
                return Masks::bit(mask, i) ? std::nullopt : std::make_optional(bounds_at(indices, input, i));
            };
            const auto sliced = sliced_size(size, bound(begin, m_masks->begin), bound(end, m_masks->end), stride);
            output.push_back({sliced.bounds, sliced.keeps_size ? entry.axis : -1});
        }
    }
    return output;
}

Region StridedSlice::region(const ov::Shape& shape, const Indices& indices) const {
    const auto stride_list = indices.count > strides ? &indices.of[strides] : nullptr;
    return StridedSliceSpec{indices.of[begin], indices.of[end], stride_list, *m_masks}.resolve(shape);
}

}  // namespace sliceport
