"""Find what students handed in and read it as Python text. Nothing is executed, imported or written."""

from autograder.intake.find import IntakeError, Submission, find_submissions

__all__ = ["IntakeError", "Submission", "find_submissions"]
