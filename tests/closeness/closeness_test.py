#!/usr/bin/env python3
"""What the tests that compare with PyTorch say of results that are not numbers: closeness_test.py. Needs PyTorch."""

from __future__ import annotations

import math
import subprocess
import sys
import unittest
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gradients"), str(HERE.parent / "torch")]

import compare_with_pytorch  # noqa: E402  (found through the paths above)
import equal  # noqa: E402
import train  # noqa: E402
from closeness import distance, distance_of_numbers  # noqa: E402

NAN, INF = math.nan, math.inf


def numbers(*of: float) -> torch.Tensor:
    return torch.tensor(of, dtype=torch.float64)


def negation(found: list, given: list, gradient: list | None = None) -> dict:
    """A case as print_gradient_cases writes it: -x, of which we say ``found``."""
    operand = {"name": "self", "dtype": "float64", "shape": [len(given)], "numbers": given}
    result = {"name": "result", "dtype": "float64", "shape": [len(given)], "numbers": found}
    if gradient is not None:
        operand["gradient"] = gradient
        result["weights"] = [1.0] * len(given)
    return {"op": "aten.neg", "attributes": {}, "operands": [operand], "results": [result], "saved": []}


class Distance(unittest.TestCase):
    def test_is_relative_to_the_largest_element(self):
        self.assertEqual(distance(numbers(1, 4.5), numbers(1, 4)), 0.125)
        self.assertEqual(distance(numbers(0.5), numbers(0), floor=2.0), 0.25)
        self.assertEqual(distance(numbers(), numbers()), 0)

    def test_of_what_is_no_number_is_infinite(self):
        for found, wanted in (((NAN, 1), (0, 1)), ((0, 1), (NAN, 1)), ((NAN, 1), (NAN, 1)), ((INF, 1), (INF, 1)), ((INF, 1), (0, 1))):
            self.assertEqual(distance(numbers(*found), numbers(*wanted)), INF, (found, wanted))
        self.assertEqual(distance_of_numbers(NAN, 1.0), INF)
        self.assertEqual(distance_of_numbers(1.0, NAN), INF)

    def test_of_another_shape_is_infinite(self):
        self.assertEqual(distance(numbers(1, 1), numbers(1)), INF)

    def test_of_calls_that_are_given_special_numbers(self):
        given = numbers(NAN, INF, -INF, 2)
        self.assertEqual(distance(given, given, special=True), 0)
        self.assertEqual(distance(numbers(NAN, INF, -INF, 1), given, special=True), 0.5)
        for found in ((0, INF, -INF, 2), (NAN, -INF, -INF, 2), (NAN, INF, NAN, 2), (NAN, INF, -INF, NAN)):
            self.assertEqual(distance(numbers(*found), given, special=True), INF, found)


class ComparisonWithPyTorch(unittest.TestCase):
    def test_takes_what_is_right(self):
        self.assertEqual(compare_with_pytorch.check(negation([-1.0, 2.0], [1.0, -2.0], [-1.0, -1.0])), 0)
        self.assertEqual(compare_with_pytorch.check(negation(["nan", -2.0], ["nan", 2.0])), 0)

    def test_finds_a_result_that_is_no_number(self):
        self.assertEqual(compare_with_pytorch.check(negation(["nan", 2.0], [1.0, -2.0])), INF)

    def test_finds_a_gradient_that_is_no_number(self):
        self.assertEqual(compare_with_pytorch.check(negation([-1.0, 2.0], [1.0, -2.0], [-1.0, "nan"])), INF)


class ComparisonOfPrograms(unittest.TestCase):
    def test_keeps_the_worst_of_several_tensors(self):
        wanted = {"a": numbers(1, 2), "b": numbers(1, 2), "c": numbers(1, 2)}
        self.assertEqual(equal.worst({**wanted, "b": numbers(1, NAN)}, wanted), (INF, "b"))
        self.assertEqual(equal.worst({"a": numbers(1, 2), "b": numbers(1, 2)}, wanted), (INF, "c (missing)"))
        self.assertEqual(equal.worst({**wanted, "a": numbers(1, 2.5)}, wanted), (0.25, "a"))

    def test_ends_ranks_that_hang(self):
        def ended(work: str, seconds: float) -> tuple[int, str]:
            ranks = f"import sys, time, forked\nsys.exit(forked.on_ranks(2, lambda: {work}, {seconds}))"
            done = subprocess.run([sys.executable, "-c", ranks], cwd=HERE.parent / "torch", capture_output=True, text=True)
            return done.returncode, done.stdout

        self.assertEqual(ended("0", 60), (0, ""))
        code, said = ended("3", 60)
        self.assertEqual((code, "[3, 3]" in said), (1, True), said)
        code, said = ended("time.sleep(600)", 0.5)
        self.assertEqual((code, "did not end in 0.5 s" in said, "[None, None]" in said), (1, True, True), said)


class TrainedProgram(unittest.TestCase):
    SAID = "step 0: loss 3.9\nstep 1: loss 3.8\n"

    def test_is_right_with_every_step_and_exit_code_0(self):
        self.assertIsNone(train.problem(0, self.SAID, 2))

    def test_is_wrong_by_its_exit_code_whatever_it_said(self):
        self.assertEqual(train.problem(1, self.SAID, 2), "exit code 1")
        self.assertEqual(train.problem(-6, self.SAID, 2), "exit code -6")

    def test_is_wrong_without_a_step_or_with_a_loss_that_is_no_number(self):
        self.assertIn("not of 3", train.problem(0, self.SAID, 3))
        self.assertEqual(train.problem(0, "step 0: loss nan\n", 1), "the loss is nan")


if __name__ == "__main__":
    unittest.main()
