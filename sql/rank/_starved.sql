-- One row per step in which compute was launched late while comm ran: how long the host alone kept compute waiting there.
--
-- step           BIGINT  Step that launched the compute.
-- hidden_host_ns BIGINT  Comm beside no compute before the launch of the compute that comes next, without what its launching
--     thread waited for.
--
-- Scope: rank
-- How: a breakdown calls this time exposed comm, for comm comes before idle; but no transfer kept the compute from starting.
WITH gaps AS (
    SELECT
        row_number() OVER () AS gap_no,
        step,
        launch_thread,
        own_from_ns AS start_ns,
        least(launch_ns, start_ns) AS end_ns
    FROM _coverage
    WHERE precedence = 0 AND step IS NOT NULL AND least(launch_ns, start_ns) > own_from_ns
),

instants AS (
    SELECT
        gap_no,
        step,
        launch_thread,
        unnest([-1, 1]) AS sign,
        unnest([start_ns, end_ns]) AS at_ns
    FROM gaps
),

covered AS (
    SELECT
        instants.*,
        coalesce(cover.work_sum_ns - greatest(0, coalesce(cover.work_end_ns - instants.at_ns, 0)), 0) AS comm_ns
    FROM instants
    ASOF LEFT JOIN _cover AS cover ON instants.at_ns >= cover.at_ns
),

waited AS (
    SELECT
        covered.*,
        coalesce(waits.waits_sum_ns - greatest(0, waits.waits_end_ns - covered.at_ns), 0) AS waits_ns
    FROM covered
    ASOF LEFT JOIN _host_waits AS waits
        ON covered.launch_thread = waits.thread AND covered.at_ns >= waits.start_ns
),

parts AS (
    SELECT
        step,
        greatest(0, sum(sign * comm_ns) - sum(sign * waits_ns)) AS hidden_ns
    FROM waited
    GROUP BY gap_no, step
)

SELECT
    step,
    sum(hidden_ns)::BIGINT AS hidden_host_ns
FROM parts
GROUP BY step
