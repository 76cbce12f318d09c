-- One row per column of the step charts and group of ranks that have no row in the heat map: how they spread.
--
-- place       INTEGER  Number of the group: its pipeline stage where stages are known, else its place among the hosts by name;
--     -1 for all others where there are more than $max_bands groups, or none is known.
-- grouped_by  VARCHAR  stage, host or rank: what the groups are.
-- name        VARCHAR  Name of the host; NULL otherwise.
-- bin         BIGINT   Place of the column, as in overview_step_bins.
-- n_ranks     BIGINT   Ranks of the group with a window in the column.
-- n_others    BIGINT   Ranks of all groups.
-- low_ratio   DOUBLE   Share of their windows that the measure takes: of twenty ranks the smallest (p5), to 5 decimals.
-- mid_ratio   DOUBLE   Of their median.
-- high_ratio  DOUBLE   Of twenty the largest (p95).
--
-- How: $measure is 'exposed_comm' or 'idle'. Parameters: $run, $measure, $max_bins, $max_ranks, $max_bands.
WITH measured AS (
    SELECT
        rank,
        capture,
        step,
        duration_ns,
        CASE $measure WHEN 'exposed_comm' THEN exposed_comm_ns WHEN 'idle' THEN idle_ns END AS value_ns
    FROM rank_steps
    WHERE run = $run AND duration_ns IS NOT NULL
),

shown AS (
    SELECT rank
    FROM measured
    GROUP BY rank
    ORDER BY sum(value_ns) / nullif(sum(duration_ns), 0) DESC NULLS LAST, rank
    LIMIT $max_ranks
),

binned AS (
    SELECT
        capture,
        step,
        step_bin(place, n_steps, $max_bins::BIGINT) AS bin
    FROM step_order
    WHERE run = $run
),

placed AS (
    SELECT
        rank,
        pp,
        host,
        (dense_rank() OVER (ORDER BY host) - 1)::INTEGER AS host_place
    FROM ranks
    WHERE run = $run AND rank NOT IN (SELECT rank FROM shown)
),

known AS (
    SELECT
        count(pp) = count(*) AND count(DISTINCT pp) BETWEEN 2 AND $max_bands AS has_stages,
        count(host) = count(*) AND count(DISTINCT host) BETWEEN 2 AND $max_bands AS has_hosts
    FROM placed
),

grouped AS (
    SELECT
        placed.rank,
        CASE WHEN known.has_stages THEN placed.pp WHEN known.has_hosts THEN placed.host_place ELSE -1 END AS place,
        CASE WHEN known.has_stages THEN 'stage' WHEN known.has_hosts THEN 'host' ELSE 'rank' END AS grouped_by,
        CASE WHEN NOT known.has_stages AND known.has_hosts THEN placed.host END AS name
    FROM placed
    CROSS JOIN known
),

shares AS (
    SELECT
        grouped.place,
        grouped.grouped_by,
        grouped.name,
        binned.bin,
        measured.rank,
        sum(measured.value_ns) / nullif(sum(measured.duration_ns), 0) AS share_ratio
    FROM measured
    INNER JOIN grouped USING (rank)
    INNER JOIN binned USING (capture, step)
    GROUP BY grouped.place, grouped.grouped_by, grouped.name, binned.bin, measured.rank
)

SELECT
    place,
    grouped_by,
    name,
    bin,
    count(*) AS n_ranks,
    (SELECT count(DISTINCT rank) FROM shares) AS n_others,
    round(quantile_disc(share_ratio, 0.05), 5) AS low_ratio,
    round(quantile_disc(share_ratio, 0.5), 5) AS mid_ratio,
    round(quantile_disc(share_ratio, 0.95), 5) AS high_ratio
FROM shares
GROUP BY place, grouped_by, name, bin
ORDER BY place, name, bin
