-- One row per stretch of the path that is an activity, or the gap before one.
--
-- step        BIGINT   Step.
-- piece_no    BIGINT   As in path_pieces.
-- activity_no BIGINT   The activity.
-- kind        VARCHAR  compute, comm or copy; of a gap launch, turnaround or unknown.
-- lane        BIGINT   Stream; without a device the thread.
-- start_ns    BIGINT   Start, on the rank's clock; not yet cut to the piece.
-- end_ns      BIGINT   End.
--
-- Scope: path
-- How: a gap is the launch's where the activity was ready last by its launch, or waited behind its stream for a call that
-- had not returned; the device's own pace up to 5 µs, after an event
-- up to 20 µs; else nothing explains it.
WITH bounded AS (
    SELECT
        visits.*,
        heads.dump_no,
        heads.lane,
        heads.place AS head_place,
        lasts.place AS last_place
    FROM _path_visits AS visits
    JOIN _runs AS heads ON visits.head_no = heads.activity_no
    JOIN _runs AS lasts ON visits.last_no = lasts.activity_no
),

starts AS (
    SELECT
        runs.dump_no AS start_dump,
        runs.lane AS start_lane,
        blockers.start_ns,
        max(runs.place) AS place
    FROM _runs AS runs
    JOIN _blockers AS blockers ON runs.activity_no = blockers.activity_no
    WHERE EXISTS (FROM bounded)
    GROUP BY runs.dump_no, runs.lane, blockers.start_ns
),

placed AS (
    SELECT
        bounded.*,
        unnest(range(greatest(bounded.head_place, coalesce(starts.place, 0)), bounded.last_place + 1)) AS place
    FROM bounded
    ASOF LEFT JOIN starts
        ON bounded.dump_no = starts.start_dump
        AND coalesce(bounded.lane, -1) = coalesce(starts.start_lane, -1)
        AND bounded.low_ns >= starts.start_ns
),

gone AS (
    SELECT
        placed.step,
        placed.piece_no,
        placed.place,
        placed.head_place,
        placed.last_place,
        placed.cursor_ns,
        blockers.activity_no,
        blockers.precedence,
        blockers.lane,
        blockers.start_ns,
        blockers.ready_ns,
        blockers.blocker,
        blockers.launch_end_ns,
        lead(blockers.ready_ns) OVER (
            PARTITION BY placed.step, placed.piece_no, placed.visit_no ORDER BY placed.place
        ) AS next_ready_ns
    FROM placed
    JOIN _runs AS runs ON placed.dump_no = runs.dump_no AND placed.lane IS NOT DISTINCT FROM runs.lane AND placed.place = runs.place
    JOIN _blockers AS blockers ON runs.activity_no = blockers.activity_no
),

waited AS (
    SELECT
        step,
        piece_no,
        activity_no,
        lane,
        start_ns,
        ready_ns,
        blocker,
        launch_end_ns
    FROM gone
    WHERE place > head_place
    UNION ALL
    SELECT
        visits.step,
        visits.piece_no,
        blockers.activity_no,
        blockers.lane,
        blockers.start_ns,
        blockers.ready_ns,
        blockers.blocker,
        blockers.launch_end_ns
    FROM _path_visits AS visits
    JOIN _blockers AS blockers ON visits.head_no = blockers.activity_no
)

SELECT
    step,
    piece_no,
    activity_no,
    CASE precedence WHEN 0 THEN 'compute' WHEN 1 THEN 'comm' ELSE 'copy' END AS kind,
    lane,
    start_ns,
    coalesce(next_ready_ns, cursor_ns) AS end_ns
FROM gone
UNION ALL
SELECT
    step,
    piece_no,
    activity_no,
    CASE
        WHEN blocker = 'launch' THEN 'launch'
        WHEN start_ns - ready_ns <= (SELECT turnaround_ns FROM params) THEN 'turnaround'
        WHEN blocker = 'wait' AND start_ns - ready_ns <= (SELECT event_wait_ns FROM params) THEN 'turnaround'
        WHEN blocker = 'stream' AND launch_end_ns > ready_ns THEN 'launch'
        ELSE 'unknown'
    END AS kind,
    lane,
    ready_ns AS start_ns,
    start_ns AS end_ns
FROM waited
WHERE ready_ns < start_ns
