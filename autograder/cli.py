"""The command line `hw`: students check, instructors release and grade."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from autograder.course import Course
    from autograder.grading import Run, Summary
    from autograder.intake import Submission
    from autograder.verdict import Verdict

USAGE, UNGRADED = 2, 1  # exit codes
INSTRUCTORS_NEED = ("pydantic", "jupytext", "tomli")  # a student's install has none of them

app = typer.Typer(
    help="Homework on Transformers: check your own work, or release and grade a course.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
CourseFile = Annotated[
    Path | None, typer.Option("--course", help="grading.toml; by default searched for from here up.")
]


def main() -> None:
    """The entry point of `hw`."""
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name not in INSTRUCTORS_NEED:
            raise
        typer.echo(f"hw: this command needs {error.name}: pip install '.[instructor]'", err=True)
        sys.exit(USAGE)


def refuse(text: str, code: int = USAGE) -> NoReturn:
    """Say what is wrong, in one line or a few, and end."""
    typer.echo(f"hw: {text}" if not text.startswith("grading.toml") else text, err=True)
    raise typer.Exit(code)


@app.command()
def check(
    units: Annotated[
        list[str] | None, typer.Argument(metavar="[UNIT]...", help="Units to check; by default all here.")
    ] = None,
    folder: Annotated[Path, typer.Option("--in", help="Where your files are.")] = Path(),
) -> None:
    """Run the public tests on your own work and say what is wrong.

    Example: hw check attention
    """
    from autograder.check import CheckError, check_units

    try:
        raise typer.Exit(check_units(folder, units or []))
    except CheckError as error:
        refuse(str(error))


@app.command()
def grade(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Submissions: FOLDER/STUDENT/UNIT.py, .ipynb or .zip.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where verdicts and reports go.")],
    unit: Annotated[list[str] | None, typer.Option("--unit", help="Only this unit (may be repeated).")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Submissions at a time; by default one per core.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    sandbox: Annotated[str, typer.Option("--sandbox", help="on, or none: run submissions unprotected.")] = "on",
    seed: Annotated[int | None, typer.Option("--seed", help="Reproduce the probes of an earlier run.")] = None,
    course: CourseFile = None,
) -> None:
    """Grade every submission in FOLDER and write verdicts, grades.csv and pages to OUT.

    Example: hw grade examples/submissions --out grades
    """
    from autograder.grading import Options, Run
    from autograder.intake import IntakeError

    loaded = open_course(course)
    if device not in ("cpu", "cuda"):
        refuse(f"--device: must be cpu or cuda, is {device!r}")
    if sandbox not in ("on", "none"):
        refuse(f"--sandbox: must be on or none, is {sandbox!r}")
    if out.exists() and not out.is_dir():
        refuse(f"--out: {out} is a file; name a folder")
    for name in unit or ():
        if name not in loaded.units:
            refuse(f"--unit: the course has no unit {name!r}; it has {', '.join(loaded.units)}")
    units = tuple(u for u in loaded.units if not unit or u in unit)
    options = Options(out, units, jobs or len(os.sched_getaffinity(0)), device, sandbox == "on", seed)
    try:
        run = Run(loaded, folder, options)
    except IntakeError as error:
        refuse(str(error))
    summary = grade_and_tell(run)
    run.write_reports()
    finish(summary, out)


def grade_and_tell(run: Run) -> Summary:
    """Grade with a progress bar on a terminal and plain lines elsewhere; Ctrl-C keeps what is finished."""
    from autograder.course import CourseError

    done = Progress(len(run.pending), len(run.submissions) - len(run.pending))
    try:
        with done.shown():
            return run.grade(done.tell)
    except KeyboardInterrupt:
        typer.echo(
            f"\nstopped: {done.count} verdicts are written and stay; the same command goes on from here", err=True
        )
        raise typer.Exit(130) from None
    except CourseError as error:
        refuse(str(error))
    except Exception as error:
        if type(error).__name__ not in ("LayerMissing", "HiddenTestsError", "DeviceMissing"):
            raise
        advice = "; or grade unprotected with --sandbox=none" if type(error).__name__ == "LayerMissing" else ""
        refuse(f"{error}{advice}")


def finish(summary: Summary, out: Path) -> None:
    typer.echo(f"{summary.graded} graded, {summary.kept} unchanged since an earlier run")
    if summary.layers is None:
        typer.echo("no sandbox: submissions ran unprotected, and every verdict says so", err=True)
    typer.echo(f"report: {out / 'index.html'}   grades: {out / 'grades.csv'}")
    for name in summary.failed:
        typer.echo(f"hw: {name}: could not be graded: the judge itself failed; grade it again", err=True)
    if summary.failed:
        raise typer.Exit(UNGRADED)


class Progress:
    """What a person sees while a run goes on."""

    EVERY = 2.0  # seconds between two plain lines

    def __init__(self, total: int, kept: int) -> None:
        self.total, self.kept, self.count, self.first, self.last = total, kept, 0, 0.0, 0.0
        self.advance: Callable[[], None] = self.line

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not sys.stderr.isatty() or not self.total:
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
        # no refresh thread: judges are forked from this process
        with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as bar:
            task = bar.add_task("grading", total=self.total, rate="")

            def advance() -> None:
                bar.update(task, completed=self.count, rate=self.rate(), refresh=True)

            self.advance = advance
            yield

    def tell(self, submission: Submission, verdict: Verdict | None) -> None:
        self.count += 1
        self.first = self.first or time.monotonic()
        self.advance()

    def rate(self) -> str:
        """Since the first verdict: what comes before is the start, and happens once."""
        if self.count < 3:
            return ""
        return f"{(self.count - 1) / max(time.monotonic() - self.first, 1e-9) * 60:,.0f} a minute"

    def line(self) -> None:
        now = time.monotonic()
        if now - self.last >= self.EVERY or self.count == self.total:
            self.last = now
            rate = self.rate()
            typer.echo(f"graded {self.count} of {self.total}" + (f" ({rate})" if rate else ""), err=True)


@app.command()
def release(
    units: Annotated[list[str] | None, typer.Argument(metavar="[UNIT]...", help="Units; by default all.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to; by default assignments/ beside grading.toml.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if the release is out of step.")] = False,
    course: CourseFile = None,
) -> None:
    """Make the students' files from solutions/: stub, handout, notebook and public tests.

    Example: hw release attention
    """
    from autograder.release import ReleaseError, release_units

    loaded = open_course(course)
    for name in units or ():
        if name not in loaded.units:
            refuse(f"the course has no unit {name!r}; it has {', '.join(loaded.units)}")
    folder = out or loaded.root / "assignments"
    try:
        changed = release_units(loaded.root, units or list(loaded.units), folder, check)
    except ReleaseError as error:
        refuse(str(error))
    for path in changed:
        typer.echo(f"{'out of step' if check else 'wrote'}: {path}")
    if check and changed:
        refuse("assignments/ is out of step with solutions/: run `hw release`", UNGRADED)
    if not changed:
        typer.echo(f"{folder} is in step with solutions/")


def open_course(path: Path | None) -> Course:
    """The course of this file, or of the nearest grading.toml from here up."""
    from autograder.course import CourseError, load_course

    here = Path.cwd()
    found = path or next((p / "grading.toml" for p in (here, *here.parents) if (p / "grading.toml").is_file()), None)
    if found is None:
        refuse("there is no grading.toml here or above; go to the course's folder, or name the file with --course")
    try:
        return load_course(found)
    except CourseError as error:
        refuse(str(error))
