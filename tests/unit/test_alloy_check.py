"""``fleetglass alloy check``: the corpus, modules, kinds, suppressions, the command and what it prints."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.alloy import RULES, Finding, Options, Unreadable, check, report
from telemetry.alloy.command import command
from telemetry.alloy.schema import read, schema
from tests.alloy_mutants import mutants

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "alloy"
SHIPPED = Options(local=True, at=(("/etc/alloy-modules", str(ROOT / "alloy" / "modules")),))


def _short(finding: Finding) -> str:
    return f"{finding.line}:{finding.column} {finding.level} {finding.rule}: {finding.message}"


@pytest.fixture
def judge(tmp_path: Path):
    """A function from files by name to the findings of ``config.alloy``, those of unreached components left out."""

    def run(text: str, **files: str) -> list[str]:
        for name, content in {"config": text, **files}.items():
            (tmp_path / f"{name}.alloy").write_text(content, "utf-8")
        found = check([tmp_path / "config.alloy"], Options(local=True))
        return [_short(finding) for finding in found if finding.rule not in {"unreached", "nowhere"}]

    return run


# --- the corpus and what ships --------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(CORPUS.glob("accepted/**/*.alloy")), ids=lambda path: path.stem)
def test_good_configurations_are_left_alone(path: Path) -> None:
    assert [str(finding) for finding in check([path])] == []


@pytest.mark.parametrize("path", sorted(CORPUS.glob("refused/*.alloy")), ids=lambda path: path.stem)
def test_bad_configurations_are_refused_where_their_comments_say(path: Path) -> None:
    marked = {
        (number, rule)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if (match := re.search(r"// refused: (.+)", line))
        for rule in match[1].split(", ")
    }
    assert marked
    assert {(finding.line, finding.rule) for finding in check([path]) if finding.level != "notice"} == marked


def test_the_shipped_configs_are_clean() -> None:
    found = report([ROOT / "alloy"], SHIPPED)
    assert [str(finding) for finding in found.findings if finding.level != "notice"] == []
    assert len(found.files) > 10
    assert found.allowed == 0


# --- kinds ----------------------------------------------------------------------------------------------

LOKI = 'loki.write "out" {\n\tendpoint {\n\t\turl = "http://loki:3100/loki/api/v1/push"\n\t}\n}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'otelcol.receiver.otlp "in" {{\n\toutput {{\n\t\ttraces = [loki.write.out.receiver]\n\t}}\n}}\n{LOKI}',
            (
                '3:13 error wrong-kind: an item of traces of output of otelcol.receiver.otlp "in" takes an '
                "OpenTelemetry "
                "consumer (the input of an otelcol component), but loki.write.out.receiver is a Loki receiver (as "
                "loki.write "
                "and loki.process export); send it to an otelcol.exporter.loki first, or use otelcol.exporter.otlphttp"
            ),
        ),
        (
            f'prometheus.scrape "app" {{\n\ttargets    = []\n\tforward_to = [loki.write.out.receiver]\n}}\n{LOKI}',
            (
                '3:16 error wrong-kind: an item of forward_to of prometheus.scrape "app" takes a Prometheus receiver '
                "(as "
                "prometheus.remote_write and prometheus.relabel export), but loki.write.out.receiver is a Loki "
                "receiver (as "
                "loki.write and loki.process export)"
            ),
        ),
        (
            f'loki.source.api "in" {{\n\thttp {{ }}\n\tforward_to = loki.write.out.receiver\n}}\n{LOKI}',
            (
                '3:15 error wrong-kind: forward_to of loki.source.api "in" takes a list of Loki receivers, but '
                "loki.write.out.receiver is a Loki receiver (as loki.write and loki.process export); put it into a "
                "list: "
                "[loki.write.out.receiver]"
            ),
        ),
        (
            (
                'discovery.relabel "a" {\n\ttargets = prometheus.exporter.unix.host.targets[0]\n}\n'
                'prometheus.exporter.unix "host" { }\n'
            ),
            (
                '2:12 error wrong-kind: targets of discovery.relabel "a" takes a list of targets, but '
                "prometheus.exporter.unix.host.targets[0] is a target (a map of labels); put it into a list: "
                "[prometheus.exporter.unix.host.targets[0]]"
            ),
        ),
        (
            (
                'prometheus.scrape "app" {\n\ttargets = []\n\tforward_to = []\n\tjob_name = remote.http.x.content\n'
                '\tscrape_interval = prometheus.exporter.unix.host.targets\n}\nprometheus.exporter.unix "host" { }\n'
                'remote.http "x" {\n\turl = "http://x"\n}\n'
            ),
            (
                '5:20 error wrong-kind: scrape_interval of prometheus.scrape "app" takes a duration such as "30s", but '
                "prometheus.exporter.unix.host.targets is a list of targets"
            ),
        ),
        (
            "logging {\n\tlevel = 3\n}\n",
            '2:10 error bad-value: level of logging takes one of error, warn, info, debug: "3" is none of them',
        ),
        (
            'prometheus.scrape "app" {\n\ttargets = []\n\tforward_to = []\n\tsample_limit = "many"\n}\n',
            '4:17 error bad-value: sample_limit of prometheus.scrape "app" takes a number: "many" is no number',
        ),
        (
            'discovery.relabel "a" {\n\ttargets = []\n\trule {\n\t\tregex = "a("\n\t}\n}\n',
            (
                '4:11 error bad-value: regex of rule of discovery.relabel "a" takes a regular expression: "a(" is no '
                "regular "
                "expression: missing ), unterminated subpattern at character 2"
            ),
        ),
        (
            'prometheus.exporter.unix "host" {\n\tenable_collectors = "cpu"\n}\n',
            (
                '2:22 error wrong-kind: enable_collectors of prometheus.exporter.unix "host" takes a list of '
                'strings: "cpu" is '
                'a string; put it into a list: ["cpu"]'
            ),
        ),
        (
            'logging {\n\tlevel = "in" + 1\n}\n',
            '2:15 error wrong-kind: + needs two numbers or two strings; "in" is a string and 1 is a number',
        ),
        (
            (
                'remote.kubernetes.secret "db" {\n\tnamespace = "shop"\n\tname = "db"\n}\nprometheus.scrape "db" {\n'
                '\ttargets = [{"__address__" = "db:" + remote.kubernetes.secret.db.data["port"], "n" = 1, '
                '"b" = true}]\n'
                '\tjob_name = remote.kubernetes.secret.db.data["name"]\n\tforward_to = []\n}\n'
            ),
            (
                '7:13 error wrong-kind: job_name of prometheus.scrape "db" takes a string, but '
                'remote.kubernetes.secret.db.data["name"] is a secret; convert.nonsensitive(…) makes it a '
                "string, readable in "
                "Alloy's UI"
            ),
        ),
        (
            (
                'remote.kubernetes.secret "db" {\n\tnamespace = "shop"\n\tname = "db"\n}\nprometheus.scrape "db" {\n'
                '\ttargets = [{"__address__" = "db:" + '
                'remote.kubernetes.secret.db.data["port"]}]\n\tforward_to = []\n}\n'
            ),
            (
                '6:30 error wrong-kind: __address__ in an item of targets of prometheus.scrape "db" takes '
                "the value of a label "
                "(anything but a secret), but this expression is a secret; convert.nonsensitive(…) makes it "
                "a string, readable "
                "in Alloy's UI"
            ),
        ),
        ('logging {\n\tlevel = !"x"\n}\n', '2:10 error wrong-kind: ! needs a bool; "x" is a string'),
        (
            "tracing {\n\tsampling_fraction = 1 / 0\n}\n",
            "2:26 error bad-value: this divides by zero",
        ),
        (
            f'{LOKI}loki.source.api "in" {{\n\thttp {{ }}\n\tforward_to = [loki.write.out.reciever]\n}}\n',
            (
                '8:16 error unknown-export: loki.write "out" exports no reciever (did you mean receiver?); it '
                "exports receiver"
            ),
        ),
        (
            'local.file_match "a" {\n\tpath_targets = [{"__path__" = sys.getenv("X")}]\n}\n',
            "2:32 error unknown-function: Alloy has no sys.getenv (did you mean sys.env?)",
        ),
        (
            'local.file_match "a" {\n\tpath_targets = array.group_by([], "a", false)\n}\n',
            (
                "2:31 error stability: array.group_by() is experimental; start Alloy with "
                "--stability.level=experimental, or "
                "do without it"
            ),
        ),
        (
            (
                'loki.write "out" {\n\tendpoint {\n\t\turl = "http://loki:3100/loki/api/v1/push"\n\t}\n\twal '
                "{\n\t\tenabled = "
                "true\n\t}\n}\n"
            ),
            (
                '5:2 notice stability: wal of loki.write "out" is experimental although the component is not; it may '
                "change "
                "with any release"
            ),
        ),
        (
            'pyroscope.write "out" {\n\tanything = 1\n}\n',
            (
                "1:1 notice not-in-table: pyroscope.write exists in Alloy, but not in the table of this check; what "
                "it takes "
                "is not checked"
            ),
        ),
        (
            'otelcol.exporter.datadog "out" { }\n',
            (
                "1:1 warning stability: otelcol.exporter.datadog is a community component; Alloy needs "
                "--feature.community-components.enabled for it"
            ),
        ),
    ],
)
def test_values_of_the_wrong_kind_are_refused_with_what_is_taken(judge, text: str, said: str) -> None:
    assert said in judge(text)


# --- modules --------------------------------------------------------------------------------------------

MODULE = f"""declare "to_loki" {{
	argument "url" {{ }}

	argument "labels" {{
		optional = true
		default  = {{}}
	}}

	argument "also" {{
		optional = true
		default  = []
	}}

	loki.process "copy" {{
		forward_to = array.concat([loki.write.out.receiver], argument.also.value)
	}}

	{LOKI.replace('"http://loki:3100/loki/api/v1/push"', "argument.url.value")}

	export "receiver" {{
		value = loki.process.copy.receiver
	}}
}}
"""
IMPORT = 'import.file "out" {\n\tfilename = file.path_join(module_path, "module.alloy")\n}\n'


def test_a_module_in_another_file_is_followed(judge) -> None:
    """Issue grafana/alloy#2319, and what alloy validate passes over: nothing of an imported module is checked "
    "there."""
    config = f"""{IMPORT}
out.to_loki "a" {{ }}

out.to_loki "b" {{
	url   = "http://loki:3100/loki/api/v1/push"
	lable = {{}}
}}

out.to_lokki "c" {{ }}

otelcol.receiver.otlp "in" {{
	output {{
		logs    = [out.to_loki.b.receiver]
		metrics = [out.to_loki.b.input]
	}}
}}
"""
    assert judge(config, module=MODULE) == [
        '5:1 error missing-argument: out.to_loki "a" needs the argument url (a string) of its module',
        "9:2 error unknown-argument: the module out.to_loki has no argument lable (did you mean labels?)",
        (
            "12:1 error unknown-component: the import out has no module to_lokki (did you mean to_loki?); it "
            "declares to_loki"
        ),
        (
            '16:14 error wrong-kind: an item of logs of output of otelcol.receiver.otlp "in" takes an OpenTelemetry '
            "consumer "
            "(the input of an otelcol component), but out.to_loki.b.receiver is a Loki receiver (as loki.write and "
            "loki.process export); send it to an otelcol.exporter.loki first, or use otelcol.exporter.otlphttp"
        ),
        '17:14 error unknown-export: out.to_loki "b" exports no input; it exports receiver',
    ]


def test_a_receiver_of_another_signal_is_refused_where_it_is_handed_to_a_module(judge) -> None:
    config = """declare "scrape" {
	argument "forward_to" { }

	argument "every" {
		optional = true
		default  = "often"
	}

	prometheus.scrape "app" {
		targets         = [{"__address__" = "app:8000"}]
		scrape_interval = argument.every.value
		forward_to      = argument.forward_to.value
	}
}

scrape "app" {
	forward_to = [otelcol.exporter.otlphttp.tempo.input]
}

otelcol.exporter.otlphttp "tempo" {
	client {
		endpoint = "http://tempo:4318"
	}
}
"""
    assert judge(config) == [
        (
            '6:14 error bad-value: the default of argument every takes a duration such as "30s": "often" is no '
            "duration; write "
            "a number and a unit, as 500ms, 30s or 1h30m (there are no days)"
        ),
        (
            '17:16 error wrong-kind: an item of forward_to of scrape "app" takes a Prometheus receiver (as '
            "prometheus.remote_write and prometheus.relabel export), but otelcol.exporter.otlphttp.tempo.input is an "
            "OpenTelemetry consumer (the input of an otelcol component); send it to an otelcol.receiver.prometheus "
            "first"
        ),
    ]


def test_faults_inside_an_imported_file_carry_its_name(tmp_path: Path) -> None:
    (tmp_path / "config.alloy").write_text(f'{IMPORT}out.to_loki "a" {{\n\turl = "x"\n}}\n')
    (tmp_path / "module.alloy").write_text(MODULE.replace("forward_to", "forward_tu") + "logging { }\n")
    found = [finding for finding in check([tmp_path / "config.alloy"]) if finding.rule not in {"unreached", "address"}]
    assert {Path(finding.file).name for finding in found} == {"module.alloy"}
    assert [(finding.line, finding.rule) for finding in found] == [
        (14, "missing-attribute"),
        (15, "unknown-attribute"),
        (29, "misplaced"),
    ]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            'import.file "out" {\n\tfilename = file.path_join(module_path, "nowhere.alloy")\n}\n',
            (
                "2:13 error import: FOLDER/nowhere.alloy can't be read: No such file or directory; correct filename, "
                "or add "
                "the file"
            ),
        ),
        (
            'import.file "out" {\n\tfilename = "module.alloy"\n}\n',
            (
                '2:13 notice import: Alloy looks for "module.alloy" where it is started, not beside this file; '
                'file.path_join(module_path, "module.alloy") is found from anywhere'
            ),
        ),
        (
            'import.file "out" {\n\tfilename = "/nowhere/at/all"\n}\n',
            (
                "2:13 notice import: /nowhere/at/all is not on this machine, so that its modules are not checked; --at "
                "/nowhere/at/all=FOLDER says where they lie here"
            ),
        ),
        (
            'import.file "out" {\n\tfilename = sys.env("MODULES")\n}\n',
            ('2:13 notice import: import.file "out" is not followed: sys.env("MODULES") is only known when Alloy runs'),
        ),
        (
            'import.git "out" {\n\trepository = "https://x"\n\tpath = "m"\n}\nout.anything "x" {\n\ty = 1\n}\n',
            '1:1 notice import: import.git "out" is not followed: what it brings is not on this machine',
        ),
        (
            'import.string "out" {\n\tcontent = `declare "m" {`\n}\n',
            (
                '2:12 error syntax: line 1 of the text of import.string "out": the block declare is opened here and '
                "never "
                "closed; add its }"
            ),
        ),
        (
            'import.string "out" {\n\tcontent = `declare "m" {\n\tlogging { }\n}`\n}\n',
            "3:2 error misplaced: logging can't stand inside a module; put it into the configuration that uses it",
        ),
        (
            'import.file "out" {\n\tfilename = file.path_join(module_path, "config.alloy")\n}\n',
            "2:13 error import: FOLDER/config.alloy imports itself, directly or through others; Alloy refuses that",
        ),
        (
            'declare "loki" { }\nloki.echo "out" { }\n',
            (
                '2:1 error label: loki.echo is looked for in declare "loki", which hides the components that begin '
                "with loki; give the module another name"
            ),
        ),
        (
            'declare "m" {\n\targument "x" { }\n\tlogging_x = 1\n}\n',
            (
                '3:2 error unknown-attribute: logging_x can\'t stand directly in declare "m"; a module holds blocks, '
                "and takes "
                'values as argument "logging_x" {}'
            ),
        ),
    ],
)
def test_imports_are_followed_as_far_as_they_lie_here(judge, tmp_path: Path, config: str, said: str) -> None:
    assert said in [line.replace(str(tmp_path), "FOLDER") for line in judge(config, module=MODULE)]


def test_files_that_import_each_other_are_a_finding_not_an_endless_loop(judge) -> None:
    a = 'import.file "b" {\n\tfilename = file.path_join(module_path, "b.alloy")\n}\n'
    b = 'import.file "a" {\n\tfilename = file.path_join(module_path, "a.alloy")\n}\n'
    config = 'import.file "a" {\n\tfilename = file.path_join(module_path, "a.alloy")\n}\n'
    (said,) = judge(config, a=a, b=b)
    assert said.endswith("imports itself, directly or through others; Alloy refuses that")


def test_a_module_that_uses_itself_ends(judge) -> None:
    assert judge('declare "m" {\n\tm "again" { }\n}\nm "x" { }\n') == []


def test_a_module_may_use_one_that_is_declared_below_it(judge) -> None:
    assert judge(_chained(3)) == []


def test_the_folder_that_alloy_will_see_can_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "module.alloy").write_text(MODULE)
    config = tmp_path / "config.alloy"
    config.write_text('import.file "out" {\n\tfilename = "/etc/alloy/modules"\n}\nout.nope "x" { }\n')
    there = Options(at=(("/etc/alloy", str(tmp_path / "here" / "..")), ("/etc/alloy/modules", str(tmp_path / "here"))))
    assert [finding.rule for finding in check([config], Options(at=there.at[1:]))] == ["unknown-component"]


def test_files_of_a_folder_can_be_one_configuration(tmp_path: Path) -> None:
    (tmp_path / "out.alloy").write_text(LOKI)
    (tmp_path / "in.alloy").write_text(
        'loki.source.api "in" {\n\thttp { }\n\tforward_to = [loki.write.out.receiver]\n}\n'
    )
    assert {finding.rule for finding in check([tmp_path])} == {"unknown-reference", "unreached"}
    assert check([tmp_path], Options(as_one=True)) == ()


def test_a_mounted_configmap_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "config.alloy").write_text(LOKI)
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "config.alloy").symlink_to("..data/config.alloy")
    assert [Path(name).name for name in report([tmp_path]).files] == ["config.alloy"]


def test_foreach_sees_the_outside_and_its_own_variable(tmp_path: Path) -> None:
    config = tmp_path / "config.alloy"
    text = f"""foreach "service" {{
	collection = ["a", "b"]
	var        = "each"

	template {{
		loki.process "one" {{
			forward_to = [loki.write.out.receiver]
			stage.static_labels {{
				values = {{"service_name" = each}}
			}}
		}}

		loki.source.api "one" {{
			http {{ }}
			forward_to = [loki.process.one.receiver]
		}}
	}}
}}
{LOKI}"""
    config.write_text(text)
    assert check([config], Options(stability="experimental")) == ()
    config.write_text(text.replace("= each", "= every"))
    assert [finding.rule for finding in check([config], Options(stability="experimental"))] == ["unknown-reference"]
    assert "stability" in {finding.rule for finding in check([config])}


# --- suppressions ---------------------------------------------------------------------------------------


def test_a_finding_is_allowed_by_a_comment_with_a_reason(tmp_path: Path) -> None:
    config = tmp_path / "config.alloy"
    config.write_text(f"// fleetglass: allow unreached the next file sends to it\n{LOKI}")
    found = report([config])
    assert (found.findings, found.allowed, found.failed) == ((), 1, False)


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("allow unreached", "1:1 error allow: allow unreached needs a reason behind it, for who reads it next"),
        (
            "allow unreachd why",
            "1:1 error allow: this allows nothing: there is no rule unreachd (did you mean unreached?)",
        ),
        ("allow", "1:1 error allow: this allows nothing: it names no rule"),
        ("allow syntax why", "1:1 error allow: this allows nothing: there is no rule syntax"),
        ("allow port why", "1:1 notice allow: nothing here breaks port (any more); remove this comment"),
    ],
)
def test_a_comment_that_allows_nothing_is_a_finding(tmp_path: Path, comment: str, said: str) -> None:
    config = tmp_path / "config.alloy"
    config.write_text(f"// fleetglass: {comment}\n{LOKI}")
    found = [_short(finding) for finding in check([config])]
    assert said in found
    assert any("unreached" in line and line.startswith("2:1 warning") for line in found)


# --- reading and printing -------------------------------------------------------------------------------


@pytest.fixture
def no_alloy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH on which there is no alloy."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_command_prints_a_line_for_each_finding_and_a_summary(no_alloy, tmp_path, capsys) -> None:
    config = tmp_path / "config.alloy"
    config.write_text(f"{LOKI}livedebugging {{\n\tenabled = true\n}}\n")
    assert command(["check", str(config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{config}:1:1: warning unreached: nothing sends to loki.write ")
    assert lines[-1] == "1 file: 1 warning, 1 notice (no alloy on PATH to ask)"


def test_notices_do_not_fail_a_check(no_alloy, tmp_path, capsys) -> None:
    config = tmp_path / "config.alloy"
    config.write_text("livedebugging {\n\tenabled = true\n}\n")
    assert command(["check", str(config), "--no-upstream"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 file: 1 notice (alloy was not asked)"


def test_the_command_speaks_json_for_programs(no_alloy, tmp_path, capsys) -> None:
    config = tmp_path / "config.alloy"
    config.write_text("level = 1\n")
    assert command(["check", "--json", str(config)]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "findings": [
            {
                "file": str(config),
                "line": 1,
                "column": 1,
                "level": "error",
                "rule": "unknown-attribute",
                "message": "level stands outside of any block; attributes belong into one",
            }
        ],
        "files": [str(config)],
        "allowed": 0,
        "alloy": "no alloy on PATH to ask",
    }


def test_a_configuration_may_come_over_stdin(no_alloy, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a = 1\n")))
    assert command(["check", "-"]) == 1
    assert capsys.readouterr().out.startswith("-:1:1: error unknown-attribute: a stands outside of any block")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "fleetglass alloy: the one verb is check"),
        (["lint", "x"], "fleetglass alloy: the one verb is check"),
        (["check"], "fleetglass alloy: name a file or a folder to check"),
        (["check", "nowhere.alloy"], "fleetglass alloy: nowhere.alloy can't be read: No such file or directory"),
        (["check", "."], "fleetglass alloy: the folder . holds no .alloy file"),
        (["check", "latin.alloy"], "fleetglass alloy: latin.alloy is not UTF-8 text (line 2); save it as UTF-8"),
        (["check", "large.alloy"], "fleetglass alloy: large.alloy is larger than 4 MiB, which is no configuration"),
        (
            ["check", "--at", "x", "y"],
            "fleetglass alloy: --at takes THERE=HERE, as /etc/alloy-modules=alloy/modules; got x",
        ),
    ],
)
def test_a_call_that_can_not_be_served_says_why_and_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if "latin.alloy" in arguments:
        Path("latin.alloy").write_bytes("// a\n// grün".encode("latin-1"))
    if "large.alloy" in arguments:
        Path("large.alloy").write_bytes(b"\n" * (4 * 1024 * 1024 + 1))
    assert command(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1] == said


def test_unreadable_paths_raise_for_programs() -> None:
    with pytest.raises(Unreadable, match="can't be read"):
        check(["/nowhere.alloy"])


def test_the_rules_can_be_listed(capsys) -> None:
    assert command(["--rules"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert "payload-label      a label with a value for each user or request" in listed


def test_what_a_real_alloy_says_is_reported_as_its_own(monkeypatch, tmp_path, capsys) -> None:
    """The program stands in for an Alloy that refuses; a real one is asked in the integration tests."""
    program = tmp_path / "alloy"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = fmt ]; then echo "Error: file $3 is not formatted correctly"; exit 1; fi\n'
        'echo "$@" >&2; printf "\\033[31mError: %s:1:3: cannot be\\033[0m\\n\\n1 | logging {\\n" "$3" >&2; exit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    config = tmp_path / "config.alloy"
    config.write_text("logging { }\n")
    assert command(["check", str(config)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{config}:1:1: warning upstream: alloy fmt would write this file differently; run alloy fmt -w {config}",
        f"{config}:1:3: error upstream: alloy validate: cannot be",
        "1 file: 1 error, 1 warning (alloy was asked, too)",
    ]
    assert command(["check", "--no-upstream", str(config)]) == 0


# --- the table ------------------------------------------------------------------------------------------


def test_the_table_knows_what_the_modules_and_their_neighbours_need() -> None:
    table = schema()
    assert {"loki.write", "otelcol.receiver.otlp", "faro.receiver", "foreach", "import.git"} <= set(table.components)
    assert not set(table.components) & set(table.others)
    match = table.components["loki.process"].shape.blocks["stage.match"]
    assert "stage.match" in match.shape.blocks
    assert table.components["loki.write"].shape.blocks["endpoint"].shape.attributes["url"].required
    assert str(table.components["prometheus.scrape"].exports) == "{}"


@pytest.mark.parametrize("line", ["\tname", "\tx {} @nowhere", "\t+ @nowhere"])
def test_a_broken_table_names_its_line(line: str) -> None:
    with pytest.raises(ValueError, match="says nothing"):
        read(f"loki.write stable\n{line}\n", "")


def test_the_page_lists_every_rule_as_the_table_words_it() -> None:
    page = (ROOT / "docs" / "alloy-check.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z][a-z-]*)` \| (.+) \|$", page, re.MULTILINE)
    assert dict(rows) == dict(RULES)


def _doubled(count: int) -> str:
    """A module used so many times over, each use handing on what the one before gave, twice."""
    module = """declare "both" {
	argument "x" { }

	export "y" {
		value = array.concat(argument.x.value, argument.x.value)
	}

	export "text" {
		value = argument.x.value + argument.x.value
	}
}
"""
    uses = "".join(f'both "n{n}" {{\n\tx = both.n{n - 1}.y\n}}\n' for n in range(1, count))
    last = f'loki.process "p" {{\n\tforward_to = both.n{count - 1}.y\n}}\n'
    return f'{module}both "n0" {{\n\tx = [loki.write.out.receiver]\n}}\n{uses}{last}{LOKI}'


def _chained(count: int) -> str:
    """So many modules, each of which uses the next."""
    inner = "".join(
        f'declare "m{n}" {{\n\targument "x" {{ }}\n\tm{n + 1} "next" {{\n\t\tx = argument.x.value\n\t}}\n}}\n'
        for n in range(count)
    )
    return f'{inner}declare "m{count}" {{\n\targument "x" {{ }}\n}}\nm0 "first" {{\n\tx = 1\n}}\n'


@pytest.mark.parametrize(
    "text",
    [_doubled(40), _doubled(400), _chained(40), _chained(1500), 'm "x" { }\n' * 500, f"a = {'[' * 99}{']' * 99}\n"],
    ids=["doubled", "doubled long", "chained", "chained long", "repeated", "nested"],
)
def test_configurations_of_any_build_are_checked_to_an_end(judge, text: str) -> None:
    """References that double with each step, and chains longer than the stack of Python."""
    found = judge(text)
    assert all(" error " in line or " warning " in line for line in found)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("accepted/*.alloy")), ids=lambda path: path.stem)
def test_no_damage_makes_the_check_raise_or_point_outside_of_the_file(path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "config.alloy"
    for _, text in itertools.islice(mutants(path.read_text("utf-8"), seed=1), 40):
        damaged.write_text(text, "utf-8")
        found = check([damaged], Options(replicas=2))
        assert list(found) == sorted(found)
        for finding in found:
            assert finding.file == str(damaged)
            assert 1 <= finding.line <= text.count("\n") + 1
            assert finding.rule in RULES
            assert finding.message[-1] not in ".!\n"


def test_the_check_needs_nothing_but_msgspec() -> None:
    code = "import sys; before = set(sys.modules); import telemetry.alloy.command; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    # msgspec brings typing_extensions where it is installed, and telemetry itself its lazy names.
    assert loaded - set(sys.stdlib_module_names) <= {"telemetry", "msgspec", "typing_extensions"}
    ours = {name for name in done.stdout.split() if name.startswith("telemetry.")}
    assert {name for name in ours if not name.startswith("telemetry.alloy")} == {"telemetry.lazy"}
