"""A grading run: a folder of submissions becomes verdict files and the reports made from them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.course import Course, CourseError
from autograder.files import write_atomically
from autograder.hashes import grader_hashes, submission_hash
from autograder.intake import IntakeError, Submission, find_submissions
from autograder.verdict import Verdict

if TYPE_CHECKING:
    from autograder.judge.grade import Settings
    from autograder.judge.session import PreparedSession
    from autograder.worker.process import ZygoteProcess

RUN_FILE = "run.json"
Told = Callable[[Submission, "Verdict | None"], None]


class DeviceMissing(Exception):
    """The device that was asked for is not here; the text says what to do."""


@dataclass(frozen=True)
class Options:
    """What the command line chooses for a run."""

    out: Path
    units: tuple[str, ...]
    jobs: int
    device: str = "cpu"
    sandbox: bool = True
    seed: int | None = None


@dataclass
class Summary:
    """How a run ended."""

    graded: int = 0
    kept: int = 0  # verdicts of an earlier run that still hold
    failed: tuple[str, ...] = ()  # "student/unit" that got no verdict
    layers: tuple[str, ...] | None = ()


class Run:
    """One grading run over a folder."""

    def __init__(self, course: Course, folder: Path, options: Options) -> None:
        """Finds the submissions, and those among them that need grading."""
        self.course, self.options = course, options
        # all units are looked for: a unit may import another one of the same student
        self.submissions = [s for s in find_submissions(folder, list(course.units)) if s.unit in options.units]
        if not self.submissions:
            raise IntakeError(f"{folder} holds no submission of {', '.join(options.units)}")
        self.seed = self._seed()
        self.hashes = grader_hashes(course, options.units, options.device, options.sandbox)
        self.pending = [s for s in self.submissions if not self._is_graded(s)]

    def _seed(self) -> int:
        """The seed belongs to OUT: a run taken up again goes on with it, and asks everyone the same questions."""
        if self.options.seed is not None:
            return self.options.seed
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads((self.options.out / RUN_FILE).read_text("utf-8"))["seed"])
        return secrets.randbits(31)

    def _is_graded(self, submission: Submission) -> bool:
        try:
            text = verdict_path(self.options.out, submission).read_text("utf-8")
            verdict = Verdict.from_json(text)
        except (OSError, ValueError):
            return False
        hashes = submission_hash(submission), self.hashes[submission.unit], self.seed
        return hashes == (verdict.submission_hash, verdict.grader_hash, verdict.seed)

    def grade(self, tell: Told) -> Summary:
        """Grade what is pending; `tell` hears of each verdict once its file is written.

        Raises LayerMissing, CourseError, HiddenTestsError.
        """
        summary = Summary(kept=len(self.submissions) - len(self.pending))
        self.options.out.mkdir(parents=True, exist_ok=True)
        write_atomically(self.options.out / RUN_FILE, json.dumps({"seed": self.seed}))
        failed = []
        for submission, text in self._verdicts(summary) if self.pending else ():
            if text is None:
                failed.append(f"{submission.student}/{submission.unit}")
                verdict_path(self.options.out, submission).unlink(missing_ok=True)  # an old one would pass for this one
                tell(submission, None)
                continue
            write_atomically(verdict_path(self.options.out, submission), text)
            summary.graded += 1
            tell(submission, Verdict.from_json(text))
        summary.failed = tuple(failed)
        return summary

    def _verdicts(self, summary: Summary) -> Iterator[tuple[Submission, str | None]]:
        from autograder.worker.process import ZygoteProcess

        if self.options.device == "cuda" and not Path("/dev/nvidia0").exists():
            raise DeviceMissing("--device cuda: there is no GPU here; --device cpu pretends one for the device tests")
        zygote = ZygoteProcess(self.options.sandbox, self.options.device)  # imports torch while we do
        try:
            from autograder.judge.workers import layers_of

            session = prepare(self.course, self.options.units)
            zygote.wait_until_up()
            summary.layers = layers_of(zygote)
            settings = self._settings(summary.layers)
            yield from self._batch(session, settings, zygote)
        finally:
            zygote.close()

    def _batch(
        self, session: PreparedSession, settings: Settings, zygote: ZygoteProcess
    ) -> Iterator[tuple[Submission, str | None]]:
        from autograder.judge.batch import Batch

        batch = Batch(session, settings, zygote, self.course.limits.memory_mb)
        with closing(batch.grade(self.pending, min(self.options.jobs, len(self.pending)))) as verdicts:
            yield from verdicts

    def _settings(self, layers: tuple[str, ...] | None) -> Settings:
        from autograder.judge.grade import Settings

        limits, units = self.course.limits, self.course.units
        return Settings(
            seed=self.seed,
            grader_hashes=self.hashes,
            device=self.options.device,
            sandbox=layers,
            seconds_per_test=limits.seconds_per_test,
            seconds_per_submission=limits.seconds_per_submission,
            seconds_to_load=limits.seconds_to_load,
            points={name: unit.points for name, unit in units.items()},
            forbidden={name: unit.forbidden for name, unit in units.items()},
        )

    def write_reports(self) -> None:
        """CSV and pages from all verdicts that OUT holds, also those of earlier runs over other units."""
        from autograder.report import write_reports

        titles = {name: unit.title for name, unit in self.course.units.items()}
        write_reports(list(read_verdicts(self.options.out, titles)), self.options.out, self.course.title, titles)


def prepare(course: Course, units: Sequence[str]) -> PreparedSession:
    """Collect these units' hidden tests, and hold grading.toml against them. Raises CourseError, HiddenTestsError."""
    from autograder.judge.session import PreparedSession

    session = PreparedSession([course.hidden_tests(unit) for unit in units])
    session.freeze()
    problems = []
    for unit in units:
        tests = session.units[unit]
        exercises = {t.exercise: any(u.name == f"{t.exercise}_by_hand" for u in tests) for t in tests}
        problems += course.check_tests(unit, [t.name for t in tests], exercises)
    if problems:
        raise CourseError("\n".join(problems))
    return session


def verdict_path(out: Path, submission: Submission) -> Path:
    return out / submission.student / f"{submission.unit}.json"


def read_verdicts(out: Path, units: Sequence[str] | dict[str, str]) -> Iterator[Verdict]:
    """The verdicts below OUT, by student and then in the order of the units; files that are none are passed over."""
    for folder in sorted(p for p in out.iterdir() if p.is_dir()):
        for unit in units:
            with suppress(OSError, ValueError):
                yield Verdict.from_json((folder / f"{unit}.json").read_text("utf-8"))
