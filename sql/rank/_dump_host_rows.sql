-- One row per host activity of a dump without a device, by its place in the file: threads stand in for streams.
--
-- row_id        BIGINT   Place of the event in the dump.
-- kind          VARCHAR  compute for an outermost operator outside collectives, comm for a collective's span.
-- comm_evidence VARCHAR  name for comm, else NULL.
--
-- Scope: dump
-- How: an operator is outermost where it starts at or after the end of all that started before it on its thread. The
-- operators that only post a collective (c10d::*, record_param_comms) are neither work nor transfer. A range that says its
-- operation, as those of a timers log do, is a collective's span; work may go on beside it.
WITH spans AS (
    SELECT
        row_id,
        thread,
        start_ns,
        start_ns + duration_ns AS end_ns,
        CASE
            WHEN starts_with(name, 'gloo:') OR starts_with(name, 'mpi:') THEN 'comm'
            WHEN category = 'annotation' AND comm_op IS NOT NULL THEN 'told'
            WHEN category <> 'cpu_op' THEN NULL
            WHEN name = 'record_param_comms' OR starts_with(name, 'c10d::') THEN 'post'
            ELSE 'compute'
        END AS kind
    FROM raw
    WHERE category IN ('cpu_op', 'annotation')
        AND row_id NOT IN (SELECT markers.row_id FROM _dump_markers AS markers)
        AND start_ns >= 0
        AND duration_ns BETWEEN 0 AND (SELECT longest_event_ns FROM params)
        AND NOT EXISTS (FROM raw AS device WHERE device.category IN ('kernel', 'memcpy', 'memset'))
),

outermost AS (
    SELECT
        row_id,
        kind,
        coalesce(
            start_ns >= max(CASE WHEN kind <> 'told' THEN end_ns END) OVER (
                PARTITION BY process_lane ORDER BY start_ns, end_ns DESC, row_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            TRUE
        ) AS is_outermost
    FROM (SELECT *, thread AS process_lane FROM spans WHERE kind IS NOT NULL)
)

SELECT
    row_id,
    CASE WHEN kind = 'told' THEN 'comm' ELSE kind END AS kind,
    CASE WHEN kind <> 'compute' THEN 'name' END AS comm_evidence
FROM outermost
WHERE kind IN ('comm', 'told') OR (kind = 'compute' AND is_outermost)
