-- One row per lane, number, rank: what a rank enqueued in a process group, or of transfers from one rank to another.
--
-- lane              VARCHAR    Process group and its members, or a pair of ranks within it.
-- group_id          VARCHAR    Name of the process group.
-- group_description VARCHAR    What the program calls the group; NULL where it does not.
-- group_ranks       VARCHAR    Members of the group, as in flight_records; NULL where no dump lists them.
-- pair              INTEGER[]  Of transfers, who sends and who receives; NULL for a collective.
-- is_p2p            BOOLEAN    Whether it is a pair's.
-- seq               BIGINT     Number among the lane's calls.
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
-- How: transfers carry no number that both ends share, so they are counted from the first; where records of either end
-- were overwritten they cannot be, and are left out. A pair is named by places in the group, or by ranks.
WITH listed AS (
    SELECT
        group_id,
        any_value(group_ranks) AS group_ranks
    FROM flight_records
    WHERE group_ranks IS NOT NULL
    GROUP BY group_id
    HAVING count(DISTINCT group_ranks) = 1
),

recorders AS (
    SELECT
        rank,
        min(record_id) = 0 AS is_whole
    FROM flight_records
    GROUP BY rank
),

placed AS (
    SELECT
        records.*,
        coalesce(records.group_ranks, listed.group_ranks) AS members,
        recorders.is_whole,
        bool_or(records.started_ns IS NOT NULL OR records.state = 'started') OVER (PARTITION BY records.backend)
            AS records_starts,
        regexp_extract(records.op, '^(send|recv) (\d{1,7})(->|<-)(\d{1,7})$', ['way', 'own', 'arrow', 'other']) AS pair
    FROM flight_records AS records
    LEFT JOIN listed ON records.group_id = listed.group_id
    JOIN recorders ON records.rank = recorders.rank
),

ends AS (
    SELECT
        placed.* EXCLUDE (pair),
        pair.way AS way,
        CASE
            WHEN groups.ranks[pair.own::INTEGER + 1] = rank THEN groups.ranks[pair.other::INTEGER + 1]
            ELSE pair.other::INTEGER
        END AS peer
    FROM placed
    LEFT JOIN _flight_groups AS groups ON placed.members = groups.group_ranks
    WHERE is_p2p AND is_whole AND pair.way <> ''
),

transfers AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY rank, group_id, members, way, peer ORDER BY record_id, created_ns) AS number,
        CASE WHEN way = 'send' THEN [rank, peer] ELSE [peer, rank] END AS ranks
    FROM ends
    WHERE peer NOT IN (SELECT rank FROM recorders WHERE NOT is_whole)
),

calls AS (
    SELECT
        group_id || coalesce(' of ranks ' || members, '') AS lane,
        group_id,
        group_description,
        members AS group_ranks,
        NULL::INTEGER[] AS ends,
        FALSE AS is_p2p,
        seq AS number,
        * EXCLUDE (pair, group_id, group_description, group_ranks, is_p2p)
    FROM placed
    WHERE seq IS NOT NULL
    UNION ALL BY NAME
    SELECT
        group_id || coalesce(' of ranks ' || members, '') || ' ' || ranks[1] || '->' || ranks[2] AS lane,
        group_id,
        group_description,
        members AS group_ranks,
        ranks AS ends,
        TRUE AS is_p2p,
        'transfer ' || ranks[1] || '->' || ranks[2] AS op,
        * EXCLUDE (group_id, group_description, group_ranks, is_p2p, op, way, peer, ranks)
    FROM transfers
),

-- Calls made as one have several records of a number; the last stands for them.
merged AS (
    SELECT
        lane,
        is_p2p,
        number,
        rank,
        arg_max(
            {
                'group_id': group_id,
                'description': group_description,
                'group_ranks': group_ranks,
                'ends': ends,
                'op': op,
                'dtypes': input_dtypes,
                'frame': frame
            },
            coalesce(record_id, -1)
        ) AS last,
        count(*) AS n_records,
        TRY_CAST(sum(input_elements) AS BIGINT) AS elements,
        bool_or(records_starts) AS records_starts,
        bool_or(started_ns IS NOT NULL OR state <> 'scheduled') AS is_started,
        bool_and(is_complete) AS is_complete,
        min(created_ns) AS created_ns,
        min(timeout_ns) AS timeout_ns
    FROM calls
    GROUP BY lane, is_p2p, number, rank
)

SELECT
    lane,
    last.group_id AS group_id,
    last.description AS group_description,
    last.group_ranks AS group_ranks,
    last.ends AS pair,
    is_p2p,
    number AS seq,
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
