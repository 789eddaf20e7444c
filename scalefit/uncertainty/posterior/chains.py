"""Chains of walkers on disk: one HDF5 file that emcee reads too, always whole, whenever the writer was killed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError
from scalefit.uncertainty.posterior.conditional import Conditional

__all__ = ["Chain", "fingerprint", "load_chains", "random_state", "save_chains"]

Array = NDArray[np.float64]

RandomState = tuple[str, NDArray[np.uint32], int, int, float]
"""What `numpy.random.RandomState.get_state` returns."""


def random_state(sequence: np.random.SeedSequence) -> RandomState:
    """State of the kind of generator that emcee uses, seeded by a sequence."""
    name, key, position, has_gauss, gauss = np.random.RandomState(np.random.MT19937(sequence)).get_state(legacy=True)
    return str(name), np.asarray(key, dtype=np.uint32), int(position), int(has_gauss), float(gauss)


@dataclass(frozen=True)
class Chain:
    """What one ensemble of walkers has drawn so far, and how it goes on.

    Attributes
    ----------
    coords : (n_stored, n_walkers, n_dim) float array
        Sheared coordinates (`scalefit.uncertainty.posterior.conditional`).
    log_prob : (n_stored, n_walkers) float array
    accepted : (n_walkers,) float array
        Stored steps at which each walker had just moved.
    random_state : tuple
        Of emcee's generator after the last step.
    """

    coords: Array
    log_prob: Array
    accepted: Array
    random_state: RandomState

    def __len__(self) -> int:
        return len(self.coords)

    def followed_by(self, more: Chain) -> Chain:
        """This chain and its continuation."""
        return Chain(
            np.concatenate([self.coords, more.coords]),
            np.concatenate([self.log_prob, more.log_prob]),
            self.accepted + more.accepted,
            more.random_state,
        )


def fingerprint(conditional: Conditional, *settings: int) -> str:
    """Digest of everything that decides what a chain draws: data, law, constraints, priors, noise, fit, settings."""
    target = conditional.target
    problem = target.centred.problem
    fitted = [f"{value:.6g}" for value in (*conditional.fitted, conditional.ridge)]
    digest = hashlib.sha256(repr((target.description, problem.objective.name, fitted, settings)).encode())
    for array in (
        problem.logs,
        problem.target,
        problem.expand,
        problem.offset,
        problem.lower,
        problem.upper,
        target.likelihood.root_weights,
        target.likelihood.first_rows,
    ):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def save_chains(path: Path, chains: list[Chain], digest: str) -> None:
    """Write all chains to a new file and put it in the place of the old one in one move.

    Each ensemble is a group that ``emcee.backends.HDFBackend(path, name="ensemble-0", read_only=True)`` opens.
    """
    import h5py

    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with h5py.File(partial, "w") as file:
            file.attrs["fingerprint"] = digest
            for e, chain in enumerate(chains):
                group = file.create_group(f"ensemble-{e}")
                _, n_walkers, n_dim = chain.coords.shape
                group.attrs.update(
                    version=version("emcee"),
                    nwalkers=n_walkers,
                    ndim=n_dim,
                    has_blobs=False,
                    iteration=len(chain),
                    **{f"random_state_{i}": part for i, part in enumerate(chain.random_state)},
                )
                for name, data in (("chain", chain.coords), ("log_prob", chain.log_prob), ("accepted", chain.accepted)):
                    group.create_dataset(name, data=data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_chains(path: Path, digest: str) -> list[Chain]:
    """Read the chains of a file; none if there is no file.

    Raises
    ------
    DataError
        If the file holds no chains of ours.
    OptionError
        If it holds the chains of another table, law, model or setting.
    """
    import h5py

    if not path.exists():
        return []
    try:
        with h5py.File(path, "r") as file:
            theirs = file.attrs.get("fingerprint")
            chains = [_read(file[f"ensemble-{e}"]) for e in range(len(file))]
    except (OSError, KeyError) as error:
        raise DataError(f"{path} does not hold chains of scalefit ({error}); name another file") from None
    if theirs != digest:
        raise OptionError(
            f"{path} holds the chains of another table, law, prior, seed or number of ensembles; "
            "name another file, or delete it to start again"
        )
    return chains


def _read(group: Any) -> Chain:
    parts = [group.attrs[f"random_state_{i}"] for i in range(5)]
    state = (str(parts[0]), np.asarray(parts[1], dtype=np.uint32), int(parts[2]), int(parts[3]), float(parts[4]))
    return Chain(group["chain"][...], group["log_prob"][...], group["accepted"][...], state)
