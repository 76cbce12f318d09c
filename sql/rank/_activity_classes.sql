-- One row per activity of a lane: its name and phase, by number.
--
-- activity_no BIGINT   The activity.
-- class_no    BIGINT   Equal for activities of one name and phase.
-- name        VARCHAR  Its name.
-- phase       VARCHAR  Its launch's phase; NULL where no change asks for it, or without a launch.
--
-- Scope: graph
SELECT
    blockers.activity_no,
    dense_rank() OVER (ORDER BY named.name, phases.phase) AS class_no,
    named.name,
    phases.phase
FROM _blockers AS blockers
JOIN _activity_names AS named ON blockers.activity_no = named.activity_no
LEFT JOIN _element_phases AS phases
    ON blockers.dump_no = phases.dump_no
    AND blockers.launch_thread = phases.thread
    AND blockers.launch_ns = phases.own_ns
