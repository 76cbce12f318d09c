-- One row per process group, member rank: who communicates with whom.
--
-- group_id    VARCHAR  The group's name; with @ and its lowest rank where groups share the name; inferred@RANK, with
--     the rank's queue behind it where the rank has several such groups.
-- rank        INTEGER  Member, recorded or not.
-- description VARCHAR  What the job calls it; NULL without metadata.
-- n_ranks     INTEGER  Members.
-- n_recorded  INTEGER  Members with a dump.
-- source      VARCHAR  arguments, met or inferred: how the members are known.
-- match_by    VARCHAR  seq, end or step: how its collectives are matched across ranks.
--
-- Scope: clock
WITH described AS (
    SELECT
        group_id,
        any_value(group_description) AS description,
        any_value(members) AS members,
        any_value(source) AS source,
        any_value(match_by) AS match_by,
        count(DISTINCT rank)::INTEGER AS n_recorded
    FROM group_queues
    GROUP BY group_id
)

SELECT
    group_id,
    unnest(members) AS rank,
    description,
    len(members)::INTEGER AS n_ranks,
    n_recorded,
    source,
    match_by
FROM described
