import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
EXAMPLES = "rllib_cli.tuned_examples"


def example_packages() -> list[str]:
    """The folders of tuned_examples/, shipped inside the wheel as data of the command line."""
    folders = sorted(p.parent.name for p in (ROOT / "tuned_examples").glob("*/*.yaml"))
    return [EXAMPLES, *(f"{EXAMPLES}.{name}" for name in dict.fromkeys(folders))]


def version() -> str:
    """The version that `rllib_geoffpac/__init__.py` states, read without importing it."""
    source = (ROOT / "rllib_geoffpac" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)[1]


setup(
    name="rllib_geoffpac",
    version=version(),
    description="Geoff-PAC, the Generalized Off-Policy Actor-Critic, as a Ray RLlib plugin",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=[*find_packages(include=["rllib_geoffpac*", "rllib_cli*"]), *example_packages()],
    package_dir={EXAMPLES: "tuned_examples"},
    package_data={
        **{name: ["*.yaml"] for name in example_packages()},
        "rllib_geoffpac": ["py.typed"],
        "rllib_cli": ["py.typed"],
        "rllib_cli.report": ["page.*"],
    },
    install_requires=[
        "ray[rllib]>=2.57,<2.61",
        "torch>=2.4",
        "gymnasium[mujoco]>=1.2,<1.3",
        "numpy>=2.0",
        "threadpoolctl>=3.5",
        "typer>=0.15",
    ],
    extras_require={
        "fast": ["jax>=0.7", "jaxlib"],
        "plots": ["matplotlib>=3.9", "scipy>=1.15"],
        "report": ["plotly>=6", "scipy>=1.15"],
        "export": ["onnx>=1.17", "onnxscript>=0.5"],
        "video": ["imageio[ffmpeg]>=2.34"],
        "offline": ["minari[hdf5]>=0.5.3; python_version >= '3.11'", "msgpack-numpy>=0.4.8"],
        "search": ["optuna>=4"],
        "docs": [
            "mkdocs>=1.6",
            "mkdocs-material>=9.5",
            "mkdocstrings[python]>=0.29",
        ],
        "test": [
            "pytest>=8",
            "pytest-cov>=6",
            "pytest-timeout>=2.3",
            "hypothesis>=6.100",
            "jsonschema>=4.21",
            "optuna>=4",
            "scipy>=1.15",
            "ipykernel>=6.29",
            "nbclient>=0.10",
            "pandas>=2.2",
            "onnxruntime>=1.20",
            "selenium>=4.30",
            "mypy>=1.15",
            "ruff>=0.9",
            "types-PyYAML",
        ],
    },
    entry_points={"console_scripts": ["rllib = rllib_cli.main:main"]},
)
