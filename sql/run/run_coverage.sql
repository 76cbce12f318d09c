-- One row per check: what a whole recording would hold, and what this one does.
--
-- check    VARCHAR  What is counted.
-- expected BIGINT   How many a whole recording has; NULL where it cannot be known.
-- found    BIGINT   How many there are.
-- verdict  VARCHAR  ok, or what is missing.
--
-- Scope: run
WITH counts AS (
    SELECT
        1 AS place,
        'ranks' AS "check",
        count(*) AS expected,
        count(*) FILTER (is_recorded) AS found,
        'ranks without a dump' AS doubt
    FROM ranks
    UNION ALL
    SELECT
        2 AS place,
        'dumps read' AS "check",
        count(*) AS expected,
        count(*) FILTER (error IS NULL) AS found,
        'dumps that could not be read' AS doubt
    FROM dumps
    UNION ALL
    SELECT
        3 AS place,
        'dumps with their end' AS "check",
        count(*) FILTER (error IS NULL) AS expected,
        count(*) FILTER (error IS NULL AND NOT is_truncated) AS found,
        'dumps cut off' AS doubt
    FROM dumps
    UNION ALL
    SELECT
        4 AS place,
        'events' AS "check",
        sum(n_events)::BIGINT AS expected,
        sum(n_stored + n_skipped)::BIGINT AS found,
        'events dropped' AS doubt
    FROM (SELECT DISTINCT dump, n_events, n_stored, n_skipped FROM dumps WHERE error IS NULL)
    UNION ALL
    SELECT
        5 AS place,
        'rank-steps' AS "check",
        (SELECT count(DISTINCT step) FROM rank_steps) * (SELECT count(*) FROM ranks) AS expected,
        count(*) AS found,
        'steps that a rank did not record' AS doubt
    FROM rank_steps
    UNION ALL
    SELECT
        6 AS place,
        'captures with step markers' AS "check",
        count(*) AS expected,
        count(*) FILTER (step_source = 'marker') AS found,
        'captures without markers: each one window' AS doubt
    FROM rank_captures
    UNION ALL
    SELECT
        7 AS place,
        'activities with their launch' AS "check",
        sum(n_activities)::BIGINT AS expected,
        sum(n_activities - n_unlinked)::BIGINT AS found,
        'launches missing: in no step, yet busy' AS doubt
    FROM rank_captures
    UNION ALL
    SELECT
        8 AS place,
        'activities with their launch, in step windows' AS "check",
        sum(n_activities)::BIGINT AS expected,
        sum(n_activities - n_unlinked)::BIGINT AS found,
        'launches missing inside step windows' AS doubt
    FROM rank_steps
    UNION ALL
    SELECT
        9 AS place,
        'collectives with every member' AS "check",
        count(*) AS expected,
        count(*) FILTER (is_complete) AS found,
        'collectives with a member not recorded' AS doubt
    FROM collective_instances
    UNION ALL
    SELECT
        10 AS place,
        'ranks on one clock' AS "check",
        count(*) FILTER (is_recorded) AS expected,
        (
            SELECT coalesce(max(n), 0)
            FROM (SELECT count(*) AS n FROM rank_clocks GROUP BY clock_no)
        ) AS found,
        (SELECT basis FROM _clock_basis) AS doubt
    FROM ranks
    UNION ALL
    SELECT
        11 AS place,
        'ranks with telemetry' AS "check",
        count(*) AS expected,
        count(*) FILTER (n_known > 0) AS found,
        any_value(why ORDER BY rank) FILTER (n_known = 0) AS doubt
    FROM (
        SELECT
            rank,
            count(sm_clock_hz) AS n_known,
            mode(verdict ORDER BY verdict) AS why
        FROM rank_telemetry
        GROUP BY rank
    )
    HAVING count(*) > 0
    UNION ALL
    SELECT
        12 AS place,
        'hosts of telemetry' AS "check",
        count(*) AS expected,
        count(*) FILTER (is_known) AS found,
        'no rank is known to be on ' || string_agg(telemetry_host, ', ' ORDER BY telemetry_host) FILTER (NOT is_known) AS doubt
    FROM (
        SELECT
            sampled.telemetry_host,
            EXISTS (FROM ranks WHERE sampled.host_key IN (lower(ranks.host), split_part(lower(ranks.host), '.', 1))) AS is_known
        FROM (
            SELECT
                host_key,
                min(host) AS telemetry_host
            FROM telemetry
            WHERE host_key IS NOT NULL
            GROUP BY host_key
        ) AS sampled
    )
    HAVING count(*) > 0
)

SELECT
    "check",
    expected,
    found,
    CASE
        WHEN expected IS NULL THEN 'n/a: nothing to count'
        WHEN expected = found THEN 'ok'
        ELSE (expected - found) || ': ' || doubt
    END AS verdict
FROM counts
ORDER BY place
