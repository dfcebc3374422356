/// Shapes, constants and bounds of values that are known before an OpenVINO model runs.

#pragma once

#include <optional>
#include <utility>

#include "openvino/core/node.hpp"
#include "slicing.hpp"

namespace sliceport {

using IndexBounds = InlineVector<Bounds>;

/// Returns whether indices can have an element type.
bool is_integral(const ov::element::Type& element);

/// Returns the elements of a list of indices. Throws InvalidSlice if they are not integers.
Integers to_index_list(const ov::Tensor& tensor);

/// Returns the number of elements of a list (a value of rank 1), or nothing if the rank or the number is unknown.
std::optional<int64_t> list_length(const ov::PartialShape& shape);

/// Returns the bounds of each element of a list of integers, or nothing if they are not known. See `element_bounds`.
std::optional<IndexBounds> list_bounds(const ov::Output<ov::Node>& source);

/// Returns the least and the greatest value of each element of a list of integers, as OpenVINO evaluates them. Returns
/// nothing if they are not known or may be wrong, and for lists that are empty, long, or of 4 bits. OpenVINO also
/// stores the bounds in the tensors of the list and of the values that it is computed from.
std::optional<std::pair<ov::Tensor, ov::Tensor>> element_bounds(const ov::Output<ov::Node>& source);

/// Returns the bounds of a size. INT64_MAX stands for no upper bound.
Bounds bounds_of(const ov::Dimension& dimension);

/// Returns OpenVINO's dimension with these bounds. INT64_MAX stands for no upper bound.
ov::Dimension dimension(const Bounds& bounds);

}  // namespace sliceport
