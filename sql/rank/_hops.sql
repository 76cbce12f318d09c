-- One row per run of a lane: what its first activity waited for, and where the path goes from there.
--
-- head_no     BIGINT   First activity of the run.
-- dump_no     BIGINT   Which of the rank's dumps.
-- blocker     VARCHAR  wait, stream or launch; NULL where nothing is known.
-- ready_ns    BIGINT   When that let it go.
-- thread      BIGINT   launch: the thread that launched it.
-- release_ns  BIGINT   launch: the host had waited for the device until then; NULL where it never had.
-- source_no   BIGINT   Activity on which the path goes on; NULL where there is none.
-- source_ns   BIGINT   It goes on from that instant.
-- next_no     BIGINT   First activity of that one's run.
-- is_comm     BOOLEAN  Whether that one is a collective.
-- call        VARCHAR  launch: the blocking call that had waited.
-- call_thread BIGINT   launch: its thread.
--
-- Scope: rank
WITH heads AS (
    SELECT
        activity_no AS head_no,
        dump_no,
        blocker,
        ready_ns,
        source_no,
        CASE WHEN blocker = 'launch' THEN launch_thread END AS thread
    FROM _blockers
    WHERE is_head
),

launched AS (
    SELECT
        heads.*,
        releases.release_ns,
        releases.activity_no AS released_no,
        releases.released_ns,
        releases.name AS call,
        releases.thread AS call_thread
    FROM (FROM heads WHERE blocker = 'launch') AS heads
    ASOF LEFT JOIN _releases AS releases
        ON heads.dump_no = releases.dump_no AND heads.ready_ns >= releases.release_ns
),

landed AS (
    SELECT
        * EXCLUDE (source_no, released_no, released_ns, release_ns, call, call_thread),
        CASE WHEN released_no < head_no THEN release_ns END AS release_ns,
        CASE WHEN released_no < head_no THEN released_no END AS source_no,
        CASE WHEN released_no < head_no THEN released_ns END AS source_ns,
        CASE WHEN released_no < head_no THEN call END AS call,
        CASE WHEN released_no < head_no THEN call_thread END AS call_thread
    FROM launched
    UNION ALL BY NAME
    SELECT
        *,
        NULL::BIGINT AS release_ns,
        ready_ns AS source_ns,
        NULL::VARCHAR AS call,
        NULL::BIGINT AS call_thread
    FROM heads
    WHERE blocker IS DISTINCT FROM 'launch'
)

SELECT
    landed.head_no,
    landed.dump_no,
    landed.blocker,
    landed.ready_ns,
    landed.thread,
    landed.release_ns,
    landed.source_no,
    CASE WHEN landed.source_no IS NOT NULL THEN landed.source_ns END AS source_ns,
    runs.head_no AS next_no,
    coalesce(runs.is_comm, FALSE) AS is_comm,
    landed.call,
    landed.call_thread
FROM landed
LEFT JOIN _runs AS runs ON landed.source_no = runs.activity_no
