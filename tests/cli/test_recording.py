"""Videos of episodes, with an environment that draws without a display."""

import gymnasium
import numpy as np
import pytest

from rllib_cli.errors import UserError

imageio = pytest.importorskip("imageio")


class Lamp(gymnasium.Env):
    """Grows brighter with every step, for five steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode, self.brightness = render_mode, 0

    def reset(self, *, seed=None, options=None):
        self.brightness = 0
        return 0, {}

    def step(self, action):
        self.brightness += 1
        return self.brightness, 0.0, self.brightness == 5, False, {}

    def render(self):
        if self.render_mode == "rgb_array":
            return np.full((64, 48, 3), 40 * self.brightness, np.uint8)
        return None


@pytest.mark.parametrize("file_format", ["mp4", "gif"])
def test_every_episode_becomes_a_video_with_one_frame_per_state(tmp_path, file_format):
    from rllib_cli.evaluate.recording import VideoRecorder

    paths = []
    env = VideoRecorder(Lamp("rgb_array"), str(tmp_path), file_format, paths)
    for _ in range(2):
        env.reset()
        while not env.step(0)[2]:
            pass
    env.close()
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        f"episode_000.{file_format}",
        f"episode_001.{file_format}",
    ]
    frames = imageio.mimread(paths[1])
    brightness = [float(np.asarray(frame)[..., 0].mean()) for frame in frames]
    assert len(frames) == 6
    assert brightness == sorted(brightness) and brightness[-1] > brightness[0] + 150


def test_an_environment_that_cannot_draw_is_refused(tmp_path):
    from rllib_cli.evaluate.recording import VideoRecorder

    env = VideoRecorder(Lamp(), str(tmp_path), "mp4", [])
    with pytest.raises(UserError, match="cannot be recorded"):
        env.reset()
