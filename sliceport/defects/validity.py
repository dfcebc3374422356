"""The entries of `validity.toml`: ONNX nodes that break their standard, or are right for some sizes only."""

from sliceport.defects.entries import read_entries

ENTRIES = read_entries("validity")
NOT_VALID = ENTRIES["not valid"]
NOT_A_LIST = ENTRIES["parameters that are no lists"]
WRONG_SIZES = ENTRIES["sizes that do not fit"]
WRONG_COUNT = ENTRIES["sizes unlike the outputs"]
UNEVEN_PARTS = ENTRIES["uneven parts without sizes"]
NUM_OUTPUTS_UNLIKE = ENTRIES["num_outputs unlike the outputs"]
FEWER_NUM_OUTPUTS = ENTRIES["num_outputs below the outputs"]
FAILS_AT_ZERO = ENTRIES["a reshape that fails at size 0"]
FIXED_AXIS = ENTRIES["sizes that fix an open axis"]
