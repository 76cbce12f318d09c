-- One row per lane that hangs, number, rank: what a rank enqueued there, and under the number after.
--
-- lane              VARCHAR    As in _flight_places.
-- group_id          VARCHAR    Name of the process group.
-- group_description VARCHAR    What the program calls the group; NULL where it does not.
-- is_p2p            BOOLEAN    Whether it is a pair's.
-- seq               BIGINT     Number among the lane's calls.
-- place             BIGINT     0 where the lane came apart, 1 after it.
-- rank              INTEGER    Rank.
-- op                VARCHAR    What it does; of calls made as one, the last and how many.
-- elements          BIGINT     Elements of the inputs.
-- dtypes            VARCHAR    Their types.
-- is_started        BOOLEAN    Whether it was found started; NULL where the library does not record that.
-- is_complete       BOOLEAN    Whether it ended on this rank.
-- created_ns        BIGINT     When it was enqueued, on the rank's own clock.
-- timeout_ns        BIGINT     After how long the library gives up.
-- frame             VARCHAR    Innermost line of the program that is not PyTorch's own.
--
-- Scope: hang
WITH backends AS (
    SELECT
        backend,
        bool_or(started_ns IS NOT NULL OR state = 'started') AS records_starts
    FROM flight_records
    GROUP BY backend
),

-- Calls made as one have several records of a number; the last stands for them.
merged AS (
    SELECT
        places.lane,
        places.seq,
        places.seq - any_value(stuck.seq) AS place,
        places.rank,
        any_value(places.group_id) AS group_id,
        min(places.group_description) AS group_description,
        any_value(places.is_p2p) AS is_p2p,
        arg_max(
            {'op': places.op, 'dtypes': places.input_dtypes, 'frame': places.frame},
            (coalesce(places.record_id, -1), places.op)
        ) AS last,
        count(*) AS n_records,
        TRY_CAST(sum(places.input_elements) AS BIGINT) AS elements,
        bool_or(backends.records_starts) AS records_starts,
        bool_or(places.started_ns IS NOT NULL OR places.state <> 'scheduled') AS is_started,
        bool_and(places.is_complete) AS is_complete,
        min(places.created_ns) AS created_ns,
        min(places.timeout_ns) AS timeout_ns
    FROM _flight_places AS places
    JOIN _flight_stuck AS stuck ON places.lane = stuck.lane AND places.seq BETWEEN stuck.seq AND stuck.seq + 1
    LEFT JOIN backends ON places.backend IS NOT DISTINCT FROM backends.backend
    GROUP BY places.lane, places.seq, places.rank
)

SELECT
    lane,
    group_id,
    group_description,
    is_p2p,
    seq,
    place,
    rank,
    last.op || CASE WHEN n_records > 1 THEN ' of ' || n_records ELSE '' END AS op,
    elements,
    last.dtypes AS dtypes,
    CASE WHEN records_starts THEN is_started END AS is_started,
    is_complete,
    created_ns,
    timeout_ns,
    last.frame AS frame
FROM merged
