"""What travels to executors arrives as it was, and says one sentence where the package is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition

from sharegroup.client.network.addresses import Address
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.data_source import KafkaShareDataSource, ShareStreamReader, ShareTask
from sharegroup.spark.slices import Acquired, Slice
from sharegroup.spark.task import shipping

TOPIC = UUID(int=7)

# A Python that cannot import one package, as an executor's may be.
EXECUTOR = """
import pickle, sys

class Lacks:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacks())
with open(sys.argv[2], "rb") as file:
    source, reader, task = pickle.load(file)
print(source.name())
list(reader.read(task))
"""


def task() -> ShareTask:
    part = Slice("t", TOPIC, 0, (Acquired(1, 2, 3),))
    return ShareTask((part,), {TopicIdPartition(TOPIC, 0): Address("localhost", 1)})


def test_an_object_arrives_unchanged() -> None:
    options = CaseInsensitiveDict({"Subscribe": "t"})
    sent = (KafkaShareDataSource(options), ShareStreamReader(options, [("value", "binary")]))
    source, reader = cloudpickle.loads(cloudpickle.dumps(sent))
    assert dict(source.options) == {"subscribe": "t"}
    assert isinstance(reader, ShareStreamReader)
    again = cloudpickle.loads(cloudpickle.dumps(task()))
    assert isinstance(again, InputPartition)
    assert (again.slices, again.leaders) == (task().slices, task().leaders)


@pytest.mark.parametrize("missing", ["sharegroup", "numpy"])
def test_an_executor_without_the_package_says_so(missing: str, tmp_path: Path) -> None:
    objects = (KafkaShareDataSource({}), ShareStreamReader({}, []), task())
    pickled = tmp_path / "pickled"
    pickled.write_bytes(cloudpickle.dumps(objects))
    command = [sys.executable, "-c", EXECUTOR, missing, str(pickled)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.strip() == "kafka-share"
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {missing} is not installed in the Python of the executor")
    assert sys.executable in last
    assert "install sharegroup[spark]==" in last


def test_two_versions_of_the_package_do_not_exchange_pickles() -> None:
    make, (module, name, packed, version) = shipping.shipped(dict, {"a": 1})
    assert make(module, name, packed, version) == {"a": 1}
    stranger = make(module, name, packed, "0.0.1")
    with pytest.raises(ImportError, match=rf"has sharegroup {version}, the driver has 0\.0\.1"):
        stranger.read(None)
