"""The entries of `onnxruntime.toml`: defects of onnxruntime's providers and of onnx's reference evaluator."""

from sliceport.defects.entries import read_entries

ENTRIES = read_entries("onnxruntime")
ONE_PART_GATES_ANOTHER = ENTRIES["one part gates another"]
EMPTY_PART = ENTRIES["a part is empty"]
NOTHING_SELECTED = ENTRIES["nothing is selected"]
STEPS_WITHOUT_AXES = ENTRIES["steps without axes"]
FROM_THE_LEAST = ENTRIES["from the least integer to a negative end"]
ALLOWZERO = ENTRIES["allowzero and a -1"]
MORE_THAN_EIGHT_AXES = ENTRIES["more than 8 axes"]
MATMUL_OF_MANY_AXES = ENTRIES["matmul of more than 4 axes"]
MATMUL_BY_A_VECTOR = ENTRIES["matmul by a vector"]
ALIGNED_RUN = ENTRIES["aligned run between element-wise nodes"]
EMPTY_FILL = ENTRIES["constant of an empty shape"]
EINSUM_OF_NO_MATMUL = ENTRIES["einsum that no matrix product computes"]
EINSUM_DROPS_A_LABEL = ENTRIES["einsum that drops a label"]
CONV_TRANSPOSE_PADDING = ENTRIES["output_padding of one axis"]
CARRIED_SIZE = ENTRIES["a carried value changes its size"]
FIXED_SIZE = ENTRIES["a declared size that the inputs leave open"]
BACKWARD_TO_THE_GREATEST = ENTRIES["backward slice to the greatest integer"]
DROPPED_STEPS = ENTRIES["steps without axes over whole axes"]
EMPTY_LAST_PART = ENTRIES["num_outputs that leaves the last part empty"]
BELOW_THE_AXIS = ENTRIES["backwards from below the axis"]
OUTPUT_LEFT_OUT = ENTRIES["an output is left out"]
TRANSPOSED_EMPTY_AXIS = ENTRIES["matmul of a transposed empty axis"]
EINSUM_OF_EMPTY = ENTRIES["einsum of a transposed empty axis"]
NO_PARTS = ENTRIES["an empty list of parts"]
