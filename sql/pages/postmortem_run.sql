-- One row: which steps of a run its post-mortem shows unless told, and what there is to choose from.
--
-- n_steps     BIGINT   Steps of the run.
-- first_step  BIGINT   The first; NULL without any.
-- last_step   BIGINT   The last; NULL without any.
-- worst_step  BIGINT   The longest, the first of equals.
-- median_step BIGINT   The first of median length, the shorter of two medians.
-- n_ranks     BIGINT   Ranks that recorded any step.
-- world_size  INTEGER  Ranks of the job.
-- device      VARCHAR  Name of the device; NULL unknown.
-- verdict     VARCHAR  The run's.
-- reasons     VARCHAR[]  Every reason to doubt.
-- residual_ns BIGINT   Largest residual of the ranks' clocks; NULL where nothing is fitted.
--
-- How: a step whose length is not known, for want of aligned clocks, is as long as its longest window. Parameters: $run.
WITH windows AS (
    SELECT
        step AS window_step,
        max(duration_ns) AS window_ns
    FROM rank_steps
    WHERE run = $run
    GROUP BY step
),

known AS (
    SELECT
        steps.step,
        coalesce(steps.duration_ns, windows.window_ns) AS length_ns
    FROM steps
    LEFT JOIN windows ON steps.step = windows.window_step
    WHERE steps.run = $run
),

middle AS (
    SELECT quantile_disc(length_ns, 0.5) AS median_ns
    FROM known
),

counted AS (
    SELECT
        count(*) AS n_steps,
        min(known.step) AS first_step,
        max(known.step) AS last_step,
        arg_max(known.step, (known.length_ns, -known.step)) AS worst_step,
        min(known.step) FILTER (known.length_ns = middle.median_ns) AS median_step
    FROM known
    CROSS JOIN middle
),

recorded AS (
    SELECT count(DISTINCT rank) AS n_ranks
    FROM rank_steps
    WHERE run = $run
),

clocks AS (
    SELECT max(residual_ns) AS residual_ns
    FROM rank_clocks
    WHERE run = $run
)

SELECT
    counted.n_steps,
    counted.first_step,
    counted.last_step,
    coalesce(counted.worst_step, counted.first_step) AS worst_step,
    counted.median_step,
    recorded.n_ranks,
    runs.world_size,
    runs.device,
    runs.verdict,
    runs.reasons,
    clocks.residual_ns
FROM runs
CROSS JOIN counted
CROSS JOIN recorded
CROSS JOIN clocks
WHERE runs.run = $run
