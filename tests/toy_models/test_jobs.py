"""The folder that is its own queue: one holder a job, attempts, leases, killed and hanging workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scalefit.errors import OptionError
from scalefit.execute import ATTEMPTS
from toy_models.crew import StopSign, run_crew
from toy_models.jobs import ClaimLostError, JobFolder, JobState, work_through


def jobs_of(folder: Path, n: int, lease: float = 300.0) -> list[JobFolder]:
    return [JobFolder(folder / f"job-{i}", lease) for i in range(n)]


def test_one_of_many_gets_a_job(tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "job")
    with ThreadPoolExecutor(16) as threads:
        claims = [claim for claim in threads.map(lambda _: job.claim(), range(64)) if claim is not None]
    assert len(claims) == 1
    assert job.state is JobState.HELD
    claims[0].finish()
    assert job.state is JobState.DONE
    assert job.claim() is None


def test_a_released_job_is_open_and_no_attempt(tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "job")
    for _ in range(2 * ATTEMPTS):
        claim = job.claim()
        assert claim is not None
        claim.release()
    assert (job.state, job.error) == (JobState.OPEN, "")


def test_a_job_that_raises_is_tried_three_times_named_and_can_be_tried_again(tmp_path: Path) -> None:
    (job,) = jobs = jobs_of(tmp_path, 1)
    begun: list[int] = []

    def run(index: int, _claim: object) -> bool:
        begun.append(index)
        raise MemoryError("not enough")

    assert work_through(jobs, run)
    assert begun == [0] * ATTEMPTS
    assert (job.state, job.error) == (JobState.FAILED, "MemoryError: not enough")
    assert work_through(jobs, run)
    assert begun == [0] * ATTEMPTS
    job.forget_failures()
    assert job.state is JobState.OPEN


def test_others_go_on_beside_a_job_that_fails(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, 3)
    assert work_through(jobs, lambda index, _claim: bool(1 // (index - 1)) or True)
    assert [job.state for job in jobs] == [JobState.DONE, JobState.FAILED, JobState.DONE]


def test_a_claim_that_is_not_renewed_goes_to_the_next_and_its_holder_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toy_models.jobs.RENEW_SECONDS", 0.0)
    job = JobFolder(tmp_path / "job", lease=60)
    held_up = job.claim()
    assert held_up is not None
    for age, state in ((50, JobState.HELD), (70, JobState.OPEN)):
        os.utime(tmp_path / "job" / "claim-1", (time.time() - age,) * 2)
        assert (job.state, job.overdue(0.0)) == (state, {os.getpid()} if state is JobState.OPEN else set())
    held_up.renew()  # nobody was faster
    assert job.claim() is None
    os.utime(tmp_path / "job" / "claim-1", (0, 0))
    other = job.claim()
    assert other is not None
    with pytest.raises(ClaimLostError):
        held_up.renew()
    other.renew()
    assert job.state is JobState.HELD


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the lease alone decides")
def test_the_job_of_a_killed_process_is_open_at_once_and_counts_unless_it_got_on(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from toy_models.jobs import JobFolder\n"
        "claim = JobFolder(pathlib.Path(sys.argv[1])).claim()\n"
        "claim.progressed() if sys.argv[2] == 'on' else None\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    job = JobFolder(tmp_path / "job")
    for how in ("on", "on", "on", "off", "off", "off"):
        assert job.state is JobState.OPEN
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(job.path), how],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert job.state is JobState.HELD
        process.kill()
        process.communicate()
    assert job.state is JobState.FAILED
    assert f"its process {process.pid} on" in job.error


def member(folder: str, what: str, sign: str, tick: Callable[[], None] = lambda: None) -> bool:
    """Work through ten jobs; the fourth does `what`."""
    jobs, stop = jobs_of(Path(folder), 10, lease=2.0), StopSign(sign)

    def run(index: int, _claim: object) -> bool:
        if index == 3 and what == "hang":
            time.sleep(3600)
        if index == 3 and what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        with (jobs[index].path / "rows").open("a") as rows:
            rows.write(f"{index}\n")
        return True

    return work_through(jobs, run, tick=tick, stop=stop)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["hang", "die"])
def test_a_job_that_hangs_or_takes_its_process_along_is_given_up_and_the_others_are_done(
    tmp_path: Path, what: str
) -> None:
    jobs = jobs_of(tmp_path, 10, lease=2.0)
    assert run_crew(member, (str(tmp_path), what), tmp_path, jobs, workers=2, tick=lambda: None)
    assert Counter(job.state for job in jobs) == {JobState.DONE: 9, JobState.FAILED: 1}
    assert "was killed or did not answer for 2 s" in jobs[3].error
    assert sorted(int(path.read_text()) for path in tmp_path.glob("*/rows")) == [i for i in range(10) if i != 3]


def test_any_executor_can_work_through_a_folder(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, 10)
    with ThreadPoolExecutor(3) as executor:
        assert run_crew(member, (str(tmp_path), ""), tmp_path, jobs, workers=3, executor=executor, tick=lambda: None)
    assert sorted(int(path.read_text()) for path in tmp_path.glob("*/rows")) == list(range(10))
    assert not list(tmp_path.glob(".stop-*"))


def lost(*_: object) -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return True


@pytest.mark.slow
def test_processes_that_die_before_they_begin_are_no_endless_loop(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="killed before they could begin"):
        run_crew(lost, (), tmp_path, jobs_of(tmp_path, 1), workers=1, tick=lambda: None)
