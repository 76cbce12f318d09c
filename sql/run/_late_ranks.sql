-- One row per step, rank that others waited for: how long, each lateness once.
--
-- step        BIGINT   Step.
-- rank        INTEGER  Rank.
-- late_ns     BIGINT   Union of the spans in which it was waited for, of those that show the same lateness the longest.
-- n_last      BIGINT   Collectives at which it came last.
-- residual_ns BIGINT   Largest residual of the clocks involved.
--
-- Scope: steps
-- How: where exchanges overlap compute, one lateness shows at every bucket after it, so buckets are not summed.
WITH longest AS (
    SELECT
        step,
        rank,
        max_by(start_ns, (end_ns - start_ns, end_ns)) AS start_ns,
        max_by(end_ns, (end_ns - start_ns, end_ns)) AS end_ns
    FROM _late_spans
    GROUP BY step, rank, since_instance
),

running AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY step, rank ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM longest
),

unions AS (
    SELECT
        step,
        rank,
        sum(greatest(0, end_ns - greatest(start_ns, coalesce(before_ns, start_ns))))::BIGINT AS late_ns
    FROM running
    GROUP BY step, rank
),

counted AS (
    SELECT
        step AS counted_step,
        rank AS counted_rank,
        count(*) AS n_last,
        max(residual_ns) AS residual_ns
    FROM _late_spans
    GROUP BY step, rank
)

SELECT
    unions.step,
    unions.rank,
    unions.late_ns,
    counted.n_last,
    counted.residual_ns
FROM unions
JOIN counted ON unions.step = counted.counted_step AND unions.rank = counted.counted_rank
