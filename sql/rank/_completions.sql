-- One row per step of a rank: where the path to its completion begins.
--
-- dump_no     BIGINT  Which of the rank's dumps.
-- step        BIGINT  Number of the step.
-- start_ns    BIGINT  Completion of the step before.
-- end_ns      BIGINT  Its completion.
-- activity_no BIGINT  The activity that completed it; NULL where the host did.
-- source_no   BIGINT  The activity on which the path goes on: that one, or the one the host had last waited for.
-- source_ns   BIGINT  It goes on from that instant.
-- release_ns  BIGINT  The host had waited until then; NULL where an activity completed the step.
-- call        VARCHAR The blocking call that had waited.
-- call_thread BIGINT  Its thread.
--
-- Scope: rank
WITH ended AS (
    SELECT
        windows.dump_no,
        windows.step,
        windows.start_ns,
        windows.end_ns,
        max(activities.activity_no) AS activity_no
    FROM _windows AS windows
    LEFT JOIN _activities AS activities
        ON windows.dump_no = activities.dump_no AND windows.end_ns = activities.end_ns AND activities.is_device
    GROUP BY windows.dump_no, windows.step, windows.start_ns, windows.end_ns
)

SELECT
    ended.dump_no,
    ended.step,
    ended.start_ns,
    ended.end_ns,
    ended.activity_no,
    coalesce(ended.activity_no, releases.activity_no) AS source_no,
    CASE WHEN ended.activity_no IS NOT NULL THEN ended.end_ns ELSE releases.released_ns END AS source_ns,
    CASE WHEN ended.activity_no IS NULL THEN releases.release_ns END AS release_ns,
    CASE WHEN ended.activity_no IS NULL THEN releases.name END AS call,
    CASE WHEN ended.activity_no IS NULL THEN releases.thread END AS call_thread
FROM ended
ASOF LEFT JOIN _releases AS releases
    ON ended.dump_no = releases.dump_no AND ended.end_ns >= releases.release_ns
