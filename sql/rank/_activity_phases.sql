-- One row per activity of a lane: the phase of training that launched it.
--
-- activity_no BIGINT   The activity.
-- phase       VARCHAR  A phase of the run's [phases], else optimizer, input, sync, backward, forward or other.
--
-- Scope: rank
-- As: view
-- How: the phase of the launching thread at the launch. Comm that backward launched is sync, the exchange of gradients, and
-- so is a host's span of it on a thread of its own, which no range covers. What no range covers is forward; what has no
-- launch in the dump is other.
SELECT
    activities.activity_no,
    CASE
        WHEN activities.launch_ns IS NULL THEN 'other'
        WHEN activities.precedence = 1
            AND (changes.phase = 'backward' OR (changes.phase IS NULL AND NOT activities.is_device)) THEN 'sync'
        ELSE coalesce(changes.phase, 'forward')
    END AS phase
FROM _activities AS activities
ASOF LEFT JOIN _phase_changes AS changes
    ON activities.dump_no = changes.dump_no
    AND activities.launch_thread = changes.thread
    AND activities.launch_ns >= changes.start_ns
