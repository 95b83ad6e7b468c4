"""Examples to copy from: programs that record through `workers_client`."""
