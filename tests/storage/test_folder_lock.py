"""Two brokers never have one data folder, whatever is done to its files or its name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sharegroup.storage import DataFolderBusy
from tests.servers.process import ServerFailed
from tests.servers.sharegroup_server import SharegroupServer
from tests.storage.support import (
    OTHER_ID,
    append_durably,
    batch,
    one_log,
    open_folder,
    opened,
    read_values,
    run,
)


def test_deleting_the_lock_file_does_not_release_the_lock(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path):
            (tmp_path / ".lock").unlink()
            with pytest.raises(DataFolderBusy):
                await open_folder(tmp_path)
        async with opened(tmp_path):
            pass

    run(main())


def test_a_link_to_the_folder_has_the_same_lock(tmp_path: Path) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        async with opened(data):
            (tmp_path / "link").symlink_to(data)
            (data / ".lock").unlink()
            with pytest.raises(DataFolderBusy):
                await open_folder(tmp_path / "link")

    run(main())


def test_a_renamed_folder_stays_locked(tmp_path: Path) -> None:
    async def main() -> None:
        data, aside = tmp_path / "data", tmp_path / "aside"
        async with opened(data) as folder:
            log = await one_log(folder)
            await append_durably(log, batch(b"before"))
            data.rename(aside)
            async with opened(data) as other:  # another one of that name is another one
                assert list(other.topics) == []
                await other.create_topic("theirs", OTHER_ID, 1, {})
                with pytest.raises(DataFolderBusy):
                    await open_folder(aside)
                await append_durably(log, batch(b"after"))
                await folder.create_topic("ours", OTHER_ID, 2, {})
                await folder.delete_topic("ours")
                await folder.create_topic("ours", OTHER_ID, 3, {})
                folder.checkpoint()
            assert "t-0" not in os.listdir(data)
        async with opened(aside) as folder:
            assert folder.recovered.clean
            assert sorted(folder.topics) == ["ours", "t"]
            assert await read_values(await one_log(folder)) == [(0, b"before"), (1, b"after")]

    run(main())


@pytest.mark.parametrize("path", ["data", "./data", "data/", "deep/er/data"])
def test_every_path_of_the_folder_has_the_same_lock(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        for end in (1, 2):
            folder = await open_folder(path)  # type: ignore[arg-type]
            assert await append_durably(await one_log(folder), batch(b"x")) == end
            await folder.create_topic(f"u{end}", OTHER_ID, 1, {})
            await folder.delete_topic(f"u{end}")
            await folder.close()
        assert (tmp_path / path / "t-0").is_dir()

    asyncio.run(main())


@pytest.mark.process
def test_a_second_process_is_kept_out_when_the_lock_file_is_gone(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as first:
        (first.data / ".lock").unlink()
        second = SharegroupServer(tmp_path)
        second.process.log_path = tmp_path / "second.log"
        with pytest.raises(ServerFailed, match="in use by another process"):
            second.start()
        first.kill()
        second.start()
        second.stop()
