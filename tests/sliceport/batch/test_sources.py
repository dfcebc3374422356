"""Sources of models: files, folders, globs, lists; each model once, in order, by any name."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sliceport.batch.names import is_url
from sliceport.batch.sources import BadSource, expand_sources, is_in_shard, parse_shard
from sliceport.errors import UsageError
from sliceport.report.table import printable

SUFFIXES = (".onnx", ".xml", "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the current folder, with models in it."""
    names = [
        *("zoo/a-b/t.onnx", "zoo/a.onnx", "zoo/a/x.onnx", "zoo/b/c/y.onnx", "zoo/b/z.xml", "zoo/b/w.pb", "zoo/readme"),
        *("zoo/.hidden/h.onnx", "zoo/.hidden.onnx", "other/o.onnx"),
    ]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find(*sources: str) -> list[str]:
    """Return the models of sources. Check that all sources are good."""
    found = list(expand_sources(sources, SUFFIXES))
    assert [one for one in found if isinstance(one, BadSource)] == []
    return [one for one in found if isinstance(one, str)]


def reasons(*sources: str) -> list[str]:
    """Return the reasons of bad sources. Check that no source has a model."""
    found = list(expand_sources(sources, SUFFIXES))
    return [one.reason if isinstance(one, BadSource) else f"found {one}" for one in found]


IN_ZOO = ["zoo/a-b/t.onnx", "zoo/a.onnx", "zoo/a/x.onnx", "zoo/b/c/y.onnx", "zoo/b/z.xml"]


@pytest.mark.usefixtures("folder")
class TestFolders:
    def test_models_come_by_their_suffixes_sorted_by_whole_names(self) -> None:
        assert find("zoo") == find("zoo/") == IN_ZOO == sorted(IN_ZOO)

    def test_names_begin_as_the_source_is_written(self, folder: Path) -> None:
        assert find("./zoo") == [f"./{name}" for name in IN_ZOO]
        assert find(f"{folder}/zoo") == [f"{folder.as_posix()}/{name}" for name in IN_ZOO]
        assert find(".") == find("./") == ["other/o.onnx", *IN_ZOO]

    def test_hidden_ones_are_found_by_name(self) -> None:
        assert find("zoo/.hidden") == ["zoo/.hidden/h.onnx"]
        assert find("zoo/.hidden.onnx") == ["zoo/.hidden.onnx"]

    def test_folders_can_be_left_out(self) -> None:
        assert list(expand_sources(["zoo"], SUFFIXES, leave_out=["zoo/b/../b"])) == IN_ZOO[:3]
        assert list(expand_sources(["zoo/**/*.onnx"], SUFFIXES, leave_out=["zoo/b"])) == IN_ZOO[:3]

    def test_a_folder_without_models_is_bad(self, folder: Path) -> None:
        (folder / "empty").mkdir()
        assert list(expand_sources(["empty", "zoo/a"], SUFFIXES)) == [
            BadSource("empty", "source 'empty' matches no model."),
            "zoo/a/x.onnx",
        ]

    def test_a_folder_that_cannot_be_read_is_bad_and_the_others_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = os.scandir

        def refuse(path: str) -> object:
            if Path(path) == Path("zoo/b"):
                raise PermissionError(13, "Permission denied", path)
            return read(path)

        monkeypatch.setattr(os, "scandir", refuse)
        bad = BadSource("zoo/b/", "folder 'zoo/b/' cannot be read (Permission denied).")
        for source in ("zoo", "zoo/**/*.onnx"):
            assert list(expand_sources([source], SUFFIXES)) == [*IN_ZOO[:3], bad]
        assert list(expand_sources(["zoo/b/*.onnx", "z*/b/*"], SUFFIXES)) == [bad]

    def test_file_that_the_system_does_not_show_is_bad(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Files of a folder that may be listed, but not searched, and of one that may be neither."""

        def refuse(path: object, original: Callable[..., os.stat_result] = os.stat, **options: Any) -> os.stat_result:
            if path in ("zoo/a.onnx", "zoo/none.onnx"):
                raise PermissionError(13, "Permission denied", path)
            return original(path, **options)

        with monkeypatch.context() as patches:
            patches.setattr(os, "stat", refuse)
            patches.setattr(os, "lstat", partial(refuse, original=os.lstat))
            models, missing = find("zoo"), reasons("zoo/none.onnx")
        assert models == IN_ZOO
        assert missing == ["source 'zoo/none.onnx' cannot be read (Permission denied)."]


@pytest.mark.skipif(sys.platform != "win32", reason="names as Windows has them")
@pytest.mark.usefixtures("folder")
class TestWindows:
    def test_either_slash_separates_folders(self, folder: Path) -> None:
        assert find("zoo\\a") == find("zoo\\a\\") == ["zoo/a/x.onnx"]
        assert find("zoo\\a.onnx") == ["zoo/a.onnx"]
        assert find("zoo\\**\\*.onnx") == find("zoo/**/*.onnx")
        assert find(f"{folder}\\zo?\\a\\*") == [f"{folder.as_posix()}/zoo/a/x.onnx"]

    def test_case_tells_no_names_apart(self) -> None:
        assert find("ZOO/A.onnx", "zoo/a.onnx") == ["ZOO/A.onnx"]
        assert find("zoo/*.ONNX", "zoo/a.onnx") == ["zoo/a.onnx"]

    def test_paths_that_are_taken_as_they_are(self, folder: Path) -> None:
        path = f"\\\\?\\{folder}\\zoo"
        assert find(f"{path}\\a.onnx") == [f"{path}\\a.onnx"]
        assert find(f"{path}\\a") == [f"{path}\\a\\x.onnx"]
        assert "is not there" in reasons(f"{path}\\none.onnx")[0]


@pytest.mark.skipif(sys.platform == "win32", reason="links need privileges there")
@pytest.mark.usefixtures("folder")
class TestLinks:
    def test_links_to_other_folders_are_followed_once(self, folder: Path) -> None:
        (folder / "zoo" / "aa").symlink_to("../other")
        (folder / "zoo" / "zz").symlink_to(folder / "other")
        assert find("zoo") == [*IN_ZOO[:3], "zoo/aa/o.onnx", *IN_ZOO[3:]]

    def test_what_the_walk_comes_to_anyway_goes_by_its_own_name(self, folder: Path) -> None:
        (folder / "zoo" / "a-loop").symlink_to("b")
        (folder / "zoo" / "b" / "loop").symlink_to("..")
        assert find("zoo") == IN_ZOO

    def test_a_link_upwards_leads_to_everything_else_once(self, folder: Path) -> None:
        (folder / "zoo" / "a" / "up").symlink_to("../..")
        assert find("zoo") == [*IN_ZOO[:2], "zoo/a/up/other/o.onnx", *IN_ZOO[2:]]

    def test_a_link_into_a_hidden_folder_is_followed(self, folder: Path) -> None:
        (folder / "zoo" / "zz").symlink_to(".hidden")
        assert find("zoo") == [*IN_ZOO, "zoo/zz/h.onnx"]

    def test_a_link_to_a_file_is_another_model_wherever_it_leads(self, folder: Path) -> None:
        (folder / "other" / "link.onnx").symlink_to("o.onnx")
        (folder / "other" / "lost.onnx").symlink_to("nowhere")
        (folder / "other" / "self.onnx").symlink_to("self.onnx")
        assert find("other") == ["other/link.onnx", "other/lost.onnx", "other/o.onnx", "other/self.onnx"]

    def test_pipes_are_no_models(self, folder: Path) -> None:
        os.mkfifo(folder / "other" / "pipe.onnx")
        assert find("other") == find("other/*.onnx") == ["other/o.onnx"]

    def test_globs_follow_the_links_that_they_name(self, folder: Path) -> None:
        (folder / "zoo" / "link").symlink_to("../other")
        (folder / "zoo" / "loop").symlink_to(".")
        assert find("zoo/l*k/*.onnx") == ["zoo/link/o.onnx"]
        assert find("zoo/**/*.onnx") == [name for name in IN_ZOO if name.endswith(".onnx")]


@pytest.mark.usefixtures("folder")
class TestGlobs:
    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("zoo/*.onnx", ["zoo/a.onnx"]),
            ("zoo/*/*.onnx", ["zoo/a-b/t.onnx", "zoo/a/x.onnx"]),
            ("zoo/**/*.onnx", ["zoo/a-b/t.onnx", "zoo/a.onnx", "zoo/a/x.onnx", "zoo/b/c/y.onnx"]),
            ("zoo/**", IN_ZOO),
            ("zoo/**/**/*", IN_ZOO),
            ("*/*", ["other/o.onnx", "zoo/a.onnx"]),
            ("./zoo/b/*", ["zoo/b/z.xml"]),
            ("zoo/**/*.pb", ["zoo/b/w.pb"]),
            ("zoo/**/c/*", ["zoo/b/c/y.onnx"]),
            ("zoo/?/[xy].onnx", ["zoo/a/x.onnx"]),
            ("zoo/?/[!x]*", ["zoo/b/z.xml"]),
            ("z*/readme", ["zoo/readme"]),
            ("zoo/.h*/*", ["zoo/.hidden/h.onnx"]),
            ("**/.h*/*.onnx", ["zoo/.hidden/h.onnx"]),
            ("zoo/.*.onnx", ["zoo/.hidden.onnx"]),
        ],
    )
    def test_pattern_finds_models(self, pattern: str, found: list[str]) -> None:
        assert find(pattern) == found

    def test_absolute_patterns(self, folder: Path) -> None:
        assert find(f"{folder}/zo?/a/*") == [f"{folder.as_posix()}/zoo/a/x.onnx"]

    @pytest.mark.parametrize("pattern", ["zoo/*.nothing", "nowhere/*.onnx", "zoo/*/*/*/*/*.onnx", "zoo/a.onnx/*"])
    def test_a_pattern_without_a_match_is_bad(self, pattern: str) -> None:
        assert reasons(pattern) == [f"source {pattern!r} matches no model."]

    def test_a_wrong_pattern_is_bad(self) -> None:
        (reason,) = reasons("zoo/**a")
        assert reason.startswith("source 'zoo/**a' ")

    def test_a_file_of_that_name_comes_first(self, folder: Path) -> None:
        (folder / "a[1].onnx").touch()
        (folder / "a1.onnx").touch()
        assert find("a[1].onnx") == ["a[1].onnx"]


@pytest.mark.usefixtures("folder")
class TestFiles:
    def test_a_named_file_is_taken_whatever_it_is_called(self) -> None:
        assert find("zoo/readme", "zoo/b/w.pb") == ["zoo/readme", "zoo/b/w.pb"]

    def test_each_model_comes_once(self, folder: Path) -> None:
        sources = ["zoo/a", "./zoo/a/x.onnx", f"{folder}/zoo/a/x.onnx", "zoo/b/../a/x.onnx", "zoo/a/*"]
        assert find(*sources) == ["zoo/a/x.onnx"]

    @pytest.mark.parametrize("name", ["nothing", "zoo/nothing.onnx", "zoo/a.onnx/b"])
    def test_a_missing_file_is_bad(self, name: str) -> None:
        assert reasons(name) == [f"source '{name}' is not there."]

    @pytest.mark.parametrize("name", ["", "a\0b"])
    def test_a_name_that_no_file_can_have_is_bad(self, name: str) -> None:
        assert reasons(name) == [f"source {name!r} is not the name of a file."]

    def test_list_that_no_file_can_be_is_bad(self) -> None:
        (reason,) = reasons("@a\0b")
        assert re.fullmatch(r"list '@a\\x00b' cannot be read \(embedded null (byte|character)\)\.", reason)


class TestLists:
    def test_each_line_is_a_source(self, folder: Path) -> None:
        (folder / "list.txt").write_bytes(b"\xef\xbb\xbfzoo/b\r\n\n  # a comment\n zoo/a/*.onnx \n@more\nzoo/b/z.xml")
        (folder / "more").write_text("other\n")
        assert find("@list.txt") == ["zoo/b/c/y.onnx", "zoo/b/z.xml", "zoo/a/x.onnx", "other/o.onnx"]

    def test_names_are_relative_to_the_current_folder(self, folder: Path) -> None:
        (folder / "other" / "list.txt").write_text("zoo/a\n")
        assert find("@other/list.txt") == ["zoo/a/x.onnx"]

    @pytest.mark.usefixtures("folder")
    def test_list_is_read_from_stdin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"zoo/a\nother\n")))
        assert find("@-") == ["zoo/a/x.onnx", "other/o.onnx"]

    def test_list_without_sources_is_bad_like_an_empty_folder(self, folder: Path) -> None:
        (folder / "list.txt").write_text("# nothing\n")
        assert reasons("@list.txt") == ["source '@list.txt' matches no model."]

    def test_a_list_that_names_itself_is_bad(self, folder: Path) -> None:
        (folder / "list.txt").write_text("@more.txt\n")
        (folder / "more.txt").write_text("zoo/a\n@./list.txt\n")
        bad = BadSource("@./list.txt", "list '@./list.txt' contains itself.")
        assert list(expand_sources(["@list.txt"], SUFFIXES)) == ["zoo/a/x.onnx", bad]

    def test_a_list_can_come_twice(self, folder: Path) -> None:
        (folder / "list.txt").write_text("zoo/a\n")
        assert find("@list.txt", "@list.txt") == ["zoo/a/x.onnx"]

    def test_a_list_that_cannot_be_read_is_bad(self) -> None:
        assert reasons("@nothing") == ["list '@nothing' cannot be read (No such file or directory)."]

    def test_a_missing_name_in_a_list_is_bad_and_the_others_are_read(self, folder: Path) -> None:
        (folder / "list.txt").write_text("nothing.onnx\nzoo/a\n")
        bad = BadSource("nothing.onnx", "source 'nothing.onnx' is not there.")
        assert list(expand_sources(["@list.txt"], SUFFIXES)) == [bad, "zoo/a/x.onnx"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
def test_names_that_are_no_utf8_reach_json_and_messages(folder: Path) -> None:
    name = os.fsdecode(b"other/\xff.onnx")
    Path(name).touch()
    (folder / "list.txt").write_bytes(b"other/\xff.onnx\n")
    assert find("@list.txt") == find(name) == [name]
    assert find("other") == ["other/o.onnx", name]
    assert json.loads(json.dumps(name)) == name
    assert printable(name) == "other/\\udcff.onnx"
    assert [i for i in (1, 2, 3) if is_in_shard(name, i, 3)] == [2]
    os.unlink(name)
    assert reasons(name) == [r"source 'other/\udcff.onnx' is not there."]


class TestShards:
    def test_each_model_is_in_one_shard(self) -> None:
        models = [f"zoo/{i}.onnx" for i in range(300)]
        shards = [[model for model in models if is_in_shard(model, i, 3)] for i in (1, 2, 3)]
        assert sorted(model for shard in shards for model in shard) == sorted(models)
        assert min(map(len, shards)) > 60

    def test_shards_stay_what_they_are(self) -> None:
        assert [name for name in "abcdefgh" if is_in_shard(name, 1, 2)] == list("abcef")

    @pytest.mark.parametrize(("text", "shard"), [("1/1", (1, 1)), ("1/3", (1, 3)), ("3/3", (3, 3))])
    def test_shard_is_parsed(self, text: str, shard: tuple[int, int]) -> None:
        assert parse_shard(text) == shard

    @pytest.mark.parametrize(
        "text", ["", "1", "0/3", "4/3", "1/0", "-1/3", "1/3/3", "a/b", "1 / 3", "²/3", "1/" + "9" * 99]
    )
    def test_mistaken_shard_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="must be written I/N, with I from 1 to N, such as 1/3.$"):
            parse_shard(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s3://bucket/a.onnx", True),
        ("HF://a", True),
        ("zip://a.onnx::s3://b/c.zip", True),
        ("simplecache::s3://b/c", True),
        ("a.onnx", False),
        ("a:b.onnx", False),
        ("./s3://x", False),
        ("C://x", False),
        ("a::b.onnx", False),
    ],
)
def test_urls_are_told_from_paths(name: str, expected: bool) -> None:
    assert is_url(name) is expected
