/// What an OpenVINO graph knows of a value before it runs: shapes, constants, bounds.

#pragma once

#include <optional>
#include <utility>

#include "openvino/core/node.hpp"
#include "slicing.hpp"

namespace sliceport {

using IndexBounds = InlineVector<Bounds>;

/// Whether an element type can be that of indices; booleans cannot.
bool is_integral(const ov::element::Type& element);

/// The elements of a list of indices.
///
/// The least and the greatest 32-bit one mean "as far as possible" and come out as the 64-bit ones: the CPU plugin makes
/// them of those in constants, and OpenVINO writes unbounded 32-bit values so.
Integers integers(const ov::element::Type& element, const void* data, size_t count);
Integers integers(const ov::Tensor& tensor);

/// The number of elements of a list, if it is known.
std::optional<int64_t> list_length(const ov::PartialShape& shape);

/// Bounds of each element of a list of integers; nothing where nothing is known of them.
std::optional<IndexBounds> list_bounds(const ov::Output<ov::Node>& source);

/// The least and the greatest value of each element of a short list of integers, as OpenVINO evaluates bounds.
std::optional<std::pair<ov::Tensor, ov::Tensor>> element_bounds(const ov::Output<ov::Node>& source);

/// The same of a pair of tensors.
IndexBounds zip_bounds(const ov::Tensor& lower, const ov::Tensor& upper);

/// Bounds of a size.
Bounds bounds_of(const ov::Dimension& dimension);

/// A size within bounds.
ov::Dimension dimension(const Bounds& bounds);

}  // namespace sliceport
