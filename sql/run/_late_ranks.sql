-- One row per step, rank that others waited for: how long, each moment once.
--
-- step        BIGINT   Step.
-- rank        INTEGER  Rank.
-- late_ns     BIGINT   Union of the spans in which it alone was waited for, less what it waited for others itself.
-- n_last      BIGINT   Collectives at which it came last.
-- residual_ns BIGINT   Largest residual of the clocks involved.
--
-- Scope: steps
-- How: one lateness shows at every bucket that overlaps it, so spans are joined, never summed. What a rank itself waited
-- for in that time is another's lateness, inherited.
WITH spans AS (
    SELECT
        step,
        rank,
        start_ns,
        end_ns,
        residual_ns
    FROM _late_spans
),

waits AS (
    SELECT
        step,
        rank,
        arrival_ns AS start_ns,
        arrival_ns + wait_ns AS end_ns
    FROM collectives
    WHERE wait_ns > 0 AND step IS NOT NULL AND (step, rank) IN (SELECT (step, rank) FROM spans)
),

sides AS (
    SELECT
        step,
        rank,
        start_ns,
        end_ns,
        TRUE AS is_late
    FROM spans
    UNION ALL
    SELECT
        step,
        rank,
        start_ns,
        end_ns,
        FALSE AS is_late
    FROM waits
),

running AS (
    SELECT
        *,
        max(end_ns) OVER so_far AS all_before_ns,
        max(CASE WHEN NOT is_late THEN end_ns END) OVER so_far AS waits_before_ns
    FROM sides
    WINDOW so_far AS (
        PARTITION BY step, rank ORDER BY start_ns, end_ns, is_late ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

unions AS (
    SELECT
        step,
        rank,
        sum(greatest(0, end_ns - greatest(start_ns, coalesce(all_before_ns, start_ns)))) AS all_ns,
        sum(
            CASE
                WHEN is_late THEN 0
                ELSE greatest(0, end_ns - greatest(start_ns, coalesce(waits_before_ns, start_ns)))
            END
        ) AS waits_ns
    FROM running
    GROUP BY step, rank
)

SELECT
    unions.step,
    unions.rank,
    (unions.all_ns - unions.waits_ns)::BIGINT AS late_ns,
    counted.n_last,
    counted.residual_ns
FROM unions
JOIN (
    SELECT
        step,
        rank,
        count(*) AS n_last,
        max(residual_ns) AS residual_ns
    FROM spans
    GROUP BY step, rank
) AS counted
    ON unions.step = counted.step AND unions.rank = counted.rank
