"""Logged data sets: RLlib's episodes, plain columns and Minari, episode by episode."""

from rllib_geoffpac.data.data_set import DataSet, DataSettings, open_data_set
from rllib_geoffpac.data.episodes import DataError, LoggedEpisode

__all__ = ["DataError", "DataSet", "DataSettings", "LoggedEpisode", "open_data_set"]
