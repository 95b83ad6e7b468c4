"""A small, real RL post-training service whose processes record through `workers_client`.

Read in this order: `fleet` starts the processes, `client` drives a run, `api_server` queues its commands, `trainer`
and `sampler` work in turns on one device, `dispatcher` hands out sampling requests and saves their answers.
"""
