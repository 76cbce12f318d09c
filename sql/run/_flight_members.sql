-- One row per lane, member: how far a rank came among the calls of a process group or of a pair.
--
-- lane       VARCHAR  As in _flight_places.
-- rank       INTEGER  Member: as the dumps list them, else every rank of the default group, else whoever called.
-- has_dump   BOOLEAN  Whether its recorder was read.
-- first_seq  BIGINT   Its first call that is recorded; NULL where none is.
-- last_seq   BIGINT   Its last.
-- open_seq   BIGINT   Its first call that did not end.
-- open_ns    BIGINT   When it enqueued that.
-- oldest_ns  BIGINT   When its recorder begins, where older records were overwritten; NULL where none were.
--
-- Scope: hang
WITH reached AS (
    SELECT
        lane,
        rank,
        any_value(group_ranks) AS group_ranks,
        any_value(pair) AS pair,
        bool_or(NOT is_p2p AND group_description = 'default_pg') AS is_default,
        min(seq) AS first_seq,
        max(seq) AS last_seq,
        min(seq) FILTER (NOT is_complete) AS open_seq,
        arg_min(created_ns, (seq, created_ns)) FILTER (NOT is_complete) AS open_ns
    FROM _flight_places
    GROUP BY lane, rank
),

lanes AS (
    SELECT DISTINCT
        lane,
        group_ranks,
        pair,
        is_default
    FROM reached
),

members AS (
    SELECT
        lanes.lane,
        unnest(coalesce(lanes.pair, groups.ranks)) AS rank
    FROM lanes
    LEFT JOIN _flight_groups AS groups ON lanes.group_ranks = groups.group_ranks
    UNION
    SELECT
        lanes.lane,
        flight_ranks.rank
    FROM lanes
    JOIN flight_ranks ON lanes.is_default AND lanes.group_ranks IS NULL
    UNION
    SELECT
        lane,
        rank
    FROM reached
),

begun AS (
    SELECT
        rank,
        min(created_ns) AS oldest_ns
    FROM flight_records
    GROUP BY rank
    HAVING min(record_id) > 0
)

SELECT
    members.lane,
    members.rank,
    flight_ranks.rank IS NOT NULL AS has_dump,
    reached.first_seq,
    reached.last_seq,
    reached.open_seq,
    reached.open_ns,
    begun.oldest_ns
FROM members
LEFT JOIN flight_ranks ON members.rank = flight_ranks.rank
LEFT JOIN reached ON members.lane = reached.lane AND members.rank = reached.rank
LEFT JOIN begun ON members.rank = begun.rank
