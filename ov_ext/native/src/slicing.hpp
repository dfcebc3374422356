/// Masks, regions and the specifications of both operators, as in `sliceport/slicing`. Standard library only.

#pragma once

#include <vector>

#include "bounds.hpp"

namespace sliceport {

enum class EntryKind { slice, shrink, new_axis, keep };

/// An entry of a StridedSlice. The kind `keep` is an input axis that no entry of the lists names.
struct Entry {
    EntryKind kind;
    int64_t position;  ///< The position in the lists and masks; -1 for `keep`.
    int64_t axis;  ///< The input axis; -1 for `new_axis`.
};

using Entries = InlineVector<Entry>;
using Mask = std::vector<int64_t>;

/// The five masks of a StridedSlice, one bit for each entry. Missing bits are 0, and further bits are ignored.
struct Masks {
    static constexpr const char* names[] = {
        "begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask"};

    Mask begin, end, new_axis, shrink_axis, ellipsis;

    /// Returns whether the bit of entry `i` is set.
    static bool bit(const Mask& mask, size_t i) {
        return i < mask.size() && mask[i];
    }

    /// Throws InvalidSlice if a mask holds something other than 0 and 1.
    void check() const {
        const Mask* const masks[] = {&begin, &end, &new_axis, &shrink_axis, &ellipsis};
        for (size_t i = 0; i < 5; ++i)
            for (const auto value : *masks[i])
                if (value != 0 && value != 1)
                    throw InvalidSlice(std::string(names[i]) + " must hold only 0 and 1, got " +
                                       list_to_string(*masks[i]));
    }

    /// Aligns `count` entries with the axes of a tensor of `rank`, in output order. Every axis gets an entry. Throws
    /// InvalidSlice if a mask is wrong, or if there are two ellipses or too many entries.
    Entries entries(size_t count, int64_t rank) const {
        check();
        size_t ellipsis_count = 0;
        int64_t consumed_axes = 0;
        for (size_t i = 0; i < count; ++i) {
            ellipsis_count += bit(ellipsis, i);
            consumed_axes += !bit(ellipsis, i) && !bit(new_axis, i);
        }
        if (ellipsis_count > 1)
            throw InvalidSlice("at most one ellipsis is allowed, got ellipsis_mask=" + list_to_string(ellipsis));
        if (consumed_axes > rank)
            throw InvalidSlice(std::to_string(consumed_axes) + " entries name an axis, but the tensor has rank " +
                               std::to_string(rank));
        Entries aligned;
        int64_t axis = 0;
        for (size_t i = 0; i < count; ++i) {
            const auto position = static_cast<int64_t>(i);
            if (bit(ellipsis, i)) {
                for (const auto stop = axis + rank - consumed_axes; axis < stop; ++axis)
                    aligned.push_back({EntryKind::keep, -1, axis});
            } else if (bit(new_axis, i)) {
                aligned.push_back({EntryKind::new_axis, position, -1});
            } else {
                aligned.push_back({bit(shrink_axis, i) ? EntryKind::shrink : EntryKind::slice, position, axis++});
            }
        }
        for (; axis < rank; ++axis)
            aligned.push_back({EntryKind::keep, -1, axis});
        return aligned;
    }
};

/// The selected elements: a range for each input axis, and the shape of the output.
struct Region {
    Sizes input_shape;
    InlineVector<Range> ranges;
    Sizes output_shape;

    /// Returns the region of all elements, without the output shape.
    template <class Shape>
    static Region whole(const Shape& shape) {
        Region region;
        for (const auto size : shape) {
            region.input_shape.push_back(static_cast<int64_t>(size));
            region.ranges.push_back(Range::whole(static_cast<int64_t>(size)));
        }
        return region;
    }

    bool is_empty() const {
        return std::find(output_shape.begin(), output_shape.end(), 0) != output_shape.end();
    }

    /// Returns the same elements of the same packed buffer, in the same order, with the fewest axes. The region must
    /// not be empty.
    Region coalesce() const {
        Region merged;  // innermost axis first until it is reversed
        for (size_t axis = ranges.size(); axis-- > 0;) {
            const auto size = input_shape[axis];
            if (size == 1)
                continue;
            if (!merged.ranges.empty()) {
                if (const auto merged_range = merge(ranges[axis], merged.ranges.back(), merged.input_shape.back())) {
                    merged.ranges.back() = *merged_range;
                    merged.input_shape.back() *= size;
                    continue;
                }
            }
            merged.input_shape.push_back(size);
            merged.ranges.push_back(ranges[axis]);
        }
        std::reverse(merged.input_shape.begin(), merged.input_shape.end());
        std::reverse(merged.ranges.begin(), merged.ranges.end());
        for (const auto& range : merged.ranges)
            merged.output_shape.push_back(range.size);
        return merged;
    }
};

/// Returns `axis`, which may be negative, counted from the front. Throws InvalidSlice if it is out of range.
inline int64_t normalize_axis(const Integer& axis, int64_t rank) {
    if (axis.value < -rank || axis.value >= rank)
        throw InvalidSlice("axis " + to_string(axis) + " is out of range for a tensor of rank " +
                           std::to_string(rank));
    return axis.value < 0 ? axis.value + rank : axis.value;
}

/// The indices of a Slice-8. If `axes` is null, entry `i` is about axis `i`.
struct SliceSpec {
    const Integers& starts;
    const Integers& ends;
    const Integers& steps;
    const Integers* axes;

    template <class Shape>
    Region resolve(const Shape& shape) const {
        auto region = Region::whole(shape);
        const auto sliced_axes = normalize_axes(static_cast<int64_t>(shape.size()));
        for (size_t i = 0; i < sliced_axes.size(); ++i) {
            const auto axis = static_cast<size_t>(sliced_axes[i]);
            region.ranges[axis] =
                resolve_axis(starts[i].value, ends[i].value, steps[i].value, region.input_shape[axis]);
        }
        for (const auto& range : region.ranges)
            region.output_shape.push_back(range.size);
        return region;
    }

    /// Returns the axis of each entry, counted from the front. Throws InvalidSlice if the spec breaks a rule of Slice.
    Sizes normalize_axes(int64_t rank) const {
        if (rank == 0)
            throw InvalidSlice("data is a scalar, but slicing needs at least one axis");
        check_length("ends", ends);
        if (axes)
            check_length("axes", *axes);
        check_length("steps", steps);
        if (!axes && static_cast<int64_t>(starts.size()) > rank)
            throw InvalidSlice(std::to_string(starts.size()) + " starts are more than the tensor's rank " +
                               std::to_string(rank));
        Sizes normalized;
        for (size_t i = 0; i < starts.size(); ++i) {
            const auto axis = axes ? normalize_axis((*axes)[i], rank) : static_cast<int64_t>(i);
            if (axes && std::find(normalized.begin(), normalized.end(), axis) != normalized.end())
                throw InvalidSlice("axis " + std::to_string(axis) + " is named twice in axes=" +
                                   list_to_string(*axes));
            if (steps[i].value == 0)
                throw InvalidSlice("the step of axis " + std::to_string(axis) + " is 0, but it must not be");
            normalized.push_back(axis);
        }
        return normalized;
    }

private:
    void check_length(const char* name, const Integers& values) const {
        if (values.size() != starts.size())
            throw InvalidSlice(std::string(name) + " and starts must have the same length, got " + name + "=" +
                               list_to_string(values) + " and starts=" + list_to_string(starts));
    }
};

/// The indices and masks of a StridedSlice-1. If `strides` is null, all strides are 1.
struct StridedSliceSpec {
    const Integers& begin;
    const Integers& end;
    const Integers* strides;
    const Masks& masks;

    template <class Shape>
    Region resolve(const Shape& shape) const {
        auto region = Region::whole(shape);
        check_lengths();
        for (const auto& entry : masks.entries(begin.size(), static_cast<int64_t>(shape.size()))) {
            const auto axis = static_cast<size_t>(entry.axis);
            switch (entry.kind) {
            case EntryKind::new_axis:
                region.output_shape.push_back(1);
                break;
            case EntryKind::keep:
                region.output_shape.push_back(region.input_shape[axis]);
                break;
            case EntryKind::shrink:
                region.ranges[axis] = {shrunk_index(entry, region.input_shape[axis]), 1, 1};
                break;
            case EntryKind::slice:
                region.ranges[axis] = sliced_range(entry, region.input_shape[axis]);
                region.output_shape.push_back(region.ranges[axis].size);
                break;
            }
        }
        return region;
    }

private:
    void check_lengths() const {
        if (end.size() == begin.size() && (!strides || strides->size() == begin.size()))
            return;
        Sizes lengths{static_cast<int64_t>(begin.size()), static_cast<int64_t>(end.size())};
        if (strides)
            lengths.push_back(static_cast<int64_t>(strides->size()));
        throw InvalidSlice("begin, end and strides must have the same length, got lengths " + list_to_string(lengths));
    }

    Range sliced_range(const Entry& entry, int64_t size) const {
        const auto i = static_cast<size_t>(entry.position);
        const auto stride = strides ? (*strides)[i].value : 1;
        if (stride == 0)
            throw InvalidSlice("the stride of axis " + std::to_string(entry.axis) + " (entry " + std::to_string(i) +
                               ") is 0, but it must not be");
        const auto bound = [i](const Integers& indices, const Mask& mask) {
            return Masks::bit(mask, i) ? std::nullopt : std::make_optional(indices[i].value);
        };
        return resolve_axis(bound(begin, masks.begin), bound(end, masks.end), stride, size);
    }

    int64_t shrunk_index(const Entry& entry, int64_t size) const {
        const auto& index = begin[static_cast<size_t>(entry.position)];
        check_shrunk_index(entry.position, entry.axis, {size, size}, {index, index});
        return index.value < 0 ? index.value + size : index.value;
    }
};

}  // namespace sliceport
