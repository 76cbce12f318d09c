-- One row per start of a part of host time at which a change must know the phase of training: that phase.
--
-- dump_no BIGINT   Which of the rank's dumps.
-- thread  BIGINT   Thread.
-- own_ns  BIGINT   The instant, on the rank's own clock.
-- phase   VARCHAR  As in _phase_changes; forward where no range says one.
--
-- Scope: graph
-- How: nothing is computed where no change asks for a phase.
SELECT DISTINCT
    intervals.dump_no,
    parts.thread,
    parts.start_ns AS own_ns,
    coalesce(changes.phase, 'forward') AS phase
FROM _host_parts AS parts
JOIN _host_intervals AS intervals ON parts.piece_no = intervals.point_no
ASOF LEFT JOIN _phase_changes AS changes
    ON intervals.dump_no = changes.dump_no AND parts.thread = changes.thread AND parts.start_ns >= changes.start_ns
WHERE parts.step IS NULL AND EXISTS (FROM changes AS asked WHERE asked.phase IS NOT NULL)
