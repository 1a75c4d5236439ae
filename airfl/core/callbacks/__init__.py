"""Callbacks, which observe a run and may stop it early. Importing this loads neither torch nor a tracker."""

from airfl.core.callbacks.callback import Callback, Ending, RunInfo, Stop
from airfl.core.callbacks.early_stopping import EarlyStopping
from airfl.core.callbacks.mlflow import MLflow
from airfl.core.callbacks.tensorboard import TensorBoard
from airfl.core.callbacks.wandb import WandB

__all__ = ["Callback", "EarlyStopping", "Ending", "MLflow", "RunInfo", "Stop", "TensorBoard", "WandB"]
