/// Indices of any integer type, and the arithmetic of one axis, as in `sliceport/slicing/axis.py`.
///
/// Standard library only. Sizes and all results are at most INT64_MAX, so nothing here overflows.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "inline_vector.hpp"

namespace sliceport {

constexpr int64_t int64_max = std::numeric_limits<int64_t>::max();
constexpr int64_t int64_min = std::numeric_limits<int64_t>::min();

/// The error of an operator that breaks its specification. The caller adds the names of operator and node.
class InvalidSlice : public std::invalid_argument {
public:
    using std::invalid_argument::invalid_argument;
};

/// An index of any integer type.
///
/// An unsigned integer above INT64_MAX has the value INT64_MAX, because no axis is longer. The least and the greatest
/// 32-bit integer mean "as far as possible" and have the values INT64_MIN and INT64_MAX: the CPU plugin narrows
/// constants to these two integers, and OpenVINO writes them for unbounded 32-bit bounds. Messages and comparisons use
/// the integer that is written in the model.
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
    uint64_t written;  ///< The integer in the model, as 64 bits, which are unsigned if `value` is INT64_MAX.
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

/// The indices that are selected on one axis, in output order, in the form that `canonicalize` returns.
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

/// Returns the absolute value, which is unsigned so that it can hold that of INT64_MIN.
inline uint64_t magnitude(int64_t value) {
    return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

/// Returns the indices that a slice selects from an axis of `size`. Without `start`, the slice begins at the first
/// index in the direction of `step`. Without `stop`, the slice includes the last index in that direction. Throws
/// InvalidSlice if `step` is 0.
inline Range resolve_axis(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step, int64_t size) {
    if (step == 0)
        throw InvalidSlice("step must not be 0");
    const bool is_forward = step > 0;
    const int64_t lowest = is_forward ? 0 : -1;
    const int64_t highest = is_forward ? size : size - 1;
    const auto clamp = [&](int64_t index) {
        return std::min(std::max(index < 0 ? index + size : index, lowest), highest);
    };
    if (start && !is_forward)  // In ONNX and OpenVINO, a backward slice that starts below `-size` starts at 0.
        start = std::max(*start, -size);
    const int64_t first = start ? clamp(*start) : is_forward ? lowest : highest;
    const int64_t end = stop ? clamp(*stop) : is_forward ? highest : lowest;
    const int64_t extent = is_forward ? end - first : first - end;
    if (extent <= 0)
        return Range::empty();
    const auto count = (static_cast<uint64_t>(extent) - 1) / magnitude(step) + 1;
    return canonicalize(first, static_cast<int64_t>(count), step);
}

/// Merges the non-empty selections on two neighbouring axes into a selection on the flattened axis. Returns nothing if
/// the merged selection would not have a constant step.
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

}  // namespace sliceport
