"""A small, real RL post-training service that records what it does through `workers_client`.

    python -m examples.reference_fleet [flags]

Run it from the project's root; REDIS_URL names the Redis that it works through and records to. It starts an API
server, a dispatcher, a sampler, a trainer for each run group and a client for each run, as separate processes, and
restarts what crashes. SIGTERM or Ctrl-C stops all of it within 3 seconds.

runs (name, run id, what it learns):
  cartpole-policy     5b0e7c52-6d1f-4a53-9a40-3c1d0f6f2b7e
                      to balance a pole, by policy gradient from sampled episodes
  digits-classifier   open-rl/digits-mlp:train:0
                      to read generated digits
  spirals-classifier  sess-8d2f41c6-77ab-4f0e-b1f5-0a9e53c4d6e1:train:1
                      to tell three spiral arms apart

The two classifiers share a trainer, and all share one device, which a time slicer gives to one workload at a time.
The training is real and done in NumPy; every loss, gradient norm, reward and token count is what was computed.
Only the device's speed is pretended: see --device-seconds.

trouble on demand (STEP and N are counted since the fleet started, from 1):
  --fail-op digits-classifier:forward_backward:7      that op is answered with a RequestFailedResponse; `forward` and
                                                      `sample` are op names here too
  --hang-op digits-classifier:forward_backward:7      that op never ends, and keeps the GPU
  --nan-gradient digits-classifier:5                  the gradient norm of that step is NaN; its update is skipped
  --kill-trainer cartpole-policy:4                    SIGKILL before that optim_step; the fleet restarts the trainer,
                                                      the client sends the step again after --request-timeout
  --client-stops spirals-classifier:20                the client leaves after that step
  --client-leaves spirals-classifier:20               the client sends that step's requests and leaves before an answer
  --hang-sampler 40                                   the sampler takes no request after 40 answers
  --fail-job cartpole-policy:6                        the job of the 6th sampling request fails: answered without a send
  --lose-sample cartpole-policy:6                     it never reaches the sampler: answered after --sample-deadline
  --fail-send cartpole-policy:6                       its first send raises; it is sent again and answered once
  --send-twice cartpole-policy:6                      it is sent twice; two results race and the first is the answer
  --fail-weight-update cartpole-policy:3              the sampler's 3rd weight update fails, answers nothing, and is
                                                      tried again
  --spoil-revision cartpole-policy:3                  the 3rd revision can't be loaded; each request for it fails once
  --kill-sampler cartpole-policy:8                    SIGKILL with the 8th answer made and not sent
  --kill-dispatcher cartpole-policy:8                 SIGKILL with the 8th answer saved and its record not flushed
"""

from __future__ import annotations

import importlib
import signal
import sys

from examples.reference_fleet.fleet import Fleet, StateDirInUseError, only_fleet_in
from examples.reference_fleet.options import Options, parse_options
from examples.reference_fleet.process import die_with_parent


def main(arguments: list[str]) -> int:
    """Run the fleet or, where `--only` says so, one of its processes; returns the exit code."""
    options = parse_options(arguments, description=__doc__)
    if options.only is None:
        return _run_fleet(options, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the fleet tells its children
    die_with_parent()
    module = options.only.partition(":")[0].replace("-", "_")
    # Imported by name, so that a process loads no more than its duty needs: most can do without NumPy.
    importlib.import_module(f"examples.reference_fleet.{module}").main(options, options.only)
    return 0


def _run_fleet(options: Options, arguments: list[str]) -> int:
    try:
        with only_fleet_in(options.state_dir):
            return Fleet(options, arguments).run()
    except StateDirInUseError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
