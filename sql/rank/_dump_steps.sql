-- One row per step marker of a dump: the host's range of the step, before the time base is added.
--
-- step      BIGINT   Number of the step; 0 where the dump has no marker and is one window.
-- start_ns  BIGINT   Start of the marker, without base_ns.
-- end_ns    BIGINT   End of the marker, without base_ns.
-- is_window BOOLEAN  Whether the whole dump stands in for a step, for want of a marker.
--
-- Scope: dump
-- How: a marker that several threads carry is one step from its first start to its last end. The projection of a
-- marker onto the device's timeline is no marker: device work is placed by its launch.
WITH marked AS (
    SELECT
        step,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        FALSE AS is_window
    FROM _dump_markers
    WHERE step IS NOT NULL
    GROUP BY step
),

whole AS (
    SELECT
        0::BIGINT AS step,
        min(raw.start_ns) AS start_ns,
        max(raw.start_ns + raw.duration_ns) AS end_ns,
        TRUE AS is_window
    FROM raw
    WHERE raw.category <> 'trace'
        AND raw.start_ns >= 0
        AND raw.duration_ns BETWEEN 0 AND (SELECT longest_event_ns FROM params)
        AND NOT EXISTS (FROM marked)
)

SELECT
    step,
    start_ns,
    end_ns,
    is_window
FROM marked
UNION ALL
SELECT
    step,
    start_ns,
    end_ns,
    is_window
FROM whole
WHERE start_ns IS NOT NULL
