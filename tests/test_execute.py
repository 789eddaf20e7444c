"""The executors: order, equality for any number of workers, threads, stopping, orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from scalefit.errors import OptionError, ScalefitError
from scalefit.execute import ProcessExecutor, SerialExecutor, available_cores, open_executor, run_jobs, stop_requested


def square(x: int) -> int:
    return x * x


def fail(x: int) -> None:
    raise ValueError(f"job {x}")


def environment(name: str) -> str | None:
    return os.environ.get(name)


def wait_for_stop(folder: str) -> str:
    """Run until asked to stop; leave a trace of having begun."""
    Path(folder, f"begun-{os.getpid()}").touch()
    for _ in range(3000):
        if stop_requested():
            return "stopped"
        time.sleep(0.01)
    return "ran to the end"


def wait_for(condition, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_results_do_not_depend_on_the_number_of_workers(workers: int) -> None:
    with open_executor(workers) as executor:
        assert isinstance(executor, Executor)
        assert list(executor.map(square, range(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(ValueError, match="job 3"):
            executor.submit(fail, 3).result()


def test_workers_have_one_thread_and_the_parent_keeps_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with open_executor(1) as executor:
        assert executor.submit(environment, "OMP_NUM_THREADS").result() == "1"
        assert executor.submit(environment, "MKL_NUM_THREADS").result() == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_request_stop_reaches_running_jobs(tmp_path: Path) -> None:
    with ProcessExecutor(2) as executor:
        futures = [executor.submit(wait_for_stop, str(tmp_path)) for _ in range(2)]
        assert wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        executor.request_stop()
        assert [future.result(timeout=10) for future in futures] == ["stopped", "stopped"]


def test_a_serial_executor_forgets_an_earlier_stop() -> None:
    with SerialExecutor() as executor:
        executor.request_stop()
        assert executor.submit(stop_requested).result()
    with SerialExecutor() as executor:
        assert not executor.submit(stop_requested).result()


def test_workers_ignore_ctrl_c_and_stop_on_sigterm(tmp_path: Path) -> None:
    with ProcessExecutor(1) as executor:
        future = executor.submit(wait_for_stop, str(tmp_path))
        assert wait_for(lambda: any(tmp_path.iterdir()))
        worker = int(next(tmp_path.iterdir()).name.split("-")[1])
        os.kill(worker, signal.SIGINT)
        time.sleep(0.2)
        assert not future.done()
        os.kill(worker, signal.SIGTERM)
        assert future.result(timeout=10) == "stopped"


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_execute import wait_for_stop\n"
        "from scalefit.execute import ProcessExecutor\n"
        "if __name__ == '__main__':\n"
        "    with ProcessExecutor(1) as executor:\n"
        "        executor.submit(wait_for_stop, sys.argv[2]).result()\n"
    )
    seen = tmp_path / "seen"
    seen.mkdir()
    parent = subprocess.Popen([sys.executable, script, str(Path(__file__).parent), str(seen)])
    assert wait_for(lambda: any(seen.iterdir()))
    worker = int(next(seen.iterdir()).name.split("-")[1])
    parent.kill()
    parent.wait()
    # The process may stay as a zombie where nobody collects it; its state then says Z.
    status = Path(f"/proc/{worker}/stat")
    assert wait_for(lambda: not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def test_a_negative_number_of_workers_is_refused() -> None:
    with pytest.raises(OptionError, match="workers is -1 and must be 0"):
        open_executor(-1)


def test_at_least_one_core_is_available() -> None:
    assert available_cores() >= 1


def begin_and_sleep(job: tuple[str, float]) -> float:
    """Leave the process's number, then work without a look at anything."""
    folder, seconds = job
    Path(folder, f"begun-{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(seconds)
    return seconds


def die_unless(folder: str) -> str:
    """Be killed, as for lack of memory, until somebody has been before."""
    try:
        Path(folder, "been").touch(exist_ok=False)
    except FileExistsError:
        return "survived"
    os.kill(os.getpid(), signal.SIGKILL)
    return "unreachable"


def die(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def gone(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_ctrl_c_drops_the_queue_keeps_what_is_finished_and_ends_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from test_execute import begin_and_sleep\n"
        "from scalefit.execute import run_jobs\n"
        "if __name__ == '__main__':\n"
        "    found = run_jobs(begin_and_sleep, [(sys.argv[2], 0.0)] * 3 + [(sys.argv[2], 30.0)] * 100, 2)\n"
        "    print(found)\n"
    )
    seen = tmp_path / "seen"
    seen.mkdir()
    parent = subprocess.Popen([sys.executable, script, str(Path(__file__).parent), str(seen)], stdout=subprocess.PIPE)
    assert wait_for(lambda: len(list(seen.iterdir())) == 5)  # three are finished, two sleep
    pids = {int(path.name.split("-")[1]) for path in seen.iterdir()}
    begun = time.monotonic()
    parent.send_signal(signal.SIGINT)
    out, _ = parent.communicate(timeout=20)
    # jobs that never look up have 1.5 s; the rest is for a busy machine
    assert time.monotonic() - begun < 4
    assert out.strip() == b"[0.0, 0.0, 0.0]"
    assert parent.returncode == 0
    assert all(map(gone, pids))
    assert len(list(seen.iterdir())) == 5


def test_a_job_whose_worker_is_killed_is_begun_again(tmp_path: Path) -> None:
    assert run_jobs(die_unless, [str(tmp_path)] * 3, 1) == ["survived"] * 3


def test_a_job_that_kills_every_worker_is_named() -> None:
    with pytest.raises(ScalefitError, match="job 1 of 2 could not be finished: its worker process was lost 3 times"):
        run_jobs(die, [0, 1], 1)


def test_an_executor_of_the_callers_is_used_and_left_open() -> None:
    told: list[tuple[int, int]] = []
    with ThreadPoolExecutor(2) as executor:
        found = run_jobs(square, range(5), executor=executor, progress=lambda done, total: told.append((done, total)))
        assert found == [0, 1, 4, 9, 16]
        assert executor.submit(square, 3).result() == 9
    assert told == [(i, 5) for i in range(1, 6)]
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="job 3"):
        run_jobs(fail, [3, 4], executor=executor)
