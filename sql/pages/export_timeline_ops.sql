-- One row per slice of an op timeline's trace: what a rank did, as recorded and as it would be in the ideal step.
--
-- rank     INTEGER  Rank.
-- dp_rank  INTEGER  Data-parallel rank.
-- stage    INTEGER  Pipeline stage.
-- side     VARCHAR  recorded or ideal.
-- what     VARCHAR  compute, wait (of a transfer for the others, recorded alone) or transfer.
-- optype   VARCHAR  Type of the op.
-- step     BIGINT   Step.
-- place    BIGINT   Place among the ops of its type on its rank in its step.
-- start_ns BIGINT   Start, from the start of the step.
-- end_ns   BIGINT   End.
--
-- How: recorders round times to microseconds, so passes that follow each other may overlap by a few: a slice then ends where
-- the next begins, or a trace would have it on a track of its own. Parameters: $run, $first_step, $last_step.
WITH ops AS (
    SELECT
        rank,
        dp_rank,
        stage,
        optype,
        step,
        place,
        is_transfer,
        start_ns,
        least(greatest(ready_ns, start_ns), end_ns) AS ready_ns,
        CASE
            WHEN NOT is_transfer AND end_ns - next_start_ns BETWEEN 1 AND 50 * 1e3
                THEN greatest(next_start_ns, start_ns)
            ELSE end_ns
        END AS end_ns,
        ideal_start_ns,
        ideal_end_ns
    FROM (
        SELECT
            *,
            lead(start_ns) OVER (PARTITION BY rank, step, is_transfer ORDER BY start_ns, end_ns, optype, place) AS next_start_ns
        FROM timeline_retimed
        WHERE run = $run AND step BETWEEN $first_step AND $last_step
    )
),

slices AS (
    SELECT
        rank,
        dp_rank,
        stage,
        'recorded' AS side,
        CASE WHEN is_transfer THEN 'transfer' ELSE 'compute' END AS what,
        optype,
        step,
        place,
        ready_ns AS start_ns,
        end_ns
    FROM ops
    UNION ALL
    SELECT
        rank,
        dp_rank,
        stage,
        'recorded' AS side,
        'wait' AS what,
        optype,
        step,
        place,
        start_ns,
        ready_ns AS end_ns
    FROM ops
    WHERE is_transfer AND ready_ns > start_ns
    UNION ALL
    SELECT
        rank,
        dp_rank,
        stage,
        'ideal' AS side,
        CASE WHEN is_transfer THEN 'transfer' ELSE 'compute' END AS what,
        optype,
        step,
        place,
        ideal_start_ns AS start_ns,
        greatest(ideal_end_ns, ideal_start_ns) AS end_ns
    FROM ops
    WHERE ideal_start_ns IS NOT NULL
)

SELECT
    rank,
    dp_rank,
    stage,
    side,
    what,
    optype,
    step,
    place,
    start_ns,
    end_ns
FROM slices
ORDER BY rank, step, start_ns, end_ns DESC, side, what, optype, place
