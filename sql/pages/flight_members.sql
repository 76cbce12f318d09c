-- One row per member of the call that a hang began with, at most $max_ranks, those that it waits for first.
--
-- rank       INTEGER  Rank.
-- situation  VARCHAR  As in hang_ranks.
-- is_culprit BOOLEAN  Whether the others wait for it.
-- op         VARCHAR  What it enqueued; NULL where nothing.
-- elements   BIGINT   Elements of its inputs.
-- dtypes     VARCHAR  Their types.
-- last_seq   BIGINT   Its last call of this group or pair.
-- after_ns   BIGINT   When it enqueued the call, after the first member, each on its own clock.
-- frame      VARCHAR  Line of the program.
-- n_members  BIGINT   Members there are in all.
--
-- How: parameters: $run, $max_ranks.
SELECT
    rank,
    situation,
    is_culprit,
    op,
    elements,
    dtypes,
    last_seq,
    created_ns - min(created_ns) OVER () AS after_ns,
    frame,
    count(*) OVER () AS n_members
FROM hang_ranks
WHERE run = $run AND lane = (SELECT lane FROM hangs WHERE run = $run AND place = 1)
ORDER BY is_culprit DESC, rank
LIMIT $max_ranks
