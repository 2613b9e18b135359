"""A run directory, and the only way to read or write one.

``config.json`` (settings), ``encoder.json`` (what its encoder was to begin with), ``data.json``, ``environment.json``,
``method.json`` (what of the method can be judged), ``tokenizer.json`` (where it reads captions), ``metrics.jsonl``,
``checkpoints/``, ``evaluation/*.json`` (scores), ``diagnosis.json``, ``sample/``, ``report.html``. Without the first,
``method.json`` and ``checkpoints/`` nothing was trained: the folder keeps what was measured of an encoder that
``encoder.json`` names.
Each is written whole or not at all, with the number of its format. A directory that came from elsewhere is data: no
link out of it is followed.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

from eigenview.diagnostics import Diagnosis, RunProgress
from eigenview.errors import DataError, SettingError
from eigenview.files import inside, read_text, write_text
from eigenview.methods import MethodParts
from eigenview.names import printable
from eigenview.nn import Tokenizer
from eigenview.nn.settings import EncoderSettings
from eigenview.nn.tokens import text_digest
from eigenview.runs.checkpoints import Checkpoints
from eigenview.runs.config import TrainConfig, load_config, save_config
from eigenview.runs.facts import DataFacts, EncoderRecord, EnvironmentFacts
from eigenview.runs.lock import RunLock, make_folder
from eigenview.runs.metrics import Metrics, MetricsFile
from eigenview.runs.sample import Sample, read_sample
from eigenview.runs.scores import Score, ScoreFolder
from eigenview.runs.stored import Kind, read_stored, write_stored
from eigenview.views import CentreView

CONFIG, ENCODER_FILE, DATA, ENVIRONMENT = "config.json", "encoder.json", "data.json", "environment.json"
METHOD, UNREADABLE, TOKENIZER = "method.json", "unreadable.jsonl", "tokenizer.json"
BEGUN = {CONFIG, ENCODER_FILE, DATA, ENVIRONMENT, METHOD, UNREADABLE, TOKENIZER}  # before anything is measured
METRICS, DIAGNOSIS, CHECKPOINTS, EVALUATION = "metrics.jsonl", "diagnosis.json", "checkpoints", "evaluation"
FEATURES, PROJECTIONS, EXPORTS = "features", "projections.parquet", "export"
EMBEDDINGS = ("embeddings.parquet", "embeddings.npy")  # the first is written unless told otherwise
FREE = {  # settings that may differ when a run goes on
    *("epochs", "steps", "minutes", "out", "workers", "log_every", "checkpoint_every", "keep_every", "knn_every"),
    *("best_by", "tensorboard", "device"),
}


def is_run(path: str | Path) -> bool:
    """Whether a folder holds a run: it has a ``config.json``, or an ``encoder.json`` where nothing was trained."""
    return (Path(path) / CONFIG).is_file() or (Path(path) / ENCODER_FILE).is_file()


class RunDirectory:
    """The files of one run. Nothing is read before it is asked for."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.checkpoints = Checkpoints(self.folder / CHECKPOINTS)
        self.metrics_file = MetricsFile(self.folder / METRICS)
        self.score_folder = ScoreFolder(self.folder / EVALUATION)

    @classmethod
    def existing(cls, folder: str | Path) -> RunDirectory:
        """The run in ``folder``; what is no run directory is refused."""
        if not is_run(folder):
            missing = "there is no such folder" if not Path(folder).exists() else f"it has no {CONFIG}"
            raise DataError(f"{printable(Path(folder))} is no run directory ({missing}); is the path right?")
        return cls(folder)

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def is_trained(self) -> bool:
        """By any trace of it: without its settings, a trained encoder is not to be taken for one by name."""
        return any((self.folder / name).exists() for name in (CONFIG, METHOD, CHECKPOINTS))

    @cached_property
    def encoder(self) -> EncoderRecord | None:
        """None of a run before that was written."""
        return self._read(EncoderRecord, ENCODER_FILE)

    @property
    def encoder_settings(self) -> EncoderSettings:
        return self.config.encoder if self.is_trained or self.encoder is None else self.encoder.settings

    @property
    def view(self) -> CentreView:
        """How an image is seen where nothing is random."""
        if self.is_trained or self.encoder is None:
            return self.data.view
        if self.encoder.view is None:
            raise DataError(f"{printable(self.folder)} is about vectors that were made elsewhere: it has no encoder")
        return self.encoder.view

    @property
    def source(self) -> str:
        """The images that it was trained on, or opened for."""
        return self.config.source if self.is_trained or self.encoder is None else self.encoder.source

    @property
    def channels(self) -> int:
        """Of the images that its encoder takes."""
        return self.data.image.channels if self.encoder is None else self.encoder.channels

    @property
    def seed(self) -> int:
        return self.config.seed if self.is_trained else 0

    @cached_property
    def config(self) -> TrainConfig:
        if not self.is_trained:
            raise DataError(f"{printable(self.folder)} has no {CONFIG}: its encoder was not trained here")
        if not (self.folder / CONFIG).exists():
            raise DataError(f"{printable(self.folder)} was trained, but its {CONFIG} is gone: bring it back")
        try:
            return load_config(self._file(CONFIG))
        except SettingError as error:
            raise SettingError(f"{printable(self.folder / CONFIG)}: {error}") from None

    @cached_property
    def data(self) -> DataFacts:
        facts = read_stored(DataFacts, self._file(DATA))
        try:
            _ = facts.view
        except SettingError as error:
            raise DataError(f"{printable(self.folder / DATA)}: {error}") from None
        return facts

    @cached_property
    def environment(self) -> EnvironmentFacts:
        """Empty where the run did not say."""
        return self._read(EnvironmentFacts, ENVIRONMENT) or EnvironmentFacts()

    @cached_property
    def method_parts(self) -> MethodParts:
        """What the method said can be judged of it; of a run before that was written, what every method then had."""
        if not self.is_trained:
            return MethodParts()
        return self._read(MethodParts, METHOD) or MethodParts.of_settings(self.config.method_settings)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of a run that learns from captions."""
        place = self._file(TOKENIZER)
        text = read_text(place)
        described = self.method_parts.text if (self.folder / METHOD).is_file() else None
        if described is not None and described.tokenizer not in ("", text_digest(text)):
            raise DataError(
                f"{printable(place)} is not the one that this run learnt with: its checksum differs, so words would be "
                "read as others; bring the right one back"
            )
        return Tokenizer(text, place=printable(self.folder / TOKENIZER))

    def save_tokenizer(self, text: str) -> Path:
        return write_text(self.folder / TOKENIZER, text)

    def _file(self, name: str) -> Path:
        return inside(self.folder, name)

    def _read(self, kind: type[Kind], name: str) -> Kind | None:
        """None where there is no such file."""
        return read_stored(kind, self._file(name)) if (self.folder / name).is_file() else None

    def _describe(self, encoder: EncoderRecord, data: DataFacts | None, environment: EnvironmentFacts) -> None:
        for name, facts in {ENCODER_FILE: encoder, DATA: data, ENVIRONMENT: environment}.items():
            if facts is not None:
                write_stored(self.folder / name, facts.model_dump(mode="json"))
        for cached in ("config", "encoder", "data", "environment", "method_parts"):
            self.__dict__.pop(cached, None)

    @property
    def features(self) -> Path:
        """Where those of a locked encoder are kept."""
        return self.folder / FEATURES

    @property
    def embeddings(self) -> Path | None:
        """Of the images it looked at; None where there are none."""
        return next((self.folder / name for name in EMBEDDINGS if (self.folder / name).is_file()), None)

    @property
    def projections(self) -> Path:
        """Where images lie beside words."""
        return self.folder / PROJECTIONS

    @property
    def exports(self) -> Path:
        return self._file(EXPORTS)

    @property
    def unreadable_log(self) -> Path:
        """Where training lists the images that it could not read."""
        return self.folder / UNREADABLE

    @property
    def unreadable(self) -> int:
        """How many images could not be read."""
        log = self.unreadable_log
        return log.read_bytes().count(b"\n") if log.is_file() else 0

    @property
    def metrics(self) -> Metrics:
        self._file(METRICS)
        return self.metrics_file.read()

    def progress(self) -> RunProgress | None:
        """How far the run came, also of what was planned; None where nothing was trained."""
        if not self.is_trained:
            return None
        made, config = self.metrics.progress(), self.config
        planned, reached = (config.steps, made.steps) if config.epochs is None else (config.epochs, made.epochs)
        return made if planned is None or reached is None else replace(made, share=reached / planned)

    def scores(self) -> list[Score]:
        self._file(EVALUATION)
        return self.score_folder.load()

    def save_score(self, score: Score) -> Path:
        self._file(EVALUATION)
        return self.score_folder.save(score)

    def diagnosis(self) -> Diagnosis | None:
        """None where none was written."""
        try:
            return self._read(Diagnosis, DIAGNOSIS)
        except DataError as error:
            raise DataError(f"{error}; diagnose the run again") from None

    def save_diagnosis(self, diagnosis: Diagnosis) -> Path:
        return write_stored(self.folder / DIAGNOSIS, asdict(diagnosis), indent=1)

    def sample(self) -> Sample | None:
        """None where none was written."""
        return read_sample(self.folder)

    def make(self) -> None:
        try:
            make_folder(self.folder, BEGUN)
        except OSError as error:
            where = printable(self.folder)
            raise SettingError(f"cannot write to the run directory {where}: {error.strerror or error}") from None

    def lock(self) -> RunLock:
        """To be held by whoever writes the run."""
        return RunLock(self.folder)

    def check_free(self, *, resume: bool) -> None:
        """Refuse a place that holds a run, before anything is computed; to ``resume``, one that holds none."""
        if resume and not self.is_trained:
            raise SettingError(f"no run to go on with in {printable(self.folder)}; is the path right?")
        if is_run(self.folder) and not self.is_trained:
            raise SettingError(f"{printable(self.folder)} is of an encoder that is not trained: choose another --out")
        names = self.checkpoints.names()
        if not names and self.metrics.lines:  # a run saves one before it measures anything
            raise SettingError(
                f"{printable(self.folder)} has metrics but no checkpoint to go on from: were they deleted? "
                "Begin anew in another out, or remove the folder"
            )
        if not resume and self.is_trained and names:
            raise SettingError(
                f"{printable(self.folder)} holds a run already: go on with it (eigenview train --resume --out "
                f"{printable(self.folder)}), or choose another --out"
            )

    def prepare(
        self,
        config: TrainConfig,
        data: DataFacts,
        environment: EnvironmentFacts,
        method: MethodParts,
        encoder: EncoderRecord,
        *,
        resume: bool,
    ) -> None:
        """Check that what the folder holds is this very run, then write what it says about itself."""
        self.make()
        if is_run(self.folder) and self.checkpoints.names():
            before, now = self.config.model_dump(mode="json"), config.model_dump(mode="json")
            if changed := sorted(name for name in now if name not in FREE and before[name] != now[name]):
                raise SettingError(
                    f"{printable(self.folder)} holds a run with another {', '.join(changed)}: "
                    "choose another out, or the same settings"
                )
            self.check_free(resume=resume)
        save_config(self.folder / CONFIG, config)
        write_stored(self.folder / METHOD, asdict(method))
        self._describe(encoder, data, environment)

    def prepare_by_name(self, encoder: EncoderRecord, data: DataFacts | None, environment: EnvironmentFacts) -> None:
        """Write what the folder says of an encoder that is not trained here; a folder of another one is refused."""
        if self.holds_another(encoder):
            raise SettingError(f"{printable(self.folder)} holds another run or encoder: choose another --keep-in")
        self.make()
        self._describe(encoder, data, environment)

    def holds_another(self, encoder: EncoderRecord) -> bool:
        """Whether there is a trained run here, or what was measured of another encoder."""
        others = {"library": encoder.library, "source": encoder.source}  # what may differ
        return is_run(self.folder) and (
            self.is_trained or self.encoder is None or self.encoder.model_copy(update=others) != encoder
        )
