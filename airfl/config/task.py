"""The section `task`: what is learned, from which data, divided how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator

from airfl.config.part_keys import NamedPart, with_keys
from airfl.config.section import Section
from airfl.errors import UserError
from airfl.tasks import OWN as OWN
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.registry import DATASETS
from airfl.tasks.models.model import Model
from airfl.tasks.models.registry import MODELS
from airfl.tasks.partitions.registry import PARTITIONS
from airfl.tasks.partitions.rule import PartitionRule
from channels.part import Part

P = TypeVar("P", bound=Part)
DATASET: NamedPart[Dataset] = NamedPart(DATASETS, "task.dataset", "fashion-mnist-sample", beside=(OWN,))
MODEL: NamedPart[Model] = NamedPart(MODELS, "task.model", "mlp", beside=(OWN,))
PARTITION: NamedPart[PartitionRule] = NamedPart(PARTITIONS, "task.partition", "iid", beside=(OWN,))


class _Task(Section):
    """What is learned, from which data, divided how."""

    model_config = ConfigDict(defer_build=True)

    dataset: Annotated[str | Dataset, DATASET] = Field(
        "fashion-mnist-sample", description="a name of `airfl datasets`; own = that of an airfl.Task"
    )
    model: Annotated[str | Model, MODEL] = Field(
        "mlp", description="a name of `airfl models`; own = that of an airfl.Task"
    )
    partition: Annotated[str | PartitionRule, PARTITION] = Field(
        "iid", description="how the training data is divided among the devices"
    )
    validation_share: float = Field(0.0, ge=0, lt=1, description="share of the training data held out, for tuning")
    public_samples: int = Field(0, ge=0, description="training samples held out as public data")

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        for slot in (DATASET, MODEL, PARTITION):
            data = slot.flattened(data, cls.model_fields)
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.partition != OWN:
            PARTITION.of(self)
        return self

    @property
    def dataset_part(self) -> Dataset:
        """The data set itself, with its parameters; UserError where it is that of an `airfl.Task`."""
        return _part(DATASET, self.dataset, self)

    @property
    def model_part(self) -> Model:
        """The model itself, with its parameters; UserError where it is that of an `airfl.Task`."""
        return _part(MODEL, self.model, self)

    @property
    def partition_rule(self) -> PartitionRule:
        """The partition itself, with its parameters; UserError where it is that of an `airfl.Task`."""
        return _part(PARTITION, self.partition, self)


def _part(slot: NamedPart[P], given: str | P, section: Section) -> P:
    if given == OWN:
        raise UserError(f"{slot.key}: {OWN!r} stands for an airfl.Task; run it from Python, with task=")
    return slot.of(section)


if TYPE_CHECKING:

    class TaskSettings(_Task):
        """With the keys of all partitions, which the part of the one that is chosen has: `partition_rule`."""

        dirichlet_alpha: float = 0.5
        min_samples: int = 0

else:
    TaskSettings = with_keys(_Task, "TaskSettings", PARTITIONS, after="partition", places={})
