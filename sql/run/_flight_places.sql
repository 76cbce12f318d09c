-- One row per record that has a place: in which process group, or pair of ranks within it, and under which number.
--
-- lane              VARCHAR    Process group and its members, or a pair of ranks within it.
-- group_id          VARCHAR    Name of the process group.
-- group_description VARCHAR    What the program calls the group; NULL where it does not.
-- group_ranks       VARCHAR    Members of the group, as in flight_records; NULL where no dump lists them.
-- pair              INTEGER[]  Of transfers, who sends and who receives; NULL for a collective.
-- is_p2p            BOOLEAN    Whether it is a pair's.
-- seq               BIGINT     Number among the lane's calls.
-- rank              INTEGER    Rank.
-- record_id         BIGINT     As in flight_records.
-- op                VARCHAR    What it does; of a transfer the same for both ends.
-- backend           VARCHAR    As in flight_records.
-- input_elements    BIGINT     As in flight_records.
-- input_dtypes      VARCHAR    As in flight_records.
-- output_elements   BIGINT     As in flight_records.
-- state             VARCHAR    As in flight_records.
-- is_complete       BOOLEAN    As in flight_records.
-- created_ns        BIGINT     As in flight_records.
-- started_ns        BIGINT     As in flight_records.
-- completed_ns      BIGINT     As in flight_records.
-- duration_ns       BIGINT     As in flight_records.
-- timeout_ns        BIGINT     As in flight_records.
-- frame             VARCHAR    As in flight_records.
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
        records.rank,
        records.record_id,
        records.group_id,
        records.group_description,
        records.is_p2p,
        records.seq,
        records.op,
        records.backend,
        records.input_elements,
        records.input_dtypes,
        records.output_elements,
        records.state,
        records.is_complete,
        records.created_ns,
        records.started_ns,
        records.completed_ns,
        records.duration_ns,
        records.timeout_ns,
        records.frame,
        coalesce(records.group_ranks, listed.group_ranks) AS members,
        recorders.is_whole,
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
)

SELECT
    group_id || coalesce(' of ranks ' || members, '')
    || CASE WHEN is_p2p THEN ' ' || ranks[1] || '->' || ranks[2] ELSE '' END AS lane,
    group_id,
    group_description,
    members AS group_ranks,
    ranks AS pair,
    is_p2p,
    CASE WHEN is_p2p THEN number ELSE seq END AS seq,
    rank,
    record_id,
    CASE WHEN is_p2p THEN 'transfer ' || ranks[1] || '->' || ranks[2] ELSE op END AS op,
    backend,
    input_elements,
    input_dtypes,
    output_elements,
    state,
    is_complete,
    created_ns,
    started_ns,
    completed_ns,
    duration_ns,
    timeout_ns,
    frame
FROM (
    SELECT * EXCLUDE (pair)
    FROM placed
    WHERE seq IS NOT NULL
    UNION ALL BY NAME
    FROM transfers
)
