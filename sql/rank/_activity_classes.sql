-- One row per activity of a lane: its name and phase, by number.
--
-- activity_no BIGINT   The activity.
-- class_no    BIGINT   Equal for activities of one name and phase.
-- name        VARCHAR  Its name.
-- phase       VARCHAR  Its launch's phase; NULL where no change asks for it.
--
-- Scope: graph
SELECT
    blockers.activity_no,
    dense_rank() OVER (ORDER BY named.name, phases.phase) AS class_no,
    named.name,
    phases.phase
FROM _blockers AS blockers
JOIN _activity_names AS named ON blockers.activity_no = named.activity_no
LEFT JOIN (
    FROM _activity_phases
    WHERE EXISTS (FROM changes WHERE phase IS NOT NULL)
) AS phases ON blockers.activity_no = phases.activity_no
