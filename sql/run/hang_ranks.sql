-- One row per call that hangs, member: what a rank did where its process group came apart.
--
-- lane              VARCHAR  Process group and its members, or a pair of ranks within it.
-- group_id          VARCHAR  Name of the process group.
-- group_description VARCHAR  What the program calls the group; NULL where it does not.
-- is_p2p            BOOLEAN  Whether it is a transfer between two ranks, numbered among the pair's.
-- seq               BIGINT   First number at which members differ, or did not end.
-- rank              INTEGER  Member.
-- situation         VARCHAR  completed, started, enqueued, other op, other size, other dtype, other order, never enqueued,
--     overwritten (its recorder begins later), or no dump.
-- is_culprit        BOOLEAN  Whether the others wait for it.
-- op                VARCHAR  What it enqueued under this number; NULL where nothing.
-- elements          BIGINT   Elements of its inputs.
-- dtypes            VARCHAR  Their types.
-- common_op         VARCHAR  What most members enqueued.
-- common_elements   BIGINT   Elements of theirs; NULL where members may differ.
-- common_dtypes     VARCHAR  Types of theirs.
-- created_ns        BIGINT   When it enqueued the call, on its own clock.
-- timeout_ns        BIGINT   After how long the library gives up.
-- frame             VARCHAR  Line of the program that enqueued it; of a rank that did not, the last line that enqueued anything.
-- last_seq          BIGINT   Its last call of this group or pair.
-- stuck_lane        VARCHAR  Another call that hangs and in which it waits itself, enqueued before; NULL where there is none.
--
-- Scope: hang
-- How: members differ where the op does, where the type does, and where the number of elements does of ops that take the
-- same from each; lists, gathers and exchanges may be uneven. What most did is what is meant; of a tie nobody knows.
WITH lanes AS (
    SELECT
        lane,
        any_value(group_id) AS group_id,
        min(group_description) AS group_description,
        any_value(is_p2p) AS is_p2p
    FROM _flight_calls
    GROUP BY lane
),

signed AS (
    SELECT
        *,
        CASE
            WHEN is_p2p OR regexp_matches(
                op, '^(all_?reduce|broadcast|reduce|_?reduce_scatter(_base|_tensor)?|_?all_gather(_base|_into_tensor))$'
            )
                THEN elements
        END AS same_elements
    FROM _flight_calls
),

votes AS (
    SELECT
        lane,
        place,
        op,
        same_elements,
        dtypes,
        count(*) AS n,
        min(rank) AS first_rank
    FROM signed
    GROUP BY lane, place, op, same_elements, dtypes
),

chosen AS (
    SELECT
        *,
        count(*) FILTER (n = most) OVER (PARTITION BY lane, place) > 1 AS is_tie
    FROM (SELECT *, max(n) OVER (PARTITION BY lane, place) AS most FROM votes)
    QUALIFY row_number() OVER (PARTITION BY lane, place ORDER BY n DESC, first_rank) = 1
),

last_frames AS (
    SELECT
        rank,
        arg_max(frame, (record_id, created_ns)) AS frame
    FROM flight_records
    GROUP BY rank
),

first_times AS (
    SELECT
        lane,
        min(created_ns) AS first_ns
    FROM signed
    WHERE place = 0
    GROUP BY lane
),

compared AS (
    SELECT
        members.lane,
        stuck.seq,
        members.rank,
        members.last_seq,
        mine.op,
        mine.elements,
        mine.dtypes,
        mine.created_ns,
        mine.timeout_ns,
        coalesce(mine.frame, last_frames.frame) AS frame,
        common.op AS common_op,
        common.same_elements AS common_elements,
        common.dtypes AS common_dtypes,
        CASE
            WHEN NOT members.has_dump THEN 'no dump'
            WHEN mine.rank IS NULL AND (members.first_seq > stuck.seq OR (members.last_seq IS NULL AND members.oldest_ns > first_times.first_ns))
                THEN 'overwritten'
            WHEN mine.rank IS NULL THEN 'never enqueued'
            WHEN mine.is_complete AND NOT coalesce(common.is_tie, FALSE) AND mine.op = common.op THEN 'completed'
            WHEN mine.op <> common.op AND mine.op = later.op AND following.op = common.op THEN 'other order'
            WHEN mine.op <> common.op THEN 'other op'
            WHEN mine.same_elements <> common.same_elements THEN 'other size'
            WHEN mine.dtypes <> common.dtypes THEN 'other dtype'
            WHEN mine.is_complete THEN 'completed'
            WHEN mine.is_started THEN 'started'
            ELSE 'enqueued'
        END AS found,
        common.is_tie
    FROM _flight_members AS members
    JOIN _flight_stuck AS stuck ON members.lane = stuck.lane
    JOIN first_times ON members.lane = first_times.lane
    LEFT JOIN signed AS mine ON members.lane = mine.lane AND members.rank = mine.rank AND mine.place = 0
    LEFT JOIN signed AS following ON members.lane = following.lane AND members.rank = following.rank AND following.place = 1
    LEFT JOIN chosen AS common ON members.lane = common.lane AND common.place = 0
    LEFT JOIN chosen AS later ON members.lane = later.lane AND later.place = 1
    LEFT JOIN last_frames ON members.rank = last_frames.rank
),

weighed AS (
    SELECT
        *,
        bool_or(found LIKE 'other %') OVER lane AS has_other,
        bool_or(found = 'never enqueued') OVER lane AS has_missing,
        bool_or(found = 'no dump') OVER lane AS has_unknown,
        bool_or(found IN ('started', 'completed')) OVER lane AS has_started
    FROM compared
    WINDOW lane AS (PARTITION BY lane)
),

blamed AS (
    SELECT
        *,
        CASE
            -- Where as many did one as the other, each differs from the rest.
            WHEN has_other THEN found LIKE 'other %' OR (is_tie AND found IN ('enqueued', 'started', 'completed'))
            WHEN has_missing THEN found = 'never enqueued'
            WHEN has_unknown THEN found = 'no dump'
            WHEN has_started THEN found = 'enqueued'
            ELSE FALSE
        END AS is_culprit
    FROM weighed
),

elsewhere AS (
    SELECT
        blamed.lane,
        blamed.rank,
        arg_min(others.lane, (others.open_ns, others.lane)) AS stuck_lane
    FROM blamed
    JOIN _flight_members AS others ON blamed.rank = others.rank AND blamed.lane <> others.lane
        AND others.open_seq IS NOT NULL AND (blamed.created_ns IS NULL OR others.open_ns < blamed.created_ns)
    GROUP BY blamed.lane, blamed.rank
)

SELECT
    blamed.lane,
    lanes.group_id,
    lanes.group_description,
    lanes.is_p2p,
    blamed.seq,
    blamed.rank,
    blamed.found AS situation,
    blamed.is_culprit,
    blamed.op,
    blamed.elements,
    blamed.dtypes,
    blamed.common_op,
    blamed.common_elements,
    blamed.common_dtypes,
    blamed.created_ns,
    blamed.timeout_ns,
    blamed.frame,
    blamed.last_seq,
    elsewhere.stuck_lane
FROM blamed
JOIN lanes ON blamed.lane = lanes.lane
LEFT JOIN elsewhere ON blamed.lane = elsewhere.lane AND blamed.rank = elsewhere.rank
