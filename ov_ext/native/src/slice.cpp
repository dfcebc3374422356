#include "slice.hpp"

namespace sliceport {
namespace {

enum SliceInput { start, stop, step, axes };

}  // namespace

Slice::Slice(const ov::OutputVector& arguments, std::shared_ptr<const Indices> fixed)
    : SlicingOp(arguments, std::move(fixed)) {
    constructor_validate_and_infer_types();
}

bool Slice::visit_attributes(ov::AttributeVisitor& visitor) {
    visit_fixed(visitor);
    return true;
}

std::shared_ptr<ov::Node> Slice::make_with(const ov::OutputVector& inputs, std::shared_ptr<const Indices> fixed) const {
    return std::make_shared<Slice>(inputs, std::move(fixed));
}

void Slice::check_inputs() const {
    const auto rank = get_input_partial_shape(0).rank();
    check_lists(rank.is_static() ? rank.get_length() : 0);
    if (rank.is_static() && rank.get_length() == 0)
        throw InvalidSlice("data is a scalar, but slicing needs at least one axis");
}

std::optional<SlicingOp::OutputSizes> Slice::output_dimensions(const InlineVector<Bounds>& sizes,
                                                               const IndicesBounds& indices) const {
    OutputSizes output;
    const auto sliced_axes = entry_axes(indices, static_cast<int64_t>(sizes.size()));
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        if (sliced_axes)
            output.push_back({sizes[axis], static_cast<int64_t>(axis)});
        else  // Any axis may be sliced.
            output.push_back({{0, sizes[axis].high}, -1});
    }
    for (size_t i = 0; sliced_axes && i < sliced_axes->size(); ++i) {
        const auto axis = (*sliced_axes)[i];
        const auto stride = exact_at(indices, step, i);
        if (stride == 0)
            throw InvalidSlice("the step of axis " + std::to_string(axis) + " is 0, but it must not be");
        auto& size = output[static_cast<size_t>(axis)];
        const auto sliced = sliced_size(size.bounds, bounds_at(indices, start, i), bounds_at(indices, stop, i), stride);
        size = {sliced.bounds, sliced.keeps_size ? axis : -1};
    }
    return output;
}

/// Returns the axis of each entry, or nothing if the number of entries or an axis is not known.
std::optional<Sizes> Slice::entry_axes(const IndicesBounds& indices, int64_t rank) const {
    const auto count = entry_count();
    if (!count)
        return std::nullopt;
    Integers ones, named;
    for (int64_t i = 0; i < *count; ++i)
        ones.push_back(1);
    const bool has_axes = indices.count > axes;
    if (has_axes) {
        const auto& bounds = indices.of[axes];
        if (!bounds || !std::all_of(bounds->begin(), bounds->end(), [](const Bounds& axis) { return axis.is_exact(); }))
            return std::nullopt;
        for (const auto& axis : *bounds)
            named.push_back(axis.low);
    }
    // The rules for axes do not depend on starts, ends and steps, which may be unknown.
    return SliceSpec{ones, ones, ones, has_axes ? &named : nullptr}.normalize_axes(rank);
}

Region Slice::region(const ov::Shape& shape, const Indices& indices) const {
    const auto named_axes = indices.count > axes ? &indices.of[axes] : nullptr;
    return SliceSpec{indices.of[start], indices.of[stop], indices.of[step], named_axes}.resolve(shape);
}

}  // namespace sliceport
