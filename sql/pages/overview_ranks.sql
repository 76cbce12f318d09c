-- One row per recorded rank, at most $max_ranks of them: what its windows are made of.
--
-- rank                  INTEGER  Rank.
-- host                  VARCHAR  Host it ran on; NULL where the dump does not say.
-- device_name           VARCHAR  Device it ran on; NULL where the dump does not say.
-- source                VARCHAR  View its windows come from: rank_steps, else rank_captures; NULL without windows.
-- n_windows             BIGINT   Windows that have a duration.
-- window_ns             BIGINT   Median window; an observed value; NULL without windows.
-- compute_ratio         DOUBLE   Share of its windows in which the device computed; NULL without windows.
-- exposed_comm_ratio    DOUBLE   Share in which only communication ran.
-- exposed_copy_ratio    DOUBLE   Share in which only copies ran.
-- idle_ratio            DOUBLE   Share in which nothing ran.
-- idle_input_ratio      DOUBLE   Part of idle_ratio spent waiting for input.
-- idle_sync_ratio       DOUBLE   Part of idle_ratio spent after a synchronising call.
-- idle_host_ratio       DOUBLE   Part of idle_ratio spent waiting for the host to launch.
-- idle_launch_ratio     DOUBLE   Part of idle_ratio spent on work launched and not begun.
-- idle_turnaround_ratio  DOUBLE  Part of idle_ratio spent on the device's own pace.
-- idle_other_ratio      DOUBLE   Part of idle_ratio without a cause.
-- n_unlinked            BIGINT   Activities whose launch is not in the dump.
-- n_bad_windows         BIGINT   Windows whose verdict is not ok.
-- verdict               VARCHAR  'ok', or the distinct reasons of its windows joined by '; '.
--
-- How: where there are more ranks than $max_ranks, those with a verdict other than ok come first, then the idlest. A
-- rank without a window has the verdict 'no window'. Parameters: $run, $max_ranks.
WITH windows AS (
    SELECT
        'rank_steps' AS source,
        rank,
        duration_ns,
        compute_ns,
        exposed_comm_ns,
        exposed_copy_ns,
        idle_ns,
        idle_input_ns,
        idle_sync_ns,
        idle_host_ns,
        idle_launch_ns,
        idle_turnaround_ns,
        idle_other_ns,
        n_unlinked,
        verdict
    FROM rank_steps
    WHERE run = $run
    UNION ALL
    SELECT
        'rank_captures' AS source,
        rank,
        duration_ns,
        compute_ns,
        exposed_comm_ns,
        exposed_copy_ns,
        idle_ns,
        idle_input_ns,
        idle_sync_ns,
        idle_host_ns,
        idle_launch_ns,
        idle_turnaround_ns,
        idle_other_ns,
        n_unlinked,
        verdict
    FROM rank_captures
    WHERE run = $run AND rank NOT IN (SELECT rank FROM rank_steps WHERE run = $run)
),

sums AS (
    SELECT
        rank,
        min(source) AS source,
        count(duration_ns) AS n_windows,
        quantile_disc(duration_ns, 0.5) AS window_ns,
        nullif(sum(duration_ns), 0) AS duration_ns,
        sum(compute_ns) AS compute_ns,
        sum(exposed_comm_ns) AS exposed_comm_ns,
        sum(exposed_copy_ns) AS exposed_copy_ns,
        sum(idle_ns) AS idle_ns,
        sum(idle_input_ns) AS idle_input_ns,
        sum(idle_sync_ns) AS idle_sync_ns,
        sum(idle_host_ns) AS idle_host_ns,
        sum(idle_launch_ns) AS idle_launch_ns,
        sum(idle_turnaround_ns) AS idle_turnaround_ns,
        sum(idle_other_ns) AS idle_other_ns,
        sum(n_unlinked)::BIGINT AS n_unlinked,
        count(*) FILTER (WHERE verdict IS DISTINCT FROM 'ok') AS n_bad_windows
    FROM windows
    GROUP BY rank
),

reasons AS (
    SELECT DISTINCT
        rank,
        trim(unnest(string_split(coalesce(verdict, 'no verdict'), ';'))) AS reason
    FROM windows
    WHERE verdict IS DISTINCT FROM 'ok'
),

rank_reasons AS (
    SELECT
        rank,
        string_agg(reason, '; ' ORDER BY reason) AS verdict
    FROM reasons
    GROUP BY rank
),

known AS (
    SELECT
        rank,
        min(host) AS host,
        min(device_name) AS device_name
    FROM ranks
    WHERE run = $run AND is_recorded
    GROUP BY rank
),

joined AS (
    SELECT
        rank,
        known.host,
        known.device_name,
        sums.*,
        CASE WHEN sums.source IS NULL THEN 'no window' ELSE coalesce(rank_reasons.verdict, 'ok') END AS rank_verdict
    FROM known
    FULL JOIN sums USING (rank)
    LEFT JOIN rank_reasons USING (rank)
),

shown AS (
    SELECT *
    FROM joined
    ORDER BY rank_verdict = 'ok', idle_ns / duration_ns DESC NULLS LAST, rank
    LIMIT $max_ranks
)

SELECT
    rank,
    host,
    device_name,
    source,
    coalesce(n_windows, 0) AS n_windows,
    window_ns,
    compute_ns / duration_ns AS compute_ratio,
    exposed_comm_ns / duration_ns AS exposed_comm_ratio,
    exposed_copy_ns / duration_ns AS exposed_copy_ratio,
    idle_ns / duration_ns AS idle_ratio,
    idle_input_ns / duration_ns AS idle_input_ratio,
    idle_sync_ns / duration_ns AS idle_sync_ratio,
    idle_host_ns / duration_ns AS idle_host_ratio,
    idle_launch_ns / duration_ns AS idle_launch_ratio,
    idle_turnaround_ns / duration_ns AS idle_turnaround_ratio,
    idle_other_ns / duration_ns AS idle_other_ratio,
    n_unlinked,
    coalesce(n_bad_windows, 0) AS n_bad_windows,
    rank_verdict AS verdict
FROM shown
ORDER BY rank
