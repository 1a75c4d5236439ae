"""The section `task`: model, data set, and partition of the data among the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator

from airfl.config.part_keys import NamedPart, with_keys
from airfl.config.section import Section
from airfl.errors import UserError
from airfl.learning.tasks import OWN as OWN
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.registry import DATASETS
from airfl.learning.tasks.models.model import Model
from airfl.learning.tasks.models.registry import MODELS
from airfl.learning.tasks.partitions.registry import PARTITIONS
from airfl.learning.tasks.partitions.rule import PartitionRule
from channels.part import MOST_SCALE, Part

P = TypeVar("P", bound=Part)
DATASET: NamedPart[Dataset] = NamedPart(DATASETS, "task.dataset", "fashion-mnist-sample", extra_names=(OWN,))
MODEL: NamedPart[Model] = NamedPart(MODELS, "task.model", "mlp", extra_names=(OWN,))
PARTITION: NamedPart[PartitionRule] = NamedPart(PARTITIONS, "task.partition", "iid", extra_names=(OWN,))


class _Task(Section):
    """The learning task: model, data set, and partition of the data among the devices."""

    model_config = ConfigDict(defer_build=True)

    dataset: Annotated[str | Dataset, DATASET] = Field(
        "fashion-mnist-sample", description="data set, a name listed by `airfl datasets`; own = that of an airfl.Task"
    )
    model: Annotated[str | Model, MODEL] = Field(
        "mlp", description="model, a name listed by `airfl models`; own = that of an airfl.Task"
    )
    partition: Annotated[str | PartitionRule, PARTITION] = Field(
        "iid", description="how the training data is divided among the devices"
    )
    validation_share: float = Field(0.0, ge=0, lt=1, description="share of the training data held out, for tuning")
    public_samples: int = Field(0, ge=0, description="training samples held out as public data")
    initial_std: float | None = Field(
        None,
        gt=0,
        le=MOST_SCALE,
        description="standard deviation of normal initial parameters, all drawn anew; default: the model's own",
    )

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
        if self.dataset != OWN:
            DATASET.of(self)
        return self

    @property
    def dataset_part(self) -> Dataset:
        """The data set, with its parameters. Raises UserError if it is that of an `airfl.Task`."""
        return _part(DATASET, self.dataset, self)

    @property
    def model_part(self) -> Model:
        """The model, with its parameters and, if it follows the data set, with the shape of that.

        Raises UserError if it is that of an `airfl.Task`.
        """
        model: Model = _part(MODEL, self.model, self)
        return model if self.dataset == OWN else model.fitted(self.dataset_part)

    @property
    def partition_rule(self) -> PartitionRule:
        """The partition rule, with its parameters. Raises UserError if it is that of an `airfl.Task`."""
        return _part(PARTITION, self.partition, self)


def _part(slot: NamedPart[P], value: str | P, section: Section) -> P:
    if value == OWN:
        raise UserError(f"{slot.key}: {OWN!r} stands for an airfl.Task; run it from Python with task=...")
    return slot.of(section)


if TYPE_CHECKING:
    import math

    class TaskSettings(_Task):
        """The section, with the keys of all partitions and data sets.

        `partition_rule` and `dataset_part` are the chosen ones with their parameters."""

        dirichlet_alpha: float = 0.5
        min_samples: int = 0
        device_samples: int = 100
        synthetic_alpha: float = 1.0
        synthetic_beta: float = 1.0
        synthetic_iid: bool = False
        synthetic_sizes: str = "lognormal"
        gaussian_classes: int = 10
        gaussian_features: int = 20
        class_separation: float = 4.0
        label_concentration: float = math.inf
        shift_std: float = 0.0

else:
    TaskSettings = with_keys(_Task, "TaskSettings", (PARTITIONS, DATASETS), after="partition", places={})
