-- One row per rank, step, kernel name: how often it ran, how long, and how much of the time it alone explains.
--
-- rank          INTEGER  Rank.
-- step          BIGINT   Step that launched the calls; NULL where their launch is in no step or not in the dump.
-- name          VARCHAR  Name; on the host, of the outermost operator or the collective's span.
-- kind          VARCHAR  compute, comm or copy.
-- comm_evidence VARCHAR  Why it is comm: metadata, operator or name; NULL for other kinds.
-- n_calls       BIGINT   Calls.
-- total_ns      BIGINT   Sum of the calls' durations; calls that run side by side both count.
-- exposed_ns    BIGINT   Time no earlier activity of its kind and no kind before it covers (compute, then comm, then
--     copies): over all names, exposed_ns + idle is the whole time.
--
-- Scope: rank
WITH named AS (
    SELECT
        row_number() OVER () - 1 AS activity_no,
        name,
        comm_evidence
    FROM events
    WHERE kind IS NOT NULL
)

SELECT
    context.rank,
    coverage.step,
    named.name,
    CASE coverage.precedence WHEN 0 THEN 'compute' WHEN 1 THEN 'comm' ELSE 'copy' END AS kind,
    named.comm_evidence,
    count(*) AS n_calls,
    sum(coverage.end_ns - coverage.start_ns)::BIGINT AS total_ns,
    sum(exposed.exposed_ns)::BIGINT AS exposed_ns
FROM _coverage AS coverage
JOIN named ON coverage.activity_no = named.activity_no
JOIN _exposed AS exposed ON coverage.activity_no = exposed.activity_no
CROSS JOIN context
GROUP BY ALL
