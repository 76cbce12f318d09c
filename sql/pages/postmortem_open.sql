-- One row per collective that a recorded member did not come to, after the first rank stopped: the first first.
--
-- step             BIGINT   Step; NULL where none launched it in a step.
-- op               VARCHAR  Operation.
-- group_id         VARCHAR  Process group.
-- seq              BIGINT   As in collective_instances.
-- first_ns         BIGINT   First arrival, on the run's clock.
-- after_ns         BIGINT   First arrival, from when the first rank stopped.
-- n_ranks          INTEGER  Members of the group.
-- n_present        INTEGER  Members that came.
-- missing_ranks    INTEGER[]  Recorded members that did not, up to $max_ranks.
-- n_missing        BIGINT   How many.
-- n_open           BIGINT   Such collectives.
--
-- How: $stop_ns is when the first rank stopped, on the run's clock; a collective counts that any rank left, or came to, after it. A
-- recording that loses its end also loses what came: missing means not recorded. Parameters: $run, $stop_ns, $max_ranks, $max_rows.
WITH lacking AS (
    SELECT
        step,
        op,
        group_id,
        seq,
        shape,
        first_arrival_ns,
        last_arrival_ns,
        n_ranks,
        n_present
    FROM collective_instances
    WHERE run = $run AND n_present < n_ranks AND first_arrival_ns IS NOT NULL AND end_ns >= $stop_ns::BIGINT
),

came AS (
    SELECT
        lacking.group_id,
        lacking.seq,
        lacking.shape,
        lacking.first_arrival_ns,
        arrived.rank
    FROM lacking
    JOIN (SELECT * FROM collectives WHERE run = $run) AS arrived
        ON lacking.group_id = arrived.group_id
        AND lacking.seq IS NOT DISTINCT FROM arrived.seq
        AND lacking.shape = arrived.shape
        AND arrived.arrival_ns BETWEEN lacking.first_arrival_ns AND lacking.last_arrival_ns
),

recorded AS (
    SELECT
        members.group_id AS member_group,
        members.rank AS member_rank
    FROM groups AS members
    JOIN ranks ON members.run = ranks.run AND members.rank = ranks.rank
    WHERE members.run = $run AND ranks.is_recorded
),

missed AS (
    SELECT
        lacking.step,
        lacking.op,
        lacking.group_id,
        lacking.seq,
        lacking.first_arrival_ns,
        lacking.n_ranks,
        lacking.n_present,
        list(recorded.member_rank ORDER BY recorded.member_rank) AS missing_ranks
    FROM lacking
    JOIN recorded ON lacking.group_id = recorded.member_group
    WHERE NOT EXISTS (
        SELECT 1
        FROM came
        WHERE came.group_id = lacking.group_id
            AND came.seq IS NOT DISTINCT FROM lacking.seq
            AND came.shape = lacking.shape
            AND came.first_arrival_ns = lacking.first_arrival_ns
            AND came.rank = recorded.member_rank
    )
    GROUP BY ALL
)

SELECT
    step,
    op,
    group_id,
    seq,
    first_arrival_ns AS first_ns,
    first_arrival_ns - $stop_ns::BIGINT AS after_ns,
    n_ranks,
    n_present,
    missing_ranks[:$max_ranks] AS missing_ranks,
    len(missing_ranks) AS n_missing,
    count(*) OVER () AS n_open
FROM missed
ORDER BY first_arrival_ns, group_id, seq, op
LIMIT $max_rows
