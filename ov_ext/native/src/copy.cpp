#include "copy.hpp"

#include <cstring>

#include "openvino/core/parallel.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#    include <emmintrin.h>
#    define SLICEPORT_STREAMS 1
#endif

#if defined(__GNUC__) && defined(__x86_64__)
#    define SLICEPORT_AVX2   __attribute__((target("avx2")))
#    define SLICEPORT_INLINE __attribute__((always_inline)) inline
#else
#    define SLICEPORT_INLINE inline
#endif

namespace sliceport {
namespace {

/// An axis of a region in the source buffer.
struct Axis {
    size_t size;
    ptrdiff_t stride;
};

/// The elements of a region in output order, as an offset and axes, outermost first.
struct Grid {
    ptrdiff_t offset = 0;
    InlineVector<Axis> axes;

    /// Offset and strides count bytes if `width` is the number of bytes of an element, and elements if `width` is 1.
    Grid(const Region& region, size_t width) {
        const auto merged = region.coalesce();
        auto stride = static_cast<ptrdiff_t>(width);
        for (size_t axis = merged.ranges.size(); axis-- > 0;) {
            const auto& range = merged.ranges[axis];
            offset += static_cast<ptrdiff_t>(range.start) * stride;
            if (range.size > 1)
                axes.push_back({static_cast<size_t>(range.size), static_cast<ptrdiff_t>(range.step) * stride});
            stride *= static_cast<ptrdiff_t>(merged.input_shape[axis]);
        }
        std::reverse(axes.begin(), axes.end());
    }

    size_t size() const {
        size_t size = 1;
        for (const auto& axis : axes)
            size *= axis.size;
        return size;
    }

    /// Removes and returns the innermost axis, or returns an axis of one element if there is none.
    Axis pop() {
        if (axes.empty())
            return {1, 0};
        const auto axis = axes.back();
        axes.pop_back();
        return axis;
    }
};

/// Consecutive lines of the output, or a part of one line. Line `i` begins at `offset + i * stride` in the source.
struct Lines {
    ptrdiff_t offset;
    size_t count;
    ptrdiff_t stride;
    size_t first;  ///< The position in its line of the first element to copy.
    size_t length;  ///< The number of elements to copy of each line.
};

/// Calls `copy(lines)` until the output elements from `begin` to `end` are copied. A line of `length` output elements
/// begins at each element of the grid.
template <class Copy>
void for_lines(const Grid& grid, size_t length, size_t begin, size_t end, const Copy& copy) {
    const auto rank = grid.axes.size();
    if (rank == 0) {  // There is one line.
        copy(Lines{grid.offset, 1, 0, begin, end - begin});
        return;
    }
    InlineVector<size_t> position;
    for (size_t axis = 0; axis < rank; ++axis)
        position.push_back(0);
    // Find the position in the grid of the line that holds `begin`.
    auto offset = grid.offset;
    auto line = begin / length;
    for (size_t axis = rank; axis-- > 0;) {
        position[axis] = line % grid.axes[axis].size;
        line /= grid.axes[axis].size;
        offset += static_cast<ptrdiff_t>(position[axis]) * grid.axes[axis].stride;
    }
    const auto innermost = grid.axes.back();
    while (begin < end) {
        const auto first = begin % length;
        // A line that begins before `begin` or ends after `end` is copied alone and in part.
        const bool is_part = first > 0 || end - begin < length;
        const auto count = is_part ? 1 : std::min((end - begin) / length, innermost.size - position[rank - 1]);
        const auto taken_length = is_part ? std::min(length - first, end - begin) : length;
        copy(Lines{offset, count, innermost.stride, first, taken_length});
        begin += count * taken_length;
        offset += static_cast<ptrdiff_t>(count) * innermost.stride;
        position[rank - 1] += count;
        // Carry to the next outer axis, like an odometer.
        for (size_t axis = rank; axis-- > 0 && position[axis] == grid.axes[axis].size;) {
            offset -= static_cast<ptrdiff_t>(position[axis]) * grid.axes[axis].stride;
            position[axis] = 0;
            if (axis > 0) {
                offset += grid.axes[axis - 1].stride;
                ++position[axis - 1];
            }
        }
    }
}

/// Calls `visit(offset)` for each element of a region, in output order.
template <class Visit>
void for_elements(const Region& region, const Visit& visit) {
    const Grid grid(region, 1);
    for_lines(grid, 1, 0, grid.size(), [&](const Lines& lines) {
        for (size_t i = 0; i < lines.count; ++i)
            visit(static_cast<size_t>(lines.offset + static_cast<ptrdiff_t>(i) * lines.stride));
    });
}

/// Calls `copy(begin, end)` for parts of `count` units, from several threads if the units have enough `bytes` together.
template <class Copy>
void in_parallel(size_t count, size_t bytes, const Copy& copy) {
    // Fewer than `least_bytes` are copied before a second thread wakes up. There are more parts than threads, because
    // not all threads start at once.
    constexpr size_t least_bytes = 256 * 1024, bytes_of_a_part = 128 * 1024, parts_of_a_thread = 2;
    const auto threads = bytes < least_bytes ? 1 : static_cast<size_t>(parallel_get_max_threads());
    if (threads == 1) {
        copy(size_t{0}, count);
        return;
    }
    const auto parts = std::min(bytes / bytes_of_a_part, parts_of_a_thread * threads);
    // This is `count * part / parts` without overflow.
    const auto first_of = [=](size_t part) {
        return count / parts * part + count % parts * part / parts;
    };
    ov::parallel_nt(static_cast<int>(parts), [&](int part, int) {
        copy(first_of(static_cast<size_t>(part)), first_of(static_cast<size_t>(part) + 1));
    });
}

/// Copies lines of words of `width` bytes. Neighbouring words of a line are `stride` words apart in the source. `step`
/// is `stride` if that is known at compile time, or else 0.
template <size_t width, ptrdiff_t step>
SLICEPORT_INLINE void copy_words(const char* source, const Lines& lines, ptrdiff_t stride, char* target) {
    const auto distance = (step ? step : stride) * static_cast<ptrdiff_t>(width);
    const auto length = static_cast<ptrdiff_t>(lines.length);  // GCC vectorises the loop only if this is signed.
    for (size_t line = 0; line < lines.count; ++line, source += lines.stride, target += lines.length * width)
        for (ptrdiff_t i = 0; i < length; ++i)
            std::memcpy(target + i * static_cast<ptrdiff_t>(width), source + i * distance, width);
}

using CopyWords = void (*)(const char* source, const Lines& lines, ptrdiff_t stride, char* target);

#ifdef SLICEPORT_AVX2
template <size_t width, ptrdiff_t step>
SLICEPORT_AVX2 void copy_words_avx2(const char* source, const Lines& lines, ptrdiff_t stride, char* target) {
    copy_words<width, step>(source, lines, stride, target);
}
#endif

/// Returns the copy with AVX2 instructions if the processor has them, or else without.
template <size_t width, ptrdiff_t step>
CopyWords choose_instructions() {
#ifdef SLICEPORT_AVX2
    if (__builtin_cpu_supports("avx2"))
        return copy_words_avx2<width, step>;
#endif
    return copy_words<width, step>;
}

/// Returns the copy that is compiled for `step` if it is one of `steps`, or else the copy for any step.
template <size_t width, ptrdiff_t... steps>
CopyWords choose_step(ptrdiff_t step) {
    auto chosen = choose_instructions<width, 0>();
    ((chosen = step == steps ? choose_instructions<width, steps>() : chosen), ...);
    return chosen;
}

/// Returns the copy for lines of words that are `stride` bytes apart, or null if `width` is not one of `widths` or
/// does not divide `stride`.
template <size_t... widths>
CopyWords choose_width(size_t width, ptrdiff_t stride) {
    const auto step = stride / static_cast<ptrdiff_t>(width);
    if (step * static_cast<ptrdiff_t>(width) != stride)
        return nullptr;
    CopyWords chosen = nullptr;
    ((chosen = width == widths ? choose_step<widths, -2, -1, 2, 3, 4>(step) : chosen), ...);
    return chosen;
}

/// Copies `size` bytes, on x86-64 with stores that bypass the caches.
#ifdef SLICEPORT_STREAMS
void stream(char* target, const char* source, size_t size) {
    const auto head = std::min(size, -reinterpret_cast<uintptr_t>(target) % 16);  // These stores need aligned targets.
    std::memcpy(target, source, head);
    target += head, source += head, size -= head;
    for (; size >= 64; target += 64, source += 64, size -= 64) {
        const auto from = reinterpret_cast<const __m128i*>(source);
        const auto to = reinterpret_cast<__m128i*>(target);
        const auto a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
        const auto c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
        _mm_stream_si128(to, a);
        _mm_stream_si128(to + 1, b);
        _mm_stream_si128(to + 2, c);
        _mm_stream_si128(to + 3, d);
    }
    std::memcpy(target, source, size);
    _mm_sfence();  // Otherwise another thread might not see these stores before later ones.
}
#else
void stream(char* target, const char* source, size_t size) {
    std::memcpy(target, source, size);
}
#endif

/// Copies a run of bytes for each element of a grid.
void copy_runs(const Grid& grid, size_t run, const char* source, char* target) {
    const auto bytes = grid.size() * run;
    // If the output exceeds the caches, ordinary stores would read each of its cache lines before writing it. Each call
    // of `stream` ends in a fence, which takes too long for short runs.
    const bool streams = bytes >= 32 * 1024 * 1024 && run >= 16 * 1024;
    in_parallel(bytes, bytes, [&](size_t begin, size_t end) {
        auto next = target + begin;
        for_lines(grid, run, begin, end, [&](const Lines& lines) {
            auto from = source + lines.offset + static_cast<ptrdiff_t>(lines.first);
            for (size_t line = 0; line < lines.count; ++line, from += lines.stride, next += lines.length) {
                if (streams)
                    stream(next, from, lines.length);
                else
                    std::memcpy(next, from, lines.length);
            }
        });
    });
}

/// Copies a line of words, along an axis, for each element of a grid.
void copy_lines(const Grid& grid, Axis along, size_t width, CopyWords copy, const char* source, char* target) {
    const auto words = grid.size() * along.size;
    const auto step = along.stride / static_cast<ptrdiff_t>(width);
    in_parallel(words, words * width, [&](size_t begin, size_t end) {
        auto next = target + begin * width;
        for_lines(grid, along.size, begin, end, [&](const Lines& lines) {
            const auto from = source + lines.offset + static_cast<ptrdiff_t>(lines.first) * along.stride;
            copy(from, lines, step, next);
            next += lines.count * lines.length * width;
        });
    });
}

}  // namespace

void copy_bytes(const Region& region, size_t width, const void* source, void* target) {
    Grid grid(region, width);
    auto run = width;
    // Adjacent elements form one run. Runs of up to 16 bytes are copied as words along the next axis.
    if (!grid.axes.empty() && grid.axes.back().stride == static_cast<ptrdiff_t>(width))
        run *= grid.pop().size;
    const auto from = static_cast<const char*>(source);
    const auto to = static_cast<char*>(target);
    const auto copy = grid.axes.empty() ? nullptr : choose_width<1, 2, 4, 8, 16>(run, grid.axes.back().stride);
    if (!copy)
        return copy_runs(grid, run, from, to);
    const auto along = grid.pop();
    copy_lines(grid, along, run, copy, from, to);
}

void copy_packed(const Region& region, size_t bits, bool lowest_first, const void* source, void* target) {
    const auto from = static_cast<const uint8_t*>(source);
    const auto to = static_cast<uint8_t*>(target);
    const size_t per_byte = 8 / bits;
    const auto mask = (1u << bits) - 1;
    const auto shift = [&](size_t position) {
        const auto place = position % per_byte;
        return bits * (lowest_first ? place : per_byte - 1 - place);
    };
    size_t next = 0;
    unsigned joined = 0;
    for_elements(region, [&](size_t element) {
        joined |= (from[element / per_byte] >> shift(element) & mask) << shift(next);
        if (++next % per_byte == 0) {
            to[next / per_byte - 1] = static_cast<uint8_t>(joined);
            joined = 0;
        }
    });
    if (next % per_byte)
        to[next / per_byte] = static_cast<uint8_t>(joined);
}

void copy_strings(const Region& region, const std::string* source, std::string* target) {
    for_elements(region, [&](size_t element) { *target++ = source[element]; });
}

}  // namespace sliceport
