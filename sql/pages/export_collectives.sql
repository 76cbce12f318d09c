-- One row per collective of a rank in the range of steps: when it came, when the last rank did, when it ended.
--
-- step        BIGINT   Step that launched it; NULL where its launch is in no step.
-- group_id    VARCHAR  Process group.
-- seq         BIGINT   Sequence number in the group.
-- op          VARCHAR  Operation.
-- n_bytes     BIGINT   Bytes; NULL where sizes are not recorded.
-- start_ns    BIGINT   Arrival, on the run's clock.
-- ready_ns    BIGINT   When its wait was over; the end, where the wait is not known.
-- end_ns      BIGINT   End.
-- is_split    BOOLEAN  Whether the wait is known.
-- is_complete BOOLEAN  Whether every member is recorded; else the wait is a bound.
-- is_last     BOOLEAN  Whether it came last; FALSE where that is not known.
-- last_rank   INTEGER  Rank that came last; NULL where it is not known.
-- arrow       BIGINT   Number of the instance in the range; NULL where it is not known.
--
-- How: the instance is that of its group, number, shape and step whose last arrival is nearest: coalesced collectives
-- share the rest. Parameters: $run, $rank, $first_step, $last_step, $start_ns, $end_ns: on the run's clock.
WITH instances AS (
    SELECT
        step AS instance_step,
        group_id AS instance_group,
        seq AS instance_seq,
        shape AS instance_shape,
        last_rank,
        last_arrival_ns,
        row_number() OVER (ORDER BY last_arrival_ns, group_id, seq, shape, end_ns) AS arrow
    FROM collective_instances
    WHERE run = $run
        AND (step BETWEEN $first_step AND $last_step OR (step IS NULL AND last_arrival_ns BETWEEN $start_ns AND $end_ns))
        AND last_rank IS NOT NULL
),

mine AS (
    SELECT
        *,
        row_number() OVER (ORDER BY arrival_ns, end_ns DESC, activity_no, group_id, seq, shape) AS place
    FROM collectives
    WHERE run = $run
        AND rank = $rank::INTEGER
        AND (step BETWEEN $first_step AND $last_step OR (step IS NULL AND arrival_ns BETWEEN $start_ns AND $end_ns))
)

SELECT
    mine.step,
    mine.group_id,
    mine.seq,
    mine.op,
    mine.n_bytes,
    mine.arrival_ns AS start_ns,
    coalesce(mine.arrival_ns + mine.wait_ns, mine.end_ns) AS ready_ns,
    mine.end_ns,
    mine.wait_ns IS NOT NULL AS is_split,
    mine.is_complete,
    coalesce(mine.is_last, FALSE) AS is_last,
    instances.last_rank,
    instances.arrow
FROM mine
LEFT JOIN instances
    ON mine.step IS NOT DISTINCT FROM instances.instance_step
    AND mine.group_id = instances.instance_group
    AND mine.seq = instances.instance_seq
    AND mine.shape = instances.instance_shape
QUALIFY row_number() OVER (
    PARTITION BY mine.place
    ORDER BY abs(mine.arrival_ns + coalesce(mine.wait_ns, 0) - instances.last_arrival_ns), instances.arrow
) = 1
ORDER BY mine.place
