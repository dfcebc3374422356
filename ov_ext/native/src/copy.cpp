#include "copy.hpp"

#include <cstdint>
#include <cstring>

#include "openvino/core/parallel.hpp"

namespace sliceport {
namespace {

/// An axis of the region in the source, its stride in units of the buffer.
struct Axis {
    size_t size;
    ptrdiff_t stride;
};

/// The elements of a region in output order: those of the axes, outermost first, from an offset on.
struct Grid {
    ptrdiff_t offset = 0;
    InlineVector<Axis> axes;

    Grid(const Region& region, size_t width) {
        const auto merged = region.coalesce();
        auto stride = static_cast<ptrdiff_t>(width);
        InlineVector<Axis> innermost_first;
        for (size_t axis = merged.ranges.size(); axis-- > 0;) {
            const auto& range = merged.ranges[axis];
            offset += static_cast<ptrdiff_t>(range.start) * stride;
            if (range.size > 1)
                innermost_first.push_back({static_cast<size_t>(range.size), static_cast<ptrdiff_t>(range.step) * stride});
            stride *= static_cast<ptrdiff_t>(merged.input_shape[axis]);
        }
        for (size_t axis = innermost_first.size(); axis-- > 0;)
            axes.push_back(innermost_first[axis]);
    }

    size_t size() const {
        size_t size = 1;
        for (const auto& axis : axes)
            size *= axis.size;
        return size;
    }

    /// The innermost axis, which is taken away.
    Axis pop() {
        const auto axis = axes.back();
        axes.pop_back();
        return axis;
    }
};

/// Calls `copy(offset, first, count)` for each line of the grid, or the part of it, that holds elements of output
/// positions from `begin` to `end`: `first` counts elements of the line, of which there are `length`.
template <class Copy>
void for_each_line(const Grid& grid, size_t length, size_t begin, size_t end, const Copy& copy) {
    const auto rank = grid.axes.size();
    InlineVector<size_t> at;
    auto offset = grid.offset;
    for (size_t axis = 0; axis < rank; ++axis)
        at.push_back(0);
    auto line = begin / length;
    for (size_t axis = rank; axis-- > 0;) {
        at[axis] = line % grid.axes[axis].size;
        line /= grid.axes[axis].size;
        offset += static_cast<ptrdiff_t>(at[axis]) * grid.axes[axis].stride;
    }
    auto first = begin % length;
    while (begin < end) {
        const auto count = std::min(length - first, end - begin);
        copy(offset, first, count);
        begin += count;
        first = 0;
        for (size_t axis = rank; axis-- > 0;) {
            offset += grid.axes[axis].stride;
            if (++at[axis] < grid.axes[axis].size)
                break;
            offset -= static_cast<ptrdiff_t>(at[axis]) * grid.axes[axis].stride;
            at[axis] = 0;
        }
    }
}

/// Calls `copy(begin, end)` for parts of `count` units, from several threads where there are bytes enough for them.
template <class Copy>
void in_parallel(size_t count, size_t bytes, const Copy& copy) {
    constexpr size_t worth_a_thread = 512 * 1024;
    const auto threads = std::min<size_t>(bytes / worth_a_thread, static_cast<size_t>(parallel_get_max_threads()));
    if (threads < 2) {
        copy(size_t{0}, count);
        return;
    }
    ov::parallel_nt_static(static_cast<int>(threads), [&](int thread, int total) {
        const auto part = [&](int i) {
            return count / static_cast<size_t>(total) * static_cast<size_t>(i) +
                   count % static_cast<size_t>(total) * static_cast<size_t>(i) / static_cast<size_t>(total);
        };
        copy(part(thread), part(thread + 1));
    });
}

template <size_t width, ptrdiff_t step>
void copy_steps(const char* source, ptrdiff_t stride, char* target, size_t count) {
    for (size_t i = 0; i < count; ++i)
        std::memcpy(target + i * width,
                    source + static_cast<ptrdiff_t>(i) * (step ? step * static_cast<ptrdiff_t>(width) : stride),
                    width);
}

using CopyLine = void (*)(const char* source, ptrdiff_t stride, char* target, size_t count);

template <size_t width>
CopyLine choose_line(ptrdiff_t stride) {
    switch (stride / static_cast<ptrdiff_t>(width)) {
    case -1:
        return copy_steps<width, -1>;
    case 2:
        return copy_steps<width, 2>;
    default:
        return copy_steps<width, 0>;
    }
}

CopyLine choose_line(size_t width, ptrdiff_t stride) {
    switch (width) {
    case 1:
        return choose_line<1>(stride);
    case 2:
        return choose_line<2>(stride);
    case 4:
        return choose_line<4>(stride);
    case 8:
        return choose_line<8>(stride);
    case 16:
        return choose_line<16>(stride);
    default:
        return nullptr;
    }
}

}  // namespace

void copy_bytes(const Region& region, size_t width, const void* source, void* target) {
    Grid grid(region, width);
    auto run = width;
    if (!grid.axes.empty() && grid.axes.back().stride == static_cast<ptrdiff_t>(width))
        run *= grid.pop().size;
    const auto from = static_cast<const char*>(source);
    const auto to = static_cast<char*>(target);
    if (grid.axes.empty() && run <= 4096) {
        std::memcpy(to, from + grid.offset, run);
        return;
    }
    const auto bytes = grid.size() * run;
    const auto copy_line = grid.axes.empty() ? nullptr : choose_line(run, grid.axes.back().stride);
    if (!copy_line) {
        in_parallel(bytes, bytes, [&](size_t begin, size_t end) {
            auto next = to + begin;
            for_each_line(grid, run, begin, end, [&](ptrdiff_t offset, size_t first, size_t count) {
                std::memcpy(next, from + offset + static_cast<ptrdiff_t>(first), count);
                next += count;
            });
        });
        return;
    }
    const auto line = grid.pop();
    in_parallel(bytes / run, bytes, [&](size_t begin, size_t end) {
        auto next = to + begin * run;
        for_each_line(grid, line.size, begin, end, [&](ptrdiff_t offset, size_t first, size_t count) {
            copy_line(from + offset + static_cast<ptrdiff_t>(first) * line.stride, line.stride, next, count);
            next += count * run;
        });
    });
}

void copy_packed(const Region& region, size_t bits, bool lowest_first, const void* source, void* target) {
    Grid grid(region, 1);
    const auto total = grid.size();
    const auto line = grid.axes.empty() ? Axis{1, 1} : grid.pop();
    const auto from = static_cast<const uint8_t*>(source);
    const auto to = static_cast<uint8_t*>(target);
    const size_t per_byte = 8 / bits;
    const auto mask = static_cast<uint8_t>((1u << bits) - 1);
    const auto shift = [&](size_t position) {
        const auto place = position % per_byte;
        return bits * (lowest_first ? place : per_byte - 1 - place);
    };
    size_t next = 0;
    uint8_t joined = 0;
    for_each_line(grid, line.size, 0, total, [&](ptrdiff_t offset, size_t, size_t count) {
        for (size_t i = 0; i < count; ++i, ++next, offset += line.stride) {
            const auto position = static_cast<size_t>(offset);
            const auto element = static_cast<uint8_t>(from[position / per_byte] >> shift(position) & mask);
            joined = static_cast<uint8_t>(joined | element << shift(next));
            if ((next + 1) % per_byte == 0) {
                to[next / per_byte] = joined;
                joined = 0;
            }
        }
    });
    if (next % per_byte)
        to[next / per_byte] = joined;
}

void copy_strings(const Region& region, const std::string* source, std::string* target) {
    Grid grid(region, 1);
    const auto total = grid.size();
    const auto line = grid.axes.empty() ? Axis{1, 1} : grid.pop();
    for_each_line(grid, line.size, 0, total, [&](ptrdiff_t offset, size_t, size_t count) {
        for (size_t i = 0; i < count; ++i, offset += line.stride)
            *target++ = source[offset];
    });
}

}  // namespace sliceport
