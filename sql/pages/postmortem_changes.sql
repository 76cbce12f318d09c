-- One row per rank: how its window differs between two steps, and in what most.
--
-- rank           INTEGER  Rank.
-- this_ns        BIGINT   Its window of the step.
-- other_ns       BIGINT   Its window of the other.
-- change_ns      BIGINT   The first minus the second: the sum of the changes of all parts.
-- grown          VARCHAR  Part that grew most: compute, exposed comm, exposed copies or a
--     cause of idle; NULL where none grew.
-- grown_ns       BIGINT   By how much; NULL as above.
-- shrunk         VARCHAR  Part that shrank most; NULL where none shrank.
-- shrunk_ns      BIGINT   By how much, below 0; NULL as above.
-- n_ranks        BIGINT   Ranks that recorded both steps.
--
-- How: Parameters: $run, $step, $other_step, $max_rows.
WITH parts AS (
    UNPIVOT (
        SELECT
            rank,
            step,
            compute_ns AS "compute",
            exposed_comm_ns AS "exposed comm",
            exposed_copy_ns AS "exposed copies",
            idle_input_ns AS "input",
            idle_sync_ns AS "sync",
            idle_host_ns AS "host",
            idle_launch_ns AS "launch",
            idle_turnaround_ns AS "turnaround",
            idle_other_ns AS "other"
        FROM rank_steps
        WHERE run = $run AND step IN ($step::BIGINT, $other_step::BIGINT)
    )
    ON COLUMNS(* EXCLUDE (rank, step)) INTO NAME part VALUE part_ns
),

paired AS (
    SELECT
        rank,
        part,
        sum(part_ns) FILTER (step = $step::BIGINT) AS this_ns,
        sum(part_ns) FILTER (step = $other_step::BIGINT) AS other_ns
    FROM parts
    GROUP BY rank, part
    HAVING count(DISTINCT step) = 2
),

changed AS (
    SELECT
        rank,
        sum(this_ns)::BIGINT AS this_ns,
        sum(other_ns)::BIGINT AS other_ns,
        arg_max(part, (this_ns - other_ns, part)) FILTER (this_ns > other_ns) AS grown,
        (max(this_ns - other_ns) FILTER (this_ns > other_ns))::BIGINT AS grown_ns,
        arg_min(part, (this_ns - other_ns, part)) FILTER (this_ns < other_ns) AS shrunk,
        (min(this_ns - other_ns) FILTER (this_ns < other_ns))::BIGINT AS shrunk_ns
    FROM paired
    GROUP BY rank
)

SELECT
    rank,
    this_ns,
    other_ns,
    this_ns - other_ns AS change_ns,
    grown,
    grown_ns,
    shrunk,
    shrunk_ns,
    count(*) OVER () AS n_ranks
FROM changed
ORDER BY coalesce(grown_ns, 0) DESC, rank
LIMIT $max_rows
