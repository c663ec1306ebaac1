"""Every figure of docs/performance.md, with its floor measured in the same run: `make bench`, or

    python -m bench.run [--quick] > docs/performance.md

Figures are medians of 5 runs, with --quick of 3. Milliseconds depend on the machine; ratios should not.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from autograder.course import load_course
from autograder.grading import prepare
from autograder.intake import Submission
from autograder.judge.batch import Batch, Workers
from autograder.judge.grade import Judge, Settings
from autograder.judge.session import PreparedSession, on_alarm
from autograder.judge.workers import Worker
from autograder.release import read_source
from autograder.worker.process import ZygoteProcess

ROOT = Path(__file__).parents[1]
RUNS = 3 if "--quick" in sys.argv else 5


class Recorder(Worker):
    """A worker that notes what is sent to it, and when an answer is read."""

    events: list[bytes | None]

    def __init__(self, line: object) -> None:
        super().__init__(line)  # type: ignore[arg-type]
        self.events, self.reads, plain_read = [], 0, self.read

        def read(n: int) -> bytearray:
            if self.reads % 3 == 0:  # a frame is read in three parts: sizes, header, body
                self.events.append(None)
            self.reads += 1
            return plain_read(n)

        self.read = read

    def send(self, frame: bytes) -> None:
        self.events.append(frame)
        super().send(frame)


class Bench:
    def __init__(self) -> None:
        self.course = load_course(ROOT / "grading.toml")
        self.units = list(self.course.units)
        self.zygote = ZygoteProcess(sandbox=True)
        self.session: PreparedSession = prepare(self.course, self.units)
        self.zygote.wait_until_up()
        limits = self.course.units
        self.settings = Settings(seed=1, forbidden={name: unit.forbidden for name, unit in limits.items()})
        torch.set_num_threads(1)
        signal.signal(signal.SIGALRM, on_alarm)

        self.references = {u: read_source(ROOT / "solutions" / f"{u}.py").reference for u in self.units}

    def submission(self, unit: str, student: str = "student01") -> Submission:
        return Submission(student, unit, Path(f"{unit}.py"), self.references[unit], (), None, {})

    def grade_times(self, unit: str, count: int) -> list[float]:
        """Milliseconds of each submission in one reused judge, a fresh worker for each."""
        judge = Judge(self.session, self.settings, Workers(self.zygote.new_line(), 512, "cpu"))
        return timed(lambda: judge.grade(self.submission(unit)), count)

    def floor_times(self, unit: str, count: int) -> list[float]:
        """The same calls without checks: fork, lock-down, load, and the recorded frames one by one."""
        recorders: list[Recorder] = []
        line = self.zygote.new_line()

        def start() -> Worker:
            recorders.append(Recorder(line))
            return recorders[-1].connected()

        Judge(self.session, self.settings, start).grade(self.submission(unit))
        assert len(recorders) == 1, "the reference lost its worker"
        workers = Workers(self.zygote.new_line(), 512, "cpu")
        return timed(lambda: replay(workers, recorders[0].events), count)

    def shares(self, unit: str) -> tuple[int, int, float]:
        """Number of tests, of duties among them, and the duties' share of the time."""
        judge = Judge(self.session, self.settings, Workers(self.zygote.new_line(), 512, "cpu"))
        duties = {t.name for t in self.session.units[unit] if t.is_duty}
        for _ in range(5):
            verdict = judge.grade(self.submission(unit))
        tests = [t for e in verdict.exercises for t in e.tests]
        spent = sum(t.milliseconds for t in tests if t.name in duties)
        return len(tests), len(duties), spent / sum(t.milliseconds for t in tests)

    def per_minute(self, units: Sequence[str], count: int, jobs: int) -> float:
        submissions = [self.submission(units[i % len(units)], f"student{i:04}") for i in range(count)]
        start = time.perf_counter()
        for _, text in Batch(self.session, self.settings, self.zygote).grade(submissions, jobs):
            assert text is not None
        return count / (time.perf_counter() - start) * 60


def replay(workers: Workers, events: list[bytes | None]) -> None:
    worker = workers()
    worker.deadline = time.monotonic() + 30
    for event in events:
        if event is not None:
            worker.send(event)
        else:
            head = worker.read(8)
            worker.read(int.from_bytes(head[:4], "little"))
            worker.read(int.from_bytes(head[4:], "little"))
    worker.close()


def timed(action: Callable[[], object], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        action()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def mebibytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) / 256


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def naive_seconds(unit: str, folder: Path) -> float:
    """A fresh interpreter that imports torch and pytest and runs the hidden tests on code in the same process."""
    path = folder / f"{unit}.py"
    path.write_text(read_source(ROOT / "solutions" / f"{unit}.py").reference)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "bench.naive", "-p", "no:cacheprovider", "-c", os.devnull]
    command += ["--submission", str(path), str(ROOT / "tests_hidden" / f"test_{unit}.py")]
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def seconds_to_first_answer(unit: str) -> float:
    """Until `hw check UNIT` has told the first test's outcome, on a solved unit."""
    folder = Path(tempfile.mkdtemp())
    (folder / f"{unit}.py").write_text(read_source(ROOT / "solutions" / f"{unit}.py").reference)
    (folder / f"test_{unit}.py").write_text((ROOT / "assignments" / unit / f"test_{unit}.py").read_text())
    command = [sys.executable, "-c", "from autograder.cli import main; main()", "check", "--in", str(folder)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip()[:1] in ("✓", "✗", "·"):
                seconds = time.perf_counter() - start
                break
        process.stdout.read()
    return seconds


def import_torch_seconds() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], env=environment(), check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer submissions; for a look, not for the record")
    quick = parser.parse_args().quick
    bench = Bench()
    gc.collect()
    gc.freeze()
    print("# Performance\n")
    command = "python -m bench.run" + " --quick" * quick
    print(f"Made by `{command}`, which measures each figure and its floor in the same run; medians of {RUNS} runs.")
    python, cores = platform.python_version(), os.cpu_count()
    print(f"Python {python}, torch {torch.__version__}, {cores} cores ({platform.machine()}).\n")
    one_submission(bench, 8 if quick else 20)
    throughput(bench, 40 if quick else 100)
    scale(bench, 200 if quick else 2000)
    first_answer(bench)
    bench.zygote.close()


def one_submission(bench: Bench, count: int) -> None:
    print("## One submission\n")
    print("The reference solution, one judge, a fresh locked-down worker for each; the floor is fork, lock-down and")
    print("the same calls without any check.\n")
    print("| unit | hidden tests | of these duties | duties' share of the time | ms | floor, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for unit in bench.units:
        graded, floors = [], []
        for _ in range(RUNS):
            graded.append(median(bench.grade_times(unit, count)))
            floors.append(median(bench.floor_times(unit, count)))
        tests, duties, share = bench.shares(unit)
        ms, floor = median(graded), median(floors)
        print(f"| {unit} | {tests} | {duties} | {share:.0%} | {ms:.1f} | {floor:.1f} | {ms / floor:.2f} |", flush=True)


def throughput(bench: Bench, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        naive = {unit: median([naive_seconds(unit, Path(folder)) for _ in range(RUNS)]) for unit in bench.units}
    print("\n## Submissions a minute\n")
    print("Naive: a fresh interpreter for each submission, its code in the process of the tests, one at a time.\n")
    print("| unit | naive | 1 job | 2 jobs | 2 jobs against naive |")
    print("|---|---|---|---|---|")
    for unit in bench.units:
        one, two = (median([bench.per_minute([unit], count, jobs) for _ in range(RUNS)]) for jobs in (1, 2))
        base = 60 / naive[unit]
        print(f"| {unit} | {base:.1f} | {one:,.0f} | {two:,.0f} | {two / base:.0f} times |", flush=True)


def scale(bench: Bench, many: int) -> None:
    print(f"\n## 20 submissions and {many:,}\n")
    print("| submissions | ms each (2 jobs) | worker zygote, MiB | grader, MiB |")
    print("|---|---|---|---|")
    bench.per_minute(bench.units, 60, 2)
    for count in (20, many):
        runs = RUNS if count == 20 else 1
        each = median([60_000 / bench.per_minute(bench.units, count, 2) for _ in range(runs)])
        sizes = mebibytes(bench.zygote.process.pid), mebibytes(os.getpid())
        print(f"| {count:,} | {each:.1f} | {sizes[0]:.1f} | {sizes[1]:.1f} |", flush=True)


def first_answer(bench: Bench) -> None:
    imports, answers = [], []
    for _ in range(RUNS):
        imports.append(import_torch_seconds())
        answers.append(seconds_to_first_answer(bench.units[0]))
    print("\n## `hw check`\n")
    print(
        f"`python -c 'import torch'`: {median(imports):.2f} s. `hw check {bench.units[0]}` until the first outcome is"
    )
    print(f"told: {median(answers):.2f} s, {median(answers) / median(imports):.2f} times that.")


if __name__ == "__main__":
    main()
