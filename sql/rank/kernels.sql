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
-- flops         BIGINT   FLOPs of the calls whose shapes the dump has; NULL where it has none.
-- n_bytes       BIGINT   Bytes: of compute what its operators read and wrote, of comm what crossed the rank's link, of copies
--     what they moved; NULL where nothing says it.
-- clock         VARCHAR  compute, memory, comm or overhead: which would take longest alone; NULL where a tenth of its time or
--     more has no shapes, the device is not known, or it ran faster than that could.
--
-- Scope: rank
WITH named AS (
    SELECT
        row_number() OVER () - 1 AS activity_no,
        name,
        comm_evidence
    FROM events
    WHERE kind IS NOT NULL
),

spent AS (
    SELECT
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
    GROUP BY ALL
)

SELECT
    context.rank,
    spent.step,
    spent.name,
    spent.kind,
    spent.comm_evidence,
    spent.n_calls,
    spent.total_ns,
    spent.exposed_ns,
    work.flops,
    work.n_bytes,
    work.clock
FROM spent
JOIN _clocks AS work
    ON work.grain = 'kernel'
    AND spent.step IS NOT DISTINCT FROM work.step
    AND spent.name = work.name
    AND spent.kind = work.kind
    AND spent.comm_evidence IS NOT DISTINCT FROM work.comm_evidence
CROSS JOIN context
