"""Names of saved weights: any run id, never outside the folder, numbers that never go back."""

import numpy as np
import pytest

from examples.reference_fleet.checkpoints import Checkpoints
from examples.reference_fleet.model import load_arrays, save_arrays
from workers_client.wire import run_id_of


@pytest.mark.parametrize("run_id", ["plain", "Qwen/Qwen3-8B", "sess-1:train:0", "../up", "50% #1"])
def test_reference_leads_to_a_file_of_the_run(tmp_path, run_id):
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.revision(checkpoints.next_reference(run_id))
    assert path.parent.parent.parent == tmp_path
    assert path.parent.parent == checkpoints.newest(run_id).parent.parent


def test_recorder_reads_the_run_of_a_reference(tmp_path):
    reference = Checkpoints(tmp_path).next_reference("sess-1:train:0")
    assert run_id_of({"model_id": reference}) == "sess-1:train:0"


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "tinker://",
        "tinker://run/weights/000001",
        "run/sampler_weights/1",
        "tinker://run/sampler_weights/..",
        "tinker://a/b/sampler_weights/1",
    ],
)
def test_what_is_no_reference_is_refused(tmp_path, reference):
    with pytest.raises(ValueError, match="no reference"):
        Checkpoints(tmp_path).revision(reference)


def test_revisions_go_on_from_those_on_disk_and_the_newest_are_kept(tmp_path):
    for number in range(1, 6):
        checkpoints = Checkpoints(tmp_path)  # as a restarted trainer would
        reference = checkpoints.next_reference("run")
        save_arrays(checkpoints.revision(reference), [np.array([number])])
        checkpoints.remove_old_revisions("run", keep=2)
    assert reference == "tinker://run/sampler_weights/000005"
    assert load_arrays(checkpoints.revision(reference)) == [np.array([5])]
    assert len(list(checkpoints.revision(reference).parent.iterdir())) == 2
