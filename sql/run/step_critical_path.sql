-- One row per segment of a step's critical path: the chain of work that decided its length, each nanosecond once.
--
-- step        BIGINT   Step.
-- seq         BIGINT   Place in the step, in order of time, from 0.
-- rank        INTEGER  Rank.
-- lane        VARCHAR  stream N or thread N.
-- kind        VARCHAR  compute, comm, copy, host, launch, turnaround, sync, input or unknown.
-- name        VARCHAR  Kernel, or the innermost operator, call or annotation; (no event) where the host shows none.
-- start_ns    BIGINT   Start, aligned: the end of the segment before, or the step's start.
-- end_ns      BIGINT   End, not included.
-- duration_ns BIGINT   Its length; those of a step add up to the step.
-- verdict     VARCHAR  ok, or why its time may be another's: peer not recorded.
--
-- Scope: paths
-- Order: step, seq
SELECT
    step,
    row_number() OVER (PARTITION BY step ORDER BY start_ns, end_ns) - 1 AS seq,
    rank,
    lane,
    kind,
    name,
    start_ns,
    end_ns,
    end_ns - start_ns AS duration_ns,
    verdict
FROM path_segments
