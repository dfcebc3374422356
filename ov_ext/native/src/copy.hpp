/// Copies of the elements of a region from one packed buffer to another.

#pragma once

#include <cstddef>
#include <string>

#include "slicing.hpp"

namespace sliceport {

/// Copies the elements of a non-empty region, each of `width` whole bytes.
void copy_bytes(const Region& region, size_t width, const void* source, void* target);

/// Copies the elements of a non-empty region, each of 1, 2 or 4 `bits`, and clears the rest of the last byte.
///
/// \param lowest_first  Whether the first element of a byte is in its lowest bits.
void copy_packed(const Region& region, size_t bits, bool lowest_first, const void* source, void* target);

/// Copies the strings of a non-empty region.
void copy_strings(const Region& region, const std::string* source, std::string* target);

}  // namespace sliceport
