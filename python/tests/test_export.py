"""What meshwright.export refuses, and that nothing before it needs PyTorch. Runs without PyTorch."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import meshwright

WITHOUT_TORCH = mock.patch.dict(sys.modules, {"torch": None})  # importing it raises, installed or not


class Refusals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_nothing_written(self):
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_another_suffix(self):
        with self.assertRaises(ValueError) as caught:
            meshwright.export(None, (), self.folder / "model.onnx")
        self.assertEqual(str(caught.exception), f"{self.folder / 'model.onnx'}: the suffix must be .pt2, because the "
                                                "planner picks its frontend by it")
        self.assert_nothing_written()

    def test_sample_inputs_that_are_no_arguments(self):
        for inputs, name in ((3, "int"), ("text", "str"), (b"bytes", "bytes"), (None, "NoneType"), ({1}, "set")):
            with self.subTest(name), self.assertRaises(TypeError) as caught:
                meshwright.export(None, inputs, self.folder / "model.pt2")
            self.assertEqual(str(caught.exception), "sample_inputs must be a sequence of positional or a mapping of "
                                                    f"keyword arguments, not {name}")
        self.assert_nothing_written()

    def test_no_torch(self):
        for inputs in ((), [], {}):
            with self.subTest(inputs), WITHOUT_TORCH, self.assertRaises(ImportError) as caught:
                meshwright.export(None, inputs, self.folder / "model.pt2")
            self.assertEqual(str(caught.exception), "meshwright.export needs PyTorch, which is not installed; install "
                                                    "it with: pip install torch")
        self.assert_nothing_written()


class Import(unittest.TestCase):
    def test_does_not_import_torch(self):
        code = "import sys; sys.modules['torch'] = None; import meshwright; meshwright.export"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
