-- One row per place of the grid of workers, data parallel by pipeline stage: how late its ranks were over the run.
--
-- dp              INTEGER  Data-parallel coordinate, one of the $max_late_ranks whose ranks were late longest.
-- stage           INTEGER  Pipeline stage.
-- ranks           VARCHAR  Its ranks, the first $max_ranges of them.
-- late_mean_ns    BIGINT   Mean over the steps of how late the latest of them was.
-- share_ratio     DOUBLE   The same by the time of those steps, to 5 decimals; NULL for steps without length.
-- compute_mean_ns BIGINT   Mean compute of them in a step.
-- is_latest       BOOLEAN  Whether none was late for longer; one of equals.
--
-- How: no rows unless every recorded rank's place is known, in two stages or more. A step for which nobody waited for a rank
-- counts as 0, and no rows where nobody was waited for in any step. Parameters: $run, $max_late_ranks, $max_ranges.
WITH recorded AS (
    SELECT
        rank,
        dp,
        pp
    FROM ranks
    WHERE run = $run AND is_recorded
),

placed AS (
    FROM recorded
    WHERE (SELECT count(dp) = count(*) AND count(pp) = count(*) AND count(DISTINCT pp) > 1 FROM recorded)
        AND EXISTS (FROM step_stragglers WHERE run = $run)
),

known AS (
    SELECT
        step,
        duration_ns
    FROM steps
    WHERE run = $run AND duration_ns IS NOT NULL AND n_ranks > 1
),

late AS (
    SELECT
        placed.dp,
        placed.pp,
        rank_steps.step,
        max(coalesce(stragglers.late_ns, 0)) AS late_ns,
        avg(rank_steps.compute_ns) AS compute_ns
    FROM placed
    INNER JOIN rank_steps ON placed.rank = rank_steps.rank
    LEFT JOIN step_stragglers AS stragglers
        ON stragglers.run = $run AND rank_steps.step = stragglers.step AND rank_steps.rank = stragglers.rank
    WHERE rank_steps.run = $run
    GROUP BY placed.dp, placed.pp, rank_steps.step
),

summed AS (
    SELECT
        late.dp,
        late.pp,
        round(avg(late.late_ns))::BIGINT AS late_mean_ns,
        round(sum(late.late_ns) / nullif(sum(known.duration_ns), 0), 5) AS share_ratio,
        round(avg(late.compute_ns))::BIGINT AS compute_mean_ns
    FROM late
    INNER JOIN known USING (step)
    GROUP BY late.dp, late.pp
),

shown AS (
    SELECT dp
    FROM summed
    GROUP BY dp
    ORDER BY max(late_mean_ns) DESC, dp
    LIMIT $max_late_ranks
),

members AS (
    SELECT
        dp,
        pp,
        list(rank ORDER BY rank) AS names
    FROM placed
    GROUP BY dp, pp
)

SELECT
    summed.dp,
    summed.pp AS stage,
    array_to_string(members.names[1:$max_ranges], ', ')
    || CASE
        WHEN len(members.names) > $max_ranges THEN ' and ' || (len(members.names) - $max_ranges) || ' more'
        ELSE ''
    END AS ranks,
    summed.late_mean_ns,
    summed.share_ratio,
    summed.compute_mean_ns,
    row_number() OVER (ORDER BY summed.late_mean_ns DESC, summed.pp, summed.dp) = 1 AS is_latest
FROM summed
INNER JOIN shown USING (dp)
INNER JOIN members ON summed.dp = members.dp AND summed.pp = members.pp
ORDER BY summed.dp, summed.pp
