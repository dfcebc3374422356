"""`ov_ext::StridedSlice` in standard operators, for any masks and ranks, and for indices computed at run time.

onnxscript reads this file's source, so the function uses only the subset of Python that onnxscript supports.
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Sequence

from onnxscript import BOOL, INT64, script
from onnxscript import opset17 as op
from onnxscript.values import Opset

_DOMAIN = Opset("ov_ext", 1)


@script(_DOMAIN, default_opset=op)
def StridedSlice(  # noqa: N802, PLR0915 - the operator's name; one formula a line
    data,
    begin,
    end,
    strides,
    begin_mask: Sequence[int] = (0,),
    end_mask: Sequence[int] = (0,),
    new_axis_mask: Sequence[int] = (0,),
    shrink_axis_mask: Sequence[int] = (0,),
    ellipsis_mask: Sequence[int] = (0,),
):
    """Align the entries with the axes, slice the data, and reshape the result: insert new axes, drop shrunk axes.

    Each list gets one more entry at its end, which does nothing, so that no list is empty. The data get an axis of size
    1 in front, so that even a scalar has an axis to slice. The list of sizes has one more entry while it is sorted.
    """
    zero = op.Constant(value_ints=[0])
    one = op.Constant(value_ints=[1])
    most = op.Constant(value_ints=[9223372036854775807])
    count = op.Shape(begin)
    entries = op.Add(count, one)
    zeros = op.Expand(zero, entries)

    starts = op.Concat(op.Cast(begin, to=INT64.dtype), zero, axis=0)
    ends = op.Concat(op.Cast(end, to=INT64.dtype), zero, axis=0)
    steps = op.Concat(op.Cast(strides, to=INT64.dtype), one, axis=0)
    # 1 for each entry of the node, and 0 for the entry that was added.
    is_listed = op.Concat(op.Expand(one, count), zero, axis=0)
    begin_bits = op.Slice(op.Concat(op.Constant(value_ints=begin_mask), zeros, axis=0), zero, entries)
    end_bits = op.Slice(op.Concat(op.Constant(value_ints=end_mask), zeros, axis=0), zero, entries)
    new_bits = op.Slice(op.Concat(op.Constant(value_ints=new_axis_mask), zeros, axis=0), zero, entries)
    shrink_bits = op.Slice(op.Concat(op.Constant(value_ints=shrink_axis_mask), zeros, axis=0), zero, entries)
    ellipsis_bits = op.Slice(op.Concat(op.Constant(value_ints=ellipsis_mask), zeros, axis=0), zero, entries)

    is_ellipsis = op.Mul(ellipsis_bits, is_listed)
    is_new = op.Mul(op.Mul(new_bits, op.Sub(one, ellipsis_bits)), is_listed)
    takes_axis = op.Sub(op.Sub(is_listed, is_ellipsis), is_new)
    is_shrunk = op.Mul(shrink_bits, takes_axis)

    rank = op.Shape(op.Shape(data))
    # The number of axes that no entry takes: those of the ellipsis, or the last axes. Negative if axes are missing.
    unnamed_count = op.Sub(rank, op.ReduceSum(takes_axis, zero))
    width = op.Add(takes_axis, op.Mul(is_ellipsis, unnamed_count))
    axes = op.CumSum(width, op.Squeeze(zero), exclusive=1)

    sizes_before = op.Gather(op.Concat(op.Shape(data), one, axis=0), op.Max(op.Min(axes, rank), zero))
    is_outside = op.Or(op.Less(starts, op.Neg(sizes_before)), op.GreaterOrEqual(starts, sizes_before))
    errors = op.ReduceSum(op.Mul(op.Cast(is_outside, to=INT64.dtype), is_shrunk), zero)
    excess = op.Add(op.Max(op.Neg(unnamed_count), zero), op.Max(op.Sub(op.ReduceSum(is_ellipsis, zero), one), zero))
    # This Reshape to one element fails if a shrunk index is out of range, an entry has no axis, or two ellipses exist.
    refused_unless_one = op.Reshape(op.Expand(one, op.Add(op.Add(errors, excess), one)), one)

    is_backward = op.Less(steps, zero)
    far_start = op.Where(is_backward, most, zero)
    far_end = op.Where(is_backward, op.Neg(most), most)
    # Backward ends stay below INT32_MAX, because engines disagree about INT32_MAX and INT64_MAX (`CONTESTED_ENDS`).
    bounded = op.Where(is_backward, op.Min(ends, op.Constant(value_ints=[2147483646])), ends)
    masked_starts = op.Where(op.Cast(begin_bits, to=BOOL.dtype), far_start, starts)
    masked_ends = op.Where(op.Cast(end_bits, to=BOOL.dtype), far_end, bounded)
    # A shrunk axis is cut to one element. For index -1, the end is INT64_MAX, because 0 is the start of the axis.
    shrunk_ends = op.Where(op.Equal(starts, op.Neg(one)), most, op.Add(starts, one))
    shrinks = op.Cast(is_shrunk, to=BOOL.dtype)
    slices_axis = op.Cast(takes_axis, to=BOOL.dtype)
    sliced = op.Slice(
        op.Unsqueeze(data, zero),
        op.Compress(op.Where(shrinks, starts, masked_starts), slices_axis),
        op.Compress(op.Where(shrinks, shrunk_ends, masked_ends), slices_axis),
        op.Compress(op.Add(axes, one), slices_axis),
        op.Compress(op.Where(shrinks, one, steps), slices_axis),
    )

    every_axis = op.Range(op.Squeeze(zero), op.Squeeze(rank), op.Squeeze(one))
    is_axis_of_entry = op.Equal(op.Unsqueeze(axes, one), op.Unsqueeze(every_axis, zero))
    drops_axis = op.Mul(op.Cast(is_axis_of_entry, to=INT64.dtype), op.Unsqueeze(is_shrunk, one))
    stays = op.Sub(one, op.ReduceSum(drops_axis, zero, keepdims=0))
    # The output axes are sorted by input axis. A new axis comes before the input axis that follows it.
    keys_per_axis = op.Add(entries, one)
    new_keys = op.Add(op.Mul(axes, keys_per_axis), op.CumSum(op.Expand(one, entries), op.Squeeze(zero), exclusive=1))
    axis_keys = op.Add(op.Mul(every_axis, keys_per_axis), entries)
    # This key is greater than all others. It belongs to the size that is added for the sorting.
    last_key = op.Mul(op.Add(rank, one), op.Add(keys_per_axis, keys_per_axis))
    is_kept = op.Cast(op.Concat(is_new, stays, one, axis=0), to=BOOL.dtype)
    keys = op.Compress(op.Concat(new_keys, axis_keys, last_key, axis=0), is_kept)
    sizes = op.Compress(op.Concat(op.Expand(one, entries), op.Slice(op.Shape(sliced), one, most), one, axis=0), is_kept)
    _, order = op.TopK(keys, op.Shape(keys), largest=0)
    shape = op.Slice(op.Gather(sizes, order), zero, op.Neg(one))
    # The factor is 1. Without it, nothing would read the output of the Reshape that refuses invalid indices.
    return op.Reshape(sliced, op.Mul(shape, refused_unless_one), allowzero=1)
