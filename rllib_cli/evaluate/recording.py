"""Writes the episodes of an environment as videos, without a display (imports gymnasium)."""

import os
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium

from rllib_cli.errors import UserError, exception_summary


def check_can_record(folder: str) -> None:
    """Raises UserError if imageio is missing or the folder cannot be written."""
    try:
        import imageio  # noqa: F401
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise UserError("--video-dir needs imageio: pip install 'rllib_geoffpac[video]'.") from None
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--video-dir {folder!r} cannot be created: {error.strerror}.") from None


def use_headless_rendering() -> None:
    """Lets MuJoCo render off-screen; must run before MuJoCo is imported."""
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


class VideoRecorder(gymnasium.Wrapper):
    """Writes every episode to ``<folder>/episode_<number>.<format>``, frame by frame.

    Args:
        env: An environment made with ``render_mode="rgb_array"``.
        folder: Where the videos go.
        file_format: ``mp4`` or ``gif``.
        counter: A list that collects the paths written; its length numbers the episodes.
    """

    def __init__(self, env: gymnasium.Env, folder: str, file_format: str, counter: list[str]):
        super().__init__(env)
        self._folder, self._format, self._paths = Path(folder), file_format, counter
        self._writer: Any = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        """Begins a new video."""
        self._finish()
        observation, info = self.env.reset(**kwargs)
        path = self._folder / f"episode_{len(self._paths):03d}.{self._format}"
        self._paths.append(str(path))
        self._writer = self._open(path)
        self._write_frame()
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Adds a frame; the video ends with its episode."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._write_frame()
        if terminated or truncated:
            self._finish()
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Ends the video and the environment."""
        self._finish()
        super().close()

    def _open(self, path: Path) -> Any:
        import imageio

        fps = self.env.metadata.get("render_fps") or 30
        if self._format == "gif":
            # Viewers of GIFs cannot show more than 50 frames per second.
            return imageio.get_writer(path, mode="I", duration=1000 / min(fps, 50), loop=0)
        return imageio.get_writer(path, fps=fps, macro_block_size=2, codec="libx264")

    def _write_frame(self) -> None:
        if self._writer is None:
            return
        try:
            frame: Any = self.env.render()
        except Exception as error:
            raise UserError(
                f"The environment cannot be rendered: {exception_summary(error)}"
            ) from None
        if frame is None:
            raise UserError("The environment has no rgb_array rendering, so it cannot be recorded.")
        self._writer.append_data(frame)

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
