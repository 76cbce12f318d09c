-- One row per list of members that a flight recorder gives: the same as ranks, in their order.
--
-- group_ranks VARCHAR    As in flight_records.
-- ranks       INTEGER[]  Ranks, ascending, as PyTorch numbers members of a group.
--
-- Scope: hang
WITH stretches AS (
    SELECT
        group_ranks,
        regexp_extract(
            unnest(string_split(group_ranks, ',')), '^(\d+)(?:-(\d+))?(?::(\d+))?$', ['first', 'last', 'stride']
        ) AS run
    FROM (SELECT DISTINCT group_ranks FROM flight_records WHERE group_ranks IS NOT NULL)
),

expanded AS (
    SELECT
        group_ranks,
        unnest(
            range(
                run.first::BIGINT,
                coalesce(nullif(run.last, ''), run.first)::BIGINT + 1,
                coalesce(nullif(run.stride, ''), '1')::BIGINT
            )
        )::INTEGER AS rank
    FROM stretches
)

SELECT
    group_ranks,
    list(rank ORDER BY rank) AS ranks
FROM expanded
GROUP BY group_ranks
