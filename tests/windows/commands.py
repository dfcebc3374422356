"""Run the commands that a user of Windows begins with, by Windows' Python, and exit with the number of wrong ones."""

import subprocess
import sys
import tempfile

COMMANDS = {
    "directml install": 0,
    "directml status": 0,
    "doctor": 0,
    "check models/rule_siblings.onnx": 0,
    "lower models/rule_siblings.onnx -v": 0,
    "compare models/rule_siblings.onnx --executors onnxruntime-cpu,onnxruntime-dml,directml,directml-validate": 0,
    "diff models/rule_glu.onnx --on onnxruntime-dml": 1,
    "harden models/rule_glu.onnx -o {scratch}/glu.onnx --verify": 0,
    "diff {scratch}/glu.onnx --on onnxruntime-dml:device_id=0": 0,
}
"""The exit code of each command: 1 for a defect of the provider."""


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for command, expected in COMMANDS.items():
            call = [sys.executable, "-m", "sliceport", *command.format(scratch=scratch).split()]
            done = subprocess.run(call, capture_output=True, check=False, encoding="utf-8")
            verdict = "" if done.returncode == expected else f", but it should be {expected}"
            sys.stdout.write(f"$ sliceport {command}\n{done.stdout}{done.stderr}exit code {done.returncode}{verdict}\n")
            wrong += bool(verdict)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
