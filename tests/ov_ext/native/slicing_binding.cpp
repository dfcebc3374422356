// The arithmetic of the operators in C++ for tests in Python: a line of words in, a line of words out.

#include <cstring>
#include <sstream>

#include "slicing.hpp"

using namespace sliceport;

namespace {

/// Words: integers, `none`, and lists as their length and elements.
struct Reader {
    std::istringstream words;

    std::string word() {
        std::string text;
        words >> text;
        return text;
    }
    static Integer parse(const std::string& text) {
        return text[0] == '-' ? Integer(std::stoll(text)) : Integer::of_unsigned(std::stoull(text));
    }
    int64_t integer() {
        return parse(word()).value;
    }
    std::optional<int64_t> optional_integer() {
        const auto text = word();
        return text == "none" ? std::nullopt : std::make_optional(parse(text).value);
    }
    std::optional<Integers> optional_list() {
        const auto length = word();
        if (length == "none")
            return std::nullopt;
        Integers list;
        for (auto left = std::stoul(length); left > 0; --left)
            list.push_back(parse(word()));
        return list;
    }
    Integers list() {
        return *optional_list();
    }
    std::vector<int64_t> vector() {
        std::vector<int64_t> values;
        for (const auto& value : list())
            values.push_back(value.value);
        return values;
    }
    Bounds bounds() {
        const auto low = parse(word());
        return {low, parse(word())};
    }
    std::optional<Bounds> optional_bounds() {
        const auto low = word();
        if (low == "none")
            return std::nullopt;
        return Bounds{parse(low), parse(word())};
    }
    Masks masks() {
        Masks masks;
        masks.begin = vector();
        masks.end = vector();
        masks.new_axis = vector();
        masks.shrink_axis = vector();
        masks.ellipsis = vector();
        return masks;
    }
};

std::ostream& operator<<(std::ostream& out, const Range& range) {
    return out << range.start << ' ' << range.size << ' ' << range.step << ' ';
}

void write(std::ostream& out, const Region& region) {
    for (const auto size : region.input_shape)
        out << size << ' ';
    out << "; ";
    for (const auto& range : region.ranges)
        out << range;
    out << "; ";
    for (const auto size : region.output_shape)
        out << size << ' ';
}

void write_with_merged(std::ostream& out, const Region& region) {
    write(out, region);
    if (!region.is_empty()) {
        out << "; ";
        write(out, region.coalesce());
    }
}

void answer(Reader& in, std::ostream& out) {
    const auto function = in.word();
    if (function == "resolve_axis") {
        const auto start = in.optional_integer(), stop = in.optional_integer();
        const auto step = in.integer();
        out << resolve_axis(start, stop, step, in.integer());
    } else if (function == "merge") {
        const auto read = [&] {
            const auto start = in.integer(), size = in.integer();
            return Range{start, size, in.integer()};
        };
        const auto outer = read(), inner = read();
        if (const auto both = merge(outer, inner, in.integer()))
            out << *both;
        else
            out << "none";
    } else if (function == "entries") {
        const auto masks = in.masks();
        const auto count = static_cast<size_t>(in.integer());
        for (const auto& entry : masks.entries(count, in.integer()))
            out << static_cast<int>(entry.kind) << ' ' << entry.position << ' ' << entry.axis << ' ';
    } else if (function == "slice") {
        const auto shape = in.vector();
        const auto starts = in.list(), ends = in.list(), steps = in.list();
        const auto axes = in.optional_list();
        write_with_merged(out, SliceSpec{starts, ends, steps, axes ? &*axes : nullptr}.resolve(shape));
    } else if (function == "strided_slice") {
        const auto shape = in.vector();
        const auto begin = in.list(), end = in.list();
        const auto strides = in.optional_list();
        const auto masks = in.masks();
        write_with_merged(out, StridedSliceSpec{begin, end, strides ? &*strides : nullptr, masks}.resolve(shape));
    } else if (function == "sliced_size") {
        const auto axis = in.bounds();
        const auto start = in.optional_bounds(), stop = in.optional_bounds();
        const auto found = sliced_size(axis, start, stop, in.optional_integer());
        out << found.bounds.low.value << ' ' << found.bounds.high.value << ' ' << found.keeps_size;
    } else if (function == "check_shrunk_index") {
        const auto size = in.bounds();
        check_shrunk_index({EntryKind::shrink, 0, 0}, size, in.bounds());
    } else {
        throw std::logic_error("no such function: " + function);
    }
}

}  // namespace

#ifdef _WIN32
extern "C" __declspec(dllexport)
#else
extern "C" __attribute__((visibility("default")))
#endif
void ask(const char* question, char* reply, size_t capacity) {
    std::ostringstream out;
    try {
        Reader in{std::istringstream(question)};
        answer(in, out);
    } catch (const InvalidSlice& error) {
        out.str("");
        out << "InvalidSlice: " << error.what();
    } catch (const std::exception& error) {
        out.str("");
        out << "failed: " << error.what();
    }
    const auto text = out.str().substr(0, capacity - 1);
    std::memcpy(reply, text.c_str(), text.size() + 1);
}
