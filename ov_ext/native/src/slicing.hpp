/// The arithmetic of slices, function by function as in `sliceport/slicing` and `ov_ext/inference.py`.
///
/// Standard library only. Sizes are at most INT64_MAX, and so are all results: nothing here overflows.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "inline_vector.hpp"

namespace sliceport {

constexpr int64_t int64_max = std::numeric_limits<int64_t>::max();
constexpr int64_t int64_min = std::numeric_limits<int64_t>::min();

/// An operator breaks its specification. The caller adds the names of operator and node to the sentence.
class InvalidSlice : public std::invalid_argument {
public:
    using std::invalid_argument::invalid_argument;
};

/// An index of any integer type.
///
/// No axis is longer than INT64_MAX, so a greater index selects what INT64_MAX does and has this value. The least and
/// the greatest 32-bit integer mean "as far as possible" and have the value of the 64-bit ones: the CPU plugin narrows
/// constants to these values, and OpenVINO writes unbounded 32-bit bounds as these values. Messages and comparisons use
/// the integer as it is written.
struct Integer {
    Integer() = default;
    Integer(int64_t value) : value(value), written(static_cast<uint64_t>(value)) {}
    static Integer of_unsigned(uint64_t written) {
        Integer integer(static_cast<int64_t>(std::min<uint64_t>(written, int64_max)));
        integer.written = written;
        return integer;
    }
    static Integer of_32_bits(int32_t written) {
        Integer integer(written);
        if (written == INT32_MAX || written == INT32_MIN)
            integer.value = written > 0 ? int64_max : int64_min;
        return integer;
    }
    bool operator==(const Integer& other) const {
        return value == other.value && written == other.written;
    }

    int64_t value;
    uint64_t written;  ///< The bits of a 64-bit integer, which is unsigned if `value` is INT64_MAX.
};

using Integers = InlineVector<Integer>;
using Sizes = InlineVector<int64_t>;

inline std::string to_string(const Integer& integer) {
    return integer.value == int64_max ? std::to_string(integer.written)
                                      : std::to_string(static_cast<int64_t>(integer.written));
}

template <class List>
std::string list_to_string(const List& values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i)
        text += (i ? ", " : "") + to_string(Integer(values[i]));
    return text + "]";
}

// One axis.

/// The indices that are selected on one axis, in output order, as a Python `range` in canonical form.
struct Range {
    int64_t start;
    int64_t size;
    int64_t step;

    static Range empty() {
        return {0, 0, 1};
    }
    static Range whole(int64_t size) {
        return {0, size, 1};
    }
    bool operator==(const Range& other) const {
        return start == other.start && size == other.size && step == other.step;
    }
};

/// Returns a range in canonical form: an empty one is `{0, 0, 1}`, and a single index has step 1.
inline Range canonicalize(int64_t start, int64_t size, int64_t step) {
    return size > 1 ? Range{start, size, step} : size == 1 ? Range{start, 1, 1} : Range::empty();
}

/// Returns the absolute value, also of INT64_MIN.
inline uint64_t magnitude(int64_t value) {
    return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

/// Returns the indices that a slice selects from an axis, clamped as by ONNX and OpenVINO: a backward slice that starts
/// below `-size` starts at 0. The default of `start` and `stop` are the ends of the axis in the direction of `step`.
inline Range resolve_axis(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step, int64_t size) {
    if (step == 0)
        throw InvalidSlice("step must not be 0");
    const bool is_forward = step > 0;
    const int64_t lowest = is_forward ? 0 : -1;
    const int64_t highest = is_forward ? size : size - 1;
    const auto clamp = [&](int64_t index) {
        return std::min(std::max(index < 0 ? index + size : index, lowest), highest);
    };
    if (start && !is_forward)
        start = std::max(*start, -size);
    const int64_t first = start ? clamp(*start) : is_forward ? lowest : highest;
    const int64_t end = stop ? clamp(*stop) : is_forward ? highest : lowest;
    const int64_t extent = is_forward ? end - first : first - end;
    if (extent <= 0)
        return Range::empty();
    const auto count = (static_cast<uint64_t>(extent) - 1) / magnitude(step) + 1;
    return canonicalize(first, static_cast<int64_t>(count), step);
}

/// Merges two non-empty axes into one of `outer size * inner_size` elements, if the indices on it have one step.
inline std::optional<Range> merge(const Range& outer, const Range& inner, int64_t inner_size) {
    const int64_t first = outer.start * inner_size + inner.start;
    if (outer.size == 1)
        return Range{first, inner.size, inner.step};
    if (inner.size == 1)
        return Range{first, outer.size, outer.step * inner_size};
    if (outer.step * inner_size == inner.size * inner.step)
        return Range{first, outer.size * inner.size, inner.step};
    return std::nullopt;
}

// Masks.

enum class EntryKind { slice, shrink, new_axis, keep };

/// One entry of a StridedSlice: `position` is -1 for an axis without an entry, `axis` is -1 for a new axis.
struct Entry {
    EntryKind kind;
    int64_t position;
    int64_t axis;
};

using Entries = InlineVector<Entry>;
using Mask = std::vector<int64_t>;

/// The five masks of a StridedSlice, one bit for each entry. Missing bits are 0, and further bits are ignored.
struct Masks {
    static constexpr const char* names[] = {
        "begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask"};

    Mask begin, end, new_axis, shrink_axis, ellipsis;

    static bool bit(const Mask& mask, size_t i) {
        return i < mask.size() && mask[i];
    }

    void check() const {
        const Mask* const masks[] = {&begin, &end, &new_axis, &shrink_axis, &ellipsis};
        for (size_t i = 0; i < 5; ++i)
            for (const auto value : *masks[i])
                if (value != 0 && value != 1)
                    throw InvalidSlice(std::string(names[i]) + " must hold only 0 and 1, got " +
                                       list_to_string(*masks[i]));
    }

    /// Aligns `count` entries with the axes of a tensor of `rank`, in output order. Every axis gets an entry.
    Entries entries(size_t count, int64_t rank) const {
        check();
        size_t ellipses = 0;
        int64_t consuming = 0;
        for (size_t i = 0; i < count; ++i) {
            ellipses += bit(ellipsis, i);
            consuming += !bit(ellipsis, i) && !bit(new_axis, i);
        }
        if (ellipses > 1)
            throw InvalidSlice("at most one ellipsis is allowed, got ellipsis_mask=" + list_to_string(ellipsis));
        if (consuming > rank)
            throw InvalidSlice(std::to_string(consuming) + " entries name an axis, but the tensor has rank " +
                               std::to_string(rank));
        Entries aligned;
        int64_t axis = 0;
        for (size_t i = 0; i < count; ++i) {
            const auto position = static_cast<int64_t>(i);
            if (bit(ellipsis, i)) {
                for (const auto stop = axis + rank - consuming; axis < stop; ++axis)
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

// Regions.

/// The selected elements: a range for each input axis, and the shape of the output.
struct Region {
    Sizes input_shape;
    InlineVector<Range> ranges;
    Sizes output_shape;

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
        Region merged;
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

// Bounds.

/// The least and the greatest possible value. A size of INT64_MAX means "unbounded".
struct Bounds {
    Integer low;
    Integer high;

    bool is_exact() const {
        return low == high;
    }
};

/// The bounds of an unknown index.
inline const Bounds any_index{int64_min, int64_max};

/// Throws if every index within bounds is out of range for every size within bounds. An index that is in range for one
/// size is in range for all greater ones.
inline void check_shrunk_index(const Entry& entry, const Bounds& size, const Bounds& index) {
    const auto greatest = size.high.value;
    if (greatest > 0 && index.low.value < greatest && index.high.value >= -greatest)
        return;
    const auto indices = index.is_exact() ? "index " + to_string(index.low)
                                          : "an index from " + to_string(index.low) + " to " + to_string(index.high);
    const auto actual = greatest == int64_max ? "no axis is that long"
                                              : std::string("the axis has ") + (size.is_exact() ? "" : "at most ") +
                                                    std::to_string(greatest) + " elements";
    throw InvalidSlice("entry " + std::to_string(entry.position) + " shrinks axis " + std::to_string(entry.axis) +
                       " to " + indices + ", but " + actual);
}

// Specifications.

/// Returns `axis` as a number from 0 on.
inline int64_t normalize_axis(const Integer& axis, int64_t rank) {
    if (axis.value < -rank || axis.value >= rank)
        throw InvalidSlice("axis " + to_string(axis) + " is out of range for a tensor of rank " +
                           std::to_string(rank));
    return axis.value < 0 ? axis.value + rank : axis.value;
}

/// Slice-8. The default of `axes` are the first axes.
struct SliceSpec {
    const Integers& starts;
    const Integers& ends;
    const Integers& steps;
    const Integers* axes;

    template <class Shape>
    Region resolve(const Shape& shape) const {
        auto region = Region::whole(shape);
        const auto axes_named = normalize_axes(static_cast<int64_t>(shape.size()));
        for (size_t i = 0; i < axes_named.size(); ++i) {
            const auto axis = static_cast<size_t>(axes_named[i]);
            region.ranges[axis] =
                resolve_axis(starts[i].value, ends[i].value, steps[i].value, region.input_shape[axis]);
        }
        for (const auto& range : region.ranges)
            region.output_shape.push_back(range.size);
        return region;
    }

    /// Checks all rules and returns the axis of each entry as a number from 0 on.
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

/// StridedSlice-1. The default of `strides` is 1.
struct StridedSliceSpec {
    const Integers& begin;
    const Integers& end;
    const Integers* strides;
    const Masks& masks;

    template <class Shape>
    Region resolve(const Shape& shape) const {
        auto region = Region::whole(shape);
        for (const auto& entry : entries(static_cast<int64_t>(shape.size()))) {
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

    /// Aligns the entries with the axes of a tensor of `rank`, in output order. Every axis gets an entry.
    Entries entries(int64_t rank) const {
        if (end.size() != begin.size() || (strides && strides->size() != begin.size())) {
            Sizes lengths{static_cast<int64_t>(begin.size()), static_cast<int64_t>(end.size())};
            if (strides)
                lengths.push_back(static_cast<int64_t>(strides->size()));
            throw InvalidSlice("begin, end and strides must have the same length, got lengths " +
                               list_to_string(lengths));
        }
        return masks.entries(begin.size(), rank);
    }

private:
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
        check_shrunk_index(entry, {size, size}, {index, index});
        return index.value < 0 ? index.value + size : index.value;
    }
};

// Sizes within bounds.

/// The size of a sliced axis: its exact bounds, and whether every size of the axis stays as it is.
struct SlicedSize {
    Bounds bounds;
    bool keeps_size;
};

/// Returns the sizes that an axis can have after slicing.
///
/// For a fixed start and stop, the result is monotonic in the axis's size between the sizes at which an index meets an
/// end of the axis. For a fixed size, it is monotonic in start and in stop, below 0 and from 0 on. So the extremes lie
/// at the ends of the bounds, at the indices -1 and 0, and at those sizes.
///
/// \param start  The default is the beginning in the direction of `step`.
/// \param stop   The default is the end in that direction.
/// \param step   Absent if it is not known exactly.
inline SlicedSize sliced_size(const Bounds& axis,
                              const std::optional<Bounds>& start,
                              const std::optional<Bounds>& stop,
                              const std::optional<int64_t>& step) {
    using Index = std::optional<int64_t>;
    const int64_t least = axis.low.value, greatest = axis.high.value;
    if (!step)
        return {{0, greatest}, greatest == 0};
    const auto extreme_indices = [](const std::optional<Bounds>& index) {
        if (!index)
            return InlineVector<Index>{std::nullopt};
        const int64_t low = index->low.value, high = index->high.value;
        if (low < 0 && high >= 0)
            return InlineVector<Index>{low, -1, 0, high};
        return low == high ? InlineVector<Index>{low} : InlineVector<Index>{low, high};
    };
    int64_t low = int64_max, high = 0;
    bool keeps_size = true;
    for (const auto& first : extreme_indices(start)) {
        for (const auto& end : extreme_indices(stop)) {
            const auto count_at = [&](int64_t size) {
                const auto count = resolve_axis(first, end, *step, size).size;
                low = std::min(low, count);
                high = std::max(high, count);
                keeps_size = keeps_size && count == size;
            };
            count_at(least);
            if (least == greatest)
                continue;
            count_at(greatest);
            for (const auto& index : {first, end}) {
                if (!index)
                    continue;
                for (int64_t difference = -1; difference <= 1; ++difference) {
                    const auto size = magnitude(*index) + static_cast<uint64_t>(difference);
                    if (size > static_cast<uint64_t>(least) && size < static_cast<uint64_t>(greatest))
                        count_at(static_cast<int64_t>(size));
                }
            }
        }
    }
    // A slice of an unbounded axis is unbounded if it takes a constant part of the axis.
    if (greatest == int64_max && static_cast<uint64_t>(high) >= static_cast<uint64_t>(int64_max) / magnitude(*step) / 2)
        high = int64_max;
    return {{low, high}, keeps_size};
}

}  // namespace sliceport
