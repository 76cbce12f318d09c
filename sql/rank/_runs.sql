-- One row per activity of a lane: the run it stands in, of work that only followed the work before it.
--
-- activity_no BIGINT  The activity.
-- dump_no     BIGINT  Which of the rank's dumps.
-- lane        BIGINT  Stream; without a device the thread.
-- head_no     BIGINT  First activity of the run; a collective is a run of its own.
-- place       BIGINT  Place on its lane, in order of start, from 1.
-- is_comm     BOOLEAN Whether it is a collective.
--
-- Scope: rank
SELECT
    activity_no,
    dump_no,
    lane,
    max(CASE WHEN is_head THEN activity_no END) OVER in_order AS head_no,
    row_number() OVER in_order AS place,
    precedence = 1 AS is_comm
FROM _blockers
WINDOW in_order AS (PARTITION BY dump_no, lane ORDER BY activity_no ROWS UNBOUNDED PRECEDING)
