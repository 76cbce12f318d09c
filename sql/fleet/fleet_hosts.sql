-- One row per host that steps were waiting for in some run: whether it is so in run after run.
--
-- host             VARCHAR    Host.
-- n_runs           BIGINT     Runs with a recorded rank on it, whose hosts and stragglers are known.
-- n_straggler_runs BIGINT     Of them, those in which a rank of it was a straggler beyond chance.
-- share_ratio      DOUBLE     n_straggler_runs by n_runs.
-- expected_runs    DOUBLE     In how many it would be if each run's straggling hosts were drawn among its hosts.
-- late_ns          BIGINT     How late its stragglers were, over all runs.
-- lost_gpu_hours   DOUBLE     What waited for them.
-- causes           VARCHAR[]  Their causes, that of most lost_gpu_hours first.
-- runs             VARCHAR[]  The runs in which it straggled, by time.
-- verdict          VARCHAR    slow in several runs; seen once; or as expected by chance.
--
-- Scope: fleet
-- Order: host
-- How: stage and sequence are left out, for they follow the model and the data, not the host. In several runs is two or more,
-- and at least twice what chance would give: of two hosts one straggles in half of all runs anyway.
WITH seats AS (
    SELECT DISTINCT
        run,
        host
    FROM ranks
    WHERE is_recorded AND host IS NOT NULL
),

late AS (
    SELECT
        run,
        host,
        cause,
        sum(late_ns)::BIGINT AS late_ns,
        sum(lost_gpu_hours) AS lost_gpu_hours
    FROM straggler_ranks
    WHERE host IS NOT NULL AND verdict = 'ok' AND cause NOT IN ('stage', 'sequence')
    GROUP BY run, host, cause
),

by_run AS (
    SELECT
        seats.run,
        count(*) AS n_hosts,
        count(*) FILTER (EXISTS (SELECT 1 FROM late WHERE late.run = seats.run AND late.host = seats.host)) AS n_late
    FROM seats
    GROUP BY seats.run
),

causes AS (
    SELECT
        host,
        cause,
        sum(late_ns)::BIGINT AS late_ns,
        sum(lost_gpu_hours) AS lost_gpu_hours
    FROM late
    GROUP BY host, cause
),

lost AS (
    SELECT
        host,
        sum(late_ns)::BIGINT AS late_ns,
        sum(lost_gpu_hours) AS lost_gpu_hours,
        list(cause ORDER BY lost_gpu_hours DESC, cause) AS causes
    FROM causes
    GROUP BY host
),

named AS (
    SELECT
        late_runs.host,
        count(*) AS n_runs,
        list(late_runs.run ORDER BY runs.first_ns NULLS FIRST, runs.run) AS runs
    FROM (SELECT DISTINCT run, host FROM late) AS late_runs
    JOIN runs ON late_runs.run = runs.run
    GROUP BY late_runs.host
),

seen AS (
    SELECT
        seats.host,
        count(*) AS n_runs,
        sum(by_run.n_late / by_run.n_hosts) AS expected
    FROM seats
    JOIN by_run ON seats.run = by_run.run
    GROUP BY seats.host
)

SELECT
    named.host,
    seen.n_runs,
    named.n_runs AS n_straggler_runs,
    named.n_runs / seen.n_runs AS share_ratio,
    seen.expected AS expected_runs,
    lost.late_ns,
    lost.lost_gpu_hours,
    lost.causes,
    named.runs,
    CASE
        WHEN named.n_runs < 2 THEN 'seen once'
        WHEN named.n_runs < 2 * seen.expected THEN 'as expected by chance'
        ELSE 'slow in several runs'
    END AS verdict
FROM named
JOIN seen ON named.host = seen.host
JOIN lost ON named.host = lost.host
