"""Callbacks, which observe a run and may stop it early. Importing this loads neither torch nor a tracker."""

from airfl.callbacks.callback import Callback, Ending, RunInfo, Stop
from airfl.callbacks.early_stopping import EarlyStopping
from airfl.callbacks.mlflow import MLflow
from airfl.callbacks.tensorboard import TensorBoard
from airfl.callbacks.wandb import WandB

__all__ = ["Callback", "EarlyStopping", "Ending", "MLflow", "RunInfo", "Stop", "TensorBoard", "WandB"]
