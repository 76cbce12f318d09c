-- One row per hand-over of a step's path, the longest wait first: where it goes from a late rank to one that waited for it.
--
-- offset_ns     BIGINT   When the late rank came, from the step's start.
-- from_rank     INTEGER  The late rank.
-- to_rank       INTEGER  The rank on which the path goes on.
-- op            VARCHAR  The collective's operation.
-- group_id      VARCHAR  Its process group.
-- seq           BIGINT   Its sequence number.
-- n_bytes       BIGINT   Its bytes; NULL where sizes are not recorded.
-- wait_ns       BIGINT   How long to_rank had waited in it by then.
-- comm_ns       BIGINT   How long the collective took from then on.
-- is_comm_clear BOOLEAN  Whether that is more than three residuals of the two ranks' clocks.
-- n_hand_overs  BIGINT   Hand-overs of the step.
-- all_wait_ns   BIGINT   All their waits together.
--
-- How: Parameters: $run, $step, $max_rows.
WITH chosen AS (
    SELECT start_ns AS step_start_ns
    FROM steps
    WHERE run = $run AND step = $step::BIGINT
),

pieces AS (
    SELECT
        piece_no,
        rank AS from_rank,
        CASE WHEN NOT is_comm THEN activity_no END AS from_no,
        end_ns AS at_ns,
        lag(rank) OVER later AS to_rank,
        CASE WHEN lag(is_comm) OVER later THEN lag(activity_no) OVER later END AS to_no,
        CASE WHEN lag(is_comm) OVER later THEN lag(end_ns - start_ns) OVER later ELSE 0 END AS comm_ns
    FROM path_pieces
    WHERE run = $run AND step = $step::BIGINT
    WINDOW later AS (ORDER BY piece_no)
),

overs AS (
    SELECT *
    FROM pieces
    WHERE from_rank <> to_rank
),

met AS (
    SELECT
        rank AS met_rank,
        activity_no,
        op,
        group_id,
        seq,
        n_bytes,
        wait_ns
    FROM collectives
    WHERE run = $run
        AND (step IS NULL OR step BETWEEN $step::BIGINT - 1 AND $step::BIGINT)
        AND rank IN (SELECT from_rank FROM overs UNION SELECT to_rank FROM overs)
),

clocks AS (
    SELECT
        rank AS clock_rank,
        residual_ns
    FROM rank_clocks
    WHERE run = $run
),

told AS (
    SELECT
        overs.at_ns - chosen.step_start_ns AS offset_ns,
        overs.from_rank,
        overs.to_rank,
        coalesce(waited.op, late.op) AS op,
        coalesce(waited.group_id, late.group_id) AS group_id,
        coalesce(waited.seq, late.seq) AS seq,
        coalesce(waited.n_bytes, late.n_bytes) AS n_bytes,
        waited.wait_ns,
        overs.comm_ns,
        overs.comm_ns > 3 * coalesce(greatest(late_clock.residual_ns, clock.residual_ns), 0) AS is_comm_clear
    FROM overs
    CROSS JOIN chosen
    LEFT JOIN met AS waited ON overs.to_rank = waited.met_rank AND overs.to_no = waited.activity_no
    LEFT JOIN met AS late ON overs.from_rank = late.met_rank AND overs.from_no = late.activity_no
    LEFT JOIN clocks AS clock ON overs.to_rank = clock.clock_rank
    LEFT JOIN clocks AS late_clock ON overs.from_rank = late_clock.clock_rank
)

SELECT
    offset_ns,
    from_rank,
    to_rank,
    op,
    group_id,
    seq,
    n_bytes,
    wait_ns,
    comm_ns,
    is_comm_clear,
    count(*) OVER () AS n_hand_overs,
    (sum(wait_ns) OVER ())::BIGINT AS all_wait_ns
FROM told
ORDER BY wait_ns DESC NULLS LAST, offset_ns, from_rank, to_rank
LIMIT $max_rows
