"""Chains of walkers on disk: one .npz file, always whole, whenever the writer was killed."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefit.errors import DataError, OptionError
from scalefit.files import write_atomically

if TYPE_CHECKING:
    from scalefit.uncertainty.posterior.conditional import Conditional

__all__ = ["Chain", "fingerprint", "load_chains", "random_state", "save_chains"]

Array = NDArray[np.float64]

RandomState = tuple[str, NDArray[np.uint32], int, int, float]
"""What `numpy.random.RandomState.get_state` returns."""

HDF5 = b"\x89HDF\r\n\x1a\n"
"""How the files of version 0.1 begin."""


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
    """Write all chains, in place of the old ones at once."""
    # Ensembles advance together, so that all are equally long and one array holds them.
    parts = list(zip(*(chain.random_state for chain in chains), strict=True))
    content = io.BytesIO()
    np.savez(
        content,
        fingerprint=np.array(digest),
        coords=np.stack([chain.coords for chain in chains]),
        log_prob=np.stack([chain.log_prob for chain in chains]),
        accepted=np.stack([chain.accepted for chain in chains]),
        generators=np.array(parts[0]),
        keys=np.stack(parts[1]),
        positions=np.array(parts[2:4]),
        gausses=np.array(parts[4]),
    )
    write_atomically(path, content.getvalue())


def load_chains(path: Path, digest: str) -> list[Chain]:
    """Read the chains of a file; none if there is no file.

    Raises
    ------
    DataError
        If the file holds no chains of ours, or those of version 0.1.
    OptionError
        If it holds the chains of another table, law, model or setting.
    """
    if not path.exists():
        return []
    try:
        with path.open("rb") as file:
            if file.read(len(HDF5)) == HDF5:
                raise DataError(
                    f"{path} holds chains of version 0.1 (HDF5), from which this version cannot go on; "
                    "name another file, or delete it to start again"
                )
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                theirs, chains = str(stored["fingerprint"]), _read(stored)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} does not hold chains of scalefit ({error}); name another file") from None
    if theirs != digest:
        raise OptionError(
            f"{path} holds the chains of another table, law, prior, seed or number of ensembles; "
            "name another file, or delete it to start again"
        )
    return chains


def _read(stored: Mapping[str, Any]) -> list[Chain]:
    states = zip(
        map(str, stored["generators"]),
        stored["keys"],
        *stored["positions"].tolist(),
        stored["gausses"].tolist(),
        strict=True,
    )
    ensembles = zip(stored["coords"], stored["log_prob"], stored["accepted"], states, strict=True)
    return [Chain(*ensemble) for ensemble in ensembles]
