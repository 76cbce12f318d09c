-- One row per op and op of the same worker that it must wait for.
--
-- op_no    BIGINT  Op.
-- after_no BIGINT  The one it waits for.
--
-- Scope: replays
-- How: passes follow each other. A send waits for its pass and for the send before it; a pass waits for its receive; a
-- receive is posted once the pass before its own is done (so it need not wait for the receive before it, which that pass
-- waited for). The first backward receive is posted before the last forward pass of the warm-up. The first forward pass of
-- a model chunk waits for its parameters. After the last pass come the ops of the tail in their order; where gradients are
-- reduced during the passes (what they left out is then reduced separately), the first reduction of a model chunk waits for
-- that chunk's last backward pass instead, and the rest of the tail waits for the last reduction, but for gc before it.
WITH is_overlapped AS (
    SELECT coalesce(bool_or(optype = 'separate-grads-all-reduce'), FALSE) AS is_overlapped FROM timeline_ideals
),

typed AS (
    SELECT
        work.op_no,
        work.step,
        work.dp_rank,
        work.stage,
        work.place,
        work.optype,
        work.kind,
        work.turn,
        work.chunk,
        CASE
            WHEN work.part = 'tail' AND work.optype = 'grads-reduce-scatter' AND is_overlapped.is_overlapped THEN 'reduce'
            WHEN work.part = 'tail' THEN 'tail'
            WHEN work.kind = 'transfer' THEN 'gather'
        END AS role
    FROM _timeline_work AS work
    CROSS JOIN is_overlapped
),

in_turn AS (
    SELECT
        op_no,
        step,
        dp_rank,
        stage,
        role,
        turn,
        chunk,
        place,
        lag(op_no) OVER (PARTITION BY step, dp_rank, stage, role ORDER BY turn, optype, place) AS before_no
    FROM typed
    WHERE role IS NOT NULL
),

last_passes AS (
    SELECT
        step,
        dp_rank,
        stage,
        max_by(op_no, (end_ns, pass_no)) AS op_no
    FROM _timeline_passes
    GROUP BY step, dp_rank, stage
),

last_backwards AS (
    SELECT
        step,
        dp_rank,
        stage,
        chunk,
        max_by(op_no, (end_ns, pass_no)) AS op_no
    FROM _timeline_passes
    WHERE direction = 'backward'
    GROUP BY step, dp_rank, stage, chunk
),

first_forwards AS (
    SELECT
        step,
        dp_rank,
        stage,
        chunk,
        min_by(op_no, pass_no) AS op_no
    FROM _timeline_passes
    WHERE direction = 'forward'
    GROUP BY step, dp_rank, stage, chunk
),

first_backwards AS (
    SELECT
        step,
        dp_rank,
        stage,
        min(pass_no) AS pass_no
    FROM _timeline_passes
    WHERE direction = 'backward'
    GROUP BY step, dp_rank, stage
),

sends AS (
    SELECT
        op_no,
        lag(op_no) OVER (PARTITION BY step, dp_rank, stage, direction ORDER BY pass_place) AS before_no
    FROM _timeline_hops
    WHERE kind = 'send'
),

reductions AS (
    SELECT
        step,
        dp_rank,
        stage,
        chunk,
        min_by(op_no, place) AS first_no
    FROM in_turn
    WHERE role = 'reduce'
    GROUP BY step, dp_rank, stage, chunk
),

reduced AS (
    SELECT
        step,
        dp_rank,
        stage,
        max_by(op_no, place) AS last_no
    FROM in_turn
    WHERE role = 'reduce'
    GROUP BY step, dp_rank, stage
),

after_gc AS (
    SELECT
        step,
        dp_rank,
        stage,
        min_by(op_no, (turn, place)) AS op_no
    FROM in_turn
    WHERE role = 'tail' AND turn > (SELECT turn::INTEGER FROM timeline_optypes WHERE optype = 'gc')
    GROUP BY step, dp_rank, stage
)

SELECT
    op_no,
    before_no AS after_no
FROM _timeline_passes
WHERE before_no IS NOT NULL
UNION ALL
SELECT
    op_no,
    pass AS after_no
FROM _timeline_hops
WHERE kind = 'send'
UNION ALL
SELECT
    op_no,
    before_no AS after_no
FROM sends
WHERE before_no IS NOT NULL
UNION ALL
SELECT
    pass AS op_no,
    op_no AS after_no
FROM _timeline_hops
WHERE kind = 'recv'
UNION ALL
SELECT
    hops.op_no,
    passes.op_no AS after_no
FROM _timeline_hops AS hops
JOIN _timeline_passes AS passes ON hops.step = passes.step AND hops.dp_rank = passes.dp_rank AND hops.stage = passes.stage
    AND hops.direction = passes.direction AND hops.pass_place - 1 = passes.place
WHERE hops.kind = 'recv'
UNION ALL
SELECT
    hops.op_no,
    passes.op_no AS after_no
FROM _timeline_hops AS hops
JOIN first_backwards AS firsts ON hops.step = firsts.step AND hops.dp_rank = firsts.dp_rank AND hops.stage = firsts.stage
JOIN _timeline_passes AS passes ON firsts.step = passes.step AND firsts.dp_rank = passes.dp_rank
    AND firsts.stage = passes.stage AND firsts.pass_no - 2 = passes.pass_no
WHERE hops.direction = 'backward' AND hops.kind = 'recv' AND hops.pass_place = 0
UNION ALL
SELECT
    firsts.op_no,
    max_by(gathers.op_no, gathers.place) AS after_no
FROM first_forwards AS firsts
JOIN in_turn AS gathers ON firsts.step = gathers.step AND firsts.dp_rank = gathers.dp_rank
    AND firsts.stage = gathers.stage AND firsts.chunk = gathers.chunk
WHERE gathers.role = 'gather'
GROUP BY firsts.op_no
UNION ALL
SELECT
    op_no,
    before_no AS after_no
FROM in_turn
WHERE before_no IS NOT NULL
UNION ALL
SELECT
    in_turn.op_no,
    last_passes.op_no AS after_no
FROM in_turn
JOIN last_passes ON in_turn.step = last_passes.step AND in_turn.dp_rank = last_passes.dp_rank
    AND in_turn.stage = last_passes.stage
WHERE in_turn.role = 'tail' AND in_turn.before_no IS NULL
UNION ALL
SELECT
    reductions.first_no AS op_no,
    last_backwards.op_no AS after_no
FROM reductions
JOIN last_backwards ON reductions.step = last_backwards.step AND reductions.dp_rank = last_backwards.dp_rank
    AND reductions.stage = last_backwards.stage AND reductions.chunk = last_backwards.chunk
UNION ALL
SELECT
    after_gc.op_no,
    reduced.last_no AS after_no
FROM after_gc
JOIN reduced ON after_gc.step = reduced.step AND after_gc.dp_rank = reduced.dp_rank AND after_gc.stage = reduced.stage
