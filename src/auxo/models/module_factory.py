"""Modules built by import path: made for the data at hand, checked on a first batch, and the same in every process."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from auxo.models.model_arguments import arguments_for
from auxo.population.federated_data import FederatedData
from auxo.registry.import_path import code_file, load_callable, made_absolute
from auxo.registry.own_errors import error_words


@dataclass(frozen=True)
class ModuleFactory:
    """Builds a module; a value, so that another process can build the same.

    Calling it raises ValueError if nothing can be built, and ModuleNotFoundError if the code needs what is not
    installed.
    """

    path: str  # an import path, see `import_path`
    arguments: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __call__(self) -> nn.Module:
        """Return a new module."""
        factory = _loaded(self.path)
        if isinstance(factory, nn.Module):
            raise ValueError(
                f"{self.path}: expected a class or a function, got a module; name a function that makes it"
            )
        try:
            module = factory(**self.arguments)
        except Exception as error:
            given = ", ".join(f"{name} = {value!r}" for name, value in self.arguments.items())
            raise ValueError(
                f"{self.path}: {error_words(error, code_file(self.path))} when called with {given or 'no arguments'}; "
                "mend it, or set its arguments in model_args"
            ) from error
        if not isinstance(module, nn.Module):
            raise ValueError(f"{self.path}: expected a torch.nn.Module, got {type(module).__name__}; return one")
        return module


def module_factory(model: str, path: str, given: Mapping[str, object], data: FederatedData) -> ModuleFactory:
    """Return what builds the module of an import path with the arguments given, sized for the data.

    Args:
        model: its name in messages.
        path: of a class or a function that makes a module.
        given: win over what the data know.
        data: what it is to be trained on.

    Raises:
        ValueError: there is nothing of this name, or its arguments do not fit.
        ModuleNotFoundError: the code needs a module that is not installed.
    """
    path = made_absolute(path)
    return ModuleFactory(path, arguments_for(model, _loaded(path), given, data))


@dataclass(frozen=True)
class AsBuilt:
    """Weights as the module's own code draws or loads them; what it draws depends on the run's seed alone."""

    factory: ModuleFactory

    def __call__(self, module: nn.Module, rng: np.random.Generator) -> None:
        """Set the trainable weights of ``module`` to those of a new one."""
        with _seeded(int(rng.integers(2**63))):
            drawn = self.factory()
        with torch.no_grad():
            for parameter, new in zip(module.parameters(), drawn.parameters(), strict=True):
                if parameter.requires_grad:
                    parameter.copy_(new)


def check_logits(factory: ModuleFactory, data: FederatedData) -> None:
    """Raise a ValueError unless what is built makes logits of a batch, and of a batch of one."""
    with _seeded(0):
        module = factory().eval()
        for rows in (3, 1) if len(data.x) else ():
            x = torch.from_numpy(data.inputs(np.zeros(rows, dtype=np.int64)))
            given = f"inputs of shape {tuple(x.shape)}, {str(x.dtype).removeprefix('torch.')}"
            expected = f"{factory.path}: expected logits of shape {(rows, data.n_classes)} for {given}"
            try:
                with torch.no_grad():
                    logits = module(x)
            except Exception as error:
                raised = error_words(error, code_file(factory.path))
                raise ValueError(f"{expected}, got {raised}; mend its forward") from error
            if not isinstance(logits, torch.Tensor):
                raise ValueError(f"{expected}, got {type(logits).__name__}; return the logits alone")
            if logits.shape != (rows, data.n_classes):
                raise ValueError(
                    f"{expected}, got {tuple(logits.shape)}; a row for each input, a column for each class"
                )


def _loaded(path: str) -> Callable[..., object]:
    with _seeded(0):  # what a file draws while it runs is then the same in every process
        return load_callable(path)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Lend torch's default generator a state, and compute on one thread: worker processes are forked from this one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
            yield
    finally:
        torch.set_num_threads(threads)
