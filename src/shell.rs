//! Async code, generic over the ports: what runs in production is what the simulator runs.
