-- One row per column of the step chart of an op timeline: a step, or as many neighbouring steps as keep the columns within $max_bins.
--
-- bin         BIGINT  Place of the column, from 0.
-- first_step  BIGINT  Its first step.
-- last_step   BIGINT  Its last step.
-- n_steps     BIGINT  Steps in it.
-- n_all_steps BIGINT  Steps in all columns.
-- recorded_ns BIGINT  Median recorded step time; an observed value; NULL where no step could be re-timed.
-- retimed_ns  BIGINT  Median step time without gaps that no op explains.
-- ideal_ns    BIGINT  Median ideal step time.
--
-- How: parameters: $run, $max_bins.
WITH timed AS (
    SELECT
        group_key::BIGINT AS step,
        max(duration_ns) FILTER (measure = 'launch_slowdown') AS recorded_ns,
        max(duration_ns) FILTER (measure = 'S') AS retimed_ns,
        max(base_ns) FILTER (measure = 'S') AS ideal_ns
    FROM run_whatif
    WHERE run = $run AND dimension = 'step'
    GROUP BY group_key::BIGINT
),

placed AS (
    SELECT
        *,
        step_bin(row_number() OVER (ORDER BY step) - 1, count(*) OVER (), $max_bins::BIGINT) AS bin
    FROM timed
)

SELECT
    bin,
    min(step) AS first_step,
    max(step) AS last_step,
    count(*) AS n_steps,
    (SELECT count(*) FROM placed) AS n_all_steps,
    quantile_disc(recorded_ns, 0.5) AS recorded_ns,
    quantile_disc(retimed_ns, 0.5) AS retimed_ns,
    quantile_disc(ideal_ns, 0.5) AS ideal_ns
FROM placed
GROUP BY bin
ORDER BY bin
