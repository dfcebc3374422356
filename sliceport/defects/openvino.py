"""The entries of `openvino.toml`, with a constant for each entry that `ov_ext` or `onnx_ops` looks for."""

from sliceport.defects.entries import read_entries

ENTRIES = read_entries("openvino")
NEW_AND_SHRINK = ENTRIES["new axis and shrink with entries left out"]
BEGIN_MASK_AND_SHRINK = ENTRIES["begin mask on a shrunk axis"]
BITS_BEYOND = ENTRIES["mask bits beyond the entries"]
SHORT_MASKS = ENTRIES["masks shorter than the entries"]
SHARED_ELLIPSIS = ENTRIES["ellipsis shares its bit"]
REVERSED_NOTHING = ENTRIES["backward through an empty axis"]
SCALAR = ENTRIES["of a scalar"]
FAR_STRIDE = ENTRIES["stride beyond 32 bits"]
MANY_ELEMENTS = ENTRIES["more than 2^24 elements on an axis"]
FIXED_SHAPE = ENTRIES["indices at run time, all shapes known"]
ELLIPSIS_THEN_NEW = ENTRIES["new axis after an ellipsis, begin at run time"]
UNSIGNED_INDEX = ENTRIES["unsigned index beyond 63 bits"]
WRONG_BOUNDS = ENTRIES["sizes known by bounds"]
NO_ENTRIES = ENTRIES["no entries, at run time"]
NARROW_NO_ENTRIES = ENTRIES["no entries, in 8 bits"]
SHORT_BEHIND_CONCAT = ENTRIES["short masks behind a Concat"]
AXES_AT_RUN_TIME = ENTRIES["axes alone at run time"]
PACKED_INDEX = ENTRIES["indices of 4 bits"]
SUB_BYTE = ENTRIES["elements of less than a byte"]
STRINGS = ENTRIES["strings"]
EMPTY_LISTS = ENTRIES["empty lists in an ONNX model"]
IGNORED_START = ENTRIES["start of a sliced input"]
NARROWED = ENTRIES["64-bit indices at run time"]
