"""What a federation on Flower has left, and what its owner says of the app's model: it knows arrays only itself."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Never

import safetensors.numpy

from auxo.api.alike import Alike
from auxo.core.types import CohortId, Float32Array
from auxo.experiments.model_inputs import ModelInputs
from auxo.experiments.outcome_files import model_file
from auxo.files.errors import FileError
from auxo.models.catalogue import make_trainer
from auxo.population.preparation import Preparation
from auxo.training.stored_models import Tensors, restored, stored, tensors_by_name
from auxo.training.trainer import Trainer

METHOD = "auxo"
"""What a federation's only method is called."""


@dataclass(frozen=True)
class FederationLeft:
    """The directory of a federation, and what is needed to build the models of its app."""

    path: Path
    model: str | None = None  # a name or an import path; None: nobody has said
    inputs: ModelInputs | None = None  # likewise

    def method_folder(self, method: str) -> Path:
        """Return where its files are: there is one method, and no folder of its own."""
        return self.path

    @cached_property
    def alike(self) -> Alike:
        """Return that nothing is done to inputs: they come as the app's model takes them.

        Raises:
            FileError: nobody has said what that is.
        """
        if self.inputs is None:
            self._lacking("inputs", "what the app's model takes", "inputs=auxo.ModelInputs((3, 32, 32), classes=10)")
        return Alike(self.inputs, Preparation(task=self.inputs.task, by_column=len(self.inputs.features) == 1))

    @cached_property
    def trainer(self) -> Trainer:
        """Return the app's model.

        Raises:
            FileError: nobody has said which it is, or it cannot be built.
        """
        example = self.alike.inputs.example()
        if self.model is None:
            self._lacking("model", "the class of the app's model", "model=Net")
        try:
            return make_trainer(self.model, example, "one-by-one")
        except (ValueError, ImportError) as error:
            raise FileError(f'{self.path}: the app\'s model, "{self.model}", cannot be built: {error}') from error

    def weights(self, cohort: CohortId) -> Float32Array:
        """Return the flat weights of a cohort's model.

        Raises:
            FileError: they are missing, damaged, or of another model.
        """
        path = model_file(self, METHOD, cohort)
        own = tensors_by_name(stored(self.trainer, self.trainer.initial_weights(0)))
        try:
            found = _named(tensors_by_name(path.read_bytes()), own)
            return restored(self.trainer, safetensors.numpy.save(found))
        except (OSError, ValueError) as error:
            raise FileError(f"{path}: {error}") from error

    def _lacking(self, name: str, what: str, example: str) -> Never:
        option = {"inputs": "--inputs 3,32,32 --classes 10", "model": "--model task.py:Net"}[name]
        raise FileError(
            f"{self.path}: {name}: expected {what}, which a federation does not know, got none; say it as in "
            f"auxo.load(..., {example}), or {option}"
        )


def _named(found: Tensors, own: Tensors) -> Tensors:
    """Return arrays by the names of a model's own; those of a list, which Flower numbers, by their shapes.

    Raises:
        ValueError: their shapes do not say which is which.
    """
    if set(found) == set(own) or not all(name.isdigit() for name in found):
        return found
    named: Tensors = {}
    for array in found.values():
        fitting = [name for name, one in own.items() if one.shape == array.shape]
        if len(fitting) != 1 or fitting[0] in named:
            raise ValueError(
                f"arrays: expected names, or one of the model's tensors for each shape, got {len(fitting)} for "
                f"{array.shape}; make the app's ArrayRecord of a dict of arrays by the names of the model's parameters"
            )
        named[fitting[0]] = array
    return named
