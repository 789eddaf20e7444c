"""A folder that is its own queue: any number of processes, on any number of machines, take jobs from it.

Every job has a folder. Who begins it claims it by creating the next of the files ``claim-1``, ``claim-2``, ...,
which succeeds for one process only, on network file systems too. The holder renews its claim by touching the file;
a claim that was not renewed for the length of the lease, or whose process is gone from this machine, is up for the
next. A killed worker, a lost scheduler and a restart are thereby one case. A worker that was only held up, and finds
a later claim when it wakes, leaves; what it still writes does no harm, since jobs write whole files whose content
depends on the job alone. Claims that failed, or were lost without any progress saved, are the job's attempts.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from scalefit.execute import ATTEMPTS, stop_requested
from scalefit.files import write_atomically

__all__ = ["LEASE_SECONDS", "Claim", "ClaimLostError", "JobFolder", "JobState", "work_through"]

LEASE_SECONDS = 300.0
"""A claim that is not renewed for so long is lost: longer than any job goes without a look up."""

RENEW_SECONDS = 1.0
POLL_SECONDS = 0.2

HOST = socket.gethostname()


class JobState(Enum):
    """Where a job stands."""

    OPEN = "open"
    HELD = "held"
    DONE = "done"
    FAILED = "failed"


class ClaimLostError(Exception):
    """Another worker took the job over."""


@dataclass(frozen=True)
class _Entry:
    """What a claim file says: who, how it ended (``working``, ``released``, ``failed``), whether it saved anything."""

    number: int
    host: str
    pid: int
    state: str
    error: str
    progress: bool
    renewed: float

    @property
    def is_attempt(self) -> bool:
        """Whether it counts, if it is over: work that gets on is never given up for being killed."""
        return self.state == "failed" or (self.state == "working" and not self.progress)


class JobFolder:
    """The folder of one job.

    Parameters
    ----------
    path : Path
        Made when the job is claimed.
    lease : float
        Seconds without renewal after which a claim is lost.
    """

    def __init__(self, path: Path, lease: float = LEASE_SECONDS) -> None:
        self.path, self.lease = path, lease
        self._done = path / "done"

    @property
    def is_done(self) -> bool:
        """Whether the job is finished."""
        return self._done.exists()

    @property
    def state(self) -> JobState:
        """Where the job stands."""
        return self._state(self._entries())

    def _state(self, entries: Sequence[_Entry]) -> JobState:
        if self.is_done:
            return JobState.DONE
        if entries and self._holds(entries[-1]):
            return JobState.HELD
        attempts = sum(entry.is_attempt for entry in entries)
        return JobState.FAILED if attempts >= ATTEMPTS else JobState.OPEN

    @property
    def n_claims(self) -> int:
        """How often the job was begun."""
        return sum(1 for _ in self.path.glob("claim-*"))

    @property
    def error(self) -> str:
        """How the last attempt ended; empty where none failed."""
        last = next((entry for entry in reversed(self._entries()) if entry.is_attempt), None)
        if last is None:
            return ""
        lost = f"its process {last.pid} on {last.host} was killed or did not answer for {self.lease:g} s"
        return last.error or lost

    def overdue(self, since: float) -> set[int]:
        """Processes on this machine that hold, or held, the job and did not renew their claim in time.

        `since` is the time from which on claims are looked at; older ones may name numbers that are in use again.
        """
        entries = [] if self.is_done else self._entries()
        return {
            entry.pid
            for entry in entries
            if entry.state == "working" and entry.host == HOST and entry.renewed > since and not self._renewed(entry)
        }

    def claim(self) -> Claim | None:
        """Take the job, unless it is finished, held, failed, or somebody else is faster."""
        entries = self._entries()
        if self._state(entries) is not JobState.OPEN:
            return None
        self.path.mkdir(parents=True, exist_ok=True)
        # the number after those that were judged: whoever judged the same claims tries the same file
        path = self.path / f"claim-{entries[-1].number + 1 if entries else 1}"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(_content("working"))
        except FileExistsError:
            return None
        # its last holder may have finished, and gone, while the claims were read
        return None if self.is_done else Claim(self, path)

    def forget_failures(self) -> None:
        """Give the job its attempts again."""
        entries = self._entries()
        if entries and self._holds(entries[-1]):
            entries.pop()
        for entry in entries:
            if entry.is_attempt:
                write_atomically(self.path / f"claim-{entry.number}", _content("released"))

    def _entries(self) -> list[_Entry]:
        """The claims in order; one that is being written counts as held."""
        entries = []
        for path in self.path.glob("claim-*"):
            number = path.name.removeprefix("claim-")
            if not number.isdigit():  # the writer's new file beside an old one
                continue
            try:
                text, renewed = path.read_text(encoding="utf-8"), path.stat().st_mtime
                said = json.loads(text) if text else {}
            except (FileNotFoundError, json.JSONDecodeError):
                said, renewed = {}, time.time()
            entries.append(
                _Entry(
                    int(number),
                    str(said.get("host", "")),
                    int(said.get("pid", 0)),
                    str(said.get("state", "working")),
                    str(said.get("error", "")),
                    bool(said.get("progress", False)),
                    renewed,
                )
            )
        return sorted(entries, key=lambda entry: entry.number)

    def _holds(self, entry: _Entry) -> bool:
        gone = entry.host == HOST and entry.pid > 0 and not _is_alive(entry.pid)
        return entry.state == "working" and not gone and self._renewed(entry)

    def _renewed(self, entry: _Entry) -> bool:
        if time.time() - entry.renewed <= self.lease:
            return True
        # The file system's clock may be another than this machine's: ask it before a claim is called lost.
        probe = self.path / f"clock-{HOST}-{os.getpid()}"
        probe.touch()
        now = probe.stat().st_mtime
        probe.unlink(missing_ok=True)
        return now - entry.renewed <= self.lease


class Claim:
    """The right to work on a job, to be renewed at least as often as every lease."""

    def __init__(self, job: JobFolder, path: Path) -> None:
        self.job, self._path = job, path
        self._next = path.with_name(f"claim-{int(path.name.removeprefix('claim-')) + 1}")
        self._renewed = time.monotonic()
        self._progressed = False

    def progressed(self) -> None:
        """Say that something was saved from which the next holder goes on."""
        if not self._progressed:
            self._progressed = True
            write_atomically(self._path, _content("working", progress=True))

    def renew(self) -> None:
        """Say that the work goes on; cheap enough for every step.

        Raises
        ------
        ClaimLostError
            The claim went to another worker, or the folder is gone.
        """
        if time.monotonic() - self._renewed < RENEW_SECONDS:
            return
        self._renewed = time.monotonic()
        try:
            os.utime(self._path)
        except FileNotFoundError:
            raise ClaimLostError(f"{self._path} is gone") from None
        if self._next.exists():
            raise ClaimLostError(f"{self._path} was taken over")

    def finish(self) -> None:
        """Record that nothing is left to do."""
        self.job._done.touch()

    def release(self) -> None:
        """Leave the job to the next, with no attempt counted."""
        write_atomically(self._path, _content("released"))

    def fail(self, error: BaseException) -> None:
        """Leave the job to the next, with the reason."""
        write_atomically(self._path, _content("failed", f"{type(error).__name__}: {error}"))


def _content(state: str, error: str = "", *, progress: bool = False) -> str:
    return json.dumps({"host": HOST, "pid": os.getpid(), "state": state, "error": error, "progress": progress})


def _is_alive(pid: int) -> bool:
    if os.name != "posix":  # elsewhere os.kill ends the process: the lease alone decides
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def work_through(
    jobs: Sequence[JobFolder],
    run: Callable[[int, Claim], bool],
    *,
    tick: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = stop_requested,
) -> bool:
    """Work on the jobs of a folder, beside any number of others, until none is left.

    Waits for jobs that others hold, and takes over those that they lose.

    Parameters
    ----------
    jobs : sequence of JobFolder
        In the order in which they should be begun.
    run : callable
        Does one job, given its index and claim; returns whether it is finished (False: stopped and saved).
    tick : callable
        Called after every job and while waiting.
    stop : callable
        Says whether to give up.

    Returns
    -------
    bool
        Whether every job is finished or failed; False after a stop.
    """
    left = list(range(len(jobs)))
    while left and not stop():
        begun = False
        for index in tuple(left):
            if stop():
                return False
            claim = jobs[index].claim()
            if claim is not None:
                begun = True
                _run_claimed(claim, partial(run, index, claim))
                tick()
            if jobs[index].state in (JobState.DONE, JobState.FAILED):
                left.remove(index)
        if left and not begun:
            tick()
            time.sleep(POLL_SECONDS)
    return not left


def _run_claimed(claim: Claim, work: Callable[[], bool]) -> None:
    try:
        finished = work()
    except ClaimLostError:
        return
    except Exception as error:
        claim.fail(error)
    except BaseException:
        claim.release()
        raise
    else:
        claim.finish() if finished else claim.release()
