"""`python -m onnx_ops` is the console script `sliceport`."""

import sys

from onnx_ops.cli import main

sys.exit(main())
