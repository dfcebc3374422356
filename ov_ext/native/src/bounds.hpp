/// Bounds of sizes after slicing, function by function as in `ov_ext/inference.py`. Standard library only.

#pragma once

#include "axis.hpp"

namespace sliceport {

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

/// A computed size below this one never counts as unbounded. A step above 2^31 would lead to a lower limit.
constexpr uint64_t min_unbounded = uint64_t{1} << 31;

/// Throws InvalidSlice if every index within bounds is out of range for every size within bounds. An index that is in
/// range for one size is in range for all greater ones. `entry` and `axis` are for the message.
inline void check_shrunk_index(int64_t entry, int64_t axis, const Bounds& size, const Bounds& index) {
    const auto greatest = size.high.value;
    if (greatest > 0 && index.low.value < greatest && index.high.value >= -greatest)
        return;
    const auto indices = index.is_exact() ? "index " + to_string(index.low)
                                          : "an index from " + to_string(index.low) + " to " + to_string(index.high);
    const auto actual = greatest == int64_max ? "no axis is that long"
                                              : std::string("the axis has ") + (size.is_exact() ? "" : "at most ") +
                                                    std::to_string(greatest) + " elements";
    throw InvalidSlice("entry " + std::to_string(entry) + " shrinks axis " + std::to_string(axis) + " to " + indices +
                       ", but " + actual);
}

/// The size of a sliced axis: its bounds, and whether every size of the axis stays as it is.
struct SlicedSize {
    Bounds bounds;
    bool keeps_size;
};

/// Returns the bounds of the size of an axis after slicing, which are as tight as possible if the step is known.
/// `start` and `stop` are absent if the slice begins or ends at an end of the axis, `step` if it is not known. Throws
/// InvalidSlice if the step is 0. `sliced_size` in `ov_ext/inference.py` explains why the extremes lie at the indices
/// and sizes that are tried here.
inline SlicedSize sliced_size(const Bounds& axis,
                              const std::optional<Bounds>& start,
                              const std::optional<Bounds>& stop,
                              const std::optional<int64_t>& step) {
    using Index = std::optional<int64_t>;
    const int64_t least = axis.low.value, greatest = axis.high.value;
    if (!step)
        return {{0, greatest}, greatest == 0};
    // The bounds of an index, and -1 and 0 between them.
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
            const auto include = [&](int64_t size) {
                const auto count = resolve_axis(first, end, *step, size).size;
                low = std::min(low, count);
                high = std::max(high, count);
                keeps_size = keeps_size && count == size;
            };
            include(least);
            if (least == greatest)
                continue;
            include(greatest);
            // The sizes at which an index meets an end of the axis, and the sizes next to them.
            for (const auto& index : {first, end}) {
                if (!index)
                    continue;
                for (int64_t difference = -1; difference <= 1; ++difference) {
                    const auto size = magnitude(*index) + static_cast<uint64_t>(difference);
                    if (size > static_cast<uint64_t>(least) && size < static_cast<uint64_t>(greatest))
                        include(static_cast<int64_t>(size));
                }
            }
        }
    }
    // A slice of every |step|-th element of an unbounded axis is unbounded, too. `high` is then close to
    // INT64_MAX / |step|, so half of that serves as the limit.
    const auto limit = std::max(static_cast<uint64_t>(int64_max) / magnitude(*step) / 2, min_unbounded);
    if (greatest == int64_max && static_cast<uint64_t>(high) >= limit)
        high = int64_max;
    return {{low, high}, keeps_size};
}

}  // namespace sliceport
