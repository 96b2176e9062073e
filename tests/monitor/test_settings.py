"""The user's configuration: where it is looked for, what may stand in it, and one line for each mistake."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ntstop.diagnosis.rules import load
from ntstop.diagnosis.thresholds import REGISTRY
from ntstop.settings import Notify, Settings, SettingsError, read_settings, settings_path
from ntstop.sources.logs.roles import parse
from tests.monitor.test_cli import is_one_line, ntstop, recorded

load()
NAME = next(iter(REGISTRY))
"""Some threshold, whichever there are."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of this test's own, to be written."""
    path = tmp_path / "config" / "ntstop.toml"
    path.parent.mkdir()
    monkeypatch.setenv("NTSTOP_CONFIG", str(path))
    return path


def test_it_is_found_where_the_standard_says_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_path({"XDG_CONFIG_HOME": "/etc/me"}) == Path("/etc/me/ntstop/ntstop.toml")
    assert settings_path({"XDG_CONFIG_HOME": "here"}) == settings_path({}) != Path("here/ntstop/ntstop.toml")
    assert settings_path({"NTSTOP_CONFIG": "/x.toml", "XDG_CONFIG_HOME": "/etc/me"}) == Path("/x.toml")
    with pytest.raises(SettingsError, match="absolute"):
        settings_path({"NTSTOP_CONFIG": "ntstop.toml"})
    (tmp_path / "ntstop.toml").write_text('[notify]\ncommand = "rm -rf /"\n')
    (tmp_path / "ntstop").mkdir()
    (tmp_path / "ntstop" / "ntstop.toml").write_text('[notify]\ncommand = "rm -rf /"\n')
    monkeypatch.chdir(tmp_path)
    assert read_settings({"HOME": "/nowhere", "XDG_CONFIG_HOME": ""}) == Settings()
    assert read_settings({"XDG_CONFIG_HOME": "."}) == Settings()


def test_names_of_thresholds_may_stand_in_quotes_or_not(config: Path) -> None:
    config.write_text('[thresholds]\nplateau.patience = 8\n"plateau.rise" = 0.5\n[notify]\ncommand = "a \'b c\'"\n')
    expected = Settings({"plateau.patience": 8.0, "plateau.rise": 0.5}, Notify("a 'b c'", 10.0))
    assert read_settings() == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = ", "not TOML"),
        ("\xff", "not TOML"),
        ("[threshold]\n", "did you mean thresholds?"),
        ("[notify]\ncomand = 'x'", "did you mean notify.command?"),
        ("[notify]\ncommand = ['x']", "notify.command: expected text in quotes, got a list"),
        ("[notify]\ncommand = ''", "notify.command: it is empty"),
        ('[notify]\ncommand = "it\'s"', "notify.command: no closing quotation"),
        ("[notify]\ntimeout = 0", "not within 0.1 to 600"),
        ("[notify]\ntimeout = nan", "not within"),
        ("[view]\nthem = 'dark'", "did you mean view.theme?"),
        ("[view]\ntheme = 'pink'", "view.theme: 'pink' is none of dark, light, ansi"),
        ("[view]\nsmoothing = 3", "view.smoothing: 3 is none of off, light, strong"),
        ("[view]\nmouse = 'on'", "view.mouse: expected true or false, got text"),
        ("[view]\npalette = 'heat'", "view.palette: 'heat' is none of standard, blue-orange, cividis"),
        ("[view]\nunits = 'si'", "view.units: 'si' is none of binary, decimal"),
        ("[view]\nrefresh = 0.01", "view.refresh: 0.01 is not within 0.1 to 10 seconds"),
        ("[view]\nrefresh = nan", "view.refresh: nan is not within"),
        ("[view]\nrefresh = '1'", "view.refresh: expected a number, got text"),
        ("keys = 3", "keys: expected a table, got a whole number"),
        ("[keys]\nquit = 'x'\nlog = 3", "keys.log: expected text in quotes, or a list of such, got a whole number"),
        ("[keys]\nlog = ['l', 3]", "keys.log: expected text, got a whole number"),
        ("view = 3", "view: expected a table, got a whole number"),
        ("thresholds = 3", "thresholds: expected a table, got a whole number"),
        ("[thresholds]\nplateau.patience = 'long'", "thresholds.plateau.patience: expected a number, got text"),
        ("[thresholds]\nplateau.patience = true", "thresholds.plateau.patience: expected a number, got true or false"),
        ('"\\u001b[31m\\n" = 1', "there is no such key"),
        ("[thresholds]\nplateau.patience = 1" + "0" * 5000, "not TOML"),
        (
            "[thresholds]\nplateau.rise = 1\nplateau.patience = 1" + "0" * 4000,
            "thresholds.plateau.patience: number out",
        ),
        ("[keys]\nquit = 2020-01-01", "keys.quit: expected text in quotes, or a list of such, got a date"),
        ("[view]\ntheme = '" + "x" * 5000 + "'", "xxx… is none of dark, light, ansi"),
        ("n" * 5000 + " = 1", "nnn… there is no such key"),
        ("#" + " " * (1 << 20), "larger than 1 MiB"),
        ("a." * 5000 + "b = 1", "ntstop.toml: "),
    ],
)
def test_a_mistake_is_one_line_with_the_file_and_the_key(config: Path, text: str, says: str) -> None:
    config.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as error:
        read_settings()
    line = str(error.value)
    assert line.startswith(f"{config}: ") and says in line
    assert "\n" not in line and "\x1b" not in line and len(line) < len(str(config)) + 400


def test_a_mark_of_the_encoding_and_other_line_ends_are_no_mistake(config: Path) -> None:
    config.write_bytes(b'\xef\xbb\xbf[view]\r\ntheme = "light"\r\n')
    assert read_settings().view.theme == "light"


def test_a_file_that_cannot_be_read_is_one_line_too(config: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        read_settings()
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="UTF-8"):
        read_settings()
    config.unlink()
    config.mkdir()
    with pytest.raises(SettingsError, match="directory"):
        read_settings()


# --- on the command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"[thresholds]\n{NAME}x = 1", f"did you mean {NAME}?"),
        (f"[thresholds]\n{NAME} = nan", "is not within"),
        ("[thresholds]\nzzz.qqq = 1", "zzz.qqq"),
        ("[notfy]", "did you mean notify?"),
    ],
)
def test_a_wrong_configuration_is_said_before_anything_is_judged(config: Path, text: str, says: str) -> None:
    recorded()
    config.write_text(text)
    for words in (["diagnose", "run-1"], ["run-1"], ["explain", NAME.partition(".")[0]]):
        done = ntstop(*words)
        assert is_one_line(done), done
        assert says in done.stderr and str(config) in done.stderr


def test_a_wrong_configuration_does_not_keep_a_job_from_starting_nor_runs_from_being_listed(config: Path) -> None:
    config.write_text("[notfy]")
    done = ntstop("run", "--", "echo", "trained")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert ntstop("ls").returncode == 0


@pytest.mark.parametrize(
    "option", [NAME, f"{NAME}=", f"{NAME}=much", f"{NAME}x=1", "=1", f"{NAME}=nan", f"{NAME}=-inf"]
)
def test_a_wrong_threshold_on_the_command_line_is_one_line(option: str) -> None:
    recorded()
    for words in (["diagnose", "run-1"], ["run-1"]):
        done = ntstop(*words, "--threshold", option)
        assert is_one_line(done), done
        assert f"--threshold {option}" in done.stderr


def test_a_threshold_is_taken_from_the_file_and_the_call_wins(config: Path) -> None:
    from ntstop.commands.options import gather

    name = next(name for name, known in REGISTRY.items() if known.low < known.value < known.high)
    known = REGISTRY[name]
    config.write_text(f"[thresholds]\n{name} = {known.low!r}\n")
    assert gather().thresholds == {name: known.low}
    told = gather(thresholds=[f"{name}={known.value!r}"]).thresholds
    assert told == {name: known.value}
    engine = gather().engine()
    assert engine._thresholds[known] == known.low


def test_a_threshold_changes_what_is_found(config: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    falling = "".join(f"{step},{5 * 0.995 ** min(step, 300)},{0 if step >= 300 else 0.001}\n" for step in range(330))
    log.write_text("step,loss,lr\n" + falling)
    config.write_text("")
    assert "lr-zero" not in ntstop("diagnose", str(log)).stdout
    assert "lr-zero" in ntstop("diagnose", str(log), "--threshold", "lr-zero.steps=10").stdout
    config.write_text("[thresholds]\nlr-zero.steps = 10")
    assert "lr-zero" in ntstop(str(log)).stdout
    assert "lr-zero" not in ntstop("diagnose", str(log), "--threshold", "lr-zero.steps=50").stdout


def test_explain_shows_the_value_in_force(config: Path) -> None:
    from ntstop.diagnosis.catalogue import KINDS

    name, known = next(
        (name, known) for name, known in REGISTRY.items() if known.kind in KINDS and known.low < known.value
    )
    config.write_text(f"[thresholds]\n{name} = {known.low!r}\n")
    output = ntstop("explain", known.kind).stdout
    assert f"{name} = {known.low:.6g}" in output and f"default {known.value:.6g}" in output
    assert str(config) in output.replace("\n", "")


# --- roles ------------------------------------------------------------------------------------------------------------


def test_roles_that_contradict_each_other_are_refused() -> None:
    assert parse(("a=val_loss", "b=val_loss", "a=val_loss")) == {"a": "val_loss", "b": "val_loss"}
    with pytest.raises(ValueError, match="val_loss too; which of the two"):
        parse(("a=val_loss", "a=train_loss"))
    with pytest.raises(ValueError, match="there is one"):
        parse(("a=train_loss", "b=train_loss"))


def test_contradicting_roles_on_the_command_line(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,a,b\n" + "".join(f"{i},{i},{i}\n" for i in range(5)))
    done = ntstop("diagnose", str(log), "--role", "a=train_loss", "--role", "a=val_loss")
    assert is_one_line(done) and "which of the two" in done.stderr
    assert ntstop("diagnose", str(log), "--role", "a=train_loss", "--role", "b=val_loss").returncode == 0


def test_the_engine_knows_the_roles_that_were_told() -> None:
    from ntstop.commands.options import gather

    engine = gather(roles=("mine=val_loss",)).engine()
    assert engine._roles.of("mine").role == "val_loss"


def test_the_configuration_in_the_readme_is_one(config: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    block = readme.partition("    [thresholds]\n")[2].partition("\n\n")[0]
    config.write_text("[thresholds]\n" + textwrap.dedent(block))
    from ntstop.commands.options import gather

    options = gather()
    assert options.thresholds and options.notify
